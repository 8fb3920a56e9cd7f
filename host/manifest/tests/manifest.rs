//! Which manifests are read, which are refused, and with which messages.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::cache::mapping::Mapping;
use windlass_core::cache::predicate::Predicate;
use windlass_core::cache::watch::{Index, IndexSource, Projection, SelectorForm, WatchSpec};
use windlass_core::clock::Moment;
use windlass_core::object::ObjectKind;
use windlass_core::object::reference::ReferencePath;
use windlass_core::object::selector::ParsedSelector;
use windlass_core::queue::Limiter as _;
use windlass_manifest::{Manifest, ManifestError};

fn minimal() -> Value {
    json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "PluginManifest", "name": "webapp", "version": "0.1.0",
        "controllers": [{"name": "webapp", "primary": {"apiVersion": "apps.kubedojo.io/v1beta1", "kind": "WebApp"}}],
    })
}

/// [`minimal`] with `value` at `pointer`. The parent of `pointer` must exist.
fn with(pointer: &str, value: Value) -> Value {
    let mut manifest = minimal();
    let (parent, field) = pointer.rsplit_once('/').expect("a pointer");
    manifest.pointer_mut(parent).expect("the parent")[field] = value;
    manifest
}

fn read(manifest: &Value) -> Result<Manifest, ManifestError> {
    Manifest::from_json(&manifest.to_string())
}

fn error(manifest: &Value) -> String {
    read(manifest).expect_err("the manifest must be refused").to_string()
}

fn watches(watches: Value) -> Value {
    with("/controllers/0/watches", watches)
}

/// The retry delays in milliseconds of several keys at the same moment, by how often each key has failed.
fn delays<const N: usize>(manifest: &Manifest, failures: [u32; N]) -> [u128; N] {
    let mut limiter = manifest.controllers[0].options.backoff.limiter();
    failures.map(|failures| limiter.delay(failures, Moment::default()).as_millis())
}

#[test]
fn omitted_options_have_the_documented_defaults() {
    let manifest = read(&minimal()).expect("valid");
    let options = &manifest.controllers[0].options;
    assert_eq!((options.workers, options.max_retries), (16, 15));
    assert_eq!(delays(&manifest, [0, 0, 1, 99]), [5, 5, 10, 1_000_000]);
    assert_eq!((options.resync(), options.deadline()), (Duration::from_hours(10), Duration::from_secs(30)));
    assert!(!options.finalizer);
}

#[test]
fn a_partial_backoff_keeps_the_other_defaults() {
    let manifest = read(&with("/controllers/0/options", json!({"backoff": {"baseMs": 100}}))).expect("valid");
    assert_eq!(delays(&manifest, [0, 1, 99]), [100, 200, 1_000_000]);
}

#[test]
fn a_manifest_chooses_how_retries_are_limited() {
    let limited = |backoff: Value| with("/controllers/0/options", json!({"backoff": backoff}));
    let chosen = |backoff: Value| delays(&read(&limited(backoff)).expect("valid"), [0, 1, 4, 4]);
    assert_eq!(chosen(json!({"limiter": "exponential"})), [5, 10, 80, 80]);
    assert_eq!(chosen(json!({"limiter": "tokenBucket", "perSecond": 10, "burst": 1})), [0, 100, 200, 300]);
    assert_eq!(
        chosen(json!({"limiter": "maxOf", "baseMs": 20, "perSecond": 10, "burst": 2})),
        [20, 40, 320, 320],
        "the longer of 20, 40, 320 and 320, and of 0, 0, 100 and 200"
    );
    for (backoff, place) in [
        (json!({"perSecond": 10}), "backoff.perSecond: has no effect"),
        (json!({"limiter": "tokenBucket", "baseMs": 10}), "backoff.baseMs: has no effect"),
        (json!({"limiter": "maxOf", "burst": 0}), "backoff.burst: 0 is not between 1"),
        (json!({"limiter": "fastest"}), "unknown variant `fastest`"),
    ] {
        let message = error(&limited(backoff));
        assert!(message.contains(place), "{message}");
    }
}

