//! Sends Kubernetes Events (`events.k8s.io/v1`) in a separate task, so that they never delay or fail a call.

mod series;

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use http::{HeaderMap, Method};
use jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout};
use windlass_core::call::ports::{CallContext, Event, EventType, Events};
use windlass_core::object::ObjectRef;
use windlass_core::object::selector::is_dns_subdomain;
use windlass_core::panics::cause;
use windlass_core::retry::RetryPolicy;
use windlass_core::rights::fence::Fenced;

use crate::client::headers;
use crate::client::request::{self, MUTATION_LIFETIME_MAX, Mutation, Query, RequestError, SERVER_TIMEOUT_QUERY};
use crate::events::series::{Action, Correlator, SeriesKey};

/// The maximum number of waiting events, as in client-go (`tools/events/event_broadcaster.go`, `maxQueuedEvents`).
const QUEUED_EVENTS_MAX: usize = 1_000;
/// The number of events that are sent concurrently. If they were sent one by one, a shutdown soon after a start would
/// have to wait for them.
const CONCURRENT_EVENTS_MAX: usize = 8;
/// The maximum size of a note in bytes that the server accepts (`pkg/apis/core/validation/events.go`,
/// `NoteLengthLimit`).
const EVENT_NOTE_BYTES_MAX: usize = 1_024;
/// The maximum size of a reason and of an action (`ReasonLengthLimit`).
const EVENT_WORD_BYTES_MAX: usize = 128;
/// The maximum length of an object's name.
const EVENT_NAME_BYTES_MAX: usize = 253;
/// The waits between attempts to send an event.
const EVENT_BACKOFF: RetryPolicy = RetryPolicy::doubling(Duration::from_secs(1), Duration::from_secs(4)).steps(3);

/// Sends the Events of plugins. Clones share a queue and a task, which ends with the last clone.
#[derive(Clone)]
pub struct Recorder {
    queue: mpsc::Sender<Message>,
    dropped: Arc<AtomicU64>,
    read_only: bool,
}

enum Message {
    Emit(Box<Occurrence>),
    Flush(oneshot::Sender<()>),
}

/// One occurrence of an event.
struct Occurrence {
    key: SeriesKey,
    controller: String,
    instance: String,
    headers: HeaderMap,
    /// The fence of the event's principal. It is checked before each request, because a queued event may outlive a
    /// lease.
    fence: Fenced,
    at: Timestamp,
}

impl Recorder {
    /// A recorder whose task runs on the current tokio runtime.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime.
    #[must_use]
    pub fn new(client: Client) -> Self {
        let (queue, messages) = mpsc::channel(QUEUED_EVENTS_MAX);
        tokio::spawn(Worker::new(client).run(messages));
        Self { queue, dropped: Arc::default(), read_only: false }
    }

    /// If `read_only` (`--read-only`), sends nothing.
    #[must_use]
    pub fn read_only(self, read_only: bool) -> Self {
        Self { read_only, ..self }
    }

    /// Waits at most `limit` until all earlier events have been sent or given up. Returns false if some remain.
    pub async fn flush(&self, limit: Duration) -> bool {
        let (done, sent) = oneshot::channel();
        let flushed = async { self.queue.send(Message::Flush(done)).await.is_ok() && sent.await.is_ok() };
        timeout(limit, flushed).await.unwrap_or(false)
    }

