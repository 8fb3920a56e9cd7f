//! Ports that write down what they are asked, in order, and answer from a script.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use serde_json::{Value, json};
use windlass_core::error::ApiError;
use windlass_core::http::{HttpError, HttpRequest, HttpResponse};
use windlass_core::object::{ObjectKind, ObjectRef};
use windlass_core::ports::{
    CallContext, Claimed, Collections, Deleted, Event, Events, Http, ListPage, ListQuery, Live, LiveGet, LiveQuery,
    LogQuery, MetricChange, Metrics, Owners, Ports, Reads, ServedKind, Writes, Written,
};
use windlass_core::write::{Collection, DeleteOptions, Operation};
use windlass_wasm::Limits;

use crate::wire;

/// A timeout that is longer is what the call has left.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The other side of the ports: told what is asked, it says `{"ok": VALUE}` or `{"error": {…}}`.
pub(crate) type Answers = Box<dyn Fn(&Value) -> Value + Send + Sync>;

/// Answers in order. Behind their end reads find nothing, and writes return their body.
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
    /// The report that the probe has created at the end of its steps.
    report: Mutex<Option<Value>>,
}

impl Recorder {
    pub(crate) fn new(answers: Answers) -> Arc<Self> {
        Arc::new(Self { answers, asked: Mutex::default(), report: Mutex::default() })
    }

    pub(crate) fn ports(self: &Arc<Self>) -> Ports {
        Ports {
            reads: self.clone(),
            live: self.clone(),
            writes: self.clone(),
            collections: self.clone(),
            owners: self.clone(),
            events: self.clone(),
            metrics: self.clone(),
            http: self.clone(),
            surroundings: None,
        }
    }

    /// The requests, in order, without the report.
    pub(crate) fn asked(&self) -> Vec<Value> {
        self.asked.lock().expect("not poisoned").clone()
    }

    /// The report that the probe has created at the end of its steps.
    pub(crate) fn report(&self) -> Option<Value> {
        self.report.lock().expect("not poisoned").clone()
    }

    fn note(&self, asked: Value) {
        self.asked.lock().expect("not poisoned").push(asked);
    }

    /// The answer to what `asked` says; the question itself is in it under its name.
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
    match &answer["error"] {
        Value::Null => Ok((!answer["ok"].is_null()).then(|| text(&answer["ok"]))),
        error => Err(wire::api_error_of(error)),
    }
}

/// Text that is no JSON, or is written in a way of its own, is `{"$json": TEXT}`.
fn text(value: &Value) -> Arc<str> {
    match value["$json"].as_str() {
        Some(text) => text.into(),
        None => value.to_string().into(),
    }
}

fn page(answer: &Value) -> Result<ListPage, ApiError> {
    if !answer["error"].is_null() {
        return Err(wire::api_error_of(&answer["error"]));
    }
    let items = answer["ok"]["items"].as_array().into_iter().flatten().map(text).collect();
    Ok(ListPage { items, next_token: answer["ok"]["nextToken"].as_str().map(str::to_owned) })
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

impl Live for Recorder {
    fn get(&self, _: Arc<CallContext>, asked: LiveGet) -> BoxFuture<'static, Written> {
        let LiveGet { target, subresource, view } = asked;
        let target = wire::reference(&target);
        let asked = json!({"live.get": target, "subresource": subresource.as_deref(), "view": wire::view(&view)});
        ready(object(&self.answer(asked))).boxed()
    }

    fn list(&self, _: Arc<CallContext>, query: LiveQuery) -> BoxFuture<'static, Result<ListPage, ApiError>> {
        ready(page(&self.answer(json!({"live.list": wire::live_query(&query)})))).boxed()
    }

    fn log(&self, _: Arc<CallContext>, query: LogQuery) -> BoxFuture<'static, Result<String, ApiError>> {
        let answer = self.answer(json!({"live.log": wire::log_query(&query, most_bytes())}));
        let log = match &answer["error"] {
            Value::Null => Ok(answer["ok"].as_str().unwrap_or_default().to_owned()),
            error => Err(wire::api_error_of(error)),
        };
        ready(log).boxed()
    }

    fn served(
        &self,
        _: Arc<CallContext>,
        kind: ObjectKind,
    ) -> BoxFuture<'static, Result<Option<ServedKind>, ApiError>> {
        let answer = self.answer(json!({"live.served": wire::kind(&kind)}));
        let served = match &answer["error"] {
            Value::Null => Ok(wire::served_kind(&answer["ok"])),
            error => Err(wire::api_error_of(error)),
        };
        ready(served).boxed()
    }
}

impl Collections for Recorder {
    fn delete_collection(
        &self,
        _: Arc<CallContext>,
        collection: Collection,
        options: DeleteOptions,
    ) -> BoxFuture<'static, Deleted> {
        let asked = json!({
            "writes.delete-collection": wire::collection(&collection), "options": wire::delete_options(&options),
        });
        let answer = self.answer(asked);
        let deleted = match &answer["error"] {
            Value::Null => Ok(answer["ok"].as_array().map(|objects| objects.iter().map(wire::reference_of).collect())),
            error => Err(wire::api_error_of(error)),
        };
        ready(deleted).boxed()
    }
}

impl Writes for Recorder {
    fn write(&self, _: Arc<CallContext>, operation: Operation) -> BoxFuture<'static, Written> {
        ready(Recorder::write(self, &operation)).boxed()
    }

    fn batch(&self, _: Arc<CallContext>, operations: Vec<Operation>) -> BoxFuture<'static, Vec<Written>> {
        self.note(json!({"writes.batch": operations.len()}));
        ready(operations.iter().map(|operation| Recorder::write(self, operation)).collect()).boxed()
    }
}

impl Owners for Recorder {
    fn claim(
        &self,
        _: Arc<CallContext>,
        kind: ObjectKind,
        label_selector: String,
    ) -> BoxFuture<'static, Result<Claimed, Vec<ApiError>>> {
        let answer = self.answer(json!({"owners.claim": wire::kind(&kind), "labelSelector": label_selector}));
        let list = |value: &Value| value.as_array().into_iter().flatten().map(wire::reference_of).collect();
        let claimed = match answer["errors"].as_array() {
            Some(errors) => Err(errors.iter().map(wire::api_error_of).collect()),
            None => Ok(Claimed { adopted: list(&answer["ok"]["adopted"]), released: list(&answer["ok"]["released"]) }),
        };
        ready(claimed).boxed()
    }
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

impl Http for Recorder {
    fn fetch(&self, _: Arc<CallContext>, request: HttpRequest) -> BoxFuture<'static, Result<HttpResponse, HttpError>> {
        let asked = json!({"http.fetch": wire::http_request(&request, LONGEST_TIMEOUT)});
        ready(wire::http_answer(&self.answer(asked))).boxed()
    }
}