#[test]
fn an_unknown_field_is_reported_with_its_place_and_a_guess() {
    let message = error(&with("/controllers/0/options", json!({"worker": 4})));
    assert!(message.starts_with("controllers[0].options"), "{message}");
    assert!(message.contains("unknown field `worker`") && message.contains("did you mean `workers`?"), "{message}");
}

#[test]
fn a_guess_sees_through_snake_case() {
    let message = error(&with("/controllers/0/primary/label_selector", json!("a=b")));
    assert!(message.contains("did you mean `labelSelector`?"), "{message}");
}

#[test]
fn no_guess_is_made_if_no_known_field_is_similar() {
    let message = error(&with("/colour", json!("green")));
    assert!(message.contains("unknown field `colour`") && !message.contains("did you mean"), "{message}");
}

#[test]
fn an_unknown_mapping_is_reported_with_its_place_and_a_guess() {
    let watch = json!([{"apiVersion": "v1", "kind": "Secret", "mapping": {"type": "samename"}}]);
    let message = error(&watches(watch));
    assert!(message.starts_with("controllers[0].watches[0].mapping"), "{message}");
    assert!(message.contains("did you mean `sameName`?"), "{message}");
}

#[test]
fn unknown_fields_are_refused_in_every_variant() {
    for mapping in [json!({"type": "owner", "key": "x"}), json!({"type": "label", "key": "x", "value": "y"})] {
        let watch = json!([{"apiVersion": "v1", "kind": "Secret", "mapping": mapping}]);
        assert!(error(&watches(watch)).contains("unknown field"), "{mapping}");
    }
    for mapping in ["sameName", "all", "mapper", "customize"] {
        let watch = json!([{"apiVersion": "v1", "kind": "Secret", "mapping": {"type": mapping, "index": "x"}}]);
        assert!(error(&watches(watch)).contains("unknown field `index`, there are no fields"), "{mapping}");
    }
    let primary = |field: &str, value: Value| error(&with(&format!("/controllers/0/primary/{field}"), value));
    for projection in ["full", "metadata"] {
        assert!(primary("projection", json!({"type": projection, "pointers": []})).contains("unknown field"));
    }
    for predicate in ["generation", "labels", "annotations"] {
        assert!(primary("predicates", json!([{"type": predicate, "pointers": []}])).contains("unknown field"));
    }
    for source in [json!({"type": "label", "pointer": "/a"}), json!({"type": "field", "pointer": "/a", "key": "a"})] {
        assert!(primary("indexes", json!([{"name": "a", "source": source}])).contains("unknown field"), "{source}");
    }
}

#[test]
fn a_manifest_cannot_map_a_watch_to_its_own_objects() {
    let watch = json!([{"apiVersion": "v1", "kind": "Secret", "mapping": {"type": "itself"}}]);
    assert!(error(&watches(watch)).contains("unknown variant `itself`"));
}

#[test]
fn missing_fields_and_wrong_types_are_reported_with_their_place() {
    let message = error(&with("/controllers/0/primary", json!({"apiVersion": "v1"})));
    assert!(message.contains("controllers[0].primary") && message.contains("missing field `kind`"), "{message}");
    let message = error(&with("/controllers/0/options", json!({"workers": "four"})));
    assert!(message.contains("controllers[0].options.workers") && message.contains("invalid type"), "{message}");
}

#[test]
fn another_version_is_reported_before_any_other_problem() {
    let mut manifest = with("/apiVersion", json!("windlass.dev/v2"));
    manifest["newField"] = json!(1);
    let message = error(&manifest);
    assert!(message.contains("windlass.dev/v2") && message.contains("windlass.dev/v1alpha1"), "{message}");
    assert!(matches!(read(&json!([])), Err(ManifestError::OtherKind { .. })));
    assert!(matches!(Manifest::from_json("{"), Err(ManifestError::NotJson(_))));
}

