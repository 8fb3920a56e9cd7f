use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::plugin::OciSource;

const REPOSITORIES: [&str; 2] = ["r.example/shop", "r.example/evil"];

/// All objects and what the host has.
#[derive(Clone, Debug, Default)]
struct Scene {
    plugins: Vec<Arc<PluginObject>>,
    policies: Vec<PolicyObject>,
    installed: BTreeMap<String, InstalledArtefact>,
    former: BTreeMap<String, Vec<InstalledArtefact>>,
    running: BTreeMap<String, String>,
    fetches: BTreeMap<String, (PluginSource, FetchState)>,
    taken: BTreeSet<String>,
}

fn plugin(name: &str, image: &str) -> Arc<PluginObject> {
    let object = json!({"metadata": {"name": name}, "spec": {"source": {"oci": {"image": image}}}});
    PluginObject::read(&object).expect("it has a name").into()
}

fn policy_with(name: &str, plugin: &str, source: &Value) -> PolicyObject {
    let object = json!({"metadata": {"name": name}, "spec": {"plugin": plugin, "source": source}});
    PolicyObject::read(&object).expect("it names a plugin")
}

fn policy(name: &str, plugin: &str, repository: &str) -> PolicyObject {
    policy_with(name, plugin, &json!({"repository": repository}))
}

fn source(image: &str) -> PluginSource {
    PluginSource { oci: Some(OciSource { image: image.to_owned(), pull_secret: None }), config_map: None }
}

/// The artefact to which an image leads.
fn artefact(image: &str) -> InstalledArtefact {
    let digest = Some(format!("sha256:of-{image}"));
    InstalledArtefact { source: source(image), digest, file_digest: format!("sha256:file-{image}") }
}

impl Scene {
    /// A plugin `shop` with a policy for its repository.
    fn shop() -> Self {
        Self {
            plugins: vec![plugin("shop", "r.example/shop:1")],
            policies: vec![policy("shop", "shop", "r.example/shop")],
            ..Self::default()
        }
    }

    fn plan(&self) -> Vec<ObjectPlan> {
        let Self { installed, former, running, fetches, taken, .. } = self;
        let plugins = &self.plugins.iter().map(|plugin| (plugin.name.clone(), plugin.clone())).collect();
        let policies = &self.policies.iter().map(|policy| (policy.name.clone(), policy.clone())).collect();
        plan(&PlanInputs { plugins, policies, installed, former, running, fetches, taken })
    }

    fn only(&self) -> ObjectPlan {
        self.plan().remove(0)
    }

    fn fetched(mut self, image: &str) -> Self {
        let state = FetchState::Fetched(artefact(image));
        self.fetches.insert("shop".to_owned(), (source(image), state));
        self
    }

    fn installed(mut self, image: &str) -> Self {
        self.installed.insert("shop".to_owned(), artefact(image));
        self
    }

    /// The image that runs.
    fn runs(&self) -> Option<String> {
        self.only().files.and_then(|files| files.artefact.source.oci).map(|oci| oci.image)
    }
}

#[test]
fn a_covered_plugin_is_fetched_and_then_installed() {
    let scene = Scene::shop();
    assert!(scene.only().must_fetch && scene.only().files.is_none() && scene.only().refusal.is_none());
    let mut running = scene.clone();
    running.fetches.insert("shop".to_owned(), (source("r.example/shop:1"), FetchState::Running));
    assert!(!running.only().must_fetch && running.only().files.is_none());
    let scene = scene.fetched("r.example/shop:1");
    assert!(!scene.only().must_fetch);
    assert_eq!(scene.runs().as_deref(), Some("r.example/shop:1"));
}

