//! Tests refusals by the server or the host. Each class of refusal is provoked for real. The error record must be
//! complete and name its class.

use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use windlass_proxy::{Fault, Match, Refusal};
use windlass_tests::probe::{Lab, NAME};
use windlass_tests::proxied::Proxied;
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::until;

use super::{config_map, on_both_servers, target};

on_both_servers!(
    what_is_not_there_or_there_already,
    what_the_servers_validation_refuses,
    what_the_servers_authorization_refuses,
    what_the_plugin_is_not_granted,
    a_namespace_that_is_going,
    a_server_that_asks_to_wait,
    a_server_that_fails,
    what_is_too_large,
);

fn create(object: &Value) -> Value {
    json!({"call": "writes.create", "object": object})
}

/// Checks the fields that every error record has, in the order of the WIT.
fn assert_whole(error: &Value, code: u16, status_reason: &str, verb: &str, resource: &str) {
    let whole = json!([error["code"], error["statusReason"], error["verb"], error["resource"]]);
    assert_eq!(whole, json!([code, status_reason, verb, resource]), "{error}");
    assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{error}");
}

async fn what_is_not_there_or_there_already(kind: Kind) -> anyhow::Result<()> {
    let lab = Lab::start(kind).await?;
    lab.server.objects().apply(&config_map("there")).await?;
    let call = lab
        .run([
            create(&config_map("there")),
            json!({"call": "writes.update", "object": config_map("none")}),
            json!({"call": "writes.patch", "target": target("none"), "patchType": "merge", "patch": {}}),
            json!({"call": "writes.delete", "target": target("none")}),
        ])
        .await?;
    let error = call.error(1, "already-exists");
    assert_whole(error, 409, "AlreadyExists", "create", "configmaps");
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": "there", "namespace": lab.server.objects().namespace(), "uid": null,
    });
    assert_eq!(error["object"], object);
    for (step, verb) in [(2, "update"), (3, "patch"), (4, "delete")] {
        assert_whole(call.error(step, "not-found"), 404, "NotFound", verb, "configmaps");
    }
    Ok(())
}

async fn what_the_servers_validation_refuses(kind: Kind) -> anyhow::Result<()> {
    let lab = Lab::start(kind).await?;
    lab.server.objects().apply(&config_map("there")).await?;
    let mut numbers = config_map("Not_A_Name");
    numbers["data"] = json!({"a": "b"});
    let test = json!([{"op": "test", "path": "/data", "value": "never"}]);
    let call = lab
        .run([
            create(&numbers),
            json!({"call": "writes.patch", "target": target("there"), "patchType": "json", "patch": test}),
        ])
        .await?;
    let error = call.error(1, "invalid");
    assert_whole(error, 422, "Invalid", "create", "configmaps");
    assert!(error["message"].to_string().contains("metadata.name"), "{error}");
    assert_whole(call.error(2, "invalid"), 422, "Invalid", "patch", "configmaps");
    assert_eq!(lab.sent(), 2);
    Ok(())
}

/// A kubeconfig for a user who may do everything except delete `ConfigMap`s.
async fn as_somebody_less(server: &Server, path: &std::path::Path) -> anyhow::Result<()> {
    let user = format!("somebody-{}", server.objects().namespace());
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": user},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch", "create", "update", "patch"]}],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": user},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}],
    });
    for object in [role, binding] {
        server.objects().apply(&object).await?;
    }
    let mut config: Value = windlass_tests::objects::documents(server.kubeconfig())?.remove(0);
    for named in config["users"].as_array_mut().into_iter().flatten() {
        named["user"]["as"] = json!(user);
    }
    Ok(std::fs::write(path, config.to_string())?)
}

