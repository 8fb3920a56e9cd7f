use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::*;
use crate::facts::{EngineFacts, RefusedFile};
use crate::grant::GrantRefusal;
use crate::plan::{FetchFailure, ObjectPlan, WantedFiles};
use crate::plugin::PluginObject;

const IMAGE: &str = "r.example/shop:1";

fn plugin() -> Arc<PluginObject> {
    let spec = json!({"source": {"oci": {"image": IMAGE}}});
    let object = json!({"metadata": {"name": "shop", "generation": 4}, "spec": spec});
    PluginObject::read(&object).expect("it has a name").into()
}

fn artefact(plugin: &PluginObject) -> InstalledArtefact {
    let source = plugin.source().expect("valid").clone();
    InstalledArtefact { source, digest: Some("sha256:aa".to_owned()), file_digest: "sha256:bb".to_owned() }
}

fn plan(plugin: &Arc<PluginObject>) -> ObjectPlan {
    let artefact = artefact(plugin);
    let fetch = Some(FetchState::Fetched(artefact.clone()));
    let files = Some(WantedFiles { artefact, former: Vec::new(), policy: String::new(), config: None, shadow: false });
    ObjectPlan { plugin: plugin.clone(), files, must_fetch: false, refusal: None, is_taken: false, fetch }
}

fn engine(state: PluginState) -> EngineFacts {
    EngineFacts {
        state,
        why: None,
        is_well: true,
        version: Some("1.2.0".to_owned()),
        digest: Some("bb".to_owned()),
        refused: None,
        rolled_back: None,
        is_swapping: false,
        refused_config: None,
        has_next: false,
        controllers: vec![ControllerFigures { name: "web".to_owned(), state: "running", queued: 0, failing: 0 }],
        last_failure: None,
    }
}

fn file(digest: Option<&str>, reason: &str) -> RefusedFile {
    RefusedFile { digest: digest.map(str::to_owned), reason: reason.to_owned() }
}

/// The conditions as TYPE=STATUS/REASON.
fn shown(plan: &ObjectPlan, engine: Option<&EngineFacts>) -> BTreeMap<&'static str, String> {
    let status = ObjectStatus::of(&ObjectFacts { plan, engine, holder: Some("me"), install_error: None });
    let text = |it: &ObjectCondition| format!("{}/{}", it.status.as_str(), it.reason.word());
    status.conditions.iter().map(|it| (it.condition.as_str(), text(it))).collect()
}

#[test]
fn a_running_plugin_fulfils_all_conditions_and_nothing_is_on_its_way() {
    let plugin = plugin();
    let shown = shown(&plan(&plugin), Some(&engine(PluginState::Running)));
    for condition in ["Granted", "Fetched", "Compiled", "Running", "Healthy"] {
        assert_eq!(shown[condition], format!("True/{condition}"));
    }
    assert_eq!(shown["Progressing"], "False/UpToDate");
}

#[test]
fn a_refused_configuration_is_no_success() {
    let plugin = plugin();
    let refused =
        EngineFacts { refused_config: Some("no size".to_owned()), is_well: false, ..engine(PluginState::Running) };
    let now = shown(&plan(&plugin), Some(&refused));
    assert_eq!(
        ["Running", "Healthy", "Progressing"].map(|it| &*now[it]),
        ["True/Running", "False/Flawed", "False/Stalled"]
    );
    let swaps = EngineFacts { is_swapping: true, ..refused };
    assert_eq!(shown(&plan(&plugin), Some(&swaps))["Progressing"], "True/Swapping", "it may be for the next version");
}

#[test]
fn a_plugin_without_a_policy_says_that_nothing_was_fetched() {
    let plugin = plugin();
    let plan = ObjectPlan { files: None, fetch: None, refusal: Some(GrantRefusal::NoPolicy), ..plan(&plugin) };
    let shown = shown(&plan, None);
    assert_eq!(shown["Granted"], "False/NoPolicy");
    assert_eq!(shown["Fetched"], "False/NotGranted");
    assert_eq!(shown["Running"], "False/NotFetched");
    assert_eq!(shown["Healthy"], "Unknown/NotFetched");
    assert_eq!(shown["Progressing"], "False/Stalled");
}

