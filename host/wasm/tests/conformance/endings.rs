//! How calls end: with errors of every class, from the host and from the plugin, or because the call is stopped.

use std::time::Duration;

use serde_json::{Value, json};

use crate::call::Call;
use crate::case::Case;
use crate::languages::{Language, Part, selected};
use crate::ports::in_order;
use crate::verdict::{Findings, same, shown};
use crate::wire::{HTTP_REASONS, REASONS};

/// Languages whose runtime can report where an exception was thrown.
const WITH_STACKS: [&str; 4] = ["go", "python", "js", "starlark"];

fn target() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "prod", "name": "a"})
}

fn error(reason: &str) -> Value {
    json!({
        "code": 418, "reason": reason, "statusReason": format!("Of{reason}"), "message": format!("größer als {reason}"),
        "retryAfterMs": 1234, "verb": "get", "resource": "deployments.apps/scale",
        "object": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "prod", "name": "a", "uid": "u-1"},
    })
}

#[test]
fn errors_of_every_class_reach_the_plugin_whole() {
    let of_the_api = REASONS.iter().map(|(_, reason)| Case {
        name: format!("an error with the reason {reason}"),
        steps: json!([{"call": "cache.get", "target": target()}, {"call": "live.get", "target": target()}]),
        answers: vec![json!({"error": error(reason)}), json!({"error": {"reason": reason, "code": 500, "statusReason": "R", "verb": "get"}})],
        asked: vec![json!({"cache.get": target()}), json!({"live.get": target()})],
        results: Some(json!([
            {"error": error(reason)},
            {"error": {"reason": reason, "code": 500, "statusReason": "R", "verb": "get", "message": "", "resource": ""}},
        ])),
        ..Case::default()
    });
    let of_http = HTTP_REASONS.iter().map(|(_, reason)| Case {
        name: format!("an HTTP error with the reason {reason}"),
        steps: json!([{"call": "http.fetch", "request": {"method": "GET", "url": "https://api.example.com/"}}]),
        answers: vec![json!({"error": {"reason": reason, "message": "größer"}})],
        asked: vec![json!({"http.fetch": {"method": "GET", "url": "https://api.example.com/", "headers": []}})],
        results: Some(json!([{"error": {"reason": reason, "message": {"$contains": "größer"}}}])),
        ..Case::default()
    });
    super::all(&of_the_api.chain(of_http).collect::<Vec<_>>());
}

#[test]
fn errors_of_every_class_go_back_to_the_host_with_their_class() {
    let ended = |reason| json!({"failed": [{"api": error(reason)}]});
    let propagated = REASONS.iter().map(|(_, reason)| Case {
        name: format!("an error with the reason {reason} that is propagated"),
        steps: json!([{"call": "propagate", "target": target()}]),
        answers: vec![json!({"error": error(reason)})],
        asked: vec![json!({"cache.get": target()})],
        ended: Some(ended(reason)),
        ..Case::default()
    });
    let wrapped = REASONS.iter().map(|(_, reason)| {
        let mut ended = ended(reason);
        ended["failed"][0]["api"]["message"] = json!(format!("while reading: größer als {reason}"));
        Case {
            name: format!("an error with the reason {reason} that is wrapped"),
            steps: json!([{"call": "wrap", "target": target(), "message": "while reading"}]),
            answers: vec![json!({"error": error(reason)})],
            asked: vec![json!({"cache.get": target()})],
            ended: Some(ended),
            ..Case::default()
        }
    });
    let made = REASONS.iter().map(|(_, reason)| Case {
        name: format!("an error with the reason {reason} that the plugin makes"),
        steps: json!([{"call": "fail", "failures": [{"api": error(reason)}]}]),
        ended: Some(ended(reason)),
        ..Case::default()
    });
    super::all(&propagated.chain(wrapped).chain(made).collect::<Vec<_>>());
}

/// Ends a call by `step`, checks how it ended, and checks that the next call is not affected.
fn ends(step: &Value, check: impl Fn(&Language, &crate::call::Seen) -> Result<(), String>) {
    let mut findings = Findings::default();
    for language in selected(Part::Reconciler) {
        let name = step["call"].as_str().unwrap_or_default();
        findings.add(
            &language,
            name,
            language.plugin().and_then(|plugin| {
                let call = Call::with_steps(&json!([{"call": "echo", "value": 1}, step])).again();
                let seen = Call { deadline: Duration::from_secs(5), ..call }.make(&plugin, in_order(&[]));
                check(&language, &seen)?;
                if let Some(report) = &seen.report {
                    return Err(format!("expected no report after the failed step\n      got {}", shown(report)));
                }
                let next = Call::with_steps(&json!([{"call": "echo", "value": 2}])).again();
                let next = next.make(&plugin, in_order(&[]));
                same(&json!([{"ok": 2}]), &next.results())
                    .map_err(|differs| format!("the call after it: {differs}\n      {}", shown(&next.ended)))
            }),
        );
    }
    findings.end();
}

fn is_stopped(seen: &crate::call::Seen, reasons: &[&str]) -> Result<(), String> {
    match seen.ended["stopped"].as_str() {
        Some(reason) if reasons.contains(&reason) => Ok(()),
        _ => Err(format!(
            "expected that the call is stopped for: {}\n      got {}",
            reasons.join(", "),
            shown(&seen.ended)
        )),
    }
}

/// Checks that the call failed, in whichever way the language reports it.
fn has_failed(seen: &crate::call::Seen, reasons: &[&str]) -> Result<(), String> {
    if same(&json!([{"transient": {"$text": true}}]), &seen.ended["failed"]).is_ok() {
        return Ok(());
    }
    is_stopped(seen, reasons)
}

#[test]
fn an_exception_fails_the_call_and_is_logged_with_its_stack() {
    const MESSAGE: &str = "größer als erlaubt: 42";
    ends(&json!({"call": "raise", "message": MESSAGE}), |language, seen| {
        has_failed(seen, &["trap"])?;
        let has_message = |line: &&Value| line["level"] == "error" && line.to_string().contains(MESSAGE);
        let Some(line) = seen.lines.iter().find(has_message) else {
            return Err(format!(
                "no error line of the log has the message {MESSAGE:?}\n      got {}",
                shown(&json!(seen.lines))
            ));
        };
        if WITH_STACKS.contains(&language.name) && !line["fields"].to_string().to_lowercase().contains("deepest") {
            return Err(format!("the field `stack` of the line does not name `deepest`\n      got {line}"));
        }
        Ok(())
    });
}

#[test]
fn a_loop_without_end_is_stopped() {
    ends(&json!({"call": "spin"}), |_, seen| is_stopped(seen, &["cpu", "deadline"]));
}

#[test]
fn memory_without_end_is_refused() {
    ends(&json!({"call": "grow"}), |_, seen| has_failed(seen, &["memory", "trap", "cpu"]));
}

#[test]
fn a_recursion_without_end_is_stopped() {
    ends(&json!({"call": "recurse"}), |_, seen| has_failed(seen, &["stack", "trap", "memory"]));
}
