//! Tests `writes`: every verb with every option, and the resulting state of the server. `refusals` and `malformed` test
//! refused writes.

use serde_json::{Value, json};
use windlass_tests::probe::{Lab, NAME};
use windlass_tests::server::Kind;
use windlass_tests::wait::until;

use super::{config_map, on_both_servers, target};

on_both_servers!(
    a_create_returns_the_object_as_the_server_has_it,
    an_update_replaces_the_object,
    a_patch_changes_what_it_names,
    an_apply_owns_its_fields_and_gives_them_up,
    a_delete_returns_what_still_waits,
    a_delete_does_with_dependents_as_told,
    an_owned_object_is_controlled_by_the_primary,
    a_locked_write_fails_if_the_object_has_changed,
    a_dry_run_changes_nothing,
    unknown_fields_are_treated_as_told,
    a_subresource_is_written_alone,
    a_write_returns_only_the_fields_that_were_asked_for,
);

const DEPLOYMENT: (&str, &str) = ("apps/v1", "Deployment");

fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "nginx"}, {"name": "side", "image": "busybox"}]},
            },
        },
    })
}

fn reference(kind: (&str, &str), name: &str) -> Value {
    json!({"apiVersion": kind.0, "kind": kind.1, "name": name})
}

fn write(verb: &str, object: &Value, options: &Value) -> Value {
    json!({"call": format!("writes.{verb}"), "object": object, "options": options})
}

fn patch(target: &Value, patch_type: &str, patch: &Value, options: &Value) -> Value {
    json!({"call": "writes.patch", "target": target, "patchType": patch_type, "patch": patch, "options": options})
}

fn delete(target: &Value, options: &Value) -> Value {
    json!({"call": "writes.delete", "target": target, "options": options})
}

fn with_data(name: &str, data: &Value) -> Value {
    let mut object = config_map(name);
    object["data"] = data.clone();
    object
}

/// The current object on the server.
async fn now(lab: &Lab, kind: &str, name: &str) -> anyhow::Result<Value> {
    Ok(lab.server.objects().get(kind, name).await?.unwrap_or_default())
}

fn managers(object: &Value) -> Vec<(&str, &str)> {
    let entries = object["metadata"]["managedFields"].as_array().map(Vec::as_slice).unwrap_or_default();
    entries.iter().filter_map(|it| Some((it["manager"].as_str()?, it["operation"].as_str()?))).collect()
}

async fn a_create_returns_the_object_as_the_server_has_it(kind: Kind) -> anyhow::Result<()> {
    let lab = Lab::start(kind).await?;
    let mut generated = with_data("", &json!({"a": "b"}));
    generated["metadata"] = json!({"generateName": "made-"});
    let call = lab
        .run([
            write("create", &with_data("made", &json!({"a": "b"})), &json!({})),
            write("create", &generated, &json!({})),
            write("create", &generated, &json!({})),
        ])
        .await?;
    let (made, there) = (call.ok(1), now(&lab, "ConfigMap", "made").await?);
    assert_eq!(made["metadata"]["namespace"], lab.server.objects().namespace(), "beside the primary");
    for pointer in ["/apiVersion", "/kind", "/data", "/metadata/uid", "/metadata/resourceVersion"] {
        assert_eq!(made.pointer(pointer), there.pointer(pointer), "{pointer}");
    }
    assert_eq!(managers(&there), [("windlass/probe", "Update")]);
    let names = [2, 3].map(|step| call.ok(step)["metadata"]["name"].as_str().unwrap_or_default().to_owned());
    for name in &names {
        assert_eq!(name.strip_prefix("made-").map(str::len), Some(5), "{name}");
        assert_eq!(now(&lab, "ConfigMap", name).await?["data"], json!({"a": "b"}));
    }
    assert_ne!(names[0], names[1]);
    assert_eq!(lab.sent(), 3);
    Ok(())
}

