//! Writes whose response is lost: the plugin learns that the outcome is unknown, and the host finds out before the key
//! runs again.

use http::StatusCode;
use serde_json::json;
use windlass_proxy::{Fault, Loss, Match, Refusal, Verb};
use windlass_tests::probe::{Lab, NAME};
use windlass_tests::server::Kind;

use super::{config_map, on_both_servers, target};

on_both_servers!(
    a_create_whose_answer_is_lost_is_found_before_the_key_runs_again,
    a_change_whose_answer_is_lost_is_of_unknown_outcome,
    a_request_that_breaks_on_its_way_is_of_unknown_outcome,
    a_server_that_fails_may_have_done_it,
);

async fn a_create_whose_answer_is_lost_is_found_before_the_key_runs_again(kind: Kind) -> anyhow::Result<()> {
    let lab = Lab::start(kind).await?;
    let lost = Match::verb(Verb::Create).resource("configmaps");
    let lost = lab.proxy.add(Fault::Lose(Loss::Reset).on(lost).times(1));
    let create = json!({"call": "writes.create", "object": config_map("a")});
    let passed_on = json!({"call": "fail", "failures": [{"api": {"$from": "1"}}]});
    let run = lab.begin(NAME, true, [create, passed_on]).await?;
    let calls = lab.calls(&run, 2).await?;
    let error = calls[0].error(1, "unknown-outcome");
    assert_eq!(
        json!([error["verb"], error["resource"], error["object"]["name"]]),
        json!(["create", "configmaps", "a"])
    );
    assert_eq!(lost.fired(), 1);
    assert!(lab.server.objects().get("ConfigMap", "a").await?.is_some(), "the server has carried it out");
    let _ = calls[1].error(1, "already-exists");
    assert_eq!(calls[1].request["attempt"], 0, "it is nobody's fault");
    Ok(())
}

/// The key is held until a response can no longer arrive, which takes half a minute. Therefore each case uses its own
/// Probe.
async fn a_change_whose_answer_is_lost_is_of_unknown_outcome(kind: Kind) -> anyhow::Result<()> {
    let lab = Lab::start(kind).await?;
    let objects = lab.server.objects();
    for name in ["patched", "updated", "applied", "deleted"] {
        objects.apply(&config_map(name)).await?;
    }
    let with = |name: &str| {
        let mut object = config_map(name);
        object["data"] = json!({"a": "b"});
        object
    };
    let lost = lab.proxy.add(Fault::Lose(Loss::Reset).on(Match::writes().resource("configmaps")));
    for (name, verb, step) in [
        (
            "patched",
            "patch",
            json!({
                "call": "writes.patch", "target": target("patched"), "patchType": "merge", "patch": {"data": {"a": "b"}},
            }),
        ),
        ("updated", "update", json!({"call": "writes.update", "object": with("updated")})),
        ("applied", "patch", json!({"call": "writes.apply", "object": with("applied")})),
        ("deleted", "delete", json!({"call": "writes.delete", "target": target("deleted")})),
    ] {
        let call = lab.run_as(name, [step]).await?;
        let error = call.error(1, "unknown-outcome");
        assert_eq!(json!([error["verb"], error["object"]["name"]]), json!([verb, name]));
        let there = objects.get("ConfigMap", name).await?;
        assert_eq!(there.map(|it| it["data"]["a"] == "b"), (name != "deleted").then_some(true), "it was carried out");
    }
    assert_eq!(lost.fired(), 4, "nothing is sent twice");
    Ok(())
}

async fn a_request_that_breaks_on_its_way_is_of_unknown_outcome(kind: Kind) -> anyhow::Result<()> {
    let lab = Lab::start(kind).await?;
    let broken = lab.proxy.add(Fault::Reset.on(Match::verb(Verb::Create).resource("configmaps")));
    let call = lab.run([json!({"call": "writes.create", "object": config_map("a")})]).await?;
    let _ = call.error(1, "unknown-outcome");
    assert_eq!(broken.fired(), 1, "it is not sent again");
    assert!(lab.server.objects().get("ConfigMap", "a").await?.is_none(), "it has never arrived");
    Ok(())
}

async fn a_server_that_fails_may_have_done_it(kind: Kind) -> anyhow::Result<()> {
    let lab = Lab::start(kind).await?;
    let timeout = Refusal::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", "request did not complete within 30s");
    for (name, refusal, code) in
        [("a", timeout, 504), ("b", Refusal::internal_error(), 500), ("c", Refusal::unavailable(), 503)]
    {
        let rule = lab.proxy.add(Fault::Refuse(refusal).on(Match::writes().resource("configmaps")));
        let call = lab.run_as(name, [json!({"call": "writes.delete", "target": target("a")})]).await?;
        let error = call.error(1, "unknown-outcome");
        assert_eq!(error["code"], code, "{error}");
        rule.remove();
    }
    Ok(())
}