#[test]
fn nothing_is_fetched_or_run_without_exactly_one_policy_for_the_source() {
    let scene = Scene::shop().fetched("r.example/shop:1").installed("r.example/shop:1");
    let without = |policies: Vec<PolicyObject>| {
        let scene = Scene { policies, ..scene.clone() };
        let only = scene.only();
        assert!(only.files.is_none() && !only.must_fetch);
        only.refusal.expect("it is refused")
    };
    let own = policy("shop", "shop", "r.example/shop");
    assert_eq!(without(vec![]), GrantRefusal::NoPolicy);
    assert_eq!(without(vec![policy("other", "other", "r.example/shop")]), GrantRefusal::NoPolicy);
    let copied = policy("other", "shop", "r.example/shop");
    assert_eq!(without(vec![copied.clone()]), GrantRefusal::NoPolicy, "a policy grants to its own name only");
    let both = Scene { policies: vec![copied, own], ..scene.clone() };
    assert!(both.only().files.is_some(), "nor does it take anything from another plugin");
    let other = without(vec![policy("shop", "shop", "r.example/evil")]);
    assert!(matches!(other, GrantRefusal::SourceNotAllowed { .. }));
    let invalid = without(vec![policy_with("shop", "shop", &json!({}))]);
    assert!(matches!(invalid, GrantRefusal::InvalidPolicy { .. }));
}

#[test]
fn a_restart_fetches_nothing_that_is_installed() {
    let scene = Scene::shop().installed("r.example/shop:1");
    assert!(!scene.only().must_fetch);
    assert_eq!(scene.runs().as_deref(), Some("r.example/shop:1"));
}

#[test]
fn the_old_version_runs_on_until_the_new_one_is_there() {
    let mut scene = Scene::shop().installed("r.example/shop:1");
    scene.plugins = vec![plugin("shop", "r.example/shop:2")];
    assert!(scene.only().must_fetch);
    assert_eq!(scene.runs().as_deref(), Some("r.example/shop:1"));
    let failure = FetchFailure { reason: "Unreachable", message: "no".to_owned() };
    scene.fetches.insert("shop".to_owned(), (source("r.example/shop:2"), FetchState::Failed(failure)));
    assert_eq!(scene.runs().as_deref(), Some("r.example/shop:1"), "the registry is down");
    let scene = scene.fetched("r.example/shop:2");
    assert_eq!(scene.runs().as_deref(), Some("r.example/shop:2"));
}

#[test]
fn a_source_that_is_not_allowed_leaves_the_allowed_version_running() {
    let mut scene = Scene::shop().installed("r.example/shop:1");
    scene.plugins = vec![plugin("shop", "r.example/evil:1")];
    let only = scene.only();
    assert!(!only.must_fetch && matches!(only.refusal, Some(GrantRefusal::SourceNotAllowed { .. })));
    assert_eq!(scene.runs().as_deref(), Some("r.example/shop:1"));
}

#[test]
fn a_spec_that_cannot_be_read_leaves_the_running_version_alone() {
    let mut scene = Scene::shop().installed("r.example/shop:1");
    let before = scene.only();
    let wrong = plugin("shop", "r.example/team//shop:2");
    scene.plugins = vec![Arc::unwrap_or_clone(wrong.clone()).after(&scene.plugins[0]).into()];
    let only = scene.only();
    assert!(matches!(only.refusal, Some(GrantRefusal::InvalidSpec(_))) && !only.must_fetch);
    assert_eq!(only.files, before.files);
    scene.policies.clear();
    assert!(scene.only().files.is_none(), "without a policy it ends all the same");
    scene.plugins = vec![wrong];
    assert!(scene.only().files.is_none());
}

#[test]
fn a_file_that_lost_its_policy_ends_before_another_source_is_installed() {
    let mut scene = Scene::shop().installed("r.example/evil:1").fetched("r.example/shop:1");
    assert_eq!(scene.runs(), None, "the former file must not run with the new policy");
    scene.installed.clear();
    assert_eq!(scene.runs().as_deref(), Some("r.example/shop:1"), "it has ended");
}

