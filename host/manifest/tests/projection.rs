//! Which parts of objects watches keep: digests and managed fields. Which manifests are refused.

use serde_json::{Value, json};
use windlass_core::cache::watch::Projection;
use windlass_manifest::Manifest;

fn primary(fields: &Value) -> Result<Manifest, String> {
    let mut primary = json!({"apiVersion": "v1", "kind": "Secret"});
    for (field, value) in fields.as_object().expect("fields") {
        primary[field] = value.clone();
    }
    let manifest = json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "PluginManifest", "name": "reloader", "version": "0.1.0",
        "controllers": [{"name": "reloader", "primary": primary}],
    });
    Manifest::from_json(&manifest.to_string()).map_err(|error| error.to_string())
}

fn digest(pointers: &Value, predicate: &str) -> Result<Manifest, String> {
    primary(&json!({
        "projection": {"type": "digest", "pointers": pointers},
        "predicates": [{"type": "fields", "pointers": [predicate]}],
    }))
}

#[test]
fn a_digest_has_its_pointers_in_one_order_and_is_part_of_the_cache() {
    let manifest = digest(&json!(["/data", "/binaryData", "/data"]), "/digest").expect("valid");
    let [spec] = &*manifest.controllers[0].primary.specs() else { panic!("one cache") };
    assert_eq!(spec.projection, Projection::Digest(["/binaryData".into(), "/data".into()].into()));
    assert_eq!(spec.to_string(), "v1 Secret (digest of /binaryData, /data)");
}

#[test]
fn a_digest_leaves_out_what_the_host_reads_elsewhere() {
    assert!(digest(&json!(["/data"]), "/metadata/labels").is_ok());
    for read in ["/data", "/digest/x", "/digestion"] {
        let message = digest(&json!(["/data"]), read).expect_err("it is not kept");
        let expected =
            format!("controllers[0].primary.projection: `digest` leaves out `{read}`, which this watch reads");
        assert!(message.starts_with(&expected), "{message}");
    }
    let message = digest(&json!([]), "/digest").expect_err("there is nothing to digest");
    assert!(message.contains("projection.pointers: needs at least one JSON pointer"), "{message}");
    assert!(digest(&json!(["data"]), "/digest").expect_err("no pointer").contains("is not a JSON pointer"));
}

#[test]
fn the_cache_keeps_what_calls_receive() {
    let fields =
        |pointers: Value, projection: Value| primary(&json!({"callFields": pointers, "projection": projection}));
    let some = json!({"type": "fields", "pointers": ["/type"]});
    let manifest = fields(json!(["/data/a"]), some).expect("valid");
    let [spec] = &*manifest.controllers[0].primary.specs() else { panic!("one cache") };
    assert_eq!(spec.to_string(), "v1 Secret (/data/a, /type)");
    let metadata = json!({"type": "metadata"});
    assert!(fields(json!(["/metadata", "/metadata/labels"]), metadata.clone()).is_ok());
    let message = fields(json!(["/data"]), metadata).expect_err("it is not kept");
    assert!(message.contains("projection: `metadata` leaves out `/data`"), "{message}");
    assert!(fields(json!([]), json!({"type": "full"})).is_ok(), "what identifies the object is enough");
    let message = fields(json!(["data"]), json!({"type": "full"})).expect_err("no pointer");
    assert!(message.contains("controllers[0].primary.callFields: `data` is not a JSON pointer"), "{message}");
}

#[test]
fn code_distinguishes_the_watches_that_it_decides_about_by_name() {
    let message = primary(&json!({"codePredicate": true})).expect_err("it has no name");
    assert!(message.starts_with("controllers[0].primary.name: is missing"), "{message}");
    assert!(primary(&json!({"codePredicate": true, "name": "secrets"})).is_ok());
}

#[test]
fn managed_fields_are_kept_on_request() {
    let spec = |fields: Value| primary(&fields).expect("valid").controllers[0].primary.specs().remove(0);
    assert!(!spec(json!({})).managed_fields);
    let kept = spec(json!({"managedFields": true, "projection": {"type": "metadata"}}));
    assert!(kept.managed_fields && kept.to_string() == "v1 Secret (metadata) with managedFields", "{kept}");
    let message = primary(&json!({"managedFields": "yes"})).expect_err("not a boolean");
    assert!(message.starts_with("controllers[0].primary.managedFields: invalid type"), "{message}");
}
