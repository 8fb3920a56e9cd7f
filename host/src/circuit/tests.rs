use tokio_util::sync::CancellationToken;
use windlass_core::ports::Absent;

use super::played_events::Told;
use super::*;
use crate::finalize::played::{Plugin, call, object};
use crate::metrics::HostMetrics;
use crate::status::Status;

#[tokio::test(start_paused = true)]
async fn that_it_opens_is_told_once_with_the_last_trap_and_counted_by_reason() {
    let (told, metrics, circuit) = (Arc::new(Told::default()), HostMetrics::new(), Circuit::default());
    let status = Status::new(CancellationToken::new()).plugin("a").controller("a", 1, metrics.controller("a", "a"));
    let trap = CallResult::Trapped { reason: "memory", message: "the plugin was stopped: it needs more".into() };
    let guarded =
        Guarded::new(Plugin::answering(trap).boxed(), circuit.clone(), status, told.clone() as Arc<dyn Events>);
    for number in 0..5 {
        assert_eq!(circuit.to_json()["state"], "closed");
        let (request, context) = call(Some(object("1", "{}", false)));
        let key = ObjectKey::namespaced("prod", format!("a{number}"));
        let context = Arc::new(CallContext { primary_key: key, ..(*context).clone() });
        let pass = circuit.admit();
        assert!(pass.is_some());
        guarded.reconcile(request, &Absent::ports(), context, CallLimits::default()).await;
    }
    assert!(circuit.admit().is_none());
    let shown = circuit.to_json();
    let trap = "the plugin was stopped: it needs more";
    assert_eq!(shown, json!({"state": "open", "openings": 1, "probeInSeconds": 10, "lastTrap": trap}));
    let told = told.all();
    let [(reason, note)] = &*told else { panic!("{told:?}") };
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
