//! Tests `kindsFrom`: how kinds are read from the configuration, which are refused, and which controllers follow.

use serde_json::{Value, json};
use windlass_manifest::{ConfiguredKinds, EntryPoint, Manifest, OptionalExports};

/// A janitor whose controller also has these fields.
fn janitor(fields: &Value) -> Result<Manifest, String> {
    let mut controller = json!({
        "name": "janitor",
        "primary": {"kindsFrom": "/kinds", "verbs": ["delete"], "projection": {"type": "metadata"}},
    });
    for (field, value) in fields.as_object().expect("fields") {
        controller[field] = value.clone();
    }
    let manifest = json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "PluginManifest", "name": "janitor", "version": "0.1.0",
        "controllers": [controller, {"name": "plain", "primary": {"apiVersion": "v1", "kind": "ConfigMap"}}],
        "config": {"schema": {"type": "object"}},
    });
    Manifest::from_json(&manifest.to_string()).map_err(|error| error.to_string())
}

fn error(fields: &Value) -> String {
    janitor(fields).expect_err("the manifest must be refused")
}

fn related() -> Value {
    json!([{"kindsFrom": "/related", "projection": {"type": "metadata"}, "mapping": {"type": "all"}}])
}

/// Reads the kinds at `/kinds` and `/related`.
fn read(config: &Value) -> Result<ConfiguredKinds, String> {
    read_for(&janitor(&json!({"watches": related()})).expect("valid"), config)
}

fn read_for(manifest: &Manifest, config: &Value) -> Result<ConfiguredKinds, String> {
    ConfiguredKinds::read(&manifest.controllers, config).map_err(|problems| problems.join("; "))
}

/// A list of so many kinds.
fn kinds(count: usize) -> Vec<Value> {
    (0..count).map(|at| kind("v1", &format!("K{at}"))).collect()
}

fn kind(api_version: &str, kind: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind})
}

/// The controllers of a manifest with their watches.
fn shown(manifest: &Manifest) -> Vec<String> {
    let of = |controller: &windlass_manifest::Controller| {
        let watches: Vec<_> = controller.all_watches().map(|watch| watch.object_kind().to_string()).collect();
        format!("{}: {}", controller.name, watches.join(", "))
    };
    manifest.controllers.iter().map(of).collect()
}

#[test]
fn each_configured_kind_becomes_a_controller_or_a_watch() {
    let manifest = janitor(&json!({"watches": related()})).expect("valid");
    let config = json!({
        "kinds": [kind("apps/v1", "Deployment"), kind("v1", "Pod")],
        "related": [kind("v1", "Namespace"), kind("v1", "Node")],
    });
    let filled = manifest.with_kinds(&read(&config).expect("kinds"));
    assert_eq!(
        shown(&filled),
        [
            "janitor.deployment.apps: apps/v1 Deployment, v1 Namespace, v1 Node",
            "janitor.pod: v1 Pod, v1 Namespace, v1 Node",
            "plain: v1 ConfigMap",
        ]
    );
    assert_eq!(filled.controllers[0].primary.specs()[0].to_string(), "apps/v1 Deployment (metadata)");
    assert_eq!(filled.with_kinds(&ConfiguredKinds::default()), filled, "nothing is left to fill in");
}

#[test]
fn a_configuration_that_names_no_kind_leaves_the_other_controllers() {
    let manifest = janitor(&json!({"watches": related()})).expect("valid");
    for config in [json!({}), json!({"kinds": []}), json!({"kinds": null, "related": [kind("v1", "Node")]})] {
        assert_eq!(shown(&manifest.with_kinds(&read(&config).expect("no kinds"))), ["plain: v1 ConfigMap"], "{config}");
    }
}

