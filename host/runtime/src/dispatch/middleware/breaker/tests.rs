use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass_core::call::ports::Absent;
use windlass_core::object::ObjectKey;
use windlass_core::queue::breaker::BreakerState;
use windlass_wasm::CallLimits;

use super::*;
use crate::dispatch::circuit::Pass;
use crate::observe::metrics::HostMetrics;
use crate::observe::status::Status;
use crate::tests::played::{Plugin, call, object};
use crate::tests::played_events::PlayedEvents;

#[tokio::test(start_paused = true)]
async fn an_opened_circuit_is_reported_once_with_the_last_trap_and_reason() {
    let (events, metrics, circuit) = (Arc::new(PlayedEvents::default()), HostMetrics::new(), Circuit::default());
    let status = Status::new(CancellationToken::new()).plugin("a").controller("a", 1, metrics.controller("a", "a"));
    let trap = CallResult::Trapped { reason: "memory", message: "the plugin was stopped: it needs more".into() };
    let guarded =
        BreakerRecord::new(Plugin::answering(trap).boxed(), circuit.clone(), status, events.clone() as Arc<dyn Events>);
    for number in 0..5 {
        assert_eq!(circuit.to_json()["state"], "closed");
        let (request, context) = call(Some(object("1", "{}", false)));
        let key = ObjectKey::namespaced("prod", format!("a{number}"));
        let context = Arc::new(CallContext { primary_key: key.clone(), ..(*context).clone() });
        let round = circuit.admit().expect("it is closed").round();
        guarded
            .reconcile(Call {
                request,
                ports: &Absent::ports(),
                context,
                limits: CallLimits::default(),
                round,
                must_be_made: true,
            })
            .await;
    }
    assert!(circuit.admit().is_none());
    let shown = circuit.to_json();
    let trap = "the plugin was stopped: it needs more";
    assert_eq!(shown, json!({"state": "open", "openings": 1, "probeInSeconds": 10, "lastTrap": trap}));
    let events = events.all();
    let [(reason, note)] = &*events else { panic!("{events:?}") };
    assert_eq!(reason, "CircuitOpened");
    assert!(note.contains(trap) && note.contains("10s"), "{note}");
    let text = metrics.text();
    for line in [
        r#"windlass_calls_trapped_total{controller="a",plugin="a",reason="memory"} 5"#,
        r#"windlass_controller_breaker_openings_total{controller="a",plugin="a"} 1"#,
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

/// A guarded plugin that answers `result`.
fn guarded(circuit: &Circuit, result: CallResult) -> BreakerRecord {
    let metrics = HostMetrics::new().controller("a", "a");
    let status = Status::new(CancellationToken::new()).plugin("a").controller("a", 1, metrics);
    BreakerRecord::new(Plugin::answering(result).boxed(), circuit.clone(), status, Arc::new(PlayedEvents::default()))
}

async fn make(guarded: &BreakerRecord, key: &ObjectKey, pass: &Pass) {
    let (request, context) = call(Some(object("1", "{}", false)));
    let context = Arc::new(CallContext { primary_key: key.clone(), ..(*context).clone() });
    guarded
        .reconcile(Call {
            request,
            ports: &Absent::ports(),
            context,
            limits: CallLimits::default(),
            round: pass.round(),
            must_be_made: true,
        })
        .await;
}

fn keys(count: usize) -> Vec<ObjectKey> {
    (0..count).map(|number| ObjectKey::namespaced("prod", format!("a{number}"))).collect()
}

#[tokio::test(start_paused = true)]
async fn a_call_admitted_before_the_circuit_opened_does_not_close_it() {
    let circuit = Circuit::default();
    let early = ObjectKey::namespaced("prod", "early");
    let early_pass = circuit.admit().expect("it is closed");
    let traps = guarded(&circuit, CallResult::Trapped { reason: "trap", message: "unreachable".into() });
    for key in keys(5) {
        let pass = circuit.admit().expect("it is closed");
        make(&traps, &key, &pass).await;
    }
    tokio::time::advance(Duration::from_secs(10)).await;
    let probe = ObjectKey::namespaced("prod", "probe");
    let probe_pass = circuit.admit().expect("one may try");
    let answers = guarded(&circuit, CallResult::Done);
    make(&answers, &early, &early_pass).await;
    assert_eq!(circuit.state(), BreakerState::HalfOpen);
    make(&answers, &probe, &probe_pass).await;
    assert_eq!(circuit.state(), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn calls_cut_while_waiting_for_a_server_neither_open_nor_close_a_circuit() {
    let circuit = Circuit::default();
    let waited =
        CallResult::Trapped { reason: windlass_core::queue::outcome::WAITED, message: "it had not ended".into() };
    let waits = guarded(&circuit, waited);
    for key in keys(20) {
        let pass = circuit.admit().expect("it stays closed");
        make(&waits, &key, &pass).await;
    }
    let traps = guarded(&circuit, CallResult::Trapped { reason: "trap", message: "unreachable".into() });
    for (number, key) in keys(5).iter().enumerate() {
        let pass = circuit.admit().expect("it is closed");
        make(&traps, key, &pass).await;
        if number == 3 {
            make(&waits, key, &pass).await;
        }
    }
    assert_eq!(circuit.state(), BreakerState::Open);
    tokio::time::advance(Duration::from_secs(10)).await;
    let probe = circuit.admit().expect("one may try");
    make(&waits, &keys(1)[0], &probe).await;
    drop(probe);
    assert_eq!(circuit.state(), BreakerState::HalfOpen, "the next may try");
    assert!(circuit.admit().is_some());
}
