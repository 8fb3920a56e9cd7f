//! The other imports, `owners`, `events`, `metrics` and `http`, and the SDK's helpers for conditions and owners.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use windlass_sdk::conditions::{Condition, ConditionStatus, set_condition};
use windlass_sdk::events::{self, Event, EventType};
use windlass_sdk::http::{self, HttpError};
use windlass_sdk::triggers::{self, Trigger};
use windlass_sdk::{Failure, Metadata, OwnerReference, clock, owners};

use crate::arguments::{Target, api_error, kind, read, reference};
use crate::common::{Answer, pairs};
use crate::manifest::{COUNTED, LEVEL, SIZES};

/// Carries out a step. `None` if this file does not know the call.
pub(crate) fn call(call: &str, step: &Value) -> Option<Answer> {
    Some(match call {
        "owners.claim" => claim(step),
        "events.emit" => {
            events::emit(&event(&step["event"]));
            Ok(Value::Null)
        }
        "metrics.add" | "metrics.set" | "metrics.observe" => {
            record(call, step);
            Ok(Value::Null)
        }
        "triggers.list" => Ok(triggers::list().iter().map(trigger).collect()),
        "http.fetch" => fetch(&step["request"]),
        "conditions.set" => Ok(conditions(step)),
        "owner-reference" => Ok(owner_reference(&step["object"])),
        _ => return None,
    })
}

fn claim(step: &Value) -> Answer {
    let (kind, selector) = (kind(step), step["labelSelector"].as_str().unwrap_or_default());
    match owners::claim(&kind.api_version, &kind.kind, selector) {
        Ok(claimed) => {
            let list = |references: &[_]| references.iter().map(reference).collect::<Value>();
            Ok(json!({"adopted": list(&claimed.adopted), "released": list(&claimed.released)}))
        }
        Err(failures) => {
            let errors = failures.iter().map(|failure| match failure {
                Failure::Api(error) => api_error(error),
                other => json!({"message": other.to_string()}),
            });
            Err(json!({"errors": errors.collect::<Value>()}))
        }
    }
}

fn trigger(trigger: &Trigger) -> Value {
    let Trigger { reason, watch, object } = trigger;
    json!({"reason": reason, "watch": watch, "object": object.as_ref().map(reference)})
}

/// The event that `event` describes.
pub(crate) fn event(event: &Value) -> Event {
    let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
    let (reason, action, note) = (text("reason"), text("action"), text("note"));
    let target = |name: &str| read::<Option<Target>>(event, name).map(Into::into);
    let event_type = match event["eventType"].as_str() {
        Some("normal") => EventType::Normal,
        Some("warning") => EventType::Warning,
        _ => panic!("conformance: there is no type of events {}", event["eventType"]),
    };
    Event { regarding: target("regarding"), related: target("related"), event_type, reason, action, note }
}

fn record(call: &str, step: &Value) {
    let value: f64 = read(step, "value");
    match (call, step["name"].as_str(), &pairs(step, "labels")[..]) {
        ("metrics.add", Some("counted_total"), [("color", color)]) => COUNTED.add(value, [color]),
        ("metrics.set", Some("level"), []) => LEVEL.set(value, []),
        ("metrics.observe", Some("sizes"), []) => SIZES.observe(value, []),
        _ => panic!("conformance: the manifest declares no such metric: {step}"),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Fetch {
    method: String,
    url: String,
    #[serde(default)]
    headers: Vec<(String, String)>,
    body: Option<Body>,
    timeout_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Body {
    Text(String),
    Bytes(Vec<u8>),
}

fn fetch(request: &Value) -> Answer {
    let Fetch { method, url, headers, body, timeout_ms } = read(&json!({"request": request}), "request");
    let mut request = http::request(method, url);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    request = match body {
        Some(Body::Text(text)) => request.text(text),
        Some(Body::Bytes(bytes)) => request.bytes(bytes),
        None => request,
    };
    if let Some(milliseconds) = timeout_ms {
        request = request.timeout(Duration::from_millis(milliseconds));
    }
    match request.send() {
        Ok(response) => {
            let body = response.text().map_or_else(|| json!({"bytes": response.bytes()}), |text| json!({"text": text}));
            Ok(json!({"status": response.status(), "headers": response.headers(), "body": body}))
        }
        Err(HttpError::Failed { reason, message, .. }) => Err(json!({"reason": reason.as_str(), "message": message})),
        Err(other) => Err(json!({"message": other.to_string()})),
    }
}

fn conditions(step: &Value) -> Value {
    let mut conditions: Vec<Condition> = read(step, "conditions");
    let text = |name: &str| step[name].as_str().unwrap_or_default();
    let status: ConditionStatus = read(step, "status");
    let condition = Condition::new(text("type"), status, text("reason"), text("message"));
    set_condition(&mut conditions, condition.observed(step["generation"].as_i64()), clock::now);
    json!(conditions)
}

fn owner_reference(object: &Value) -> Value {
    let metadata: Metadata = read(object, "metadata");
    let text = |name: &str| object[name].as_str().unwrap_or_default();
    json!(OwnerReference::to_controller(text("apiVersion"), text("kind"), &metadata))
}
