//! Native tests: the pure decisions, and whole calls on the SDK's host in memory.

use serde_json::{Value, json};
use windlass_sdk::testing::Host;
use windlass_sdk::{ApiReason, Failures, ObjectRef, Outcome, Reconciler};

use crate::accounts::{self, AccountChange};
use crate::api::{API_VERSION, Binding, Definition, KIND, ObjectMeta, PULL_SECRETS, RBAC_VERSION, ServiceAccount};
use crate::bindings::{BindingChanges, WantedBinding, differences};
use crate::wishes::{AccountWish, Scope, Wishes};

const UID: &str = "u-1";

fn definition(entries: &Value) -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "team", "uid": UID}, "rbacBindings": entries,
    })
}

fn wishes(entries: &Value) -> Result<Wishes, Vec<String>> {
    Wishes::of(&serde_json::from_value::<Definition>(definition(entries)).unwrap())
}

fn entry(role_bindings: &Value) -> Value {
    json!([{"name": "people", "subjects": [{"kind": "Group", "name": "people"}], "roleBindings": role_bindings}])
}

#[test]
fn a_definition_is_read_with_all_its_grants() {
    let entries = json!([{
        "name": "people",
        "subjects": [
            {"kind": "User", "name": "b", "namespace": "ignored"},
            {"kind": "Group", "name": "a"},
            {"kind": "User", "name": "b"},
        ],
        "clusterRoleBindings": [{"clusterRole": "view"}],
        "roleBindings": [
            {"role": "deployer", "namespace": "web"},
            {"clusterRole": "edit", "namespaceSelector": {"matchLabels": {"team": "shop"}}},
        ],
    }]);
    let wishes = wishes(&entries).unwrap();
    assert_eq!(wishes.accounts, []);
    let names: Vec<_> = wishes.grants[0].subjects.iter().map(|it| (it.kind.as_str(), it.name.as_str())).collect();
    assert_eq!(names, [("Group", "a"), ("User", "b")]);
    let found: Vec<_> = wishes.grants.iter().map(|it| (it.role.kind.as_str(), it.role.name.as_str())).collect();
    assert_eq!(found, [("ClusterRole", "view"), ("Role", "deployer"), ("ClusterRole", "edit")]);
    assert_eq!(wishes.grants[0].scope, Scope::Cluster);
    assert_eq!(wishes.grants[1].scope, Scope::Namespace("web".into()));
    let Scope::Selected(selector) = &wishes.grants[2].scope else { panic!("{:?}", wishes.grants[2]) };
    assert_eq!(selector.to_string(), "team=shop");
}

#[test]
fn a_service_account_of_several_entries_has_the_settings_of_all() {
    let subject = |secrets: &Value| json!({"kind": "ServiceAccount", "name": "bot", "namespace": "ci", "imagePullSecrets": secrets});
    let entries = json!([
        {"name": "a", "subjects": [subject(&json!(["x", "y"]))]},
        {"name": "b", "subjects": [subject(&json!(["y", "z"]))]},
    ]);
    let pull_secrets = ["x", "y", "z"].map(String::from).to_vec();
    let wish = AccountWish { namespace: "ci".into(), name: "bot".into(), pull_secrets, automount: None };
    assert_eq!(wishes(&entries).unwrap().accounts, [wish]);
}

#[test]
fn an_empty_text_in_a_role_binding_counts_as_missing() {
    let selector = json!({"matchLabels": {"team": "shop"}});
    let binding = json!({"clusterRole": "view", "role": "", "namespace": "", "namespaceSelector": selector});
    let wishes = wishes(&entry(&json!([binding]))).unwrap();
    assert!(matches!(wishes.grants[0].scope, Scope::Selected(_)), "{:?}", wishes.grants);
    assert_eq!(wishes.grants[0].role.kind, "ClusterRole");
}