    /// The number of events that were dropped because too many waited.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl Events for Recorder {
    fn emit(&self, call: &CallContext, mut event: Event) {
        if self.read_only {
            return;
        }
        let principal = &call.principal;
        if principal.fence.may_start(MUTATION_LIFETIME_MAX).is_err() {
            return; // The replica that runs the plugin now reports the event.
        }
        call.config.redact_in(&mut event.note);
        let regarding = &event.regarding.get_or_insert_with(|| call.primary_ref()).key;
        if !principal.grants().may_regard(&call.primary_key, regarding) {
            // At debug level, because a plugin could otherwise fill the log.
            tracing::debug!(
                plugin = %principal.plugin, primary = %call.primary_key, %regarding,
                "an event about an object outside the primary's namespace was dropped"
            );
            return;
        }
        if event.action.is_empty() {
            event.action.clone_from(&event.reason);
        }
        if event.reason.is_empty() {
            tracing::warn!(
                plugin = %principal.plugin, note = event.note,
                "an event was dropped because it has no reason; the plugin must give one"
            );
            return;
        }
        shorten(&mut event.note, EVENT_NOTE_BYTES_MAX);
        shorten(&mut event.reason, EVENT_WORD_BYTES_MAX);
        shorten(&mut event.action, EVENT_WORD_BYTES_MAX);
        let headers = match headers::after_call(call) {
            Ok(headers) => headers,
            Err(error) => {
                tracing::warn!(plugin = %principal.plugin, %error, "an Event was dropped; the plugin continues");
                return;
            }
        };
        // For users who watch a plugin at work: the log has every event, while the server may only count repeated ones.
        tracing::debug!(
            target: "windlass::events",
            plugin = %principal.plugin, %regarding, kind = ?event.event_type, reason = event.reason, note = event.note, "event"
        );
        let mut instance = principal.replica.to_string();
        shorten(&mut instance, EVENT_WORD_BYTES_MAX);
        let occurrence = Occurrence {
            key: SeriesKey { plugin: Arc::clone(&principal.plugin), event },
            controller: principal.field_manager(),
            instance,
            headers,
            fence: principal.fence.clone(),
            at: timestamp(),
        };
        if self.queue.try_send(Message::Emit(Box::new(occurrence))).is_err() {
            let before = self.dropped.fetch_add(1, Ordering::Relaxed);
            if before == 0 {
                tracing::warn!(plugin = %principal.plugin, "more than {QUEUED_EVENTS_MAX} events wait to be sent; some are dropped");
            }
        }
    }
}

fn shorten(text: &mut String, most: usize) {
    text.truncate(text.floor_char_boundary(most));
}

/// The sending task. It sends several events concurrently, but events of one series one after the other.
struct Worker {
    client: Client,
    correlator: Correlator,
    sending: FuturesUnordered<BoxFuture<'static, Attempt>>,
    /// The series with an event in progress.
    under_way: HashSet<SeriesKey>,
}

/// An attempt to send an event, which has ended.
struct Attempt {
    occurrence: Box<Occurrence>,
    action: Action,
    /// The name of the Event that was to be created.
    name: String,
    /// The result, or the cause of a panic. False if the lease was lost while the event waited: then the replica that
    /// now runs the plugin reports the event.
    sent: Result<Result<bool, RequestError>, String>,
}

impl Worker {
    fn new(client: Client) -> Self {
        let (correlator, sending, under_way) = (Correlator::default(), FuturesUnordered::new(), HashSet::new());
        Self { client, correlator, sending, under_way }
    }

    async fn run(mut self, mut messages: mpsc::Receiver<Message>) {
        loop {
            let has_room = self.sending.len() < CONCURRENT_EVENTS_MAX;
            tokio::select! {
                biased;
                message = messages.recv(), if has_room => match message {
                    Some(Message::Emit(occurrence)) => {
                        let occurred = AssertUnwindSafe(self.occurred(occurrence)).catch_unwind().await;
                        occurred.unwrap_or_else(|panic| self.panicked(cause(&*panic)));
                    }
                    Some(Message::Flush(done)) => {
                        while self.one_ends().await {}
                        // The caller may have stopped waiting.
                        let _ = done.send(());
                    }
                    None => break,
                },
                Some(attempt) = self.sending.next() => self.ended(attempt),
            }
        }
        while self.one_ends().await {}
    }

    async fn occurred(&mut self, occurrence: Box<Occurrence>) {
        // The next step for an event depends on the result of the previous one of its series.
        while self.under_way.contains(&occurrence.key) && self.one_ends().await {}
        let action = self.correlator.occurred(&occurrence.key, Instant::now());
        self.act(occurrence, action);
    }

    /// Waits until an attempt has ended. Returns false if there is none.
    async fn one_ends(&mut self) -> bool {
        let Some(attempt) = self.sending.next().await else { return false };
        self.ended(attempt);
        true
    }

    /// Starts to carry out `action`, unless it is `Skip`.
    fn act(&mut self, occurrence: Box<Occurrence>, action: Action) {
        let name = name_of(&occurrence);
        let mutation = match &action {
            Action::Skip => return,
            Action::Create { count } => creation_of(&occurrence, &name, *count),
            Action::Count { name, count } => count_of(&occurrence, name, *count),
        };
        self.under_way.insert(occurrence.key.clone());
        let client = self.client.clone();
        self.sending.push(Box::pin(async move {
            let sent = AssertUnwindSafe(send(&client, &mutation, &occurrence.fence)).catch_unwind().await;
            let sent = sent.map_err(|panic| cause(&*panic).to_owned());
            Attempt { occurrence, action, name, sent }
        }));
    }

