//! The steps that both the composing and the reconciling probe support. The composing probe includes this file.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};
use windlass_sdk::log::{self, Level};
use windlass_sdk::{Request, clock, config, log_at, random};

/// The result of a step: a value, or an error.
pub(crate) type Answer = Result<Value, Value>;

/// The steps of a primary.
pub(crate) fn steps(primary: &Value) -> &[Value] {
    primary["spec"]["steps"].as_array().map_or(&[], Vec::as_slice)
}

/// An answer, in the form of the results.
pub(crate) fn shown(answer: Answer) -> Value {
    match answer {
        Ok(value) => json!({"ok": value}),
        Err(error) => json!({"error": error}),
    }
}

/// The number of times that this instance has carried out `state`. Real plugins must not keep such state; the probe
/// shows whether an instance is reused.
static CARRIED_OUT: AtomicU32 = AtomicU32::new(0);

/// Carries out a step. `None` if this file does not know the call.
pub(crate) fn call(request: &Request, call: &str, step: &Value) -> Option<Answer> {
    Some(Ok(match call {
        "request" => request_of(request),
        "log.log" => {
            write_line(step);
            Value::Null
        }
        "logger" => {
            use_macros(step);
            Value::Null
        }
        "config.get" => return Some(config::get().map_err(|error| json!({"message": error.to_string()}))),
        "clock.now" => {
            let now = clock::now();
            json!({"seconds": now.seconds, "nanoseconds": now.nanoseconds})
        }
        "language.now" => {
            let now = clock::now();
            json!(u64::from(now.seconds) * 1000 + u64::from(now.nanoseconds / 1_000_000))
        }
        "random.bytes" => {
            json!(random::bytes(step["length"].as_u64().and_then(|length| length.try_into().ok()).unwrap_or_default()))
        }
        "language.random" => json!([(); 8].map(|()| random::number() % 1000)),
        "language.order" => {
            json!((0..50).map(|number| format!("k{number}")).collect::<BTreeSet<_>>())
        }
        "language" => json!({"formats": format!("{:>4}|{:.2}", 7, 1.0 / 3.0) == "   7|0.33"}),
        "echo" => step["value"].clone(),
        "state" => json!(CARRIED_OUT.fetch_add(1, Ordering::Relaxed) + 1),
        // Without WASI a plugin has no such functions.
        "stdout" | "stderr" | "open-file" | "connect" | "sleep" => json!({"unsupported": true}),
        _ => return None,
    }))
}

fn request_of(request: &Request) -> Value {
    json!({
        "controller": request.controller, "namespace": request.namespace, "name": request.name, "uid": request.uid,
        "deleting": request.deleting, "attempt": request.attempt, "traceId": request.trace_id,
        "hasObject": !request.is_gone(),
    })
}

fn level(step: &Value) -> Level {
    match step["level"].as_str() {
        Some("trace") => Level::Trace,
        Some("debug") => Level::Debug,
        Some("info") => Level::Info,
        Some("warn") => Level::Warn,
        Some("error") => Level::Error,
        _ => panic!("conformance: there is no level {}", step["level"]),
    }
}

/// The pairs of texts at `name`.
pub(crate) fn pairs<'a>(step: &'a Value, name: &str) -> Vec<(&'a str, &'a str)> {
    let pairs = step[name].as_array().into_iter().flatten();
    pairs.map(|pair| (pair[0].as_str().unwrap_or_default(), pair[1].as_str().unwrap_or_default())).collect()
}

fn write_line(step: &Value) {
    let pairs = pairs(step, "fields");
    let fields: Vec<(&str, &dyn std::fmt::Display)> =
        pairs.iter().map(|(key, value)| (*key, value as &dyn std::fmt::Display)).collect();
    log::write(level(step), step["message"].as_str().unwrap_or_default(), &fields);
}

/// The macros take the fields' names as a part of the source, so they are written out here.
fn use_macros(step: &Value) {
    let message = step["message"].as_str().unwrap_or_default();
    match pairs(step, "fields")[..] {
        [] => log_at!(level(step), "{message}"),
        [("name", name)] => log_at!(level(step), "{message}", name = name),
        [("name", name), ("count", count)] => log_at!(level(step), "{message}", name = name, count = count),
        _ => panic!("conformance: the fields of `logger` are `name` and `count`"),
    }
}