#[test]
fn each_mistake_of_a_definition_is_named_with_its_place() {
    let subjects = |subject: Value| json!([{"name": "a", "subjects": [subject]}]);
    let selector = |selector: Value| entry(&json!([{"clusterRole": "view", "namespaceSelector": selector}]));
    for (entries, expected) in [
        (json!([{"name": "a/b", "subjects": []}]), "rbacBindings[0].name"),
        (subjects(json!({"kind": "Robot", "name": "a"})), "rbacBindings[0].subjects[0]: \"Robot\" is no kind"),
        (subjects(json!({"kind": "ServiceAccount", "name": "a"})), "a ServiceAccount needs a namespace"),
        (entry(&json!([{"namespace": "web"}])), "rbacBindings[0].roleBindings[0]: it has no role"),
        (entry(&json!([{"namespace": "web", "role": "a", "clusterRole": "b"}])), "a clusterRole and a role"),
        (entry(&json!([{"clusterRole": "view"}])), "it has no place"),
        (entry(&json!([{"clusterRole": "view", "namespace": "a", "namespaceSelector": {}}])), "use one of them"),
        (selector(json!({})), "the namespaceSelector is empty"),
        (selector(json!({"matchExpressions": [{"key": "a", "operator": "In"}]})), "about a is wrong"),
        (
            selector(json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]})),
            "about a is wrong",
        ),
    ] {
        let mistakes = wishes(&entries).unwrap_err();
        assert!(mistakes.len() == 1 && mistakes[0].contains(expected), "{mistakes:?}");
    }
}

fn wanted(namespace: Option<&str>, role: &str, users: &[&str]) -> WantedBinding {
    let subjects = users.iter().map(|name| json!({"kind": "User", "name": name}));
    WantedBinding {
        namespace: namespace.map(Into::into),
        name: format!("team-people-{role}"),
        role: serde_json::from_value(json!({"kind": "ClusterRole", "name": role})).unwrap(),
        subjects: serde_json::from_value(subjects.collect()).unwrap(),
    }
}

/// The binding as the server stores it, with another order of the subjects.
fn stored(wanted: &WantedBinding, name: &str) -> Binding {
    let mut subjects: Vec<Value> = wanted.subjects.iter().map(crate::api::Subject::in_binding).collect();
    subjects.reverse();
    let metadata =
        json!({"name": name, "namespace": wanted.namespace, "uid": format!("u-{name}"), "resourceVersion": "7"});
    let role = json!({"kind": wanted.role.kind, "name": wanted.role.name, "apiGroup": "rbac.authorization.k8s.io"});
    serde_json::from_value(json!({"metadata": metadata, "roleRef": role, "subjects": subjects})).unwrap()
}

#[test]
fn a_binding_with_the_same_contents_stays_whatever_its_name() {
    let view = wanted(Some("web"), "view", &["a", "b"]);
    let changes = differences(std::slice::from_ref(&view), &[stored(&view, "named-by-another-version")]);
    assert_eq!(changes, BindingChanges::default());
}

#[test]
fn other_subjects_are_patched_and_another_role_is_a_new_binding() {
    let (view, edit) = (wanted(Some("web"), "view", &["a"]), wanted(Some("web"), "edit", &["a"]));
    let more = wanted(Some("web"), "view", &["a", "b"]);
    let changes = differences(&[more], &[stored(&view, &view.name)]);
    assert_eq!((changes.create.len(), changes.delete.len()), (0, 0));
    assert_eq!((changes.patch[0].0.name.as_str(), changes.patch[0].1.as_str()), ("team-people-view", "7"));
    assert_eq!(changes.patch[0].2["subjects"].as_array().map(Vec::len), Some(2));

    // The original has put the namespace into the name.
    let changes = differences(&[wanted(Some("web"), "view", &["b"])], &[stored(&view, "team-people-view-web")]);
    assert_eq!((changes.create.len(), changes.delete.len()), (0, 0));
    assert_eq!(changes.patch[0].0.name, "team-people-view-web");

    let changes = differences(&[edit], &[stored(&view, &view.name)]);
    assert_eq!(changes.create[0]["roleRef"]["name"], "edit");
    assert_eq!(
        (changes.delete[0].name.as_str(), changes.delete[0].uid.as_deref()),
        ("team-people-view", Some("u-team-people-view"))
    );
}

#[test]
fn equal_names_of_different_grants_are_numbered() {
    let (one, mut other) = (wanted(Some("web"), "view", &["a"]), wanted(Some("web"), "view", &["a"]));
    other.role.kind = "Role".into();
    let changes = differences(&[one.clone(), other.clone(), one.clone()], &[]);
    let names: Vec<_> = changes.create.iter().map(|it| &it["metadata"]["name"]).collect();
    assert_eq!(names, ["team-people-view", "team-people-view-2"]);
    let changes = differences(&[one.clone(), other], &[stored(&one, &one.name)]);
    assert_eq!((changes.create[0]["metadata"]["name"].as_str(), changes.delete.len()), (Some("team-people-view-2"), 0));
}