async fn an_update_replaces_the_object(kind: Kind) -> anyhow::Result<()> {
    let lab = Lab::start(kind).await?;
    lab.server.objects().apply(&with_data("there", &json!({"a": "b", "c": "d"}))).await?;
    let call = lab.run([write("update", &with_data("there", &json!({"a": "new"})), &json!({}))]).await?;
    assert_eq!(call.ok(1)["data"], json!({"a": "new"}));
    let there = now(&lab, "ConfigMap", "there").await?;
    assert_eq!(there["data"], json!({"a": "new"}));
    assert_eq!(there["metadata"]["resourceVersion"], call.ok(1)["metadata"]["resourceVersion"]);
    Ok(())
}

async fn a_patch_changes_what_it_names(kind: Kind) -> anyhow::Result<()> {
    let lab = Lab::start(kind).await?;
    let objects = lab.server.objects();
    objects.apply(&with_data("there", &json!({"a": "b", "c": "d"}))).await?;
    objects.apply(&deployment("there")).await?;
    let there = target("there");
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "alpine"}]}}}});
    let operations =
        json!([{"op": "test", "path": "/data/a", "value": "x"}, {"op": "add", "path": "/data/e", "value": "f"}]);
    let call = lab
        .run([
            patch(&there, "merge", &json!({"data": {"a": "x", "c": null}}), &json!({})),
            patch(&there, "json", &operations, &json!({})),
            patch(&reference(DEPLOYMENT, "there"), "strategic", &image, &json!({})),
        ])
        .await?;
    assert_eq!(call.ok(1)["data"], json!({"a": "x"}));
    assert_eq!(call.ok(2)["data"], json!({"a": "x", "e": "f"}));
    let containers = &call.ok(3)["spec"]["template"]["spec"]["containers"];
    let images: Vec<_> = containers.as_array().into_iter().flatten().map(|it| (&it["name"], &it["image"])).collect();
    assert_eq!(images.len(), 2, "containers are merged by their names: {containers}");
    assert!(
        images.contains(&(&json!("main"), &json!("nginx"))) && images.contains(&(&json!("side"), &json!("alpine")))
    );
    let there = now(&lab, "ConfigMap", "there").await?;
    assert!(managers(&there).contains(&("windlass/probe", "Update")), "{there}");
    Ok(())
}

async fn an_apply_owns_its_fields_and_gives_them_up(kind: Kind) -> anyhow::Result<()> {
    let lab = Lab::start(kind).await?;
    let call = lab
        .run([
            write("apply", &with_data("there", &json!({"a": "1", "b": "2"})), &json!({})),
            write("apply", &with_data("there", &json!({"a": "1"})), &json!({})),
        ])
        .await?;
    assert_eq!(call.ok(1)["data"], json!({"a": "1", "b": "2"}), "an apply creates");
    assert_eq!(call.ok(2)["data"], json!({"a": "1"}), "what is no longer applied goes");
    assert_eq!(managers(&now(&lab, "ConfigMap", "there").await?), [("windlass/probe", "Apply")]);

    // Another manager takes the field; then an apply conflicts, unless forced.
    lab.server.objects().apply(&with_data("there", &json!({"a": "theirs"}))).await?;
    let call = lab
        .run([
            write("apply", &with_data("there", &json!({"a": "ours"})), &json!({})),
            write("apply", &with_data("there", &json!({"a": "ours"})), &json!({"force": true})),
        ])
        .await?;
    let error = call.error(1, "conflict");
    let message = error["message"].as_str().unwrap_or_default();
    assert!(message.contains("windlass-tests") && message.contains(".data.a"), "{error}");
    assert_eq!(
        (&error["code"], &error["verb"], &error["resource"]),
        (&json!(409), &json!("patch"), &json!("configmaps"))
    );
    assert_eq!(call.ok(2)["data"], json!({"a": "ours"}));
    Ok(())
}