#[test]
fn all_problems_are_listed_at_once() {
    let mut manifest = with("/name", json!("Web App"));
    manifest["version"] = json!("one");
    manifest["controllers"][0]["options"] = json!({"workers": 0, "resyncMs": 3_000_000_000_u32});
    let Err(ManifestError::Invalid(problems)) = read(&manifest) else { panic!("must be refused") };
    let places: Vec<&str> = problems.iter().filter_map(|problem| problem.split(':').next()).collect();
    assert_eq!(places, ["name", "version", "controllers[0].options.workers", "controllers[0].options.resyncMs"]);
}

#[test]
fn a_permission_has_verbs_that_fit_its_resources() {
    let asks = |group: &str, resource: &str, verb: &str| {
        with("/permissions", json!([{"apiGroups": [group], "resources": [resource], "verbs": ["get", verb]}]))
    };
    let rbac = "rbac.authorization.k8s.io";
    for (group, resource, verb) in [
        ("apps", "deployments", "*"),
        ("certificates.k8s.io", "signers", "approve"),
        (rbac, "clusterroles", "bind"),
        (rbac, "roles", "escalate"),
    ] {
        assert!(read(&asks(group, resource, verb)).is_ok(), "{verb}");
    }
    for (group, resource, verb, words) in [
        ("apps", "deployments", "use", "`use` is not a verb of the Kubernetes API"),
        ("", "users", "impersonate", "`impersonate` is not a verb of the Kubernetes API"),
        (rbac, "rolebindings", "bind", "`bind` is only for roles and clusterroles of rbac.authorization.k8s.io"),
        ("", "signers", "approve", "`approve` is only for signers of certificates.k8s.io: ask for it in a permission"),
    ] {
        let said = error(&asks(group, resource, verb));
        assert!(said.contains(words) && said.contains("permissions[0].verbs"), "{said}");
    }
}

#[test]
fn controllers_need_different_names() {
    let mut manifest = minimal();
    let twin = manifest["controllers"][0].clone();
    manifest["controllers"].as_array_mut().expect("a list").push(twin);
    assert_eq!(error(&manifest), "controllers: `webapp` appears twice");
    assert!(error(&with("/controllers", json!([]))).contains("at least one"));
}

#[test]
fn only_entries_of_watches_have_a_mapping_and_they_need_one() {
    let mapping = json!({"type": "owner"});
    let primary = with("/controllers/0/primary/mapping", mapping);
    assert!(error(&primary).contains("controllers[0].primary.mapping"));
    let watch = watches(json!([{"apiVersion": "v1", "kind": "Secret"}]));
    assert!(error(&watch).contains("controllers[0].watches[0]: needs a `mapping`"));
}

#[test]
fn a_mapping_by_references_needs_an_index_of_the_primary() {
    let watch =
        json!([{"apiVersion": "v1", "kind": "Secret", "mapping": {"type": "referencedBy", "index": "by-secret"}}]);
    let mut manifest = watches(watch);
    assert!(error(&manifest).contains("declares no index `by-secret`"));
    manifest["controllers"][0]["primary"]["indexes"] =
        json!([{"name": "by-secret", "source": {"type": "field", "pointer": "/spec/secret"}}]);
    let manifest = read(&manifest).expect("valid");
    let controller = &manifest.controllers[0];
    assert_eq!(controller.watches[0].mapping, Some(Mapping::ReferencedBy("by-secret".into())));
    let source = Index::source(&controller.primary.indexes, "by-secret");
    assert_eq!(source, Some(&IndexSource::Field("/spec/secret".into())));
}

