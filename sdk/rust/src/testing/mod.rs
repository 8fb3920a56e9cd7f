//! A host in memory, for tests of plugins: objects in a map, and a record of what the plugin did.
//!
//! ```
//! use serde_json::{Value, json};
//! use windlass_sdk::testing::Host;
//! use windlass_sdk::{ApiReason, Failures, ObjectRef, Outcome, Request, writes};
//!
//! fn reconcile(request: Request) -> Result<Outcome, Failures> {
//!     let Some(shop) = request.object::<Value>()? else { return Ok(Outcome::Done) };
//!     let settings = json!({
//!         "apiVersion": "v1", "kind": "ConfigMap",
//!         "metadata": {"name": shop["metadata"]["name"], "namespace": "prod"}, "data": shop["spec"],
//!     });
//!     writes::apply(&settings).owned().send()?;
//!     Ok(Outcome::Done)
//! }
//!
//! let shop = json!({
//!     "apiVersion": "example.com/v1", "kind": "Shop", "metadata": {"name": "a", "namespace": "prod"}, "spec": {"open": "yes"},
//! });
//! let mut host = Host::new();
//! let request = host.request("shops", &shop);
//! reconcile(request.clone()).unwrap();
//! let settings = host.object(&ObjectRef::namespaced("v1", "ConfigMap", "prod", "a")).unwrap();
//! assert_eq!(settings["data"], json!({"open": "yes"}));
//! assert_eq!(host.writes()[0].verb, "apply");
//!
//! host.fail("apply", "ConfigMap", ApiReason::Conflict);
//! assert!(reconcile(request).is_err());
//! ```
//!
//! This host is simpler than an API server. An apply takes over every field and drops none, a strategic patch is a
//! merge patch, and lists come on one page. Cache reads and live reads see the same objects. Objects are validated and
//! defaulted if the test [defines](Host::define) their kind. Deleting an object also deletes the objects that it
//! controls.

mod definitions;
#[allow(clippy::result_large_err, reason = "as the interface's functions return it")]
mod deletions;
mod forms;
#[allow(clippy::result_large_err, reason = "as the interface's functions return it")]
pub(crate) mod functions;
#[allow(clippy::result_large_err, reason = "as the interface's functions return it")]
mod live;
#[allow(clippy::result_large_err, reason = "as the interface's functions return it")]
mod objects;
mod selector;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::marker::PhantomData;

use serde::Serialize;
use serde_json::json;

use crate::bindings::windlass::plugin::http as wit;
use crate::bindings::windlass::plugin::log::Level;
use crate::bindings::windlass::plugin::writes::Propagation;
use crate::clock::Timestamp;
use crate::error::ApiReason;
use crate::events::Event;
use crate::http::{Body, HttpReason};
use crate::object::{ObjectKind, ObjectRef};
use crate::request::Request;
use crate::triggers::Trigger;

use definitions::Definitions;
pub use objects::Write;

thread_local! {
    static CURRENT: RefCell<Option<State>> = const { RefCell::new(None) };
}

/// Runs a function on this thread's test double. `None` if there is none.
fn current<T>(act: impl FnOnce(&mut State) -> T) -> Option<T> {
    CURRENT.with_borrow_mut(|state| state.as_mut().map(act))
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The level.
    pub level: Level,
    /// The text.
    pub message: String,
    /// The fields' names and values, in their order.
    pub fields: Vec<(String, String)>,
}

/// A value of a metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Value {
    /// The metric's name.
    pub metric: String,
    /// The value.
    pub value: f64,
    /// Names and values of its labels.
    pub labels: Vec<(String, String)>,
}

/// The key of an object: kind, namespace, name.
type Key = (String, String, Option<String>, String);

/// The state of a test host.
#[derive(Debug)]
struct State {
    objects: BTreeMap<Key, serde_json::Value>,
    definitions: Definitions,
    /// The primary. A write with `owned` adds a controller reference to it.
    primary: Option<serde_json::Value>,
    /// The fields of indexes, by the name of the index.
    indexes: HashMap<String, String>,
    failing: Vec<(String, String, ApiReason)>,
    /// The logs of Pods.
    logs: BTreeMap<Key, String>,
    /// Kinds that the API server does not serve.
    unserved: Vec<ObjectKind>,
    /// The responses to creates of objects that are not stored, by kind.
    answers: HashMap<String, serde_json::Value>,
    responses: Vec<(String, Result<wit::Response, wit::HttpError>)>,
    requests: Vec<wit::Request>,
    writes: Vec<Write>,
    events: Vec<Event>,
    lines: Vec<Line>,
    values: Vec<Value>,
    config: serde_json::Value,
    triggers: Vec<Trigger>,
    now: Timestamp,
    drawn: u32,
    version: u64,
}

