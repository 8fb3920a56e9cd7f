//! How manifests write indexes, mappings and options of controllers, and what follows from them.

use serde_json::{Value, json};
use windlass_core::cache::mapping::Mapping;
use windlass_core::cache::watch::{Index, IndexSource, SelectorForm};
use windlass_manifest::{Controller, Manifest, ManifestError};

/// A controller of Deployments with these fields.
fn controller(fields: &Value) -> Result<Controller, ManifestError> {
    let mut manifest = json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "PluginManifest", "name": "a", "version": "0.1.0",
        "controllers": [{"name": "a", "primary": {"apiVersion": "apps/v1", "kind": "Deployment"}}],
    });
    for (field, value) in fields.as_object().expect("fields") {
        manifest["controllers"][0][field] = value.clone();
    }
    Manifest::from_json(&manifest.to_string()).map(|manifest| manifest.controllers[0].clone())
}

fn indexed(source: &Value, projection: &Value) -> Result<Controller, ManifestError> {
    let indexes = json!([{"name": "i", "source": source}]);
    controller(&json!({
        "primary": {"apiVersion": "apps/v1", "kind": "Deployment", "indexes": indexes, "projection": projection},
    }))
}

fn source(declared: &Value) -> Result<IndexSource, String> {
    let controller = indexed(declared, &json!({"type": "metadata"})).map_err(|error| error.to_string())?;
    Ok(Index::source(&controller.primary.indexes, "i").expect("it is declared").clone())
}

#[test]
fn an_index_over_an_annotation_may_split_it() {
    let key = "configmap.reloader.stakater.com/reload";
    let whole = IndexSource::Annotation { key: key.into(), split: None };
    assert_eq!(source(&json!({"type": "annotation", "key": key})), Ok(whole));
    let parts = IndexSource::Annotation { key: key.into(), split: Some(',') };
    assert_eq!(source(&json!({"type": "annotation", "key": key, "split": ","})), Ok(parts));
    for (wrong, message) in [
        (json!({"type": "annotation", "key": ""}), "controllers[0].primary.indexes[0].source.key: is empty"),
        (json!({"type": "annotation", "split": ","}), "controllers[0].primary.indexes[0].source: missing field `key`"),
        (json!({"type": "annotation", "key": key, "split": ", "}), "controllers[0].primary.indexes[0].source"),
        (json!({"type": "annotation", "key": key, "split": ""}), "controllers[0].primary.indexes[0].source"),
        (json!({"type": "annotation", "key": key, "splits": ","}), "did you mean `split`?"),
        (json!({"type": "label", "key": key, "split": ","}), "controllers[0].primary.indexes[0].source"),
    ] {
        let error = source(&wrong).expect_err("it is wrong");
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn an_index_over_an_annotation_holds_names_for_mappings() {
    let mapped = |mapping: &str| {
        controller(&json!({
            "primary": {
                "apiVersion": "apps/v1", "kind": "Deployment",
                "indexes": [{"name": "i", "source": {"type": "annotation", "key": "e.com/uses", "split": ","}}],
            },
            "watches": [{"apiVersion": "v1", "kind": "ConfigMap", "mapping": {"type": mapping, "index": "i"}}],
        }))
    };
    assert!(mapped("referencedBy").is_ok());
    let error = mapped("selectedBy").expect_err("it has no selectors").to_string();
    assert!(error.contains("watches[0].mapping.index") && error.contains("map by `referencedBy`"), "{error}");
}

#[test]
fn a_selector_may_be_a_text() {
    let text = json!({"type": "selector", "pointer": "/metadata/annotations/e.com~1selector", "form": "text"});
    let pointer = "/metadata/annotations/e.com~1selector".into();
    assert_eq!(source(&text), Ok(IndexSource::Selector { pointer, form: SelectorForm::Text }));
}

#[test]
fn a_watch_may_be_mapped_by_any_owner() {
    let watches = |mapping: Value| {
        let watch = json!({"apiVersion": "v1", "kind": "Pod", "projection": {"type": "metadata"}, "mapping": mapping});
        controller(&json!({"watches": [watch]}))
    };
    let mapped = watches(json!({"type": "anyOwner"})).expect("valid");
    assert_eq!(mapped.watches[0].mapping, Some(Mapping::AnyOwner));
    let error = watches(json!({"type": "anyOwner", "key": "a"})).expect_err("it has no key").to_string();
    assert!(error.contains("controllers[0].watches[0].mapping") && error.contains("unknown field `key`"), "{error}");
}

#[test]
fn a_controller_that_writes_no_status_asks_for_no_right_to() {
    let subresources = |options: &Value| {
        let controller = controller(&json!({"options": options})).expect("valid");
        controller.implied_access().into_iter().filter_map(|access| access.subresource).collect::<Vec<_>>()
    };
    assert_eq!(subresources(&json!({})), ["status"]);
    assert_eq!(subresources(&json!({"status": true})), ["status"]);
    assert!(subresources(&json!({"status": false})).is_empty());
    let error = controller(&json!({"options": {"status": "no"}})).expect_err("a bool is wanted").to_string();
    assert!(error.contains("controllers[0].options.status"), "{error}");
}