#[test]
fn the_fields_projection_also_keeps_what_the_host_reads() {
    let watch = json!([{
        "apiVersion": "v1", "kind": "Secret", "mapping": {"type": "field", "pointer": "/data/app"},
        "predicates": [{"type": "fields", "pointers": ["/type"]}],
        "indexes": [{"name": "by-b", "source": {"type": "field", "pointer": "/data/b"}},
            {"name": "by-app", "source": {"type": "label", "key": "app"}}],
        "projection": {"type": "fields", "pointers": ["/data/c", "/type"]},
    }]);
    let manifest = read(&watches(watch)).expect("valid");
    let watch = &manifest.controllers[0].watches[0];
    let kept = ["/data/app", "/data/b", "/data/c", "/type"].map(Into::into);
    assert_eq!(watch.specs()[0].projection, Projection::fields(kept));
    let index = |name: &str, source| Index { name: name.into(), source };
    let indexes =
        [index("by-b", IndexSource::Field("/data/b".into())), index("by-app", IndexSource::Label("app".into()))];
    assert_eq!(watch.indexes, indexes);
}

#[test]
fn a_watch_of_metadata_cannot_map_by_other_fields() {
    let watch = |pointer: &str| {
        let mapping = json!({"type": "field", "pointer": pointer});
        let projection = json!({"type": "metadata"});
        watches(json!([{"apiVersion": "v1", "kind": "Secret", "mapping": mapping, "projection": projection}]))
    };
    assert!(read(&watch("/metadata/annotations/app")).is_ok());
    let message = error(&watch("/data/app"));
    assert!(message.contains("watches[0].projection") && message.contains("/data/app"), "{message}");
    assert!(error(&watch("/a~b")).contains("not a JSON pointer"));
}

#[test]
fn ten_thousand_watches_are_refused() {
    let namespaces: Vec<String> = (0..200).map(|index| format!("ns-{index}")).collect();
    let owned: Vec<Value> =
        (0..50).map(|_| json!({"apiVersion": "v1", "kind": "Secret", "namespaces": namespaces})).collect();
    assert!(error(&with("/controllers/0/owns", json!(owned))).contains("10001 watches"));
}

#[test]
fn thousands_of_problems_are_summed_up() {
    let namespaces = vec!["NO"; 5000];
    let message = error(&with("/controllers/0/primary/namespaces", json!(namespaces)));
    assert!(message.len() < 10_000 && message.contains("more problems"), "{} bytes", message.len());
}

#[test]
fn each_listed_namespace_becomes_a_watch() {
    let manifest = with("/controllers/0/primary/namespaces", json!(["a", "b"]));
    let specs = read(&manifest).expect("valid").controllers[0].primary.specs();
    let shown: Vec<String> = specs.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["apps.kubedojo.io/v1beta1 WebApp in a", "apps.kubedojo.io/v1beta1 WebApp in b"]);
    assert_eq!(read(&minimal()).expect("valid").controllers[0].primary.specs().len(), 1);
}

#[test]
fn mappings_and_predicates_are_read_into_the_types_of_core() {
    let watch = json!([{
        "apiVersion": "v1", "kind": "Secret", "mapping": {"type": "field", "pointer": "/data/app"},
        "predicates": [{"type": "generation"}, {"type": "fields", "pointers": ["/data"]}],
    }]);
    let manifest = read(&watches(watch)).expect("valid");
    let watch = &manifest.controllers[0].watches[0];
    assert_eq!(watch.mapping, Some(Mapping::Field("/data/app".into())));
    assert_eq!(watch.predicates, [Predicate::Generation, Predicate::Fields(vec!["/data".into()])]);
}

/// A watch of Secrets with these additional fields.
fn secrets(fields: &Value) -> Value {
    let mut watch = json!({"apiVersion": "v1", "kind": "Secret", "mapping": {"type": "sameName"}});
    for (field, value) in fields.as_object().expect("fields") {
        watch[field] = value.clone();
    }
    watches(json!([watch]))
}