impl Default for State {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            definitions: Definitions::default(),
            primary: None,
            indexes: HashMap::new(),
            failing: Vec::new(),
            logs: BTreeMap::new(),
            unserved: Vec::new(),
            answers: HashMap::new(),
            responses: Vec::new(),
            requests: Vec::new(),
            writes: Vec::new(),
            events: Vec::new(),
            lines: Vec::new(),
            values: Vec::new(),
            config: json!({}),
            triggers: Vec::new(),
            // 2026-11-21T10:48:45Z
            now: Timestamp { seconds: 1_795_258_125, nanoseconds: 0 },
            drawn: 0,
            version: 0,
        }
    }
}

impl State {
    /// A random number that is the same in each run: xorshift of a counter.
    fn draw(&mut self) -> u32 {
        self.drawn = self.drawn.wrapping_add(0x9e37_79b9);
        let mut number = self.drawn;
        number ^= number << 13;
        number ^= number >> 17;
        number ^ (number << 5)
    }

    fn fetch(&mut self, request: &wit::Request) -> Result<wit::Response, wit::HttpError> {
        self.requests.push(request.clone());
        let known = self.responses.iter().rev().find(|(url, _)| *url == request.url);
        let unknown = || {
            let message = format!("the test's host has no response to {}", request.url);
            Err(wit::HttpError { reason: HttpReason::NotGranted, message })
        };
        known.map_or_else(unknown, |(_, response)| response.clone())
    }
}

/// A host in memory. It serves the thread that creates it, until it is dropped.
#[derive(Debug)]
pub struct Host {
    /// Keeps the host on its thread.
    of_thread: PhantomData<*const ()>,
}

impl Host {
    /// A host without objects.
    ///
    /// # Panics
    /// If the thread has a host already.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it is put in a place of its own, which is more than a value")]
    pub fn new() -> Self {
        CURRENT.with_borrow_mut(|state| {
            assert!(state.is_none(), "this thread has a host already: drop it before");
            *state = Some(State::default());
        });
        Self { of_thread: PhantomData }
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let _: &PhantomData<*const ()> = &self.of_thread;
        current(act).expect("a host is that of its thread until it is dropped")
    }

    /// Puts an object into the cluster. It replaces an object of the same name. An object without a UID gets one.
    ///
    /// # Panics
    /// If the object has no `apiVersion`, `kind` and `metadata.name`.
    pub fn put<T: Serialize>(&mut self, object: &T) {
        let object = serde_json::to_value(object).expect("an object is JSON");
        self.with(|state| state.put(object));
    }

    /// Puts the primary into the cluster, and creates the request that a controller of the manifest would receive for
    /// it.
    ///
    /// # Panics
    /// As [`put`](Self::put).
    pub fn request<T: Serialize>(&mut self, controller: &str, primary: &T) -> Request {
        let primary = serde_json::to_value(primary).expect("an object is JSON");
        let primary = self.with(|state| {
            let primary = state.put(primary);
            state.primary = Some(primary.clone());
            primary
        });
        let text = |name: &str| primary["metadata"][name].as_str().map(str::to_owned);
        let request = Request { uid: text("uid"), namespace: text("namespace"), ..Request::default() };
        let request = Request { controller: controller.to_owned(), name: text("name").unwrap_or_default(), ..request };
        Request { deleting: !primary["metadata"]["deletionTimestamp"].is_null(), ..request }
            .with_object(&primary)
            .expect("an object is JSON")
    }

    /// The current state of an object of the cluster.
    #[must_use]
    pub fn object(&self, target: &ObjectRef) -> Option<serde_json::Value> {
        self.with(|state| state.find(target).cloned())
    }

    /// Removes an object from the cluster, and the objects that it controls.
    pub fn remove(&mut self, target: &ObjectRef) {
        self.with(|state| state.remove(target, Propagation::Background));
    }

    /// Defines kinds by `CustomResourceDefinitions` in YAML, usually those of crd.yaml:
    /// `host.define(include_str!("../crd.yaml"))`.
    ///
    /// From now on objects of these kinds get their defaults, and a write of an invalid object fails with
    /// [`ApiReason::Invalid`], with the paths in its message. An unknown field is invalid, as for an API server with
    /// strict field validation; a write with another `field_validation` keeps it. The host does not check `pattern`,
    /// `format`, `allOf` and similar keywords, list types, and rules in CEL.
    ///
    /// # Panics
    /// If the text has no definition.
    pub fn define(&mut self, yaml: &str) {
        self.with(|state| state.definitions.add(yaml));
    }