async fn what_the_servers_authorization_refuses(kind: Kind) -> anyhow::Result<()> {
    let server = Server::start(kind).await?;
    let proxy = Proxied::start(&server, 5).await?;
    let directory = tempfile::tempdir()?;
    let mut kubeconfig = proxy.kubeconfig().to_owned();
    // The embedded server allows everything here, so the proxy refuses as a server with RBAC would.
    let message = "configmaps \"there\" is forbidden: User \"somebody\" cannot delete resource \"configmaps\"";
    let refusal = Refusal::new(StatusCode::FORBIDDEN, "Forbidden", message);
    let deletes = Match::verb(windlass_proxy::Verb::Delete).resource("configmaps");
    let refused = (kind == Kind::Embedded).then(|| proxy.add(Fault::Refuse(refusal).on(deletes)));
    if refused.is_none() {
        kubeconfig = directory.path().join("kubeconfig");
        as_somebody_less(&server, &kubeconfig).await?;
    }
    let lab = Lab::with_kubeconfig(server, proxy, &kubeconfig, &[]).await?;
    lab.server.objects().apply(&config_map("there")).await?;
    let call = lab.run([json!({"call": "writes.delete", "target": target("there")})]).await?;
    let error = call.error(1, "forbidden");
    assert_whole(error, 403, "Forbidden", "delete", "configmaps");
    assert!(error["message"].to_string().contains("cannot delete resource"), "{error}");
    assert!(lab.server.objects().get("ConfigMap", "there").await?.is_some());
    Ok(())
}

async fn what_the_plugin_is_not_granted(kind: Kind) -> anyhow::Result<()> {
    let lab = Lab::start(kind).await?;
    let of = |version: &str, kind: &str| json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}});
    let reference = |kind: &str| json!({"apiVersion": "v1", "kind": kind, "name": "a"});
    let mut elsewhere = config_map("a");
    elsewhere["metadata"]["namespace"] = json!("default");
    let mut far = target("a");
    far["namespace"] = json!("default");
    let status = json!({"name": "status", "parent": target("a")});
    let call = lab
        .run([
            create(&of("v1", "Secret")),
            json!({"call": "writes.patch", "target": reference("Secret"), "patchType": "merge", "patch": {}}),
            json!({"call": "writes.delete", "target": reference("Service")}),
            create(&of("batch/v1", "Job")),
            create(&elsewhere),
            json!({"call": "writes.apply", "object": elsewhere}),
            json!({"call": "writes.delete", "target": far}),
            json!({
                "call": "writes.patch", "target": target("a"), "patchType": "merge", "patch": {},
                "options": {"subresource": status},
            }),
        ])
        .await?;
    for (step, verb, resource, words) in [
        (1, "create", "secrets", "allows it to create secrets"),
        (2, "patch", "secrets", "allows it to patch secrets"),
        (3, "delete", "services", "allows it to delete services"),
        // If no rule names a group, the host does not even ask the server for the group's kinds.
        (4, "create", "", "no rule names the group of batch/v1 Job"),
        (5, "create", "configmaps", "create configmaps default/a is outside the namespace"),
        (6, "patch", "configmaps", "patch configmaps default/a is outside the namespace"),
        (7, "delete", "configmaps", "delete configmaps default/a is outside the namespace"),
        (8, "patch", "configmaps/status", "allows it to patch configmaps/status"),
    ] {
        let error = call.error(step, "not-granted");
        assert_whole(error, 403, "NotGranted", verb, resource);
        assert!(error["message"].to_string().contains(words), "{words:?} is not in {error}");
    }
    assert_eq!(lab.sent(), 0);
    Ok(())
}