#[test]
fn predicates_may_be_nested() {
    let predicates = json!([{"type": "and", "predicates": [
        {"type": "fields", "pointers": ["/data/*/name"]},
        {"type": "not", "predicate": {"type": "labels"}},
    ]}]);
    let slim = json!({"type": "fields", "pointers": ["/type"]});
    let manifest = read(&secrets(&json!({"predicates": predicates, "projection": slim}))).expect("valid");
    let watch = &manifest.controllers[0].watches[0];
    let not_labels = Predicate::Not(Box::new(Predicate::Labels));
    let and = Predicate::And(vec![Predicate::Fields(vec!["/data/*/name".into()]), not_labels]);
    assert_eq!(watch.predicates, [and]);
    let kept = ["/data/*/name", "/type"].map(Into::into);
    assert_eq!(watch.specs()[0].projection, Projection::fields(kept), "the cache keeps what a nested predicate reads");
    let message = error(&secrets(&json!({"predicates": predicates, "projection": {"type": "metadata"}})));
    assert!(message.contains("`metadata` leaves out `/data/*/name`"), "{message}");
}

#[test]
fn wrong_predicates_are_refused_with_their_place() {
    let nested = |depth: usize| {
        let inner = json!({"type": "labels"});
        (1..depth).fold(inner, |inner, _| json!({"type": "not", "predicate": inner}))
    };
    read(&secrets(&json!({"predicates": [nested(8)]}))).expect("eight deep");
    let message = error(&secrets(&json!({"predicates": [nested(9)]})));
    assert!(message.contains("watches[0].predicates[0].predicate.predicate"), "{message}");
    assert!(message.contains("nested only 8 levels deep"), "{message}");
    for (predicate, wanted) in [
        (json!({"type": "and", "predicates": []}), "predicates[0].predicates: needs at least one predicate"),
        (json!({"type": "not", "predicate": {"type": "fields", "pointers": ["x"]}}), "predicate.pointers: `x` is not"),
        (json!({"type": "not", "predicates": [{"type": "labels"}]}), "did you mean `predicate`?"),
        (json!({"type": "or", "predicates": [{"type": "labels"}]}), "unknown variant `or`"),
    ] {
        let message = error(&secrets(&json!({"predicates": [predicate]})));
        assert!(message.contains(wanted), "{message}");
    }
}

#[test]
fn deletions_can_be_ignored_except_for_primaries() {
    let manifest = read(&secrets(&json!({"deleted": false}))).expect("valid");
    let controller = &manifest.controllers[0];
    assert!(controller.primary.deleted && !controller.watches[0].deleted);
    let message = error(&with("/controllers/0/primary/deleted", json!(false)));
    assert!(message.starts_with("controllers[0].primary.deleted: a deleted primary is always reconciled"), "{message}");
}

#[test]
fn a_watch_can_ask_that_every_write_is_sent() {
    let manifest = read(&secrets(&json!({"noOpSkip": false}))).expect("valid");
    let sent: Vec<_> = manifest.controllers[0].always_sent().collect();
    assert_eq!(sent, [ObjectKind::new("v1", "Secret")]);
    assert_eq!(read(&minimal()).expect("valid").controllers[0].always_sent().count(), 0);
}

#[test]
fn watches_of_a_controller_need_different_names() {
    let named = |primary: &str, watch: &str| {
        let mut manifest = secrets(&json!({"name": watch}));
        manifest["controllers"][0]["primary"]["name"] = json!(primary);
        manifest
    };
    let manifest = read(&named("apps", "secrets")).expect("valid");
    assert_eq!(manifest.controllers[0].watches[0].name.as_deref(), Some("secrets"));
    let message = error(&named("apps", "apps"));
    assert!(
        message.starts_with("controllers[0].watches[0].name: `apps` is also the name of another watch"),
        "{message}"
    );
    assert!(error(&named("Apps", "secrets")).contains("primary.name: `Apps` is not a DNS label"));
}