async fn a_delete_returns_what_still_waits(kind: Kind) -> anyhow::Result<()> {
    let lab = Lab::start(kind).await?;
    let mut waiting = config_map("waiting");
    waiting["metadata"]["finalizers"] = json!(["test.windlass.dev/wait"]);
    for object in [&waiting, &config_map("gone"), &config_map("kept")] {
        lab.server.objects().apply(object).await?;
    }
    let mut another = target("kept");
    another["uid"] = json!("00000000-0000-0000-0000-000000000000");
    let call = lab
        .run([
            delete(&target("gone"), &json!({})),
            delete(&target("waiting"), &json!({"gracePeriodMs": 1500})),
            delete(&target("gone"), &json!({})),
            delete(&another, &json!({})),
        ])
        .await?;
    assert_eq!(*call.ok(1), Value::Null);
    assert!(call.ok(2)["metadata"]["deletionTimestamp"].is_string(), "{}", call.ok(2));
    assert_eq!(call.error(3, "not-found")["object"]["name"], "gone");
    assert_eq!(call.error(4, "conflict")["object"]["name"], "kept");
    assert!(lab.server.objects().get("ConfigMap", "gone").await?.is_none());
    assert!(lab.server.objects().get("ConfigMap", "kept").await?.is_some());
    lab.server.objects().merge("ConfigMap", "waiting", &json!({"metadata": {"finalizers": null}})).await?;
    Ok(())
}

