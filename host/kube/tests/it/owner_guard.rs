//! Tests owners that a plugin's own writes add.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::time::timeout;
use windlass_core::call::ports::CallContext;
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::object::{Object, ObjectKey};
use windlass_core::rights::grants::{Grants, Rule};
use windlass_core::write::{Operation, PatchType, WriteOptions};
use windlass_kube::{Discovery, Followed, Readable, Subscription, Writer};

use crate::cluster::{Cluster, cluster, config_maps};
use crate::script::{Asked, Reply, Script, call};

const VERBS: [&str; 5] = ["get", "create", "update", "patch", "delete"];

/// A plugin and its primary, a config map. The plugin has the rights to all of [`VERBS`], or to all but
/// the last.
#[derive(Clone)]
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
    fn call(&self) -> CallContext {
        let text = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let call = CallContext { primary_kind: config_maps(), primary: Some(self.object()), ..self.cluster.call() };
        let rule =
            Rule { groups: text(&[""]), resources: text(&["configmaps"]), verbs: text(self.verbs), ..Rule::default() };
        call.principal.grants.replace(Grants::new(vec![rule]));
        call
    }

    async fn write(&self, operation: Operation) -> Result<Value, ApiError> {
        let written = self.cluster.writer.write(Arc::new(self.call()), operation).await?.expect("an object");
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

    /// Each way to make `owner` an owner of the object, whose current state is `now`.
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
async fn adding_an_owner_to_an_object_that_exists_takes_the_right_to_delete() {
    let cluster = cluster().await;
    let primary = cluster.apply("shop", "1").await;
    let now = cluster.apply("a", "1").await;
    let plugin = Plugin { cluster: &cluster, primary: primary.clone(), verbs: &VERBS[..4] };
    for (owner, name) in [(stranger(), "ConfigMap none"), (reference(&primary), "ConfigMap shop")] {
        for (way, operation) in plugin.ways(&owner, &now) {
            let error = plugin.write(operation).await.expect_err(way);
            assert_eq!(error.reason, ApiReason::NotGranted, "{way}: {error}");
            assert!(error.message.contains(r#"verbs: ["delete"]"#), "{way} does not say what to grant: {error}");
            assert!(error.message.contains(name), "{way}: {error}");
        }
    }
    let owned = WriteOptions { owned: true, force: true, ..options() };
    let adopted = Operation::Apply { object: with(&json!({"name": "a"})), options: owned };
    let error = plugin.write(adopted.clone()).await.expect_err("as its controller");
    assert_eq!(error.reason, ApiReason::NotGranted, "{error}");
    let plugin = Plugin { verbs: &VERBS, ..plugin };
    plugin.write(adopted).await.expect("it may delete what it adopts");
}

#[tokio::test]
async fn each_way_to_add_an_owner_works_with_the_right_to_delete() {
    let cluster = cluster().await;
    let plugin = Plugin { cluster: &cluster, primary: cluster.apply("shop", "1").await, verbs: &VERBS };
    for way in 0..5 {
        let now = cluster.apply("a", "1").await;
        let (name, operation) = plugin.ways(&reference(&plugin.primary), &now).swap_remove(way);
        let written = plugin.write(operation).await.expect(name);
        assert_eq!(written["metadata"]["ownerReferences"].as_array().map(Vec::len), Some(1), "{name}: {written}");
        plugin
            .write(plugin.patch(PatchType::Merge, &json!({"metadata": {"ownerReferences": null}})))
            .await
            .expect("off");
    }
}

#[tokio::test]
async fn a_new_object_may_have_any_owner() {
    let cluster = cluster().await;
    let primary = cluster.apply("shop", "1").await;
    let plugin = Plugin { cluster: &cluster, primary: primary.clone(), verbs: &VERBS[..4] };
    let body = |name: &str, owner: Value| with(&json!({"name": name, "ownerReferences": [owner]}));
    for operation in [
        Operation::Create { object: body("b", stranger()), options: options() },
        Operation::Apply { object: body("c", reference(&primary)), options: options() },
    ] {
        let created = plugin.write(operation).await.expect("nothing goes that was there");
        assert_eq!(created["metadata"]["ownerReferences"].as_array().map(Vec::len), Some(1), "{created}");
    }
    let list = json!({"metadata": {"ownerReferences": [reference(&primary)]}});
    let error = plugin.write(plugin.patch(PatchType::Merge, &list)).await.expect_err("there is nothing to patch");
    assert!(error.is_object_missing(), "{error}");
}

#[tokio::test]
async fn owners_that_an_object_has_may_be_handed_back_and_taken_off() {
    let cluster = cluster().await;
    let (primary, other) = (cluster.apply("shop", "1").await, cluster.apply("other", "1").await);
    let all = Plugin { cluster: &cluster, primary: primary.clone(), verbs: &VERBS };
    let both = json!([reference(&other), reference(&primary)]);
    let object = with(&json!({"name": "a", "ownerReferences": both}));
    let mut object = all.write(Operation::Create { object, options: options() }).await.expect("created");
    let plugin = Plugin { verbs: &VERBS[..4], ..all };
    object["data"] = json!({"n": "1"});
    object["metadata"].as_object_mut().expect("fields").remove("resourceVersion");
    let update = Operation::Update { object: object.to_string(), options: options() };
    let mut object = plugin.write(update).await.expect("echoed, at any version");
    assert_eq!(object["data"]["n"], "1");
    let off = json!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": other["metadata"]["uid"]}]}});
    for (owner, operations) in [(&other, 0..4), (&primary, 1..5)] {
        for way in operations {
            let (name, operation) = plugin.ways(&reference(owner), &object).swap_remove(way);
            object = plugin.write(operation).await.expect(name);
            let owners = object["metadata"]["ownerReferences"].as_array().expect("owners");
            assert!(owners.iter().any(|it| it["uid"] == owner["metadata"]["uid"]), "{name}: {object}");
        }
        let list = json!({"metadata": {"ownerReferences": both}});
        object = Plugin { verbs: &VERBS, ..plugin.clone() }
            .write(plugin.patch(PatchType::Merge, &list))
            .await
            .expect("both");
    }
    let renamed = json!([{"op": "replace", "path": "/metadata/ownerReferences/0/name", "value": "none"}]);
    plugin.write(plugin.patch(PatchType::Json, &renamed)).await.expect_err("another owner");
    let object = plugin.write(plugin.patch(PatchType::Strategic, &off)).await.expect("taken off");
    assert_eq!(object["metadata"]["ownerReferences"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn a_json_patch_is_written_at_the_version_that_was_judged() {
    let cluster = cluster().await;
    let primary = cluster.apply("shop", "1").await;
    let all = Plugin { cluster: &cluster, primary: primary.clone(), verbs: &VERBS };
    let owned = with(&json!({"name": "a", "ownerReferences": [reference(&primary)]}));
    let owned = all.write(Operation::Create { object: owned, options: options() }).await.expect("created");
    let released = json!({"metadata": {"ownerReferences": null}});
    let released = all.write(all.patch(PatchType::Merge, &released)).await.expect("released");
    let plugin = Plugin { verbs: &VERBS[..4], ..all };
    let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
    let (stale, padded) = (version(&owned), json!(format!("0{}", version(&released).as_str().expect("text"))));
    let set = |version: &Value| json!({"op": "add", "path": "/metadata/resourceVersion", "value": version});
    let adopt = json!({"op": "add", "path": "/metadata/ownerReferences", "value": [reference(&primary)]});
    for (name, patch, reason) in [
        ("a version that is no more", json!([adopt, set(&stale)]), ApiReason::Conflict),
        ("one that is set, and set back", json!([set(&stale), adopt, set(&json!(""))]), ApiReason::NotGranted),
        (
            "one that is set anew elsewhere",
            json!([set(&stale), adopt, set(&version(&released))]),
            ApiReason::NotGranted,
        ),
        ("one that is written otherwise", json!([adopt, set(&padded)]), ApiReason::NotGranted),
    ] {
        let error = plugin.write(plugin.patch(PatchType::Json, &patch)).await.expect_err(name);
        assert_eq!(error.reason, reason, "{name}: {error}");
    }
}

/// A writer whose cache shows an object that the plugin's primary owns, and whose requests go to a script.
struct Cached {
    writer: Writer,
    script: Script,
    owned: Value,
    _subscription: Subscription,
}

async fn cached(plugin: &Plugin<'_>, script: Script) -> Cached {
    let cluster = plugin.cluster;
    let owned = with(&json!({"name": "a", "ownerReferences": [reference(&plugin.primary)]}));
    let owned = plugin.write(Operation::Create { object: owned, options: options() }).await.expect("created");
    let spec = cluster.all(config_maps());
    let subscription = cluster.informers.subscribe(spec.clone());
    timeout(Duration::from_secs(30), subscription.when(|status| status.synced)).await.expect("synced");
    let readable = Readable { spec, store: subscription.store().clone(), indexes: vec![] };
    let runs = |_: &Object, _: &ObjectKey| true;
    let writer = Writer::new(script.client(), Discovery::new(script.client()));
    let writer = writer.of_controller(vec![Followed { readable, runs: Some(Arc::new(runs)), maps_by_object: true }]);
    Cached { writer, script, owned, _subscription: subscription }
}

impl Cached {
    async fn apply(&self, plugin: &Plugin<'_>) -> Result<(), ApiError> {
        let mut object: Value = serde_json::from_str(&with(&json!({"name": "a"}))).expect("JSON");
        object["metadata"]["ownerReferences"] = json!([reference(&plugin.primary)]);
        object["data"] = json!({"n": "2"});
        let operation = Operation::Apply { object: object.to_string(), options: options() };
        self.writer.write(Arc::new(plugin.call()), operation).await.map(drop)
    }

    /// The versions to which applies were locked.
    fn locks(&self) -> Vec<Value> {
        let applies = self.script.mutations_asked();
        applies.iter().map(|asked| asked.json()["metadata"]["resourceVersion"].clone()).collect()
    }

    fn gets(&self) -> usize {
        let is_get = |asked: &&Asked| asked.method == Method::GET && asked.path.ends_with("/configmaps/a");
        self.script.asked().iter().filter(is_get).count()
    }
}

fn conflict() -> Reply {
    Reply::Json(409, json!({"kind": "Status", "status": "Failure", "reason": "Conflict", "message": "no", "code": 409}))
}

#[tokio::test]
async fn an_apply_is_locked_to_the_cached_version_and_rejudged_on_conflict() {
    let cluster = cluster().await;
    let plugin = Plugin { cluster: &cluster, primary: cluster.apply("shop", "1").await, verbs: &VERBS[..4] };
    let anew = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": &*cluster.namespace, "uid": "u-2", "resourceVersion": "900000"}});
    let script = Script::default().lists([Reply::Json(200, anew)]).mutations([conflict()]);
    let cached = cached(&plugin, script).await;
    let error = cached.apply(&plugin).await.expect_err("somebody else has made it anew");
    assert_eq!(error.reason, ApiReason::NotGranted, "{error}");
    assert_eq!(cached.locks(), [cached.owned["metadata"]["resourceVersion"].clone()]);
}

#[tokio::test]
async fn applying_a_cached_object_takes_no_read_and_a_field_conflict_one() {
    let cluster = cluster().await;
    let plugin = Plugin { cluster: &cluster, primary: cluster.apply("shop", "1").await, verbs: &VERBS[..4] };
    let script = Script::default();
    let cached = cached(&plugin, script.clone()).await;
    let _ = script
        .lists([Reply::Json(200, cached.owned.clone())])
        .mutations([Reply::Json(200, cached.owned.clone()), conflict()]);
    cached.apply(&plugin).await.expect("applied");
    assert_eq!((cached.locks().len(), cached.gets()), (1, 0));
    let error = cached.apply(&plugin).await.expect_err("another manager has the field");
    assert_eq!(error.reason, ApiReason::Conflict, "{error}");
    assert_eq!((cached.locks().len(), cached.gets()), (2, 1));
}
