//! Watches: a stream of lines with the changes of one resource, and with bookmarks. A watch starts at a resource
//! version, or sends the current objects first. It ends at its timeout, when the history has expired, or when the
//! server stops.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use std::vec;

use bytes::Bytes;
use futures::Stream;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::object;
use crate::protobuf;
use crate::reactors::watches::{self, WatchDropped, WatchEvent, WatchPlan};
use crate::request::Target;
use crate::request::media::{Encoding, Form};
use crate::resources::convert;
use crate::server::convert::Conversion;
use crate::server::represent;
use crate::server::watch_options::{Start, WatchOptions};
use crate::status_error::ApiError;
use crate::storage::change_log::{Change, ChangeLog, Forgotten};
use crate::storage::state::{Shared, State};
use crate::verbs::list::expired;

/// The interval at which a watch checks for a new revision of the server, to send a bookmark.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(2);
/// The usual size of a chunk. It limits the memory for a client that does not read.
const CHUNK_BYTES_MAX: usize = 256 * 1024;
/// The most changes that a watch takes from the log at a time, and converts with one review. So a watch that is far
/// behind does not block others.
const CHANGES_TOGETHER_MAX: usize = 256;

/// A running watch.
pub(crate) struct Watcher {
    shared: Arc<Shared>,
    target: Target,
    options: WatchOptions,
    /// The era of the state that this watch reads.
    era: u64,
    /// The revision at which the watch started.
    opened: u64,
    /// All changes up to this revision are sent.
    position: u64,
    /// The latest resource version that was sent to the client.
    sent_version: u64,
    signal: watch::Receiver<()>,
    deadline: Instant,
    next_bookmark: Instant,
    /// Whether the columns of a Table were already sent. They are sent only once.
    columns_sent: bool,
    /// Converts objects to the version of the request, if that needs a webhook.
    conversion: Option<Conversion>,
    /// The current objects that are not sent yet.
    initial: Option<vec::IntoIter<Arc<Value>>>,
    /// The size at which a chunk ends, after a complete line.
    chunk: usize,
    /// Namespace and name of the object in the last event.
    last: Option<(String, String)>,
    ended: bool,
}

/// The continuation of a watch after some changes.
enum Then {
    /// More changes.
    More,
    Nothing,
    /// The end of the watch.
    End,
}

/// Starts a watch, which sees every change after this call.
pub(crate) fn open(
    shared: &Arc<Shared>,
    state: &mut State,
    target: Target,
    options: WatchOptions,
) -> Result<Watcher, ApiError> {
    let revision = state.store.revision();
    let from = options.served_at.map_or(revision, |older| older.min(revision));
    let initial = match options.start {
        Start::After(version) | Start::Initial(version) if version > revision => {
            return Err(ApiError::future_version(version, revision));
        }
        Start::Initial(_) => {
            let (resource, namespace) = (&target.resource.storage, target.namespace.as_deref());
            Some(state.store.list_at(resource, namespace, from, "").map_err(expired)?.into_iter())
        }
        Start::After(_) | Start::Now => None,
    };
    let era = state.era;
    let position = match options.start {
        Start::After(version) => version,
        Start::Initial(version) => from.max(version),
        Start::Now => from,
    };
    let log = state.store.log(&target.resource.storage);
    let signal = log.subscribe();
    let now = Instant::now();
    let conversion = Conversion::begin(state, &target.resource);
    Ok(Watcher {
        shared: Arc::clone(shared),
        conversion,
        era,
        opened: revision,
        position,
        sent_version: 0,
        signal,
        deadline: now + options.timeout,
        next_bookmark: now + BOOKMARK_INTERVAL,
        columns_sent: false,
        initial,
        chunk: CHUNK_BYTES_MAX,
        last: None,
        ended: false,
        target,
        options,
    })
}