#[test]
fn a_reference_takes_namespace_and_name_from_one_place() {
    let reference = json!({"type": "reference", "base": "/spec/refs/*", "namespace": "/ns", "name": "/name"});
    let mut manifest = secrets(&json!({"mapping": reference, "projection": {"type": "fields", "pointers": ["/type"]}}));
    manifest["controllers"][0]["primary"]["indexes"] = json!([{"name": "refs", "source": reference}]);
    let manifest = read(&manifest).expect("valid");
    let (controller, path) = (
        &manifest.controllers[0],
        ReferencePath { base: "/spec/refs/*".into(), namespace: Some("/ns".into()), name: "/name".into() },
    );
    let source = Index::source(&controller.primary.indexes, "refs");
    assert_eq!(source, Some(&IndexSource::Reference(path.clone())));
    let watch = &controller.watches[0];
    assert_eq!(watch.mapping, Some(Mapping::Reference(path)));
    let kept = ["/spec/refs/*/name", "/spec/refs/*/ns", "/type"].map(Into::into);
    assert_eq!(watch.specs()[0].projection, Projection::fields(kept));
    for (mapping, wanted) in [
        (
            json!({"type": "reference", "name": "/refs/*/name"}),
            "mapping.name: `/refs/*/name` leads to more than one value",
        ),
        (json!({"type": "reference", "base": "spec", "name": "/name"}), "mapping.base: `spec` is not a JSON pointer"),
        (json!({"type": "reference", "base": "/spec"}), "missing field `name`"),
    ] {
        let message = error(&secrets(&json!({"mapping": mapping})));
        assert!(message.contains(wanted), "{message}");
    }
}

#[test]
fn a_mapping_by_selectors_needs_an_index_of_selectors() {
    let mapped = |mapping: &str, source: &Value| {
        let mut manifest = secrets(&json!({"mapping": {"type": mapping, "index": "i"}}));
        manifest["controllers"][0]["primary"]["indexes"] = json!([{"name": "i", "source": source}]);
        manifest
    };
    let selector = json!({"type": "selector", "pointer": "/spec/selector"});
    let manifest = read(&mapped("selectedBy", &selector)).expect("valid");
    let controller = &manifest.controllers[0];
    assert_eq!(controller.watches[0].mapping, Some(Mapping::SelectedBy("i".into())));
    let source = |form| IndexSource::Selector { pointer: "/spec/selector".into(), form };
    let declared = Index::source(&controller.primary.indexes, "i");
    assert_eq!(declared, Some(&source(SelectorForm::LabelSelector)));
    let labels = json!({"type": "selector", "pointer": "/spec/selector", "form": "labels"});
    let manifest = read(&mapped("selectedBy", &labels)).expect("valid");
    let declared = Index::source(&manifest.controllers[0].primary.indexes, "i");
    assert_eq!(declared, Some(&source(SelectorForm::Labels)));
    let message = error(&mapped("referencedBy", &selector));
    assert!(message.contains("watches[0].mapping.index") && message.contains("map by `selectedBy`"), "{message}");
    let message = error(&mapped("selectedBy", &json!({"type": "label", "key": "app"})));
    assert!(message.contains("has no selectors") && message.contains("map by `referencedBy`"), "{message}");
}

