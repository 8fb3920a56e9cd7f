//! Ports that record requests in order and answer from a script.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use serde_json::{Value, json};
use windlass_core::call::ports::{
    Answer, Ask, CallContext, Claimed, CollectionDeletion, Event, Events, ListPage, ListQuery, LiveGet, MetricChange,
    Metrics, OwnerClaim, Port, Ports, Reads, Written,
};
use windlass_core::error::ApiError;
use windlass_core::object::ObjectRef;
use windlass_core::write::Operation;
use windlass_wasm::Limits;

use crate::wire;

/// A longer timeout is recorded as the remaining time of the call.
const HTTP_TIMEOUT_MAX: Duration = Duration::from_secs(10);

/// Answers the requests of ports: takes a request and returns `{"ok": VALUE}` or `{"error": {…}}`.
pub(crate) type Answers = Box<dyn Fn(&Value) -> Value + Send + Sync>;

/// Answers in order. After the last one, reads find nothing, and writes return their body.
pub(crate) fn in_order(answers: &[Value]) -> Answers {
    let left: Mutex<VecDeque<Value>> = Mutex::new(answers.iter().cloned().collect());
    Box::new(move |asked| left.lock().expect("not poisoned").pop_front().unwrap_or_else(|| usual(asked)))
}

/// Reads find nothing, and writes return their body.
pub(crate) fn usual(asked: &Value) -> Value {
    match asked["op"].as_str() {
        Some("patch") => json!({"ok": asked["patch"]}),
        Some(_) => json!({"ok": asked["object"]}),
        None if asked["http.fetch"].is_object() => json!({"ok": {"status": 200, "body": {"text": ""}}}),
        None => json!({"ok": null}),
    }
}

/// The ports of one call.
pub(crate) struct Recorder {
    answers: Answers,
    asked: Mutex<Vec<Value>>,
    /// The report that the probe has created after its steps.
    report: Mutex<Option<Value>>,
}

impl Recorder {
    pub(crate) fn new(answers: Answers) -> Arc<Self> {
        Arc::new(Self { answers, asked: Mutex::default(), report: Mutex::default() })
    }

    pub(crate) fn ports(self: &Arc<Self>) -> Ports {
        Ports {
            reads: self.clone(),
            outside: self.clone(),
            events: self.clone(),
            metrics: self.clone(),
            surroundings: None,
        }
    }

    /// The requests, in order, without the report.
    pub(crate) fn asked(&self) -> Vec<Value> {
        self.asked.lock().expect("not poisoned").clone()
    }

    /// The report that the probe has created after its steps.
    pub(crate) fn report(&self) -> Option<Value> {
        self.report.lock().expect("not poisoned").clone()
    }

    fn note(&self, asked: Value) {
        self.asked.lock().expect("not poisoned").push(asked);
    }

    /// The answer to the request `asked`, which contains the question under its name.
    fn answer(&self, asked: Value) -> Value {
        let answer = (self.answers)(&asked);
        self.note(asked);
        answer
    }

    fn write(&self, operation: &Operation) -> Written {
        let asked = wire::operation(operation);
        let is_report = asked["object"]["metadata"]["name"] == "report" && asked["op"] == "create";
        if is_report {
            *self.report.lock().expect("not poisoned") = Some(asked.clone());
            return Ok(Some(asked["object"].to_string().into()));
        }
        object(&self.answer(asked))
    }
}

fn object(answer: &Value) -> Written {
    either(answer, |ok| (!ok.is_null()).then(|| text(ok)))
}

/// Text that is not JSON, or that is not in the usual notation, is shown as `{"$json": TEXT}`.
fn text(value: &Value) -> Arc<str> {
    match value["$json"].as_str() {
        Some(text) => text.into(),
        None => value.to_string().into(),
    }
}

fn page(answer: &Value) -> Result<ListPage, ApiError> {
    either(answer, |ok| ListPage {
        items: ok["items"].as_array().into_iter().flatten().map(text).collect(),
        next_token: ok["nextToken"].as_str().map(str::to_owned),
    })
}

