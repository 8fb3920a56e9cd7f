//! Steps after which the host makes the next call about the object, even if nothing has changed (ADR 46).

use serde_json::{Value, json};
use windlass_core::call::read_tracker::Spoiler;

use crate::call::Call;
use crate::languages::{Part, selected};
use crate::ports::in_order;
use crate::verdict::Findings;

/// Each step, and the reason to make the next call.
fn steps() -> Vec<(Value, Option<Spoiler>)> {
    let logs = json!({"call": "logger", "level": "info", "message": "a line", "fields": [["name", "a"]]});
    let sets = json!({
        "call": "conditions.set", "conditions": [{
            "type": "Ready", "status": "True", "reason": "A", "message": "", "lastTransitionTime": "2026-11-29T08:00:00Z",
        }],
        "generation": 1, "type": "Ready", "status": "True", "reason": "B", "message": "",
    });
    vec![
        (logs, None),
        (sets, None),
        // The order of a map follows from the seeds of the call, which its audit gets again.
        (json!({"call": "language.order"}), None),
        (json!({"call": "clock.now"}), Some(Spoiler::Clock)),
        (json!({"call": "language.now"}), Some(Spoiler::Clock)),
        (json!({"call": "random.bytes", "length": 8}), Some(Spoiler::Chance)),
        (json!({"call": "language.random"}), Some(Spoiler::Chance)),
    ]
}

#[test]
fn a_call_is_spoiled_if_the_plugin_gets_the_time_or_random_data() {
    let mut findings = Findings::default();
    for language in selected(Part::Reconciler) {
        for (step, expected) in steps() {
            let found = language.plugin().and_then(|plugin| {
                let found = Call::with_steps(&json!([step])).spoiler(&plugin, in_order(&[]));
                let always_draws = found == Some(Spoiler::Chance) && language.draws_in_each_call();
                if found == expected || always_draws {
                    return Ok(());
                }
                Err(format!("it is spoiled by {found:?}, and not by {expected:?}"))
            });
            findings.add(&language, &step["call"].to_string(), found);
        }
    }
    findings.end();
}
