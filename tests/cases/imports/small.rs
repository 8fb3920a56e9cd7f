//! Tests `events`, `log`, `config`, `clock` and `random`: imports that neither read the cache nor change an object.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use windlass_tests::probe::{Lab, NAME};
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::until;

use super::{config_map, on_both_servers, target};

on_both_servers!(
    events_are_sent_and_never_fail_a_call,
    a_line_of_the_log_says_whose_it_is,
    time_goes_on_and_chance_differs,
);

fn emit(event: &Value) -> Value {
    json!({"call": "events.emit", "event": event})
}

async fn events_are_sent_and_never_fail_a_call(kind: Kind) -> anyhow::Result<()> {
    let lab = Lab::start(kind).await?;
    let objects = lab.server.objects();
    let there = objects.apply(&config_map("there")).await?;
    let mut regarding = target("there");
    regarding["uid"] = there["metadata"]["uid"].clone();
    regarding["namespace"] = json!(objects.namespace());
    let event = |reason: &str| json!({"reason": reason, "action": "Probe", "note": format!("about {reason}")});
    let mut of_another = event("OfAnother");
    of_another["regarding"] = regarding.clone();
    of_another["eventType"] = json!("warning");
    let mut related = event("Related");
    related["related"] = regarding;
    let mut elsewhere = event("Elsewhere");
    elsewhere["regarding"] = json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": "a"});
    let mut impossible = event("Impossible");
    impossible["regarding"] = json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": "a/b"});
    let mut long = event("Long");
    long["note"] = json!({"$repeat": "ü", "times": 2000});
    let call = lab
        .run([
            emit(&event("OfThePrimary")),
            emit(&of_another),
            emit(&related),
            emit(&elsewhere),
            emit(&impossible),
            emit(&event("")),
            emit(&long),
        ])
        .await?;
    assert_eq!(call.steps.len(), 7);
    let sent = until("the events are there", || async {
        let events = objects.list("Event", "").await?;
        let is_there = |reason: &&str| events.iter().any(|event| event["reason"] == **reason);
        anyhow::ensure!(["OfThePrimary", "OfAnother", "Related", "Long"].iter().all(is_there), "{events:?}");
        Ok(events)
    })
    .await?;
    let find = |reason: &str| sent.iter().find(|event| event["reason"] == reason);
    let of_primary = find("OfThePrimary").expect("it is sent");
    assert_eq!(
        json!([of_primary["regarding"]["kind"], of_primary["regarding"]["name"], of_primary["type"]]),
        json!(["Probe", NAME, "Normal"])
    );
    assert_eq!(json!([of_primary["action"], of_primary["note"]]), json!(["Probe", "about OfThePrimary"]));
    let of_another = find("OfAnother").expect("it is sent");
    assert_eq!(of_another["regarding"]["uid"], there["metadata"]["uid"]);
    assert_eq!(of_another["type"], "Warning");
    assert_eq!(find("Related").expect("it is sent")["related"]["name"], "there");
    let note = find("Long").expect("it is sent")["note"].as_str().unwrap_or_default();
    assert!(note.ends_with('…') && note.len() <= 1024, "{note}");
    assert!(find("Impossible").is_none() && find("").is_none());
    let far = windlass_tests::objects::Objects::new(objects.client().clone(), "default").list("Event", "").await?;
    assert!(!far.iter().any(|event| event["reason"] == "Elsewhere"), "it is not the plugin's namespace");
    Ok(())
}

