//! Requests that a plugin must not send, or that cannot be sent, end in a typed error that says what is wrong and
//! where, without a trap and without a request.

use serde_json::{Value, json};
use windlass_tests::probe::Lab;
use windlass_tests::server::Kind;

use super::{config_map, on_both_servers, target};

on_both_servers!(
    bodies_that_are_no_objects_of_their_kind,
    names_that_lead_elsewhere,
    options_that_contradict,
    kinds_that_there_are_not
);

/// Runs the steps. All must be refused with their reason and words, without a request.
async fn refused(kind: Kind, cases: &[(Value, &str, &str)]) -> anyhow::Result<()> {
    let lab = Lab::start(kind).await?;
    let call = lab.run(cases.iter().map(|(step, ..)| step.clone())).await?;
    for (number, (step, reason, words)) in cases.iter().enumerate() {
        let error = call.error(number + 1, reason);
        assert!(
            error["message"].as_str().is_some_and(|text| text.contains(words)),
            "{words:?} is not in {error}: {step}"
        );
        let verb = step["call"].as_str().and_then(|call| call.strip_prefix("writes.")).unwrap_or_default();
        assert_eq!(error["verb"], if verb == "apply" { "patch" } else { verb }, "{error}");
    }
    assert_eq!(lab.sent(), 0, "{:?}", lab.proxy.requests());
    Ok(())
}

fn write(verb: &str, object: &Value) -> Value {
    json!({"call": format!("writes.{verb}"), "object": object})
}

async fn bodies_that_are_no_objects_of_their_kind(kind: Kind) -> anyhow::Result<()> {
    let bodies = [
        (json!("not json"), "the body is not a JSON object"),
        (json!(""), "the body is not a JSON object"),
        (json!("{\"apiVersion\":\"v1\""), "the body is not a JSON object"),
        (json!("{} {}"), "the body is not a JSON object"),
        (json!([]), "the body is not a JSON object"),
        (json!(7), "the body is not a JSON object"),
        (json!(null), "the body is not a JSON object"),
        (json!("{\"kind\":\"A\",\"kind\":\"B\"}"), "\"kind\" appears twice"),
        (json!({}), "apiVersion is missing"),
        (json!({"apiVersion": "v1", "metadata": {"name": "a"}}), "kind is missing"),
        (json!({"kind": "ConfigMap", "metadata": {"name": "a"}}), "apiVersion is missing"),
        (
            json!({"apiVersion": 1, "kind": "ConfigMap", "metadata": {"name": "a"}}),
            "apiVersion is missing or not a string",
        ),
        (json!({"apiVersion": "v1", "kind": "ConfigMap"}), "metadata.name is missing"),
        (
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": 7}}),
            "metadata.name is missing or not a string",
        ),
        (json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": 7}), "the body is not a JSON object"),
    ];
    let mut cases = Vec::new();
    for verb in ["create", "update", "apply"] {
        cases.extend(bodies.iter().map(|(body, words)| (write(verb, body), "invalid", *words)));
    }
    for (patch_type, patch) in
        [("merge", json!("nothing")), ("merge", json!([])), ("strategic", json!(7)), ("json", json!({}))]
    {
        let step = json!({"call": "writes.patch", "target": target("a"), "patchType": patch_type, "patch": patch});
        cases.push((step, "invalid", "not a JSON"));
    }
    refused(kind, &cases).await
}

async fn names_that_lead_elsewhere(kind: Kind) -> anyhow::Result<()> {
    let mut cases = Vec::new();
    for name in ["a/b", "..", ".", "a%2fb"] {
        cases.push((write("create", &config_map(name)), "invalid", "cannot be a name"));
        cases.push((json!({"call": "writes.delete", "target": target(name)}), "invalid", "cannot be the name"));
        let mut elsewhere = config_map("a");
        elsewhere["metadata"]["namespace"] = json!(name);
        cases.push((write("apply", &elsewhere), "invalid", "cannot be a namespace"));
    }
    let long = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": {"$repeat": "a", "times": 254}});
    cases.push((json!({"call": "writes.delete", "target": long}), "invalid", "cannot be the name"));
    let mut namespaced =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a", "namespace": "default"}});
    cases.push((
        write("create", &namespaced),
        "invalid",
        "v1 Namespace is cluster-scoped, but the namespace default is given",
    ));
    namespaced = json!({"apiVersion": "v1", "kind": "Namespace", "name": "a", "namespace": "default"});
    cases.push((json!({"call": "writes.delete", "target": namespaced}), "invalid", "cluster-scoped"));
    refused(kind, &cases).await
}

async fn options_that_contradict(kind: Kind) -> anyhow::Result<()> {
    let with = |verb: &str, object: &Value, options: Value| json!({"call": format!("writes.{verb}"), "object": object, "options": options});
    let mut versioned = config_map("a");
    versioned["metadata"]["resourceVersion"] = json!("7");
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "other"}, "spec": {"replicas": 1}});
    let parent = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}});
    let cases = [
        (with("create", &config_map("a"), json!({"resourceVersion": "7"})), "cannot be locked to a resource version"),
        (
            with("update", &versioned, json!({"resourceVersion": "8"})),
            "is \"7\", but the options lock the write to \"8\"",
        ),
        (with("update", &config_map("a"), json!({"resourceVersion": ""})), "cannot be a resourceVersion"),
        (
            with("update", &scale, json!({"subresource": {"name": "scale", "parent": parent}})),
            "the body has the name other, but its parent is named a",
        ),
        (
            with("update", &pod, json!({"subresource": {"name": "status"}, "owned": true})),
            "a subresource cannot be owned",
        ),
        (with("update", &pod, json!({"subresource": {"name": "../a"}})), "is not a subresource"),
        (with("create", &namespace, json!({"owned": true})), "cluster-scoped"),
    ];
    let cases: Vec<_> = cases.into_iter().map(|(step, words)| (step, "invalid", words)).collect();
    refused(kind, &cases).await
}

async fn kinds_that_there_are_not(kind: Kind) -> anyhow::Result<()> {
    let of = |version: &str, kind: &str| {
        write("create", &json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}}))
    };
    let delete = |version: &str, kind: &str| json!({"call": "writes.delete", "target": {"apiVersion": version, "kind": kind, "name": "a"}});
    refused(
        kind,
        &[
            (of("absent.windlass.dev/v1", "Thing"), "not-found", "absent.windlass.dev/v1 Thing"),
            (delete("absent.windlass.dev/v1", "Thing"), "not-found", "absent.windlass.dev/v1 Thing"),
            (of("v1", "ConfigMop"), "not-found", "v1 ConfigMop"),
            (of("v7", "ConfigMap"), "not-found", "v7 ConfigMap"),
            (of("a/b/c", "ConfigMap"), "not-granted", "a/b/c"),
            (delete("v1", "Config/Map"), "invalid", "`Config/Map` is not a kind"),
        ],
    )
    .await
}
