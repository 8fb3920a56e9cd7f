//! Owners that a plugin's own writes add.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::grants::{Grants, Rule};
use windlass_core::object::Object;
use windlass_core::ports::{CallContext, Writes as _};
use windlass_core::write::{Operation, PatchType, WriteOptions};

use crate::cluster::{Cluster, cluster, config_maps};
use crate::script::call;

const VERBS: [&str; 5] = ["get", "create", "update", "patch", "delete"];

/// A plugin that may do all of [`VERBS`] or all but the last, and its primary, a config map.
struct Plugin<'a> {
    cluster: &'a Cluster,
    primary: Value,
    verbs: &'a [&'a str],
}

fn reference(object: &Value) -> Value {
    let metadata = &object["metadata"];
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": metadata["name"], "uid": metadata["uid"]})
}

fn stranger() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "6a3f2c1e-0000-4000-8000-000000000000"})
}

fn with(metadata: &Value) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}).to_string()
}

fn options() -> WriteOptions {
    WriteOptions::default()
}

impl Plugin<'_> {
    async fn write(&self, operation: Operation) -> Result<Value, ApiError> {
        let text = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let call = CallContext { primary_kind: config_maps(), primary: Some(self.object()), ..self.cluster.call() };
        let rule =
            Rule { groups: text(&[""]), resources: text(&["configmaps"]), verbs: text(self.verbs), ..Rule::default() };
        call.principal.grants.replace(Grants::new(vec![rule]));
        let written = self.cluster.writer.write(Arc::new(call), operation).await?.expect("an object");
        Ok(serde_json::from_str(&written).expect("JSON"))
    }

    fn object(&self) -> Object {
        let header = call().primary.expect("a primary").header.clone();
        let uid = self.primary["metadata"]["uid"].as_str().expect("a uid").into();
        let key = self.cluster.target("shop", None).key;
        Object::new(windlass_core::object::Header { uid, key, ..header }, self.primary.to_string())
    }

    fn patch(&self, patch_type: PatchType, patch: &Value) -> Operation {
        let (target, options) = (self.cluster.target("a", None), options());
        Operation::Patch { target, patch_type, patch: patch.to_string(), options }
    }

    /// Each way to make `owner` an owner of the object, which is there as `now`.
    fn ways(&self, owner: &Value, now: &Value) -> Vec<(&'static str, Operation)> {
        let list = json!({"metadata": {"ownerReferences": [owner]}});
        let mut update = now.clone();
        update["metadata"]["ownerReferences"] = json!([owner]);
        let entry = json!([{"op": "add", "path": "/metadata/ownerReferences", "value": [owner]}]);
        let applied = with(&json!({"name": "a", "ownerReferences": [owner]}));
        vec![
            ("merge", self.patch(PatchType::Merge, &list)),
            ("strategic", self.patch(PatchType::Strategic, &list)),
            ("json", self.patch(PatchType::Json, &entry)),
            ("update", Operation::Update { object: update.to_string(), options: options() }),
            ("apply", Operation::Apply { object: applied, options: WriteOptions { force: true, ..options() } }),
        ]
    }
}

#[tokio::test]
async fn an_owner_that_may_not_exist_takes_the_right_to_delete() {
    let cluster = cluster().await;
    let primary = cluster.apply("shop", "1").await;
    let now = cluster.apply("a", "1").await;
    let plugin = Plugin { cluster: &cluster, primary: primary.clone(), verbs: &VERBS[..4] };
    for (way, operation) in plugin.ways(&stranger(), &now) {
        let error = plugin.write(operation).await.expect_err(way);
        assert_eq!(error.reason, ApiReason::NotGranted, "{way}: {error}");
        assert!(error.message.contains("delete") && error.message.contains("ConfigMap none"), "{way}: {error}");
    }
    let mut now = now;
    for way in 0..5 {
        let (name, operation) = plugin.ways(&reference(&primary), &now).swap_remove(way);
        now = plugin.write(operation).await.expect(name);
        assert_eq!(now["metadata"]["ownerReferences"].as_array().map(Vec::len), Some(1), "{name}: {now}");
    }
    let created =
        Operation::Create { object: with(&json!({"name": "b", "ownerReferences": [stranger()]})), options: options() };
    plugin.write(created).await.expect("nothing goes that was there");
    let plugin = Plugin { verbs: &VERBS, ..plugin };
    for (way, operation) in plugin.ways(&stranger(), &now).into_iter().take(1) {
        plugin.write(operation).await.expect(way);
    }
}

#[tokio::test]
async fn owners_that_an_object_has_may_be_handed_back_and_taken_off() {
    let cluster = cluster().await;
    let (primary, other) = (cluster.apply("shop", "1").await, cluster.apply("other", "1").await);
    let all = Plugin { cluster: &cluster, primary: primary.clone(), verbs: &VERBS };
    let object = with(&json!({"name": "a", "ownerReferences": [reference(&other)]}));
    let mut object = all.write(Operation::Create { object, options: options() }).await.expect("created");
    let plugin = Plugin { verbs: &VERBS[..4], ..all };
    object["data"] = json!({"n": "1"});
    object["metadata"].as_object_mut().expect("fields").remove("resourceVersion");
    let update = Operation::Update { object: object.to_string(), options: options() };
    let object = plugin.write(update).await.expect("echoed, at any version");
    assert_eq!(object["data"]["n"], "1");
    let both = json!({"metadata": {"ownerReferences": [reference(&other), reference(&primary)]}});
    let object = plugin.write(plugin.patch(PatchType::Merge, &both)).await.expect("adopted beside another");
    assert_eq!(object["metadata"]["ownerReferences"].as_array().map(Vec::len), Some(2));
    let renamed = json!([{"op": "replace", "path": "/metadata/ownerReferences/0/name", "value": "none"}]);
    plugin.write(plugin.patch(PatchType::Json, &renamed)).await.expect_err("another owner");
    let off = json!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": other["metadata"]["uid"]}]}});
    let object = plugin.write(plugin.patch(PatchType::Strategic, &off)).await.expect("taken off");
    assert_eq!(object["metadata"]["ownerReferences"].as_array().map(Vec::len), Some(1));
}
