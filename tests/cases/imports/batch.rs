//! `writes.batch`: many operations, each with its own result, in the order of the argument.

use serde_json::{Value, json};
use windlass_proxy::{Fault, Match, Verb};
use windlass_tests::probe::Lab;
use windlass_tests::server::Kind;

use super::{config_map, on_both_servers, target};

on_both_servers!(a_batch_returns_its_results_in_order, a_batch_runs_at_the_same_time, a_batch_that_fails_stays_small);

fn create(name: &str) -> Value {
    json!({"op": "create", "object": config_map(name)})
}

async fn a_batch_returns_its_results_in_order(kind: Kind) -> anyhow::Result<()> {
    let lab = Lab::start(kind).await?;
    lab.server.objects().apply(&config_map("there")).await?;
    lab.server.objects().apply(&config_map("gone")).await?;
    let mut applied = config_map("applied");
    applied["data"] = json!({"a": "b"});
    let operations = json!([
        create("one"),
        {"op": "patch", "target": target("there"), "patchType": "merge", "patch": {"data": {"a": "b"}}},
        {"op": "apply", "object": applied, "options": {"owned": true}},
        {"op": "delete", "target": target("gone")},
        create("one more"),
        create("there"),
        {"op": "create", "object": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}},
        {"op": "update", "object": config_map("none")},
        {"op": "create", "object": "not json"},
        {"op": "delete", "target": target("a/b")},
    ]);
    let call = lab
        .run([
            json!({"call": "writes.batch", "operations": operations}),
            json!({"call": "writes.batch", "operations": []}),
        ])
        .await?;
    let answers = call.ok(1).as_array().expect("a list");
    assert_eq!(answers[0]["ok"]["metadata"]["name"], "one");
    assert_eq!(answers[1]["ok"]["data"], json!({"a": "b"}));
    assert_eq!(answers[2]["ok"]["metadata"]["ownerReferences"][0]["kind"], "Probe");
    assert_eq!(answers[3], json!({"ok": null}));
    let refused = [
        (4, "invalid", "create"),
        (5, "already-exists", "create"),
        (6, "not-granted", "create"),
        (7, "not-found", "update"),
        (8, "invalid", "create"),
        (9, "invalid", "delete"),
    ];
    for (index, reason, verb) in refused {
        let error = &answers[index]["error"];
        assert_eq!(json!([error["reason"], error["verb"]]), json!([reason, verb]), "{index}: {}", answers[index]);
    }
    assert_eq!(answers.len(), 10);
    assert_eq!(*call.ok(2), json!([]));
    // Six of the writes are sent, and two reads. The host reads the objects of the update and the apply, because the
    // cache does not have them: the update may remove finalizers, and the apply may give an owner to an existing
    // object.
    assert_eq!(lab.sent(), 8, "what cannot be sent is not");
    Ok(())
}

async fn a_batch_runs_at_the_same_time(kind: Kind) -> anyhow::Result<()> {
    let lab = Lab::start(kind).await?;
    let delay = std::time::Duration::from_secs(1);
    let slow = lab.proxy.add(Fault::DelayRequest(delay..=delay).on(Match::verb(Verb::Create).resource("configmaps")));
    let operations: Vec<_> = (0..31).map(|number| create(&format!("n{number}"))).collect();
    let clock = || json!({"call": "clock.now"});
    let call = lab.run([clock(), json!({"call": "writes.batch", "operations": operations}), clock()]).await?;
    assert_eq!(slow.fired(), 31);
    let seconds = |step: u32| {
        let now = call.ok(step);
        now["seconds"].as_f64().unwrap_or_default() + now["nanoseconds"].as_f64().unwrap_or_default() / 1e9
    };
    // One after the other, the writes would take at least 31 s. In groups of 1, 2, 4, 8 and 16 they take five seconds,
    // plus the machine's delays.
    let took = seconds(3) - seconds(1);
    assert!((5.0..25.0).contains(&took), "{took} s");
    assert_eq!(
        lab.server
            .objects()
            .list("ConfigMap", "")
            .await?
            .iter()
            .filter(|it| { it["metadata"]["name"].as_str().is_some_and(|name| name.starts_with('n')) })
            .count(),
        31
    );
    Ok(())
}

async fn a_batch_that_fails_stays_small(kind: Kind) -> anyhow::Result<()> {
    let lab = Lab::start(kind).await?;
    let operations: Vec<_> = (0..8).map(|_| create("Not_A_Name")).collect();
    let call = lab.run([json!({"call": "writes.batch", "operations": operations})]).await?;
    let answers = call.ok(1).as_array().expect("a list");
    assert_eq!(answers.len(), 8, "each has an answer, whether or not it was attempted");
    assert!(answers.iter().all(|answer| answer.get("error").is_some()), "{answers:?}");
    assert_eq!(lab.sent(), 3, "after three rounds of nothing but failures the rest is left out");
    Ok(())
}