#[test]
fn a_malformed_selector_is_refused_with_its_place() {
    let watching = |field: &str, selector: &str| {
        let mut pods = json!({"apiVersion": "v1", "kind": "Pod", "mapping": {"type": "all"}});
        let (mut secrets, all) = (pods.clone(), pods.clone());
        secrets["kind"] = "Secret".into();
        pods[field] = selector.into();
        watches(json!([secrets, all, pods]))
    };
    for (field, selector, problem) in [
        ("labelSelector", "app in front", r#"in the label selector "app in front": expected '(', found "front""#),
        ("labelSelector", "a=b,", r#"in the label selector "a=b,": expected a label key"#),
        ("fieldSelector", "phase", r#"in the field selector "phase": "phase" is not like field=value"#),
    ] {
        let message = error(&watching(field, selector));
        assert!(message.starts_with(&format!("controllers[0].watches[2].{field}: {problem}")), "{message}");
    }
    for (place, selector) in [("primary", "a in"), ("owns[0]", "=")] {
        let kind = json!({"apiVersion": "v1", "kind": "Secret", "labelSelector": selector});
        let field = if place == "primary" { ("primary", kind) } else { ("owns", json!([kind])) };
        let message = error(&with(&format!("/controllers/0/{}", field.0), field.1));
        assert!(message.starts_with(&format!("controllers[0].{place}.labelSelector: ")), "{message}");
    }
}

#[test]
fn the_watch_has_the_selectors_byte_for_byte() {
    let spec = |labels: &str, fields: &str| {
        let pods = json!({"apiVersion": "v1", "kind": "Pod", "labelSelector": labels, "fieldSelector": fields});
        let manifest = read(&with("/controllers/0/primary", pods)).expect("valid");
        manifest.controllers[0].primary.specs().remove(0)
    };
    let written = spec("tier in ( front,back ),  app = web", "status.phase!=Failed,,spec.nodeName=a");
    let texts = (
        written.label_selector.as_ref().map(ParsedSelector::text),
        written.field_selector.as_ref().map(ParsedSelector::text),
    );
    assert_eq!(texts, (Some("tier in ( front,back ),  app = web"), Some("status.phase!=Failed,,spec.nodeName=a")));
    assert_eq!(spec("", ""), WatchSpec::all(ObjectKind::new("v1", "Pod")), "empty selectors are left out");
}

#[test]
fn watching_and_owning_imply_access() {
    let owned = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "namespaces": ["prod"]}]);
    let manifest = read(&with("/controllers/0/owns", owned)).expect("valid");
    let shown: Vec<String> = manifest.controllers[0]
        .implied_access()
        .iter()
        .map(|access| {
            let subresource = access.subresource.unwrap_or("-");
            format!("{} {subresource} {} {:?}", access.kind.kind, access.verbs.join(","), access.namespaces)
        })
        .collect();
    assert_eq!(
        shown,
        [
            "WebApp - get,list,watch []",
            "WebApp status get,update,patch []",
            r#"Deployment - get,list,watch,create,update,patch,delete ["prod"]"#,
        ]
    );
}

#[test]
fn a_primary_of_a_kind_without_status_asks_for_no_status() {
    let secrets = json!({"apiVersion": "v1", "kind": "Secret"});
    let manifest = read(&with("/controllers/0/primary", secrets)).expect("valid");
    let access = manifest.controllers[0].implied_access();
    assert!(access.iter().all(|access| access.subresource.is_none()), "{access:?}");
}

/// A definition of this name, group and plural, with these annotations.
fn definition(name: &str, group: &str, plural: &str, annotations: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"group": group, "names": {"plural": plural, "kind": "Widget"}},
    })
}

#[test]
fn the_name_of_a_definition_is_its_plural_and_its_group() {
    let right = definition("widgets.e.com", "e.com", "widgets", &json!({}));
    let manifest = read(&with("/crds", json!([right]))).expect("valid");
    assert_eq!(manifest.crd_names().collect::<Vec<_>>(), ["widgets.e.com"]);
    let wrong = definition("widget.e.com", "e.com", "widgets", &json!({}));
    let message = error(&with("/crds", json!([wrong])));
    assert!(message.contains("crds[0].metadata.name") && message.contains("widgets.e.com"), "{message}");
    assert!(error(&with("/crds", json!([right, right]))).contains("appears twice"));
}

#[test]
fn a_definition_in_a_group_of_kubernetes_needs_an_approval() {
    let approval = json!({"api-approved.kubernetes.io": "https://example.com/1"});
    for group in ["k8s.io", "storage.k8s.io", "x.kubernetes.io"] {
        let name = format!("widgets.{group}");
        let message = error(&with("/crds", json!([definition(&name, group, "widgets", &json!({}))])));
        assert!(message.contains("api-approved.kubernetes.io"), "{message}");
        read(&with("/crds", json!([definition(&name, group, "widgets", &approval)]))).expect("approved");
    }
    let name = "widgets.notk8s.io";
    read(&with("/crds", json!([definition(name, "notk8s.io", "widgets", &json!({}))])))
        .expect("not a group of Kubernetes");
}