#[test]
fn a_failed_fetch_beside_a_running_version_is_shown_as_both() {
    let plugin = plugin();
    let failure = FetchFailure { reason: "Unreachable", message: "cannot reach it".to_owned() };
    let plan = ObjectPlan { fetch: Some(FetchState::Failed(failure)), ..plan(&plugin) };
    let shown = shown(&plan, Some(&engine(PluginState::Running)));
    assert_eq!((&*shown["Fetched"], &*shown["Running"]), ("False/Unreachable", "True/Running"));
    assert_eq!(shown["Progressing"], "True/Fetching");
}

#[test]
fn a_rolled_back_version_is_told_from_one_that_cannot_be_loaded() {
    let plugin = plugin();
    let refused = EngineFacts { refused: Some(file(None, "no component")), ..engine(PluginState::Running) };
    let of_refused = shown(&plan(&plugin), Some(&refused));
    assert_eq!((&*of_refused["Compiled"], &*of_refused["Progressing"]), ("False/NotLoaded", "False/Stalled"));
    let rolled_back = EngineFacts { rolled_back: Some(file(Some("bb"), "it failed")), is_well: false, ..refused };
    let of_rolled_back = shown(&plan(&plugin), Some(&rolled_back));
    assert_eq!((&*of_rolled_back["Compiled"], &*of_rolled_back["Healthy"]), ("True/Compiled", "False/Flawed"));
    assert_eq!(of_rolled_back["Progressing"], "False/RolledBack");
}

#[test]
fn each_state_has_its_reason() {
    let plugin = plugin();
    for state in PluginState::ALL.into_iter().filter(|state| *state != PluginState::Running) {
        let shown = shown(&plan(&plugin), Some(&engine(state)));
        assert_eq!(shown["Running"], format!("False/{}", ConditionReason::State(state).word()));
        assert!(!shown["Healthy"].starts_with("True"), "{state:?}");
    }
}

#[test]
fn a_condition_keeps_its_time_until_its_status_changes() {
    let plugin = plugin();
    let plan = plan(&plugin);
    let status = |state| {
        let engine = engine(state);
        ObjectStatus::of(&ObjectFacts { plan: &plan, engine: Some(&engine), holder: Some("me"), install_error: None })
    };
    let stored = status(PluginState::Paused).to_json(&Value::Null, "t1");
    assert_eq!(status(PluginState::Paused).change(&stored), StatusChange::None);
    assert_eq!(status(PluginState::Running).change(&stored), StatusChange::State);
    let stored = status(PluginState::Running).to_json(&stored, "t2");
    let times: BTreeSet<_> = ["Granted", "Running"]
        .map(|kind| condition_of(&stored, kind).expect("it is there")["lastTransitionTime"].clone().to_string())
        .into();
    assert_eq!(times, ["\"t1\"", "\"t2\""].map(str::to_owned).into());
}

#[test]
fn counts_alone_are_a_lesser_change_and_coarse() {
    let plugin = plugin();
    let plan = plan(&plugin);
    let with = |queued| {
        let mut engine = engine(PluginState::Running);
        engine.controllers[0].queued = queued;
        ObjectStatus::of(&ObjectFacts { plan: &plan, engine: Some(&engine), holder: Some("me"), install_error: None })
    };
    let stored = with(13).to_json(&Value::Null, "t");
    assert_eq!((&stored["queued"], &stored["image"]), (&json!(10), &json!("r.example/shop@sha256:aa")));
    assert_eq!(with(19).change(&stored), StatusChange::None);
    assert_eq!(with(20).change(&stored), StatusChange::Counts);
    assert_eq!([0, 7, 99, 100, 4321].map(coarse), [0, 7, 90, 100, 4000]);
}