async fn a_namespace_that_is_going(kind: Kind) -> anyhow::Result<()> {
    let lab = Lab::start(kind).await?;
    let objects = lab.server.objects();
    let _ = lab.run([json!({"call": "config.get"})]).await?;
    objects.merge("Probe", NAME, &json!({"metadata": {"finalizers": ["test.windlass.dev/wait"]}})).await?;
    objects.delete("Namespace", objects.namespace()).await?;
    until("the namespace takes the Probe along", || async {
        let probe = objects.get("Probe", NAME).await?.unwrap_or_default();
        anyhow::ensure!(probe["metadata"]["deletionTimestamp"].is_string(), "{probe}");
        Ok(())
    })
    .await?;
    let passed_on = json!({"call": "fail", "failures": [{"api": {"$from": "1"}}]});
    let call = lab.run([create(&config_map("late")), passed_on]).await?;
    assert_whole(call.error(1, "namespace-terminating"), 403, "Forbidden", "create", "configmaps");
    assert_eq!(call.request["deleting"], true);
    // The object is gone, so the key is dropped and nothing is reported.
    let _ = lab.run([json!({"call": "config.get"})]).await?;
    assert!(!lab.host.log().contains("\"failed\""), "{}", lab.host.log());
    objects.merge("Probe", NAME, &json!({"metadata": {"finalizers": null}})).await?;
    Ok(())
}

async fn a_server_that_asks_to_wait(kind: Kind) -> anyhow::Result<()> {
    let lab = Lab::start(kind).await?;
    let refusal = Refusal::too_many_requests(Duration::from_secs(2));
    let busy = lab.proxy.add(Fault::Refuse(refusal).on(Match::writes().resource("configmaps")).times(1));
    // The server has capacity again at the second call.
    let passed_on = json!({"call": "fail", "failures": [{"api": {"$from": "1"}}]});
    let run = lab.begin(NAME, true, [create(&config_map("a")), passed_on]).await?;
    let calls = lab.calls(&run, 1).await?;
    let error = calls[0].error(1, "too-many-requests");
    assert_whole(error, 429, "TooManyRequests", "create", "configmaps");
    assert_eq!(error["retryAfterMs"], 2000);
    assert_eq!(busy.fired(), 1);
    // The argument of `failed` names the delay.
    let said = lab.host.says("retry_in").await?;
    assert!(said.contains("\"retry_in\":\"2s\""), "{said}");
    Ok(())
}

async fn a_server_that_fails(kind: Kind) -> anyhow::Result<()> {
    let lab = Lab::start(kind).await?;
    let writes = || Match::writes().resource("configmaps");
    for (refusal, reason, code, word) in [
        (Refusal::new(StatusCode::IM_A_TEAPOT, "Teapot", "short and stout"), "other", 418, "Teapot"),
        (Refusal::new(StatusCode::UNAUTHORIZED, "Unauthorized", "who are you"), "other", 401, "Unauthorized"),
        (
            Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", "limit is 3145728"),
            "too-large",
            413,
            "RequestEntityTooLarge",
        ),
    ] {
        let rule = lab.proxy.add(Fault::Refuse(refusal).on(writes()));
        let call = lab.run([json!({"call": "writes.delete", "target": target("a")})]).await?;
        assert_whole(call.error(1, reason), code, word, "delete", "configmaps");
        rule.remove();
    }
    Ok(())
}

async fn what_is_too_large(kind: Kind) -> anyhow::Result<()> {
    let lab = Lab::start(kind).await?;
    let mut large = config_map("large");
    large["data"] = json!({"text": {"$repeat": "x", "times": 3 << 20}});
    let patch = json!({"data": {"text": {"$repeat": "x", "times": 3 << 20}}});
    let call = lab
        .run([
            create(&large),
            json!({"call": "writes.update", "object": large}),
            json!({"call": "writes.apply", "object": large}),
            json!({"call": "writes.patch", "target": target("a"), "patchType": "merge", "patch": patch}),
        ])
        .await?;
    for (step, verb) in [(1, "create"), (2, "update"), (3, "patch"), (4, "patch")] {
        let error = call.error(step, "too-large");
        assert_whole(error, 413, "RequestEntityTooLarge", verb, "");
        assert!(error["message"].to_string().contains("3 MiB"), "{error}");
    }
    assert_eq!(lab.sent(), 0);
    Ok(())
}