impl Watcher {
    /// Converts the current objects to the version of the request, if that needs a webhook.
    pub(crate) async fn convert(&mut self) -> Result<(), ApiError> {
        let Some(conversion) = &mut self.conversion else { return Ok(()) };
        if let Some(objects) = self.initial.take() {
            let objects = conversion.objects(&self.shared, &self.target.resource, objects.collect()).await?;
            self.initial = Some(objects.into_iter());
        }
        Ok(())
    }

    /// The events one by one, disturbed by reactors.
    pub(crate) fn disturbed(mut self, plan: &WatchPlan) -> impl Stream<Item = Result<Bytes, WatchDropped>> + use<> {
        self.chunk = 1;
        let mut expired = Vec::new();
        self.write_event(&mut expired, "ERROR", &ApiError::expired("a reactor hides events").to_status());
        let events = futures::stream::unfold(self, |mut watcher| async move {
            let bytes = watcher.next_chunk().await?;
            let event = WatchEvent { bytes, subject: watcher.last.take() };
            Some((event, watcher))
        });
        watches::disturbed(events, plan, expired.into())
    }

    /// The lines of the watch. Each chunk has the lines that are available at that time.
    pub(crate) fn stream(self) -> impl Stream<Item = Result<Bytes, std::convert::Infallible>> {
        futures::stream::unfold(self, |mut watcher| async move {
            let chunk = watcher.next_chunk().await?;
            Some((Ok(chunk), watcher))
        })
    }

    async fn next_chunk(&mut self) -> Option<Bytes> {
        if self.ended {
            return None;
        }
        let lines = self.initial_lines();
        if !lines.is_empty() {
            return Some(lines.into());
        }
        let stop = self.shared.stop.clone();
        loop {
            self.signal.borrow_and_update();
            let lines = self.pending_lines().await;
            if !lines.is_empty() {
                return Some(lines.into());
            }
            if self.ended {
                return None;
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return None,
                () = sleep_until(self.deadline) => {
                    let last = self.bookmark_if_moved().await;
                    self.ended = true;
                    return (!last.is_empty()).then(|| last.into());
                }
                changed = self.signal.changed() => changed.ok()?,
                () = sleep_until(self.next_bookmark), if self.options.bookmarks => {
                    self.next_bookmark = Instant::now() + BOOKMARK_INTERVAL;
                    let line = self.bookmark_if_moved().await;
                    if !line.is_empty() {
                        return Some(line.into());
                    }
                }
            }
        }
    }