/// The value that `ok` reads, or the error.
fn either<T>(answer: &Value, ok: impl FnOnce(&Value) -> T) -> Result<T, ApiError> {
    match &answer["error"] {
        Value::Null => Ok(ok(&answer["ok"])),
        error => Err(wire::api_error_of(error)),
    }
}

fn most_bytes() -> u32 {
    u32::try_from(Limits::default().response_bytes).unwrap_or(u32::MAX)
}

impl Reads for Recorder {
    fn get(&self, _: &CallContext, target: &ObjectRef, fields: Option<&[String]>) -> Written {
        object(&self.answer(json!({"cache.get": wire::reference(target), "fields": fields})))
    }

    fn list(&self, _: &CallContext, query: &ListQuery) -> Result<ListPage, ApiError> {
        page(&self.answer(json!({"cache.list": wire::list_query(query, most_bytes())})))
    }
}

impl Port for Recorder {
    fn ask(&self, _: Arc<CallContext>, ask: Ask) -> BoxFuture<'static, Answer> {
        let answer = match ask {
            Ask::Get(LiveGet { target, subresource, view }) => {
                let (target, view) = (wire::reference(&target), wire::view(&view));
                let asked = json!({"live.get": target, "subresource": subresource.as_deref(), "view": view});
                Answer::Get(object(&self.answer(asked)))
            }
            Ask::List(query) => Answer::List(page(&self.answer(json!({"live.list": wire::live_query(&query)})))),
            Ask::Log(query) => {
                let answer = self.answer(json!({"live.log": wire::log_query(&query, most_bytes())}));
                Answer::Log(either(&answer, |ok| ok.as_str().unwrap_or_default().to_owned()))
            }
            Ask::Served(query) => {
                let answer = self.answer(json!({"live.served": wire::kind(&query.kind)}));
                Answer::Served(either(&answer, wire::served_kind))
            }
            Ask::Kinds(_) => Answer::Kinds(either(&self.answer(json!({"live.kinds": {}})), wire::listed_kinds)),
            Ask::Write(operation) => Answer::Write(self.write(&operation)),
            Ask::Batch(operations) => {
                self.note(json!({"writes.batch": operations.len()}));
                Answer::Batch(operations.iter().map(|operation| self.write(operation)).collect())
            }
            Ask::DeleteCollection(deletion) => {
                let CollectionDeletion { collection, options } = *deletion;
                let (asked, options) = (wire::collection(&collection), wire::delete_options(&options));
                let answer = self.answer(json!({"writes.delete-collection": asked, "options": options}));
                Answer::DeleteCollection(either(&answer, |ok| ok.as_array().map(|objects| references(objects))))
            }
            Ask::Claim(OwnerClaim { kind, label_selector }) => {
                let answer = self.answer(json!({"owners.claim": wire::kind(&kind), "labelSelector": label_selector}));
                let list = |value: &Value| value.as_array().map(|objects| references(objects)).unwrap_or_default();
                Answer::Claim(match answer["errors"].as_array() {
                    Some(errors) => Err(errors.iter().map(wire::api_error_of).collect()),
                    None => Ok(Claimed {
                        adopted: list(&answer["ok"]["adopted"]),
                        released: list(&answer["ok"]["released"]),
                    }),
                })
            }
            Ask::Fetch(request) => {
                let asked = json!({"http.fetch": wire::http_request(&request, HTTP_TIMEOUT_MAX)});
                Answer::Fetch(wire::http_answer(&self.answer(asked)))
            }
        };
        ready(answer).boxed()
    }
}

fn references(objects: &[Value]) -> Vec<ObjectRef> {
    objects.iter().map(wire::reference_of).collect()
}

impl Events for Recorder {
    fn emit(&self, _: &CallContext, event: Event) {
        self.note(json!({"events.emit": wire::event(&event)}));
    }
}

impl Metrics for Recorder {
    fn record(&self, _: &CallContext, change: MetricChange, name: &str, value: f64, labels: &[(String, String)]) {
        let change = match change {
            MetricChange::Add => "add",
            MetricChange::Set => "set",
            MetricChange::Observe => "observe",
        };
        self.note(json!({"metric": change, "name": name, "value": value, "labels": labels}));
    }
}