    /// Forgets all series, because their state may be incomplete.
    fn panicked(&mut self, cause: &str) {
        tracing::error!(cause, "the recorder panicked and lost an event; it sends the next ones");
        self.correlator = Correlator::default();
    }

    /// Records the result of an attempt.
    fn ended(&mut self, attempt: Attempt) {
        let Attempt { occurrence, action, name, sent } = attempt;
        let key = &occurrence.key;
        self.under_way.remove(key);
        let is_creation = matches!(action, Action::Create { .. });
        match sent {
            Err(cause) => self.panicked(&cause),
            Ok(Ok(true)) if is_creation => self.correlator.created(key, name),
            Ok(Ok(false)) if is_creation => self.correlator.forget(key),
            // An earlier attempt created the Event, but its answer was lost.
            Ok(Err(error)) if is_creation && error.code() == Some(409) => self.correlator.created(key, name),
            Ok(Err(error)) if is_creation => {
                tracing::warn!(
                    plugin = %key.plugin, reason = key.event.reason, note = key.event.note, %error,
                    "an event could not be recorded; it is lost"
                );
            }
            // The server keeps events only for an hour.
            Ok(Err(error)) if error.code() == Some(404) => {
                self.correlator.forget(key);
                self.act(occurrence, Action::Create { count: 1 });
            }
            // The next event of the series reports the true count.
            Ok(_) => {}
        }
    }
}

/// Creates or counts the Event. Either request may be repeated, because the name and the count are fixed. Returns false
/// if the lease was lost while the event waited.
async fn send(client: &Client, mutation: &Mutation, fence: &Fenced) -> Result<bool, RequestError> {
    let attempt = || async {
        let Ok(limit) = fence.may_start(MUTATION_LIFETIME_MAX) else { return Ok(false) };
        let result = request::mutate(client, mutation.clone(), limit).await;
        tracing::trace!(
            target: "windlass::audit",
            role = "events", verb = %mutation.method, uri = mutation.uri, committed = result.is_ok(), "mutation"
        );
        result.map(|_| true)
    };
    let passes = |error: &RequestError| error.code().is_none_or(|code| code >= 500 || code == 429);
    EVENT_BACKOFF.run(windlass_world::random, sleep, passes, attempt).await
}

/// `<name>.<time in hexadecimal>`, as every recorder does. The object's name is left out if it is not valid for an
/// Event.
fn name_of(occurrence: &Occurrence) -> String {
    let suffix = format!("{:x}", occurrence.at.as_nanosecond());
    let name = occurrence.key.event.regarding.as_ref().map_or("", |regarding| &*regarding.key.name);
    let fits = name.len() + 1 + suffix.len() <= EVENT_NAME_BYTES_MAX && is_dns_subdomain(name);
    format!("{}.{suffix}", if fits { name } else { "windlass" })
}

/// The collection of the Event: in the namespace of the regarding object, or in `default` for a cluster-scoped object.
fn collection_of(occurrence: &Occurrence) -> (String, String) {
    let regarding = occurrence.key.event.regarding.as_ref();
    let namespace = regarding.and_then(|regarding| regarding.key.namespace.as_deref()).unwrap_or("default");
    let mut path = "/apis/events.k8s.io/v1/namespaces/".to_owned();
    request::encode(&mut path, namespace);
    path.push_str("/events");
    (path, namespace.to_owned())
}

fn creation_of(occurrence: &Occurrence, name: &str, count: u32) -> Mutation {
    let event = &occurrence.key.event;
    let (path, namespace) = collection_of(occurrence);
    let mut body = json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "eventTime": micro_time(occurrence.at),
        "reportingController": occurrence.controller,
        "reportingInstance": occurrence.instance,
        "type": match event.event_type {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        },
        "reason": event.reason,
        "action": event.action,
        "note": event.note,
    });
    for (field, object) in [("regarding", &event.regarding), ("related", &event.related)] {
        if let Some(object) = object {
            body[field] = reference(object);
        }
    }
    if count > 1 {
        body["series"] = series(occurrence, count);
    }
    mutation(occurrence, Method::POST, &path, "application/json", &body)
}