#[test]
fn a_binding_that_goes_is_neither_patched_nor_deleted_again() {
    let (view, more) = (wanted(None, "view", &["a"]), wanted(None, "view", &["a", "b"]));
    let mut going = stored(&view, &view.name);
    going.metadata.deletion_timestamp = Some("2026-11-21T10:48:45Z".into());
    assert_eq!(differences(&[], std::slice::from_ref(&going)), BindingChanges::default());
    let changes = differences(&[more], &[going]);
    assert_eq!((changes.patch.len(), changes.delete.len(), changes.create.len()), (0, 0, 1));
}

fn team() -> ObjectMeta {
    serde_json::from_value(json!({"name": "team", "uid": UID})).unwrap()
}

fn wish(pull_secrets: &[&str], automount: Option<bool>) -> AccountWish {
    let pull_secrets = pull_secrets.iter().map(ToString::to_string).collect();
    AccountWish { namespace: "ci".into(), name: "bot".into(), pull_secrets, automount }
}

fn account(metadata: &Value, secrets: &[&str]) -> ServiceAccount {
    let secrets: Value = secrets.iter().map(|name| json!({"name": name})).collect();
    serde_json::from_value(json!({"metadata": metadata, "imagePullSecrets": secrets})).unwrap()
}

fn owned(annotations: &Value) -> Value {
    json!({"labels": {"rbac-manager": "reactiveops"}, "annotations": annotations, "ownerReferences": [{"kind": KIND, "name": "team", "uid": UID}]})
}

#[test]
fn a_new_service_account_notes_its_pull_secrets() {
    let AccountChange::Create(new) = accounts::wanted(&team(), &wish(&["a", "b"], Some(false)), None) else { panic!() };
    assert_eq!(new["metadata"]["annotations"], json!({PULL_SECRETS: "a,b"}));
    assert_eq!(new["metadata"]["ownerReferences"][0]["uid"], UID);
    assert_eq!(new["automountServiceAccountToken"], false);
    let same = account(&owned(&json!({PULL_SECRETS: "a,b"})), &["a", "platform", "b"]);
    assert_eq!(accounts::wanted(&team(), &wish(&["a", "b"], None), Some(&same)), AccountChange::Leave);
}

#[test]
fn pull_secrets_of_others_stay() {
    let found = account(&owned(&json!({PULL_SECRETS: "a"})), &["a", "platform"]);
    let AccountChange::Patch(patch) = accounts::wanted(&team(), &wish(&["b"], None), Some(&found)) else { panic!() };
    assert_eq!(patch["imagePullSecrets"], json!([{"name": "platform"}, {"name": "b"}]));
    let AccountChange::Patch(patch) = accounts::wanted(&team(), &wish(&[], None), Some(&found)) else { panic!() };
    assert_eq!(patch["imagePullSecrets"], json!([{"name": "platform"}]));
    assert_eq!(patch["metadata"]["annotations"], json!({PULL_SECRETS: ""}));
}

#[test]
fn an_account_of_the_original_without_pull_secrets_stays() {
    for annotations in [json!({PULL_SECRETS: ""}), json!({})] {
        let found = account(&owned(&annotations), &["platform"]);
        assert_eq!(accounts::wanted(&team(), &wish(&[], None), Some(&found)), AccountChange::Leave);
    }
    let AccountChange::Create(new) = accounts::wanted(&team(), &wish(&[], None), None) else { panic!() };
    assert_eq!(new["metadata"]["annotations"], json!({PULL_SECRETS: ""}));
}

#[test]
fn token_mounting_stays_as_it_is_unless_the_definition_sets_it() {
    let mut found = account(&owned(&json!({})), &[]);
    found.automount_service_account_token = Some(false);
    assert_eq!(accounts::wanted(&team(), &wish(&[], None), Some(&found)), AccountChange::Leave);
    let AccountChange::Patch(patch) = accounts::wanted(&team(), &wish(&[], Some(true)), Some(&found)) else { panic!() };
    assert_eq!(patch, json!({"automountServiceAccountToken": true}));
}