#[test]
fn two_controllers_cannot_keep_one_finalizer_on_the_same_kind() {
    let keeping = |name: &str, kind: &str, finalizer: bool| json!({"name": name, "primary": {"apiVersion": "v1", "kind": kind}, "options": {"finalizer": finalizer}});
    let controllers = |second: Value| with("/controllers", json!([keeping("a", "Secret", true), second]));
    read(&controllers(keeping("b", "Secret", false))).expect("only one controller keeps it");
    read(&controllers(keeping("b", "ConfigMap", true))).expect("another kind");
    let message = error(&controllers(keeping("b", "Secret", true)));
    assert!(message.contains("controllers[1].options.finalizer") && message.contains("`a`"), "{message}");
}

#[test]
fn reserved_labels_of_metrics_are_refused() {
    for label in ["plugin", "le", "__name__"] {
        let metric = json!([{"name": "a", "type": "gauge", "help": "a", "labels": [label]}]);
        let error = read(&with("/metrics", metric)).expect_err("reserved").to_string();
        assert!(error.contains("metrics[0].labels") && error.contains("reserved"), "{error}");
    }
}

#[test]
fn an_http_rule_needs_a_host_or_an_address_and_methods() {
    let rule = |host: &str, method: &str| {
        read(&with("/http", json!([{"scheme": "https", "host": host, "methods": [method]}])))
    };
    for host in ["*.example.com", "10.0.0.1", "[fd00::1]"] {
        rule(host, "GET").expect("valid");
    }
    for (host, method) in [
        ("a/b", "GET"),
        ("[::", "GET"),
        ("a:80", "GET"),
        ("127.1", "GET"),
        ("1.2.3.4.5", "GET"),
        ("a", "CONNECT"),
        ("a", "get it"),
    ] {
        assert!(rule(host, method).is_err(), "{host} {method}");
    }
}

#[test]
fn each_pointer_of_a_manifest_has_a_limited_depth() {
    let deep = "/a".repeat(65);
    let half = "/a".repeat(33);
    let pointers = json!({"type": "fields", "pointers": [deep]});
    let field = json!({"type": "field", "pointer": deep});
    let index = |source: Value| json!([{"name": "i", "source": source}]);
    let reference = json!({"type": "reference", "base": half, "name": half});
    let watches = [
        (json!({"where": [{"field": deep, "exists": true}]}), "where[0].field"),
        (json!({"where": [{"any": [{"field": deep, "exists": true}]}]}), "where[0].any[0].field"),
        (json!({"projection": pointers}), "projection.pointers"),
        (json!({"projection": {"type": "digest", "pointers": [deep]}}), "projection.pointers"),
        (json!({"indexes": index(field.clone())}), "indexes[0].source.pointer"),
        (json!({"indexes": index(json!({"type": "selector", "pointer": deep}))}), "indexes[0].source.pointer"),
        (json!({"indexes": index(reference.clone())}), "indexes[0].source.name"),
        (json!({"predicates": [pointers]}), "predicates[0].pointers"),
        (json!({"predicates": [{"type": "not", "predicate": pointers}]}), "predicates[0].predicate.pointers"),
        (json!({"mapping": field}), "mapping.pointer"),
        (json!({"mapping": reference}), "mapping.name"),
        (json!({"mapping": {"type": "reference", "base": deep, "name": "/a"}}), "mapping.base"),
        (json!({"mapping": {"type": "reference", "name": "/a", "namespace": deep}}), "mapping.namespace"),
    ];
    for (watch, place) in watches {
        let mut fields = watch;
        fields["mapping"] = fields.get("mapping").cloned().unwrap_or(json!({"type": "sameName"}));
        let message = error(&secrets(&fields));
        let is_deep =
            |line: &str| line.contains(&format!("watches[0].{place}: ")) && line.contains("segments, but at most 64");
        assert!(message.lines().any(is_deep), "{place}: {message}");
    }
    let deepest = json!({"type": "fields", "pointers": ["/a".repeat(64)]});
    assert!(read(&secrets(&json!({"mapping": {"type": "sameName"}, "predicates": [deepest]}))).is_ok());
}