async fn a_delete_does_with_dependents_as_told(kind: Kind) -> anyhow::Result<()> {
    let lab = Lab::start(kind).await?;
    for policy in ["background", "foreground", "orphan"] {
        let (parent, child) = (format!("{policy}-parent"), format!("{policy}-child"));
        let uid = lab.server.objects().apply(&config_map(&parent)).await?["metadata"]["uid"].clone();
        let mut dependent = config_map(&child);
        let owner = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "name": parent, "uid": uid, "blockOwnerDeletion": true,
        });
        dependent["metadata"]["ownerReferences"] = json!([owner]);
        lab.server.objects().apply(&dependent).await?;
        let call = lab.run([delete(&target(&parent), &json!({"propagation": policy}))]).await?;
        // If an object waits for the garbage collector, its current state is returned.
        let waits = *call.ok(1) != Value::Null;
        assert_eq!(waits, policy != "background", "{policy}: {}", call.ok(1));
        until("the collector has done its work", || async {
            let (parent, child) = (now(&lab, "ConfigMap", &parent).await?, now(&lab, "ConfigMap", &child).await?);
            let is_released = child["metadata"]["ownerReferences"].is_null();
            let is_done = if policy == "orphan" { child != Value::Null && is_released } else { child == Value::Null };
            anyhow::ensure!(parent == Value::Null && is_done, "{policy}: {parent} {child}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}

async fn an_owned_object_is_controlled_by_the_primary(kind: Kind) -> anyhow::Result<()> {
    let lab = Lab::start(kind).await?;
    lab.server.objects().apply(&config_map("adopted")).await?;
    let mut other_controller = config_map("taken");
    let other = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": true});
    other_controller["metadata"]["ownerReferences"] = json!([other]);
    let owned = json!({"owned": true});
    let call = lab
        .run([
            write("create", &config_map("created"), &owned),
            write("apply", &config_map("applied"), &owned),
            patch(&target("adopted"), "strategic", &json!({"data": {"a": "b"}}), &owned),
            write("create", &other_controller, &owned),
            patch(&target("adopted"), "merge", &json!({"data": {}}), &owned),
        ])
        .await?;
    let primary = now(&lab, "Probe", NAME).await?;
    let reference = json!([{
        "apiVersion": "probe.windlass.dev/v1", "kind": "Probe", "name": NAME, "uid": primary["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true,
    }]);
    for step in [1, 2, 3] {
        assert_eq!(call.ok(step)["metadata"]["ownerReferences"], reference);
    }
    assert!(call.error(4, "invalid")["message"].to_string().contains("another controller, Pod p"));
    assert!(call.error(5, "invalid")["message"].to_string().contains("use apply or a strategic patch"));
    assert_eq!(lab.sent(), 3, "what cannot be owned is not sent");
    lab.server.objects().delete("Probe", NAME).await?;
    until("the collector has taken them", || async {
        let left = lab.server.objects().get("ConfigMap", "created").await?;
        if left.is_none() { Ok(()) } else { Err(anyhow::anyhow!("{left:?}")) }
    })
    .await
}

async fn a_locked_write_fails_if_the_object_has_changed(kind: Kind) -> anyhow::Result<()> {
    let lab = Lab::start(kind).await?;
    let before = lab.server.objects().apply(&with_data("there", &json!({"a": "1"}))).await?;
    let after = lab.server.objects().apply(&with_data("there", &json!({"a": "2"}))).await?;
    let version = |object: &Value| json!({"resourceVersion": object["metadata"]["resourceVersion"]});
    let (old, there) = (version(&before), target("there"));
    let (mut another, mut body) = (there.clone(), with_data("there", &json!({"a": "3"})));
    another["uid"] = json!("00000000-0000-0000-0000-000000000000");
    let change = json!({"data": {"a": "3"}});
    let add = json!([{"op": "add", "path": "/data/a", "value": "3"}]);
    let mut steps = vec![
        write("update", &body, &old),
        write("apply", &body, &json!({"resourceVersion": old["resourceVersion"], "force": true})),
        patch(&there, "merge", &change, &old),
        patch(&there, "strategic", &change, &old),
        patch(&there, "json", &add, &old),
        delete(&there, &old),
        patch(&another, "merge", &change, &json!({})),
        patch(&another, "strategic", &change, &json!({})),
        patch(&another, "json", &add, &json!({})),
    ];
    body["metadata"]["uid"] = another["uid"].clone();
    steps.push(write("update", &body, &json!({})));
    steps.push(write("apply", &body, &json!({"force": true})));
    let count = steps.len();
    let call = lab.run(steps).await?;
    for step in 1..=count {
        let error = call.error(step, "conflict");
        assert_eq!(error["object"]["name"], "there", "{error}");
    }
    assert_eq!(now(&lab, "ConfigMap", "there").await?["metadata"], after["metadata"], "nothing has changed");
    let call = lab.run([patch(&there, "merge", &change, &version(&after))]).await?;
    assert_eq!(call.ok(1)["data"]["a"], "3", "the version that it has is no conflict");
    Ok(())
}

async fn a_dry_run_changes_nothing(kind: Kind) -> anyhow::Result<()> {
    let lab = Lab::start(kind).await?;
    let before = lab.server.objects().apply(&with_data("there", &json!({"a": "1"}))).await?;
    let dry = json!({"dryRun": true});
    let changed = with_data("there", &json!({"a": "2"}));
    let call = lab
        .run([
            write("create", &config_map("new"), &dry),
            write("update", &changed, &dry),
            write("apply", &changed, &json!({"dryRun": true, "force": true})),
            patch(&target("there"), "merge", &json!({"data": {"a": "2"}}), &dry),
            delete(&target("there"), &dry),
        ])
        .await?;
    assert_eq!(call.ok(1)["metadata"]["name"], "new");
    for step in [2, 3, 4] {
        assert_eq!(call.ok(step)["data"], json!({"a": "2"}), "the answer is as if it were made");
    }
    let _ = call.ok(5);
    assert_eq!(now(&lab, "ConfigMap", "there").await?, before);
    assert!(lab.server.objects().get("ConfigMap", "new").await?.is_none());
    Ok(())
}

async fn unknown_fields_are_treated_as_told(kind: Kind) -> anyhow::Result<()> {
    let lab = Lab::start(kind).await?;
    let probe = |name: &str| json!({"apiVersion": "probe.windlass.dev/v1", "kind": "Probe", "metadata": {"name": name}, "colour": "green"});
    let call = lab
        .run([
            write("create", &probe("strict"), &json!({})),
            write("create", &probe("warned"), &json!({"fieldValidation": "warn"})),
            write("create", &probe("ignored"), &json!({"fieldValidation": "ignore"})),
        ])
        .await?;
    let error = call.error(1, "other");
    assert_eq!((&error["code"], &error["statusReason"]), (&json!(400), &json!("BadRequest")), "{error}");
    assert!(error["message"].to_string().contains("colour"), "{error}");
    for step in [2, 3] {
        assert_eq!(call.ok(step)["colour"], Value::Null);
    }
    let warning = lab.host.says("the API server warns").await?;
    assert!(warning.contains("colour"), "{warning}");
    assert_eq!(lab.host.log().matches("the API server warns").count(), 1, "of the one that asked for it");
    Ok(())
}

async fn a_subresource_is_written_alone(kind: Kind) -> anyhow::Result<()> {
    let lab = Lab::start(kind).await?;
    let objects = lab.server.objects();
    objects.apply(&deployment("there")).await?;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "there"},
        "spec": {"containers": [{"name": "main", "image": "nginx"}]},
    });
    objects.apply(&pod).await?;
    let scale = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "there"}, "spec": {"replicas": 3},
    });
    let parent = json!({"subresource": {"name": "scale", "parent": reference(DEPLOYMENT, "there")}});
    let status = json!({"subresource": {"name": "status"}});
    let message = json!({"metadata": {"labels": {"not": "this"}}, "status": {"message": "from the probe"}});
    let absent = json!({"subresource": {"name": "ephemeral", "parent": target("there")}});
    let call = lab
        .run([
            write("update", &scale, &parent),
            patch(&reference(DEPLOYMENT, "there"), "merge", &json!({"spec": {"replicas": 2}}), &parent),
            patch(&reference(("v1", "Pod"), "there"), "merge", &message, &status),
            patch(&target("there"), "merge", &json!({}), &absent),
        ])
        .await?;
    assert_eq!((&call.ok(1)["kind"], &call.ok(1)["spec"]["replicas"]), (&json!("Scale"), &json!(3)));
    assert_eq!(call.ok(2)["spec"]["replicas"], 2);
    assert_eq!(now(&lab, "Deployment", "there").await?["spec"]["replicas"], 2);
    assert_eq!(call.ok(3)["status"]["message"], "from the probe");
    assert_eq!(call.error(4, "not-granted")["resource"], "configmaps/ephemeral", "no rule names a subresource like it");
    Ok(())
}

