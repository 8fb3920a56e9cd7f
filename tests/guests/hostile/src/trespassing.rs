//! Attacks on things that are not granted: other namespaces, Secrets, finalizers and children of others, and names that
//! would change the path of a URL.

use windlass_sdk::bindings::windlass::plugin::live::View;
use windlass_sdk::bindings::windlass::plugin::types::{ObjectKind, ObjectRef, Request};
use windlass_sdk::bindings::windlass::plugin::writes::{self, FieldValidation, PatchType, WriteOptions};
use windlass_sdk::bindings::windlass::plugin::{cache, live, owners};

use crate::Answer;
use crate::trials::Trials;

/// The Secret that tests guard. Another namespace has one too.
pub(crate) const GUARDED: &str = "guarded";
const ELSEWHERE: &str = "elsewhere";

/// Names that would change a request's path, query or headers if they were not escaped or refused.
const NAMES: [&str; 12] = [
    "../secrets/guarded",
    "guarded/../../secrets/guarded",
    "..",
    ".",
    "",
    "a?watch=true",
    "a#b",
    "%2e%2e%2fsecrets%2fguarded",
    "a\\b",
    "a\r\nX-Forged: 1",
    "a\0b",
    "\u{ff0e}\u{ff0e}\u{2215}secrets",
];

/// Carries out an attack. `None` if `mode` is not one of these attacks.
pub(crate) fn reconcile(mode: &str, request: &Request) -> Option<Answer> {
    let trials = Trials(mode);
    match mode {
        "reads-secrets" => reads_secrets(&trials),
        "reads-elsewhere" => reads_elsewhere(&trials),
        "writes-secrets" => writes(&trials, "v1", "Secret", None),
        "writes-elsewhere" => writes_elsewhere(&trials),
        "takes-rights" => takes_rights(&trials, request),
        "takes-finalizers" => takes_finalizers(&trials),
        "takes-children" => takes_children(&trials),
        "crafts-names" => crafts_names(&trials),
        _ => return None,
    }
    Some(Ok(trials.end()))
}

fn reads_secrets(trials: &Trials<'_>) {
    let fields = vec!["/data/password".to_owned()];
    trials.of("get", cache::get(&secret(None), None));
    trials.of("field", cache::get(&secret(None), Some(&fields)));
    for answer in cache::get_many(&[secret(None), secret(Some(ELSEWHERE))], None) {
        trials.of("many", answer);
    }
    trials.of("list", cache::list(&everything("v1", "Secret")));
    trials.of("owned", cache::list(&cache::ListQuery { owned: true, ..everything("v1", "Secret") }));
    for kind in ["Secret", "ConfigMap"] {
        let index = cache::IndexMatch { index: "by-password".to_owned(), value: "hunter2".to_owned() };
        let indexed = cache::ListQuery { index: Some(index), ..everything("v1", kind) };
        trials.of(&format!("index-{kind}"), cache::list(&indexed));
    }
    for (name, view) in
        [("live", View::Whole), ("live-metadata", View::Metadata), ("live-fields", View::Fields(fields))]
    {
        trials.of(name, live::get(&secret(None), None, &view));
        trials.of(&format!("{name}-list"), live::list(&live::ListQuery { view, ..everything_live("v1", "Secret") }));
    }
    trials.of("log", live::log(&log_of(ObjectRef { kind: "Pod".to_owned(), ..config_map("shop") })));
}

fn log_of(target: ObjectRef) -> live::LogQuery {
    live::LogQuery { target, container: None, previous: false, tail_lines: None, since_ms: None, limit_bytes: None }
}

fn reads_elsewhere(trials: &Trials<'_>) {
    let map = ObjectRef { namespace: Some(ELSEWHERE.to_owned()), ..config_map(GUARDED) };
    trials.of("get", cache::get(&map, None));
    let there = Some(ELSEWHERE.to_owned());
    trials.of("list", cache::list(&cache::ListQuery { namespace: there.clone(), ..everything("v1", "ConfigMap") }));
    trials.of("live", live::get(&map, None, &View::Whole));
    trials.of("live-list", live::list(&live::ListQuery { namespace: there, ..everything_live("v1", "ConfigMap") }));
    // The caches that this plugin reads also contain objects that other plugins watch.
    trials.of("neighbour", cache::list(&everything("apps/v1", "Deployment")));
    trials.of("namespaces", live::list(&everything_live("v1", "Namespace")));
    trials.of("nodes", live::list(&everything_live("v1", "Node")));
}