    /// From now on, every request with this verb for objects of this kind fails. Verbs are `get`, `list`, `create`,
    /// `update`, `patch`, `apply`, `delete`, `deletecollection`, `claim`, `served` and `kinds`, which has no kind.
    pub fn fail(&mut self, verb: &str, kind: &str, reason: ApiReason) {
        self.with(|state| state.failing.push((verb.to_owned(), kind.to_owned(), reason)));
    }

    /// Ends the failures that [`fail`](Self::fail) has set.
    pub fn recover(&mut self) {
        self.with(|state| state.failing.clear());
    }

    /// Sets the field that an index of the manifest, or a field selector, stands for: `("secrets", "/spec/secrets")`.
    pub fn index(&mut self, name: &str, pointer: &str) {
        self.with(|state| state.indexes.insert(name.to_owned(), pointer.to_owned()));
    }

    /// Sets the log of a Pod, for all its containers. Without it, the log is not found.
    pub fn set_log(&mut self, pod: &ObjectRef, log: &str) {
        self.with(|state| state.logs.insert(objects::key_of(pod), log.to_owned()));
    }

    /// Removes a kind from the API server. According to [`live::served`](crate::live::served), the server serves all
    /// other kinds; [`live::kinds`](crate::live::kinds) lists the kinds of the objects and definitions in the host.
    pub fn unserve(&mut self, api_version: &str, kind: &str) {
        self.with(|state| state.unserved.push(ObjectKind::new(api_version, kind)));
    }

    /// Sets the response to each create of an object of this kind without a name, such as a `SubjectAccessReview`. Such
    /// an object is not stored. Without this call, the response is the object that was sent.
    ///
    /// # Panics
    /// If `answer` is not JSON.
    pub fn answer<T: Serialize>(&mut self, kind: &str, answer: &T) {
        let answer = serde_json::to_value(answer).expect("an object is JSON");
        self.with(|state| state.answers.insert(kind.to_owned(), answer));
    }

    /// Answers HTTP requests to this URL.
    pub fn respond(&mut self, url: &str, status: u16, body: Body) {
        let response = wit::Response { status, headers: Vec::new(), body };
        self.with(|state| state.responses.push((url.to_owned(), Ok(response))));
    }

    /// Makes HTTP requests to this URL fail.
    pub fn refuse(&mut self, url: &str, reason: HttpReason) {
        let error = wit::HttpError { reason, message: "the test makes this request fail".to_owned() };
        self.with(|state| state.responses.push((url.to_owned(), Err(error))));
    }

    /// Sets the operator's configuration. By default it is an empty object.
    ///
    /// # Panics
    /// If `config` is not JSON.
    pub fn set_config<T: Serialize>(&mut self, config: &T) {
        let config = serde_json::to_value(config).expect("a configuration is JSON");
        self.with(|state| state.config = config);
    }

    /// Adds a trigger of the call: a reason, such as `Changed`, and its object, if it has one.
    pub fn trigger(&mut self, reason: &str, object: Option<ObjectRef>) {
        self.with(|state| state.triggers.push(Trigger { reason: reason.to_owned(), watch: None, object }));
    }

    /// Sets the clock, which does not advance. By default it is 2026-11-21T10:48:45Z.
    pub fn set_now(&mut self, now: Timestamp) {
        self.with(|state| state.now = now);
    }

    /// The changes that the plugin requested, in order, including failed ones.
    #[must_use]
    pub fn writes(&self) -> Vec<Write> {
        self.with(|state| state.writes.clone())
    }

    /// The events that were sent.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        self.with(|state| state.events.clone())
    }

    /// The lines of the log.
    #[must_use]
    pub fn lines(&self) -> Vec<Line> {
        self.with(|state| state.lines.clone())
    }

    /// The values of metrics.
    #[must_use]
    pub fn values(&self) -> Vec<Value> {
        self.with(|state| state.values.clone())
    }

    /// Methods and URLs of the HTTP requests that were sent.
    #[must_use]
    pub fn requests(&self) -> Vec<(String, String)> {
        self.with(|state| state.requests.iter().map(|sent| (sent.method.clone(), sent.url.clone())).collect())
    }

    /// Clears the records, but keeps the objects.
    pub fn forget(&mut self) {
        self.with(|state| {
            state.writes.clear();
            state.events.clear();
            state.lines.clear();
            state.values.clear();
            state.requests.clear();
        });
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        CURRENT.with_borrow_mut(|state| *state = None);
    }
}

#[cfg(test)]
mod tests;