#[test]
fn a_digest_that_the_policy_does_not_list_does_not_run() {
    let mut scene = Scene::shop().installed("r.example/shop:1").fetched("r.example/shop:2");
    scene.plugins = vec![plugin("shop", "r.example/shop:2")];
    let listing = |listed: &str| json!({"repository": "r.example/shop", "digests": [listed]});
    scene.policies = vec![policy_with("shop", "shop", &listing("sha256:of-r.example/shop:1"))];
    assert_eq!(scene.runs().as_deref(), Some("r.example/shop:1"));
    assert!(matches!(scene.only().refusal, Some(GrantRefusal::DigestNotAllowed { .. })));
    scene.policies = vec![policy_with("shop", "shop", &listing("sha256:of-r.example/shop:2"))];
    assert_eq!(scene.runs(), None, "the running one is not listed any more, and must end first");
}

#[test]
fn a_version_that_runs_after_a_rollback_needs_a_listed_digest_too() {
    let (one, two) = ("r.example/shop:1", "r.example/shop:2");
    let mut scene = Scene::shop().installed(two);
    scene.plugins = vec![plugin("shop", two)];
    scene.former.insert("shop".to_owned(), vec![artefact(one)]);
    scene.running.insert("shop".to_owned(), artefact(one).file_digest);
    let listing = |digests: &[String]| {
        vec![policy_with("shop", "shop", &json!({"repository": "r.example/shop", "digests": digests}))]
    };
    let of = |image: &str| artefact(image).digest.expect("it has one");
    scene.policies = listing(&[of(one), of(two)]);
    assert_eq!(scene.runs().as_deref(), Some(two));
    scene.policies = listing(&[of(two)]);
    assert_eq!(scene.runs(), None, "what runs is not listed any more");
    scene.policies = vec![policy("shop", "shop", "r.example/shop")];
    scene.former.clear();
    assert_eq!(scene.runs(), None, "no record says where it comes from");
}

#[test]
fn only_covered_versions_may_run_again() {
    let (one, two, evil) = ("r.example/shop:1", "r.example/shop:2", "r.example/evil:1");
    let mut scene = Scene::shop().installed(two);
    scene.plugins = vec![plugin("shop", two)];
    scene.former.insert("shop".to_owned(), vec![artefact(evil), artefact(one)]);
    let former = |scene: &Scene| scene.only().files.expect("it runs").former;
    assert_eq!(former(&scene), [artefact(one)]);
    let three = "r.example/shop:3";
    scene.plugins = vec![plugin("shop", three)];
    scene = scene.fetched(three);
    assert_eq!(former(&scene), [artefact(two), artefact(one)], "before three is installed");
    scene.former.insert("shop".to_owned(), former(&scene));
    scene = scene.installed(three);
    assert_eq!(former(&scene), [artefact(two), artefact(one)], "and after that");
}

#[test]
fn the_version_that_runs_is_not_forgotten() {
    let mut scene = Scene::shop().installed("r.example/shop:1");
    let refused: Vec<_> = (2..20).map(|tag| artefact(&format!("r.example/shop:{tag}"))).collect();
    let oldest = refused[17].file_digest.clone();
    scene.former.insert("shop".to_owned(), refused);
    scene.running.insert("shop".to_owned(), oldest.clone());
    let former = scene.only().files.expect("it runs").former;
    assert_eq!(former.len(), FORMER_ARTEFACTS_MAX);
    assert!(former.iter().any(|artefact| artefact.file_digest == oldest));
}

#[test]
fn a_digest_that_the_policy_does_not_list_is_not_even_fetched() {
    let digest = |text: &str| format!("sha256:{}", text.repeat(64));
    let mut scene = Scene::shop();
    scene.plugins = vec![plugin("shop", &format!("r.example/shop@{}", digest("a")))];
    for (listed, is_listed) in [("a", true), ("b", false)] {
        let source = json!({"repository": "r.example/shop", "digests": [digest(listed)]});
        scene.policies = vec![policy_with("shop", "shop", &source)];
        let only = scene.only();
        assert_eq!((only.must_fetch, only.refusal.is_none()), (is_listed, is_listed));
    }
}

