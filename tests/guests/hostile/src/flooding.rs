//! Attacks that repeat a cheap request very often.

use windlass_sdk::bindings::exports::windlass::plugin::reconciler::Outcome;
use windlass_sdk::bindings::windlass::plugin::live::View;
use windlass_sdk::bindings::windlass::plugin::log::{self, Level};
use windlass_sdk::bindings::windlass::plugin::types::{Event, EventType, ObjectKind, Request};
use windlass_sdk::bindings::windlass::plugin::{cache, events, http, live, metrics, owners, writes};

use crate::Answer;
use crate::trespassing::{config_map, everything, everything_live, options, secret};

/// The number of repetitions, if nothing stops the guest.
const FLOOD_TIMES: u32 = 3_000;

/// Carries out an attack. `None` if `mode` is not one of these attacks.
pub(crate) fn reconcile(mode: &str, request: &Request) -> Option<Answer> {
    let act: &dyn Fn(u32) = match mode {
        "floods-reads" => &|_| drop(cache::get(&config_map("x"), None)),
        "floods-lists" => &|_| drop(cache::list(&everything("v1", "ConfigMap"))),
        "floods-live-reads" => &|_| drop(live::get(&config_map("x"), None, &View::Whole)),
        "floods-live-lists" => &|_| drop(live::list(&everything_live("v1", "ConfigMap"))),
        "floods-writes" => &|at| {
            let object = format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"flood-{at}"}}}}"#);
            drop(writes::create(&object, &options()));
        },
        "floods-claims" => &|_| {
            let kind = ObjectKind { api_version: "v1".to_owned(), kind: "ConfigMap".to_owned() };
            drop(owners::claim(&kind, ""));
        },
        "floods-fetches" => &|_| drop(http::fetch(&crate::outside::get("http://127.0.0.1/"))),
        "floods-events" => &|at| events::emit(&event(at, request)),
        "floods-logs" => &|at| log::log(Level::Error, &format!("hostile floods-logs {at}"), &[]),
        "floods-metrics" => &|at| {
            metrics::set("flood", f64::from(at), &[("drop".to_owned(), format!("x{at}"))]);
            metrics::set("flood", f64::NAN, &[("drop".to_owned(), "\"} 1\nhostile_forged 1".to_owned())]);
            metrics::add(&format!("flood_{at}"), f64::INFINITY, &[]);
        },
        _ => return None,
    };
    let is_stopped = !matches!(mode, "floods-logs" | "floods-metrics");
    (0..if is_stopped { u32::MAX } else { FLOOD_TIMES }).for_each(act);
    Some(Ok(Outcome { requeue: None }))
}

/// An event that is different each time. Every second one is about a Secret in another namespace.
fn event(at: u32, request: &Request) -> Event {
    let elsewhere = at.is_multiple_of(2).then(|| secret(Some("elsewhere")));
    Event {
        regarding: elsewhere,
        related: Some(secret(request.namespace.as_deref())),
        event_type: EventType::Warning,
        reason: format!("Flood{at}"),
        action: "Flood".to_owned(),
        note: "x".repeat(1000),
    }
}