#[test]
fn a_written_status_forgets_what_does_not_apply_any_more() {
    let plugin = plugin();
    let plan = plan(&plugin);
    let before = EngineFacts { last_failure: Some(("web".to_owned(), "a".to_owned())), ..engine(PluginState::Running) };
    let status = |engine: Option<&EngineFacts>| {
        ObjectStatus::of(&ObjectFacts { plan: &plan, engine, holder: Some("me"), install_error: None })
    };
    let mut stored = status(Some(&before)).to_json(&Value::Null, "t");
    stored["ofAnotherVersion"] = json!(1);
    for engine in [Some(engine(PluginState::Running)), None] {
        let new = status(engine.as_ref());
        let json = new.to_json(&stored, "t");
        // The API server merges, and removes what is null.
        let mut merged = stored.as_object().expect("an object").clone();
        for (field, value) in ObjectStatus::patch(&json, &Value::Null).as_object().expect("an object") {
            merged.insert(field.clone(), value.clone());
        }
        merged.retain(|_, value| !value.is_null());
        assert_eq!(merged.remove("ofAnotherVersion"), Some(json!(1)), "it is not known without the stored status");
        assert_eq!(new.change(&Value::Object(merged)), StatusChange::None);
        assert_eq!(ObjectStatus::patch(&json, &stored)["ofAnotherVersion"], Value::Null);
    }
}

#[test]
fn a_version_that_is_not_compiled_yet_is_on_its_way() {
    let plugin = plugin();
    let former = EngineFacts { digest: Some("former".to_owned()), ..engine(PluginState::Running) };
    let awaited = shown(&plan(&plugin), Some(&former));
    assert_eq!((&*awaited["Compiled"], &*awaited["Progressing"]), ("Unknown/Compiling", "True/Compiling"));
    assert_eq!(awaited["Running"], "True/Running");
    let waits = EngineFacts { has_next: true, ..former.clone() };
    assert_eq!(shown(&plan(&plugin), Some(&waits))["Progressing"], "True/Shadowing");
    let rolled_back = EngineFacts { rolled_back: Some(file(Some("bb"), "it failed")), ..former.clone() };
    assert_eq!(shown(&plan(&plugin), Some(&rolled_back))["Progressing"], "False/RolledBack");
    // What became of an earlier file says nothing about the one that was installed since.
    let earlier = Some(file(Some("earlier"), "it failed"));
    let of_earlier = EngineFacts { rolled_back: earlier.clone(), refused: earlier, ..former };
    assert_eq!(shown(&plan(&plugin), Some(&of_earlier)), awaited);
}

#[test]
fn fields_that_may_be_missing_are_listed() {
    let (plugin, mut engine) = (plugin(), engine(PluginState::Running));
    let plan = plan(&plugin);
    engine.last_failure = Some(("web".to_owned(), "a".to_owned()));
    let names = |engine, holder| -> BTreeSet<_> {
        fields(&ObjectFacts { plan: &plan, engine, holder, install_error: None }).keys().cloned().collect()
    };
    let (all, always) = (names(Some(&engine), Some("me")), names(None, None));
    let optional: BTreeSet<_> = all.difference(&always).map(String::as_str).collect();
    assert_eq!(optional, OPTIONAL_FIELDS.into());
}

#[test]
fn files_that_cannot_be_written_are_not_up_to_date() {
    let (plugin, engine) = (plugin(), engine(PluginState::Running));
    let plan = plan(&plugin);
    let facts = ObjectFacts { plan: &plan, engine: Some(&engine), holder: None, install_error: Some("disk full") };
    let progressing = ObjectStatus::of(&facts).conditions.pop().expect("the last one");
    assert_eq!(progressing.reason, ConditionReason::CannotWrite);
    assert!(progressing.message.contains("disk full"));
}