    /// The next chunk of the current objects. Empty if all were sent.
    fn initial_lines(&mut self) -> Vec<u8> {
        let mut lines = Vec::new();
        let Some(mut objects) = self.initial.take() else { return lines };
        while let Some(stored) = objects.next() {
            let object = convert::for_reader(&self.target.resource, &stored);
            if self.options.selectors.matches(&object) {
                self.write(&mut lines, "ADDED", &object);
            }
            if lines.len() >= self.chunk {
                self.initial = Some(objects);
                return lines;
            }
        }
        if self.options.marks_end_of_initial {
            let mut bookmark = represent::bookmark(&self.target.resource, self.position);
            bookmark["metadata"]["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
            self.write(&mut lines, "BOOKMARK", &bookmark);
            self.sent_version = self.position;
        }
        lines
    }

    /// The next chunk of the changes since the last call. The watch ends after an error line. After a change of the
    /// resource's definition, it ends when all earlier changes were sent.
    async fn pending_lines(&mut self) -> Vec<u8> {
        let mut lines = Vec::new();
        loop {
            let (changes, then) = match self.next_changes().await {
                Ok(next) => next,
                Err(error) => {
                    self.write_event(&mut lines, "ERROR", &error.to_status());
                    break;
                }
            };
            if !self.show(&mut lines, changes) {
                return lines;
            }
            match then {
                Then::More => {}
                Then::Nothing => return lines,
                Then::End => break,
            }
        }
        self.ended = true;
        lines
    }

    /// Writes the events of changes. Returns false if the chunk is full. Remaining changes that were converted are kept
    /// for the next chunk.
    fn show(&mut self, lines: &mut Vec<u8>, changes: VecDeque<Change>) -> bool {
        let mut changes = changes;
        while let Some(change) = changes.pop_front() {
            self.position = change.revision;
            if let Some((kind, object)) = self.options.seen(&self.target, &change) {
                self.sent_version = change.revision;
                if self.sends_as_stored() {
                    write_line(lines, kind, &change.json_of(&object));
                } else {
                    self.write(lines, kind, &object);
                }
            }
            if lines.len() >= self.chunk {
                if let Some(conversion) = &mut self.conversion {
                    conversion.ready = changes;
                }
                return false;
            }
        }
        true
    }

    /// The next changes in the watch's version, and what follows after them.
    async fn next_changes(&mut self) -> Result<(VecDeque<Change>, Then), ApiError> {
        let taken = {
            let mut state = self.shared.lock();
            if state.era != self.era {
                return Ok((VecDeque::new(), Then::End));
            }
            if let Some(ready) = self.conversion.as_mut().and_then(Conversion::take_ready) {
                return Ok((ready, Then::More));
            }
            self.take_changes(state.store.log(&self.target.resource.storage))
        };
        let (mut changes, then) = taken.map_err(|Forgotten { up_to }| {
            ApiError::expired(format!("too old resource version: {} ({up_to})", self.position))
        })?;
        if let Some(conversion) = &mut self.conversion {
            let with_previous = !self.options.selectors.is_empty();
            conversion.convert(&self.shared, &self.target.resource, &mut changes, with_previous).await?;
        }
        Ok((changes.into(), then))
    }

    /// The next changes of the log. After a change of the definition, watches begin a new history, as in a real server.
    fn take_changes(&self, log: &ChangeLog) -> Result<(Vec<Change>, Then), Forgotten> {
        let redefined = log.redefined();
        if redefined <= self.opened && self.position < redefined {
            return Err(Forgotten { up_to: redefined });
        }
        let ends = redefined > self.opened;
        let mut later = log.since(self.position)?.take_while(|change| !ends || change.revision < redefined);
        let changes = later.by_ref().take(CHANGES_TOGETHER_MAX).cloned().collect();
        let then = match later.next() {
            Some(_) => Then::More,
            None if ends => Then::End,
            None => Then::Nothing,
        };
        Ok((changes, then))
    }

    /// Pending changes, and then a bookmark if the client wants bookmarks and has not got the current revision. Changes
    /// come first, so that a bookmark never overtakes an event.
    async fn bookmark_if_moved(&mut self) -> Vec<u8> {
        let mut lines = self.pending_lines().await;
        if !self.options.bookmarks || self.ended || (self.chunk == 1 && !lines.is_empty()) {
            return lines;
        }
        let revision = {
            let mut state = self.shared.lock();
            let log = state.store.log(&self.target.resource.storage);
            match log.since(self.position) {
                Ok(changes) if changes.len() == 0 => state.store.revision(),
                _ => return lines,
            }
        };
        if revision > self.sent_version {
            self.sent_version = revision;
            self.position = revision;
            let bookmark = represent::bookmark(&self.target.resource, revision);
            self.write(&mut lines, "BOOKMARK", &bookmark);
        }
        lines
    }

    /// Whether events have the stored object's JSON unchanged. All such watches share its bytes.
    fn sends_as_stored(&self) -> bool {
        self.chunk != 1 && self.options.form == Form::Full && self.options.encoding != Encoding::Protobuf
    }

    fn write(&mut self, lines: &mut Vec<u8>, kind: &str, object: &Value) {
        if self.chunk == 1 && kind != "BOOKMARK" {
            self.last = Some((object::namespace(object).to_owned(), object::name(object).to_owned()));
        }
        let resource = &self.target.resource;
        match self.options.form {
            Form::Full => self.write_event(lines, kind, object),
            form => {
                let with_columns = !self.columns_sent;
                self.columns_sent = true;
                let shown = represent::one(
                    resource,
                    form,
                    self.options.include_object,
                    with_columns,
                    object,
                    self.shared.now(),
                );
                self.write_event(lines, kind, &shown);
            }
        }
    }

    /// Writes a line, or a protobuf frame. If the object has no protobuf form, writes an error instead and ends the
    /// watch.
    fn write_event(&mut self, lines: &mut Vec<u8>, kind: &str, object: &Value) {
        if self.ended {
            return;
        }
        if self.options.encoding != Encoding::Protobuf {
            write_line(lines, kind, object.to_string().as_bytes());
            return;
        }
        let frame = protobuf::frame(kind, object).or_else(|problem| {
            self.ended = true;
            protobuf::frame("ERROR", &ApiError::internal(problem.to_string()).to_status())
        });
        lines.extend(frame.unwrap_or_default());
    }
}

/// Writes an event. The JSON is built by hand, so that the object need not be copied into an event.
fn write_line(lines: &mut Vec<u8>, kind: &str, object: &[u8]) {
    for part in [br#"{"type":""#, kind.as_bytes(), br#"","object":"#, object, b"}\n"] {
        lines.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::request::Query;
    use crate::request::media::Accepted;
    use crate::storage::ObjectKey;

    fn put(state: &mut State, target: &Target, name: &str) {
        let key = ObjectKey { name: name.to_owned(), ..target.key(name) };
        let metadata = json!({ "name": name, "namespace": "default", "uid": name });
        state.store.put(&key, json!({ "metadata": metadata, "data": { "a": "x".repeat(CHUNK_BYTES_MAX / 2) } }));
    }

    #[tokio::test]
    async fn a_chunk_has_a_limited_size() {
        let shared = Arc::new(Shared::new(100, Clock::Wall, None));
        let mut watcher = {
            let mut state = shared.lock();
            let resource = Arc::clone(state.registry.find("", "v1", "configmaps").expect("a built-in resource"));
            let target = Target { resource, namespace: None, name: None, subresource: None };
            let place = Target { namespace: Some("default".to_owned()), ..target.clone() };
            for name in ["a", "b", "c"] {
                put(&mut state, &place, name);
            }
            let options = WatchOptions::read(&target, &Query::default(), Accepted::default()).expect("no options");
            let watcher = open(&shared, &mut state, target, options).expect("a watch");
            for name in ["d", "e", "f"] {
                put(&mut state, &place, name);
            }
            watcher
        };
        let mut events = Vec::new();
        for _ in 0..4 {
            let chunk = watcher.next_chunk().await.expect("the watch goes on");
            assert!(chunk.len() < CHUNK_BYTES_MAX * 2, "{}", chunk.len());
            events.push(chunk.split(|byte| *byte == b'\n').count() - 1);
        }
        assert_eq!(events, [2, 1, 2, 1]);
    }

    #[tokio::test]
    async fn an_object_without_a_protobuf_form_ends_the_watch() {
        let shared = Arc::new(Shared::new(100, Clock::Wall, None));
        let mut watcher = {
            let mut state = shared.lock();
            let resource = Arc::clone(state.registry.find("", "v1", "configmaps").expect("a built-in resource"));
            let target = Target { resource, namespace: Some("default".to_owned()), name: None, subresource: None };
            for (name, data) in [("a", json!({})), ("b", json!({ "odd": 1 })), ("c", json!({}))] {
                let metadata = json!({ "name": name, "namespace": "default", "uid": name });
                let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data });
                state.store.put(&target.key(name), object);
            }
            let accepted = Accepted { encoding: Encoding::Protobuf, ..Accepted::default() };
            let options = WatchOptions::read(&target, &Query::default(), accepted).expect("no options");
            open(&shared, &mut state, target, options).expect("a watch")
        };
        let chunk = watcher.next_chunk().await.expect("what there is");
        let text = String::from_utf8_lossy(&chunk);
        assert_eq!((text.matches("ADDED").count(), text.matches("ERROR").count()), (1, 1), "{text}");
        assert_eq!(watcher.next_chunk().await, None);
    }
}