fn count_of(occurrence: &Occurrence, name: &str, count: u32) -> Mutation {
    let (mut path, _) = collection_of(occurrence);
    path.push('/');
    request::encode(&mut path, name);
    let body = json!({"series": series(occurrence, count)});
    mutation(occurrence, Method::PATCH, &path, "application/merge-patch+json", &body)
}

fn mutation(occurrence: &Occurrence, method: Method, path: &str, content_type: &'static str, body: &Value) -> Mutation {
    let mut query = Query::default();
    query.add("fieldManager", &occurrence.controller);
    query.add("timeout", SERVER_TIMEOUT_QUERY);
    Mutation {
        method,
        uri: query.onto(path),
        content_type,
        body: Bytes::from(body.to_string()),
        headers: occurrence.headers.clone().into(),
    }
}

fn series(occurrence: &Occurrence, count: u32) -> Value {
    json!({"count": count, "lastObservedTime": micro_time(occurrence.at)})
}

fn reference(object: &ObjectRef) -> Value {
    let mut reference = json!({
        "apiVersion": &*object.kind.api_version,
        "kind": &*object.kind.kind,
        "name": &*object.key.name,
    });
    for (field, value) in [("namespace", &object.key.namespace), ("uid", &object.uid)] {
        if let Some(value) = value {
            reference[field] = Value::from(&**value);
        }
    }
    reference
}

/// The current time, or the last representable time if it is later.
pub(crate) fn timestamp() -> Timestamp {
    Timestamp::UNIX_EPOCH.saturating_add(windlass_world::now()).unwrap_or(Timestamp::MAX)
}

/// Kubernetes' `MicroTime`: RFC 3339 with exactly six decimals.
pub(crate) fn micro_time(time: Timestamp) -> String {
    format!("{time:.6}")
}

#[cfg(test)]
mod tests {
    use windlass_core::object::{ObjectKey, ObjectKind};

    use super::*;

    fn occurrence(key: ObjectKey) -> Occurrence {
        let regarding = ObjectRef { kind: ObjectKind::new("v1", "Node"), key, uid: Some("u".into()) };
        let event = Event {
            regarding: Some(regarding),
            related: None,
            event_type: EventType::Warning,
            reason: "Failed".into(),
            action: "Apply".into(),
            note: "no".into(),
        };
        Occurrence {
            key: SeriesKey { plugin: "webapp".into(), event },
            controller: "windlass/webapp".into(),
            instance: "host-1".into(),
            headers: HeaderMap::new(),
            fence: Fenced::default(),
            at: "2026-01-02T03:04:05Z".parse().expect("a time"),
        }
    }

    #[test]
    fn a_time_has_six_decimals_even_on_the_second() {
        assert_eq!(micro_time(occurrence(ObjectKey::cluster("n")).at), "2026-01-02T03:04:05.000000Z");
    }

    #[test]
    fn an_event_about_a_cluster_scoped_object_is_in_default() {
        let mutation = creation_of(&occurrence(ObjectKey::cluster("n")), "n.1", 1);
        assert!(mutation.uri.starts_with("/apis/events.k8s.io/v1/namespaces/default/events?"), "{}", mutation.uri);
        let body: Value = serde_json::from_slice(&mutation.body).expect("JSON");
        assert_eq!(body["metadata"]["namespace"], "default");
        assert_eq!(body["regarding"], json!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}));
        assert!(body.get("series").is_none());
    }

    #[test]
    fn a_name_that_no_event_may_have_is_left_out() {
        let named = |name: &str| name_of(&occurrence(ObjectKey::cluster(name)));
        assert!(named("node-1").starts_with("node-1."));
        assert!(named("system:node").starts_with("windlass."));
        assert!(named(&"a".repeat(250)).starts_with("windlass."));
    }

    #[test]
    fn texts_are_cut_between_characters() {
        let mut note = "ä".repeat(600);
        shorten(&mut note, 1_024);
        assert_eq!(note.len(), 1_024);
        let mut odd = format!("x{}", "ä".repeat(600));
        shorten(&mut odd, 1_024);
        assert_eq!(odd.len(), 1_023);
    }
}