#[test]
fn a_service_account_of_others_is_left_alone() {
    let found = account(&json!({}), &["theirs"]);
    assert_eq!(accounts::wanted(&team(), &wish(&[], None), Some(&found)), AccountChange::Foreign(None));
    let AccountChange::Foreign(Some(note)) = accounts::wanted(&team(), &wish(&["a"], None), Some(&found)) else {
        panic!()
    };
    assert!(note.contains("ServiceAccount ci/bot"), "{note}");
}

#[test]
fn a_shared_service_account_follows_the_first_name() {
    let of = |name: &str| json!({"kind": KIND, "name": name, "uid": format!("u-{name}")});
    let labels = json!({"rbac-manager": "reactiveops"});
    let found = |owner: &str| account(&json!({"labels": labels, "ownerReferences": [of(owner)]}), &["a"]);
    let AccountChange::Patch(patch) = accounts::wanted(&team(), &wish(&["b"], None), Some(&found("alpha"))) else {
        panic!()
    };
    let owners = patch["metadata"]["ownerReferences"].as_array().unwrap();
    assert_eq!((owners.len(), &owners[1]["uid"], &patch["imagePullSecrets"]), (2, &json!(UID), &Value::Null));
    let AccountChange::Patch(patch) = accounts::wanted(&team(), &wish(&["b"], None), Some(&found("zeta"))) else {
        panic!()
    };
    assert_eq!(patch["imagePullSecrets"], json!([{"name": "a"}, {"name": "b"}]));

    let shared = account(&json!({"labels": labels, "ownerReferences": owners}), &["a"]);
    assert_eq!(accounts::wanted(&team(), &wish(&["b"], None), Some(&shared)), AccountChange::Leave);
    let AccountChange::Patch(patch) = accounts::unwanted(&team(), &shared) else { panic!() };
    assert_eq!(patch["metadata"]["ownerReferences"], json!([of("alpha")]));
    assert_eq!(accounts::unwanted(&team(), &account(&owned(&json!({})), &[])), AccountChange::Delete);
}

/// A host with the namespaces `web`, which a team has, and `going`, which is being deleted.
fn cluster() -> Host {
    let mut host = Host::new();
    host.define(include_str!("../crd.yaml"));
    host.index("owner", "/metadata/ownerReferences/0/uid");
    let namespace = |name: &str, more: &Value| {
        let mut metadata = json!({"name": name, "labels": {"team": "shop"}});
        metadata.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    };
    host.put(&namespace("web", &json!({})));
    host.put(&namespace("going", &json!({"deletionTimestamp": "2026-11-21T10:48:45Z"})));
    host
}

fn call(host: &mut Host, definition: &Value) -> Result<Outcome, Failures> {
    crate::Plugin::reconcile(host.request("rbac-manager", definition))
}

fn binding(host: &Host, namespace: &str, name: &str) -> Option<Value> {
    host.object(&ObjectRef::namespaced(RBAC_VERSION, "RoleBinding", namespace, name))
}

#[test]
fn a_call_creates_what_is_missing_and_a_second_one_writes_nothing() {
    let mut host = cluster();
    let entries = json!([{
        "name": "bots",
        "subjects": [{"kind": "ServiceAccount", "name": "bot", "namespace": "web", "imagePullSecrets": ["a"]}],
        "clusterRoleBindings": [{"clusterRole": "view"}],
        "roleBindings": [
            {"clusterRole": "edit", "namespaceSelector": {"matchLabels": {"team": "shop"}}},
            {"role": "deployer", "namespace": "missing"},
        ],
    }]);
    assert_eq!(call(&mut host, &definition(&entries)).unwrap(), Outcome::Done);
    let created: Vec<_> = host.writes().iter().map(|it| it.target.to_string()).collect();
    assert_eq!(
        created,
        ["ServiceAccount web/bot", "ClusterRoleBinding team-bots-view", "RoleBinding web/team-bots-edit"]
    );
    let subject = json!({"kind": "ServiceAccount", "name": "bot", "namespace": "web"});
    assert_eq!(binding(&host, "web", "team-bots-edit").unwrap()["subjects"], json!([subject]));
    assert_eq!(host.events()[0].note, "created 3, changed 0 and deleted 0 bindings and service accounts");

    host.forget();
    call(&mut host, &definition(&entries)).unwrap();
    assert_eq!((host.writes(), host.events()), (vec![], vec![]));

    call(&mut host, &definition(&json!([]))).unwrap();
    assert_eq!(host.writes().iter().filter(|it| it.verb == "delete").count(), 3);
    assert!(binding(&host, "web", "team-bots-edit").is_none());
}