async fn a_line_of_the_log_says_whose_it_is(kind: Kind) -> anyhow::Result<()> {
    let lab = Lab::on(Server::start(kind).await?, &["--log-level", "info,windlass::plugin=debug"]).await?;
    let line = |level: &str, message: Value| json!({"call": "log.log", "level": level, "message": message, "fields": [["a", "1"], ["b c", "2=\"3\""]]});
    let call = lab
        .run([
            line("debug", json!("a line for debugging")),
            line("info", json!("two\nlines, \u{1b}[31mred\u{1b}[0m and \u{202e}backwards")),
            line("warn", json!({"$repeat": "long ", "times": 4000})),
            line("error", json!("an error of the probe's")),
            line("trace", json!("too much detail")),
            line("info", json!("the last")),
        ])
        .await?;
    lab.host.says("the last").await?;
    let log = lab.host.log();
    let lines: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let find = |part: &str| lines.iter().find(|line| line["message"].as_str().is_some_and(|text| text.contains(part)));
    for (level, part) in
        [("DEBUG", "for debugging"), ("INFO", "two\\nlines"), ("WARN", "long long"), ("ERROR", "an error")]
    {
        let line = find(part).unwrap_or_else(|| panic!("no line {part:?}:\n{log}"));
        assert_eq!(line["level"], level);
        let whose = json!([line["plugin"], line["controller"], line["trace_id"]]);
        assert_eq!(whose, json!(["probe", "probe", call.request["traceId"]]), "{line}");
        assert_eq!(line["key"], format!("{}/{NAME}", lab.server.objects().namespace()));
        assert_eq!(line["fields"], json!({"a": "1", "b c": "2=\"3\""}));
    }
    let forged = find("two\\nlines").and_then(|line| line["message"].as_str()).unwrap_or_default();
    assert_eq!(forged, "two\\nlines, \\u{1b}[31mred\\u{1b}[0m and \\u{202e}backwards");
    let cut = find("long long").and_then(|line| line["message"].as_str()).unwrap_or_default();
    assert!(cut.len() < (8 << 10) + 40 && cut.ends_with("more bytes)"), "{} bytes", cut.len());
    assert!(find("too much detail").is_none());
    Ok(())
}

async fn time_goes_on_and_chance_differs(kind: Kind) -> anyhow::Result<()> {
    let before = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let lab = Lab::start(kind).await?;
    let steps = || {
        [
            json!({"call": "clock.now"}),
            json!({"call": "clock.now"}),
            json!({"call": "random.get-u32"}),
            json!({"call": "random.get-bytes", "length": 32}),
            json!({"call": "random.get-bytes", "length": 0}),
            json!({"call": "config.get"}),
            json!({"call": "triggers.list"}),
        ]
    };
    let (first, second) = (lab.run(steps()).await?, lab.run(steps()).await?);
    for call in [&first, &second] {
        let why = &call.ok(7)[0];
        assert_eq!(
            json!([why["reason"], why["object"]["kind"], why["object"]["name"]]),
            json!(["Changed", "Probe", NAME])
        );
    }
    let after = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let time = |call: &windlass_tests::probe::Call, step: u32| {
        let now = call.ok(step);
        (now["seconds"].as_u64().unwrap_or_default(), now["nanoseconds"].as_u64().unwrap_or_default())
    };
    let times = [time(&first, 1), time(&first, 2), time(&second, 1), time(&second, 2)];
    assert!(times.is_sorted(), "{times:?}");
    assert!(times.iter().all(|(seconds, nanos)| (before..=after).contains(seconds) && *nanos < 1_000_000_000));
    assert_ne!(first.ok(4), second.ok(4));
    assert_eq!(first.ok(4).as_array().map(Vec::len), Some(32));
    assert!(first.ok(3).as_u64().is_some_and(|number| u32::try_from(number).is_ok()));
    assert_eq!(*first.ok(5), json!([]));
    assert_eq!(*first.ok(6), json!({}), "nothing is configured");

    // A request beyond a limit ends the call, but not the next call.
    let run = lab.begin(NAME, false, [json!({"call": "random.get-bytes", "length": 1 << 20})]).await?;
    lab.host.says("it asks for more than 64 KiB of randomness at once").await?;
    assert!(lab.calls_so_far(&run).iter().all(|call| call.steps.is_empty()));
    assert_eq!(*lab.run(steps()).await?.ok(6), json!({}));
    Ok(())
}