async fn a_write_returns_only_the_fields_that_were_asked_for(kind: Kind) -> anyhow::Result<()> {
    let lab = Lab::start(kind).await?;
    let object = with_data("part", &json!({"a": "b", "c": "d"}));
    let only = |fields: Value| json!({"fields": fields});
    let batch = json!({"op": "apply", "object": object, "options": only(json!(["/data/a"]))});
    let call = lab
        .run([
            write("apply", &object, &only(json!(["/data/a", "/metadata/resourceVersion"]))),
            write("apply", &object, &only(json!(["/data/c"]))),
            write("apply", &object, &only(json!([]))),
            write("update", &object, &json!({"fields": ["/data/a"], "dryRun": true})),
            json!({"call": "writes.batch", "operations": [batch]}),
            write("apply", &object, &only(json!(["data"]))),
            json!({"call": "cache.get", "target": target("part")}),
        ])
        .await?;
    let there = now(&lab, "ConfigMap", "part").await?;
    let identity = ["name", "namespace", "uid"].map(|field| (field.to_owned(), there["metadata"][field].clone()));
    let metadata = Value::Object(identity.into_iter().collect());
    let part = |data: &Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
    let mut first = part(&json!({"a": "b"}));
    first["metadata"]["resourceVersion"] = there["metadata"]["resourceVersion"].clone();
    assert_eq!(*call.ok(1), first);
    assert_eq!(*call.ok(2), part(&json!({"c": "d"})), "also if the host sends nothing");
    let alone = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    assert_eq!(*call.ok(3), alone);
    assert_eq!(*call.ok(4), part(&json!({"a": "b"})), "also of a dry run");
    assert_eq!(call.ok(5)[0]["ok"], part(&json!({"a": "b"})), "also in a batch: {}", call.ok(5));
    assert!(call.error(6, "invalid")["message"].to_string().contains("JSON pointer"), "{}", call.error(6, "invalid"));
    assert_eq!(call.ok(7)["data"], there["data"], "the call's own reads have the whole object");
    Ok(())
}