#[test]
fn a_policy_with_digests_allows_no_shadow() {
    let mut scene = Scene::shop().installed("r.example/shop:1");
    let source = json!({"repository": "r.example/shop", "digests": ["sha256:of-r.example/shop:1"]});
    scene.policies = vec![policy_with("shop", "shop", &source)];
    assert!(scene.runs().is_some());
    let spec = json!({"source": {"oci": {"image": "r.example/shop:1"}}, "rollout": {"strategy": "shadow"}});
    let object = json!({"metadata": {"name": "shop"}, "spec": spec});
    scene.plugins = vec![PluginObject::read(&object).expect("it has a name").into()];
    assert!(matches!(scene.only().refusal, Some(GrantRefusal::InvalidPolicy { .. })));
    assert_eq!(scene.runs(), None, "the version that runs beside the waiting one would not be judged");
}

#[test]
fn a_name_in_the_plugin_directory_is_left_to_the_file() {
    let mut scene = Scene::shop().fetched("r.example/shop:1").installed("r.example/shop:1");
    scene.taken.insert("shop".to_owned());
    let only = scene.only();
    assert!(only.is_taken && only.files.is_none() && !only.must_fetch);
}

/// Scenes with plugins and policies of two names and two repositories, and any state of fetches.
fn scenes() -> impl Strategy<Value = Scene> {
    let name = || prop_oneof![Just("shop"), Just("other")];
    let image = (0..2_usize, 1..3_u8).prop_map(|(repository, tag)| format!("{}:{tag}", REPOSITORIES[repository]));
    let plugins =
        (image.clone(), image.clone()).prop_map(|(shop, other)| vec![plugin("shop", &shop), plugin("other", &other)]);
    let policies = proptest::collection::btree_map(name(), 0..2_usize, 0..3).prop_map(|policies| {
        policies.into_iter().map(|(name, repository)| policy(name, name, REPOSITORIES[repository])).collect()
    });
    let installed = proptest::collection::btree_map(name().prop_map(str::to_owned), image.clone(), 0..3);
    let fetches = proptest::collection::btree_map(name().prop_map(str::to_owned), image, 0..3);
    let taken = proptest::collection::btree_set(name().prop_map(str::to_owned), 0..2);
    (plugins, policies, installed, fetches, taken).prop_map(|(plugins, policies, installed, fetches, taken)| Scene {
        plugins,
        policies,
        installed: installed.into_iter().map(|(name, image)| (name, artefact(&image))).collect(),
        fetches: fetches
            .into_iter()
            .map(|(name, image)| (name, (source(&image), FetchState::Fetched(artefact(&image)))))
            .collect(),
        taken,
        ..Scene::default()
    })
}

proptest! {
    #[test]
    fn files_need_exactly_one_policy_that_names_plugin_and_source(scene in scenes()) {
        for plan in scene.plan() {
            let named: Vec<_> = scene.policies.iter().filter(|policy| policy.name == plan.plugin.name).collect();
            let Some(files) = plan.files else { continue };
            prop_assert_eq!(named.len(), 1);
            let covered = files.artefact.source.origin().expect("valid");
            prop_assert_eq!(&named[0].source.as_ref().expect("valid").origin, &covered);
            prop_assert!(!scene.taken.contains(&plan.plugin.name));
        }
    }

    #[test]
    fn only_sources_that_a_policy_names_are_fetched(scene in scenes()) {
        for plan in scene.plan().into_iter().filter(|plan| plan.must_fetch) {
            let origin = plan.plugin.source().expect("valid").origin().expect("valid");
            let names = |policy: &PolicyObject| {
                policy.name == plan.plugin.name && policy.source.as_ref().is_ok_and(|it| it.origin == origin)
            };
            prop_assert!(scene.policies.iter().any(names));
        }
    }

    #[test]
    fn installed_files_change_their_origin_only_through_an_end(scene in scenes()) {
        for plan in scene.plan() {
            let Some(installed) = scene.installed.get(&plan.plugin.name) else { continue };
            let Some(files) = plan.files else { continue };
            prop_assert_eq!(files.artefact.source.origin(), installed.source.origin());
        }
    }
}