/// Tries each kind of write on the guarded object of a kind.
fn writes(trials: &Trials<'_>, version: &str, kind: &str, namespace: Option<&str>) {
    let target = ObjectRef {
        cluster: None,
        api_version: version.to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.map(str::to_owned),
        name: GUARDED.to_owned(),
        uid: None,
    };
    let object = text(version, kind, namespace, GUARDED);
    trials.of("create", writes::create(&text(version, kind, namespace, "planted"), &options()));
    trials.of("update", writes::update(&object, &options()));
    trials.of("apply", writes::apply(&object, &WriteOptions { force: true, ..options() }));
    for (name, of, patch) in [
        ("merge", PatchType::Merge, r#"{"data":{"password":"b3duZWQ="}}"#),
        ("json", PatchType::Json, r#"[{"op":"remove","path":"/data"}]"#),
        ("strategic", PatchType::Strategic, r#"{"data":{"$patch":"delete"}}"#),
        ("moved", PatchType::Merge, r#"{"metadata":{"namespace":"elsewhere","name":"other"}}"#),
    ] {
        trials.of(name, writes::patch(&target, of, patch, &options()));
    }
    trials.of("delete", writes::delete(&target, &delete_options()));
    let kind = ObjectKind { api_version: version.to_owned(), kind: kind.to_owned() };
    let namespace = namespace.map(str::to_owned);
    let all = writes::Collection { kind, namespace, label_selector: None, field_selector: None, all: true };
    trials.of("collection", writes::delete_collection(&all, &delete_options()));
    let delete = writes::DeleteWrite { target, options: delete_options() };
    for answer in writes::batch(&[writes::Operation::Delete(delete)]) {
        trials.of("batch", answer);
    }
}

fn writes_elsewhere(trials: &Trials<'_>) {
    writes(trials, "v1", "ConfigMap", Some(ELSEWHERE));
    writes(trials, "v1", "Namespace", None);
    // The namespace is either only in the reference, or in the body.
    let object = text("v1", "ConfigMap", Some(ELSEWHERE), "planted");
    let owned = WriteOptions { owned: true, ..options() };
    trials.of("owned", writes::create(&object, &owned));
}

fn takes_rights(trials: &Trials<'_>, request: &Request) {
    let role = r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"planted"},
        "roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},
        "subjects":[{"kind":"Group","name":"system:serviceaccounts","apiGroup":"rbac.authorization.k8s.io"}]}"#;
    trials.of("binding", writes::create(role, &options()));
    let account = ObjectRef { kind: "ServiceAccount".to_owned(), ..config_map("default") };
    let token = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"audiences":[]}}"#;
    trials.of("token", writes::create(token, &beneath("token", account)));
    let review = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{"token":"a"}}"#;
    trials.of("review", writes::create(review, &options()));
    let pod = ObjectRef { kind: "Pod".to_owned(), ..config_map("shell") };
    trials.of("exec", writes::create(r#"{"apiVersion":"v1","kind":"PodExecOptions"}"#, &beneath("exec", pod)));
    let namespace = request.namespace.as_deref();
    trials.of("lease", writes::apply(&text("coordination.k8s.io/v1", "Lease", namespace, "windlass"), &options()));
    let definition = text("apiextensions.k8s.io/v1", "CustomResourceDefinition", None, "webapps.apps.kubedojo.io");
    trials.of("definition", writes::update(&definition, &options()));
    let event = text("events.k8s.io/v1", "Event", namespace, "forged");
    trials.of("event", writes::create(&event, &options()));
    let hook = text("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", None, "planted");
    trials.of("webhook", writes::create(&hook, &options()));
}

/// The policy lets this mode patch and update the guarded `ConfigMap`, but not change a finalizer.
fn takes_finalizers(trials: &Trials<'_>) {
    let target = config_map(GUARDED);
    for (name, of, patch) in [
        ("none", PatchType::Merge, r#"{"metadata":{"finalizers":null}}"#),
        ("empty", PatchType::Merge, r#"{"metadata":{"finalizers":[]}}"#),
        ("whole", PatchType::Merge, "null"),
        ("remove", PatchType::Json, r#"[{"op":"remove","path":"/metadata/finalizers/0"}]"#),
        ("replace", PatchType::Json, r#"[{"op":"replace","path":"/metadata","value":{"name":"guarded"}}]"#),
        ("root", PatchType::Json, r#"[{"op":"replace","path":"","value":{"apiVersion":"v1","kind":"ConfigMap"}}]"#),
        ("escaped", PatchType::Json, r#"[{"op":"remove","path":"/metadata/f\u0069nalizers"}]"#),
        ("copied", PatchType::Json, r#"[{"op":"move","from":"/metadata/finalizers","path":"/data/a"}]"#),
        (
            "strategic",
            PatchType::Strategic,
            r#"{"metadata":{"$deleteFromPrimitiveList/finalizers":["neighbour.dev/keep"]}}"#,
        ),
        ("retained", PatchType::Strategic, r#"{"metadata":{"$retainKeys":["name"]}}"#),
        ("added", PatchType::Merge, r#"{"metadata":{"finalizers":["neighbour.dev/keep","windlass.dev/webapp"]}}"#),
    ] {
        trials.of(name, writes::patch(&target, of, patch, &options()));
    }
    trials.of("update", writes::update(&text("v1", "ConfigMap", None, GUARDED), &options()));
}

fn takes_children(trials: &Trials<'_>) {
    for kind in ["ConfigMap", "Secret"] {
        let of = ObjectKind { api_version: "v1".to_owned(), kind: kind.to_owned() };
        trials.of(&format!("claim-{kind}"), owners::claim(&of, ""));
        trials.of(&format!("owned-{kind}"), cache::list(&cache::ListQuery { owned: true, ..everything("v1", kind) }));
    }
    let deployments = ObjectKind { api_version: "apps/v1".to_owned(), kind: "Deployment".to_owned() };
    trials.of("claim-Deployment", owners::claim(&deployments, ""));
    let adopted = r#"{"metadata":{"ownerReferences":null}}"#;
    let deployment =
        ObjectRef { api_version: "apps/v1".to_owned(), kind: "Deployment".to_owned(), ..config_map("shop") };
    trials.of("orphan", writes::patch(&deployment, PatchType::Merge, adopted, &options()));
}

/// The policy lets this mode do everything with `ConfigMap`s of its namespace, so only a check of names can stop it.
fn crafts_names(trials: &Trials<'_>) {
    for name in NAMES {
        let target = config_map(name);
        trials.of("name-get", cache::get(&target, None));
        trials.of("name-live", live::get(&target, None, &View::Whole));
        trials.of("name-patch", writes::patch(&target, PatchType::Merge, "{}", &options()));
        trials.of("name-delete", writes::delete(&target, &delete_options()));
        let there = ObjectRef { namespace: Some(name.to_owned()), ..config_map(GUARDED) };
        trials.of("namespace-live", live::get(&there, None, &View::Whole));
        trials.of("namespace-delete", writes::delete(&there, &delete_options()));
        if !name.is_empty() {
            trials.of("body", writes::update(&text("v1", "ConfigMap", None, &escaped(name)), &options()));
            trials.of(
                "subresource",
                writes::create(&text("v1", "ConfigMap", None, "a"), &beneath(name, config_map("a"))),
            );
        }
        let version = ObjectRef { api_version: format!("v1/{name}"), ..config_map("a") };
        trials.of("version", live::get(&version, None, &View::Whole));
        let kind = ObjectRef { kind: format!("ConfigMap/{name}"), ..config_map("a") };
        trials.of("kind", live::get(&kind, None, &View::Whole));
    }
}

/// A name, escaped for a JSON text.
fn escaped(name: &str) -> String {
    let escape = |character: char| match character {
        '"' | '\\' => format!("\\{character}"),
        control if control.is_control() => format!("\\u{:04x}", u32::from(control)),
        other => other.to_string(),
    };
    name.chars().map(escape).collect()
}

fn text(version: &str, kind: &str, namespace: Option<&str>, name: &str) -> String {
    let namespace = namespace.map(|namespace| format!(r#","namespace":"{namespace}""#)).unwrap_or_default();
    format!(r#"{{"apiVersion":"{version}","kind":"{kind}","metadata":{{"name":"{name}"{namespace}}}}}"#)
}

/// A `ConfigMap` of the primary's namespace.
pub(crate) fn config_map(name: &str) -> ObjectRef {
    let (api_version, kind) = ("v1".to_owned(), "ConfigMap".to_owned());
    ObjectRef { cluster: None, api_version, kind, namespace: None, name: name.to_owned(), uid: None }
}

/// The guarded Secret.
pub(crate) fn secret(namespace: Option<&str>) -> ObjectRef {
    ObjectRef { kind: "Secret".to_owned(), namespace: namespace.map(str::to_owned), ..config_map(GUARDED) }
}

/// All objects of a kind that the cache has, in all namespaces.
pub(crate) fn everything(version: &str, kind: &str) -> cache::ListQuery {
    cache::ListQuery {
        kind: ObjectKind { api_version: version.to_owned(), kind: kind.to_owned() },
        namespace: None,
        label_selector: None,
        index: None,
        owned: false,
        fields: None,
        limit: u32::MAX,
        max_bytes: Some(u32::MAX),
        page_token: None,
    }
}

/// All objects of a kind that the API server has.
pub(crate) fn everything_live(version: &str, kind: &str) -> live::ListQuery {
    live::ListQuery {
        kind: ObjectKind { api_version: version.to_owned(), kind: kind.to_owned() },
        namespace: None,
        label_selector: None,
        field_selector: None,
        view: View::Whole,
        limit: u32::MAX,
        page_token: None,
    }
}

fn beneath(name: &str, parent: ObjectRef) -> WriteOptions {
    let subresource = writes::Subresource { name: name.to_owned(), parent: Some(parent) };
    WriteOptions { subresource: Some(subresource), ..options() }
}

/// The options of a plain write.
pub(crate) fn options() -> WriteOptions {
    WriteOptions {
        subresource: None,
        resource_version: None,
        owned: false,
        force: false,
        dry_run: false,
        field_validation: FieldValidation::Ignore,
        manager_suffix: None,
        fields: None,
    }
}

fn delete_options() -> writes::DeleteOptions {
    writes::DeleteOptions {
        resource_version: None,
        propagation: writes::Propagation::Background,
        grace_period_ms: Some(0),
        dry_run: false,
    }
}
