use std::time::Duration;

use http::Method;
use serde_json::json;
use windlass_core::call::ports::{CallContext, Event, EventType, Events as _};
use windlass_core::secret::confidential::Confidential;
use windlass_kube::Recorder;

use crate::script::{Reply, Script, call, pod};

const EVENTS_SENT_TIMEOUT: Duration = Duration::from_mins(10);

fn event(note: &str) -> Event {
    Event {
        regarding: None,
        related: None,
        event_type: EventType::Normal,
        reason: "Created".into(),
        action: "Create".into(),
        note: note.into(),
    }
}

fn script(replies: impl IntoIterator<Item = Reply>) -> Script {
    Script::default().mutations(replies)
}

fn created() -> Reply {
    Reply::Json(201, pod("e", "u", 1))
}

#[tokio::test(start_paused = true)]
async fn a_repeated_event_about_the_primary_is_counted() {
    let script = script([created()]);
    let recorder = Recorder::new(script.client());
    recorder.emit(&call(), event("a Deployment"));
    recorder.emit(&call(), event("a Deployment"));
    assert!(recorder.flush(EVENTS_SENT_TIMEOUT).await);
    let asked = script.mutations_asked();
    let (first, second) = (asked[0].json(), asked[1].json());
    assert_eq!(asked[0].path, "/apis/events.k8s.io/v1/namespaces/prod/events");
    assert!(asked[0].user_agent.contains("webapp@"), "{}", asked[0].user_agent);
    assert_eq!(first["regarding"]["uid"], "u-shop");
    assert_eq!(
        (&first["reportingController"], &first["reportingInstance"]),
        (&json!("windlass/webapp"), &json!("host-1"))
    );
    assert_eq!((&first["type"], &first["note"]), (&json!("Normal"), &json!("a Deployment")));
    assert_eq!(asked[1].method, Method::PATCH);
    assert!(asked[1].path.ends_with(first["metadata"]["name"].as_str().expect("a name")));
    assert_eq!(second["series"]["count"], 2);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_the_server_has_forgotten_is_created_again() {
    let script = script([created(), Reply::Json(404, json!({})), created()]);
    let recorder = Recorder::new(script.client());
    recorder.emit(&call(), event("x"));
    recorder.emit(&call(), event("x"));
    assert!(recorder.flush(EVENTS_SENT_TIMEOUT).await);
    let methods: Vec<_> = script.mutations_asked().into_iter().map(|asked| asked.method).collect();
    assert_eq!(methods, [Method::POST, Method::PATCH, Method::POST]);
}

#[tokio::test(start_paused = true)]
async fn a_temporary_failure_is_retried_and_a_refusal_is_not() {
    let busy = Reply::Json(503, json!({}));
    let script = script([busy.clone(), busy, created(), Reply::Json(403, json!({})), created()]);
    let recorder = Recorder::new(script.client());
    for note in ["tried again", "refused", "next"] {
        recorder.emit(&call(), event(note));
        assert!(recorder.flush(EVENTS_SENT_TIMEOUT).await);
    }
    let notes: Vec<_> = script.mutations_asked().iter().map(|asked| asked.json()["note"].clone()).collect();
    assert_eq!(notes, ["tried again", "tried again", "tried again", "refused", "next"]);
    let names: Vec<_> = script.mutations_asked().iter().map(|asked| asked.json()["metadata"]["name"].clone()).collect();
    assert!(names[0] == names[1] && names[1] == names[2], "one name, so that it is created once");
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_tried_again_keeps_only_its_own_series_waiting() {
    let busy = Reply::Json(503, json!({}));
    let script = script([busy, created(), created(), created()]);
    let recorder = Recorder::new(script.client());
    for note in ["slow", "next", "slow"] {
        recorder.emit(&call(), event(note));
    }
    assert!(recorder.flush(EVENTS_SENT_TIMEOUT).await);
    let asked: Vec<_> = script.mutations_asked().iter().map(|asked| (asked.method.clone(), asked.json())).collect();
    let methods: Vec<_> = asked.iter().map(|(method, _)| method.clone()).collect();
    assert_eq!(methods, [Method::POST, Method::POST, Method::POST, Method::PATCH]);
    let notes: Vec<_> = asked[..3].iter().map(|(_, body)| body["note"].clone()).collect();
    assert_eq!(notes, ["slow", "next", "slow"]);
    assert_eq!(asked[3].1["series"]["count"], 2, "the second of a series waits until the first is there");
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_recorder_costs_one_event() {
    let script = script([Reply::Panic, created()]);
    let recorder = Recorder::new(script.client());
    for note in ["fallen over", "next"] {
        recorder.emit(&call(), event(note));
    }
    assert!(recorder.flush(EVENTS_SENT_TIMEOUT).await);
    let notes: Vec<_> = script.mutations_asked().iter().map(|asked| asked.json()["note"].clone()).collect();
    assert_eq!(notes, ["fallen over", "next"]);
}

#[tokio::test(start_paused = true)]
async fn a_flush_ends_in_time_and_a_full_queue_drops() {
    let script = script([Reply::Never]);
    let recorder = Recorder::new(script.client());
    for number in 0..1_100 {
        recorder.emit(&call(), event(&number.to_string()));
    }
    assert!(!recorder.flush(Duration::from_secs(2)).await);
    assert!(recorder.dropped() >= 99, "{}", recorder.dropped());
}

#[tokio::test(start_paused = true)]
async fn a_note_has_no_secret_of_the_configuration() {
    let script = script([created(), created()]);
    let recorder = Recorder::new(script.client());
    let config = Confidential::holding("{}", ["hunter22", "true"].map(Confidential::from));
    let long = format!("{}hunter22", "x".repeat(1_020));
    recorder.emit(&CallContext { config: config.clone(), ..call() }, event("it is true that hunter22 failed"));
    recorder.warn(&CallContext { config, ..call() }, "GaveUp", long);
    assert!(recorder.flush(EVENTS_SENT_TIMEOUT).await);
    let notes: Vec<_> = script.mutations_asked().iter().map(|it| it.json()["note"].to_string()).collect();
    assert!(notes.iter().any(|note| note.contains("it is true that <redacted> failed")), "{notes:?}");
    assert!(notes.iter().all(|note| !note.contains("hunt")), "{notes:?}");
}