#[test]
fn a_configured_kind_implies_reading_its_verbs_and_no_status() {
    let manifest = janitor(&json!({})).expect("valid");
    let access = |manifest: &Manifest| -> Vec<String> {
        let implied = manifest.controllers[0].implied_access();
        let text = |it: &windlass_manifest::ImpliedAccess| {
            let subresource = it.subresource.unwrap_or("-");
            format!("{} {subresource} {} {:?}", it.kind, it.verbs.join(","), it.named_at)
        };
        implied.iter().map(text).collect()
    };
    assert_eq!(access(&manifest), [""; 0], "no kind is known");
    let config = json!({"kinds": [kind("apps/v1", "Deployment")]});
    assert_eq!(
        access(&manifest.with_kinds(&read(&config).expect("a kind"))),
        [r#"apps/v1 Deployment - get,list,watch,delete Some("/kinds")"#]
    );
}

#[test]
fn what_is_no_list_of_kinds_is_refused_without_its_values() {
    for (kinds, problem) in [
        (json!("hunter2"), "config/kinds: is not a list of kinds"),
        (json!({"apiVersion": "v1", "kind": "Pod"}), "config/kinds: is not a list of kinds"),
        (json!(["hunter2"]), "config/kinds/0: is not a kind"),
        (json!([kind("v1", "Pod"), {"kind": "hunter2"}]), "config/kinds/1: is not a kind"),
        (json!([{"apiVersion": "v1", "kind": "Pod", "namespace": "hunter2"}]), "config/kinds/0: is not a kind"),
        (json!([kind("v1", "hunter2/../")]), "config/kinds/0: is not a kind"),
        (
            json!([kind("apps/v1", "Deployment"), kind("apps/v2", "Deployment")]),
            "config/kinds/1: is the kind of an earlier",
        ),
        (json!(kinds(65)), "config/kinds: names 65 kinds, but at most 64 are allowed"),
    ] {
        let error = read(&json!({"kinds": kinds})).expect_err("refused");
        assert!(error.starts_with(problem) && !error.contains("hunter2"), "{error}");
    }
    let error = read(&json!({"kinds": 1, "related": 2})).expect_err("refused");
    assert!(error.contains("config/kinds: ") && error.contains("config/related: "), "{error}");
}

#[test]
fn only_metadata_is_kept_of_configured_kinds() {
    let primary = json!({"kindsFrom": "/kinds"});
    let message = error(&json!({"primary": primary}));
    assert!(message.contains("primary.projection") && message.contains("metadata"), "{message}");
}

#[test]
fn a_watch_has_a_kind_or_takes_kinds_from_the_configuration() {
    let metadata = json!({"type": "metadata"});
    let both = json!({"kindsFrom": "/kinds", "apiVersion": "v1", "kind": "Pod", "projection": metadata});
    let neither = json!({"apiVersion": "v1"});
    let verbs = json!({"apiVersion": "v1", "kind": "Pod", "verbs": ["delete"]});
    let each = json!({"kindsFrom": "/kinds/*", "projection": metadata});
    for (primary, problem) in [
        (both, "takes the place of `apiVersion` and `kind`"),
        (neither, "primary: missing field `kind`"),
        (verbs, "only a watch with `kindsFrom` has verbs"),
        (each, "can have no `*`"),
        (json!({"kindsFrom": "kinds", "projection": metadata}), "is not a JSON pointer"),
        (json!({"kindsFrom": "/kinds", "verbs": ["get"], "projection": metadata}), "unknown variant `get`"),
    ] {
        let message = error(&json!({"primary": primary}));
        assert!(message.contains(problem), "{message}");
    }
}

#[test]
fn children_finalizers_and_composers_need_kinds_that_the_manifest_names() {
    let owns = json!([{"kindsFrom": "/kinds", "projection": {"type": "metadata"}}]);
    assert!(error(&json!({"owns": owns})).contains("owns[0].kindsFrom"));
    assert!(error(&json!({"options": {"finalizer": true}})).contains("options.finalizer"));
    let manifest = janitor(&json!({})).expect("valid");
    let exports = OptionalExports { version: "0.3.0", relations: false, matches: false };
    assert!(manifest.check_entry(EntryPoint::Reconciler, exports).is_ok());
    let error = manifest.check_entry(EntryPoint::Composer, exports).expect_err("a composer").to_string();
    assert!(error.contains("only reconcilers"), "{error}");
}

#[test]
fn kinds_need_a_schema_of_the_configuration() {
    let mut manifest = json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "PluginManifest", "name": "a", "version": "0.1.0",
        "controllers": [{"name": "a", "primary": {"kindsFrom": "/kinds", "projection": {"type": "metadata"}}}],
    });
    let error = Manifest::from_json(&manifest.to_string()).expect_err("no schema").to_string();
    assert!(error.starts_with("config: is missing"), "{error}");
    manifest["config"] = json!({"schema": {}});
    assert!(Manifest::from_json(&manifest.to_string()).is_ok());
}

/// All primaries' controllers also watch the other kinds.
#[test]
fn kinds_that_make_too_many_watches_are_refused() {
    let manifest = janitor(&json!({"watches": related()})).expect("valid");
    let read = |count, related| read_for(&manifest, &json!({"kinds": kinds(count), "related": kinds(related)}));
    // Each of the controllers has one watch of its primaries and the related ones. The plain controller has one watch.
    assert!(read(37, 26).is_ok(), "37 × 27 + 1 = 1000");
    assert_eq!(
        read(38, 26).expect_err("38 × 27 + 1"),
        "config: the kinds at /kinds, /related make 1027 watches, counted for each controller and namespace, but at most \
         1000 are allowed: name fewer kinds"
    );
    let namespaces: Vec<_> = (0..16).map(|at| format!("n{at}")).collect();
    let primary = json!({"kindsFrom": "/kinds", "projection": {"type": "metadata"}, "namespaces": namespaces});
    let manifest = janitor(&json!({"primary": primary})).expect("it depends on the configuration");
    assert!(read_for(&manifest, &json!({"kinds": kinds(62)})).is_ok());
    let error = read_for(&manifest, &json!({"kinds": kinds(63)})).expect_err("63 × 16 + 1");
    assert!(error.contains("1009 watches"), "{error}");
}

#[test]
fn kinds_that_make_too_many_workers_are_refused() {
    let read = |workers, count| {
        let manifest = janitor(&json!({"options": {"workers": workers}})).expect("valid");
        read_for(&manifest, &json!({"kinds": kinds(count)}))
    };
    assert!(read(16, 64).is_ok());
    assert!(read(64, 16).is_ok());
    assert_eq!(
        read(64, 17).expect_err("17 × 64"),
        "config: the kinds at /kinds make 1088 workers, but at most 1024 are allowed: name fewer kinds"
    );
}

#[test]
fn a_manifest_without_configured_kinds_has_no_limit_of_workers() {
    let controller =
        |at: usize| json!({"name": format!("c{at}"), "primary": kind("v1", "Pod"), "options": {"workers": 64}});
    let manifest = json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "PluginManifest", "name": "a", "version": "0.1.0",
        "controllers": (0..20).map(controller).collect::<Vec<_>>(),
    });
    let manifest = Manifest::from_json(&manifest.to_string()).expect("valid");
    assert!(read_for(&manifest, &json!({})).is_ok());
}