#[test]
fn nothing_is_revoked_in_a_namespace_that_the_cache_lacks() {
    let mut host = cluster();
    let grant = definition(&entry(&json!([{"clusterRole": "view", "namespace": "web"}])));
    call(&mut host, &grant).unwrap();
    let namespace = host.object(&ObjectRef::cluster_scoped("v1", "Namespace", "web")).unwrap();
    host.remove(&ObjectRef::cluster_scoped("v1", "Namespace", "web"));
    assert_eq!(call(&mut host, &grant).unwrap(), Outcome::requeue_after(crate::CONTINUATION_DELAY));
    assert!(binding(&host, "web", "team-people-view").is_some());
    host.put(&namespace);
    assert_eq!(call(&mut host, &definition(&json!([]))).unwrap(), Outcome::Done);
    assert!(binding(&host, "web", "team-people-view").is_none());
}

#[test]
fn a_taken_name_is_reported_and_checked_again_later() {
    let mut host = cluster();
    let foreign = json!({
        "apiVersion": RBAC_VERSION, "kind": "RoleBinding", "metadata": {"name": "team-people-view", "namespace": "web"},
        "roleRef": {"kind": "ClusterRole", "name": "audit"},
    });
    host.put(&foreign);
    let entries =
        entry(&json!([{"clusterRole": "view", "namespace": "web"}, {"clusterRole": "edit", "namespace": "web"}]));
    assert_eq!(call(&mut host, &definition(&entries)).unwrap(), Outcome::requeue_after(crate::TAKEN_BINDING_RETRY));
    assert_eq!(binding(&host, "web", "team-people-view").unwrap()["roleRef"]["name"], "audit");
    assert!(binding(&host, "web", "team-people-edit").is_some());
    assert!(host.events().iter().any(|it| it.reason == "NameTaken"), "{:?}", host.events());
}

#[test]
fn more_changes_than_fit_are_spread_over_calls() {
    let mut host = cluster();
    for number in 0..400 {
        let metadata = json!({"name": format!("n-{number}"), "labels": {"team": "shop"}});
        host.put(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}));
    }
    let entries = entry(&json!([{"clusterRole": "view", "namespaceSelector": {"matchLabels": {"team": "shop"}}}]));
    assert_eq!(call(&mut host, &definition(&entries)).unwrap(), Outcome::requeue_after(crate::CONTINUATION_DELAY));
    assert_eq!(host.writes().len(), crate::CHANGES_PER_CALL_MAX);
    assert_eq!(call(&mut host, &definition(&entries)).unwrap(), Outcome::Done);
    assert_eq!(host.writes().len(), 401);
}

#[test]
fn a_failure_does_not_keep_the_rest_from_happening() {
    let mut host = cluster();
    host.fail("create", "ServiceAccount", ApiReason::ServerError);
    let entries = json!([{
        "name": "bots", "subjects": [{"kind": "ServiceAccount", "name": "bot", "namespace": "web"}],
        "roleBindings": [{"clusterRole": "edit", "namespace": "web"}],
    }]);
    assert!(call(&mut host, &definition(&entries)).unwrap_err().is(ApiReason::ServerError));
    assert!(binding(&host, "web", "team-bots-edit").is_some());
}

#[test]
fn the_old_binding_stays_if_the_new_one_is_refused() {
    let mut host = cluster();
    let grant = |role: &str| definition(&entry(&json!([{"clusterRole": role, "namespace": "web"}])));
    call(&mut host, &grant("view")).unwrap();
    host.fail("create", "RoleBinding", ApiReason::Forbidden);
    assert!(call(&mut host, &grant("edit")).unwrap_err().is(ApiReason::Forbidden));
    assert!(binding(&host, "web", "team-people-view").is_some());
}

#[test]
fn a_definition_with_a_mistake_changes_nothing() {
    let mut host = cluster();
    let mut entries = entry(&json!([{"clusterRole": "view", "namespace": "web"}]));
    call(&mut host, &definition(&entries)).unwrap();
    host.forget();
    entries[0]["roleBindings"] = json!([{"clusterRole": "view"}]);
    let failures = call(&mut host, &definition(&entries)).unwrap_err();
    assert!(failures.to_string().contains("it has no place"), "{failures}");
    assert_eq!(host.writes(), []);
}
