//! The calls of one controller that are remembered for people: the last ten of each key that is not done, and the last
//! ones of all keys that are done.
//!
//! The memory is bounded: [`CALLED_KEYS_MAX`] keys with [`KEY_CALLS_MAX`] calls each, at most about 6 KiB a key, plus 3
//! KiB for the log lines before its last failure; and [`RECENT_DONE_CALLS_MAX`] calls of keys that are done. Other keys
//! that are done take no memory.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_core::call::call_lines::CallLine;
use windlass_core::call::ports::CallContext;
use windlass_core::object::{ObjectKey, ObjectRef};
use windlass_core::queue::key_state::CallEnd;
use windlass_core::queue::trigger::Triggers;

use super::{locked, shortened};

/// The most keys that are not done whose calls are remembered. Beyond that, the key whose last call is the oldest is
/// forgotten.
const CALLED_KEYS_MAX: usize = 1000;
/// The most calls of one key that are remembered.
const KEY_CALLS_MAX: usize = 10;
/// The most calls of done keys that are remembered, over all these keys.
const RECENT_DONE_CALLS_MAX: usize = 16;
/// The most objects that are remembered as written by a call.
const WRITTEN_OBJECTS_SHOWN_MAX: usize = 3;
/// The longest error of one call, in bytes. The error of a key's last failure may be longer.
const CALL_ERROR_BYTES: usize = 256;

/// The calls of one controller.
#[derive(Debug, Default)]
pub(crate) struct KeyCalls(Mutex<Calls>);

#[derive(Debug, Default)]
struct Calls {
    /// One for each busy worker.
    running: Vec<RunningCall>,
    stories: HashMap<ObjectKey, KeyStory>,
    recent: VecDeque<(ObjectKey, EndedCall)>,
}

#[derive(Debug)]
struct RunningCall {
    key: ObjectKey,
    since: Instant,
    writes: u32,
    written: Vec<ObjectRef>,
}

/// A call that has ended.
#[derive(Clone, Debug)]
struct EndedCall {
    began: Instant,
    took: Duration,
    end: CallEnd,
    error: Option<Arc<str>>,
    writes: u32,
    written: Vec<ObjectRef>,
    triggers: Triggers,
    trace_id: Arc<str>,
}

/// The calls of a key that is not done, oldest first.
#[derive(Clone, Debug, Default)]
struct KeyStory {
    calls: VecDeque<EndedCall>,
    failure: Option<KeyFailure>,
}

/// The last failure of a key.
#[derive(Clone, Debug)]
pub(super) struct KeyFailure {
    pub(super) error: Arc<str>,
    pub(super) at: Instant,
    /// The last lines that the plugin had logged before the failure.
    lines: Arc<[CallLine]>,
}

/// The end of a call about a key.
pub(crate) struct KeyCallEnd<'a> {
    pub(crate) end: CallEnd,
    /// Empty if there was no error.
    pub(crate) error: &'a str,
    pub(crate) context: &'a CallContext,
}

/// The part of a key's calls that lists show and its state is based on.
#[derive(Clone, Debug, Default)]
pub(super) struct CallsGlance {
    /// How long a call about the key has been running.
    pub(super) running: Option<Duration>,
    /// How the key's last call ended, if the key is not done.
    pub(super) last: Option<CallEnd>,
    pub(super) failure: Option<KeyFailure>,
}

impl KeyCalls {
    /// Begins a call about `key`.
    pub(super) fn begin(&self, key: &ObjectKey) {
        let running = RunningCall { key: key.clone(), since: Instant::now(), writes: 0, written: Vec::new() };
        locked(&self.0).running.push(running);
    }

    /// Removes the call about `key`, if its end was not reported.
    pub(super) fn over(&self, key: &ObjectKey) {
        locked(&self.0).take(key);
    }

    /// Records that the running call about `key` has written `object`.
    pub(crate) fn wrote(&self, key: &ObjectKey, object: &ObjectRef) {
        let mut calls = locked(&self.0);
        let Some(running) = calls.running.iter_mut().find(|running| running.key == *key) else { return };
        running.writes = running.writes.saturating_add(1);
        let is_new = !running.written.iter().any(|it| it.kind == object.kind && it.key == object.key);
        if is_new && running.written.len() < WRITTEN_OBJECTS_SHOWN_MAX {
            running.written.push(ObjectRef { uid: None, ..object.clone() });
        }
    }

    /// The number of writes of the running call about `key` so far, and the first objects that it wrote, such as
    /// `Service default/shop`.
    pub(crate) fn written(&self, key: &ObjectKey) -> (u32, String) {
        let calls = locked(&self.0);
        let Some(running) = calls.running.iter().find(|running| running.key == *key) else { return <_>::default() };
        (running.writes, running.written.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
    }

    /// Records how the call about `key` ended.
    pub(crate) fn ended(&self, key: &ObjectKey, KeyCallEnd { end, error, context }: KeyCallEnd<'_>) {
        let mut calls = locked(&self.0);
        let Some(RunningCall { since, writes, written, .. }) = calls.take(key) else { return };
        let mut ended = EndedCall {
            began: since,
            took: since.elapsed(),
            end,
            error: None,
            writes,
            written,
            triggers: context.triggers.clone(),
            trace_id: context.trace_id.clone(),
        };
        if end == CallEnd::Done {
            let story = calls.stories.remove(key).unwrap_or_default();
            ended.error = (!error.is_empty()).then(|| cut(error).into());
            story.calls.into_iter().chain([ended]).for_each(|call| calls.keep_recent(key, call));
            return;
        }
        calls.make_room(key);
        let story = calls.stories.entry(key.clone()).or_default();
        if !error.is_empty() {
            let last = story.calls.back().and_then(|call| call.error.clone());
            let short = cut(error);
            // Shares the text if it is the same as last time, which is common.
            ended.error = Some(last.filter(|last| **last == *short).unwrap_or_else(|| short.into()));
            let (error, lines) = (shortened(error.to_owned()).into(), context.lines.take().into());
            story.failure = Some(KeyFailure { error, at: Instant::now(), lines });
        }
        if story.calls.len() == KEY_CALLS_MAX {
            story.calls.pop_front();
        }
        story.calls.push_back(ended);
    }

    /// Forgets everything, because another round begins, which calls about every key.
    pub(super) fn forget_all(&self) {
        locked(&self.0).stories.clear();
    }

    /// Number of remembered keys whose last call ended in a way that `is_meant` selects.
    pub(super) fn count(&self, is_meant: impl Fn(CallEnd) -> bool) -> usize {
        let calls = locked(&self.0);
        calls.stories.values().filter_map(|story| story.calls.back()).filter(|call| is_meant(call.end)).count()
    }

    /// All keys that are not done or have a running call, with what lists show of their calls.
    pub(super) fn glances(&self) -> HashMap<ObjectKey, CallsGlance> {
        let calls = locked(&self.0);
        let keys = calls.stories.keys().chain(calls.running.iter().map(|running| &running.key));
        keys.map(|key| (key.clone(), calls.glance(key))).collect()
    }

    /// The summary of one key's calls, for lists.
    pub(super) fn glance(&self, key: &ObjectKey) -> CallsGlance {
        locked(&self.0).glance(key)
    }

    /// The last failures, latest first, at most `most` of them, and at most one of each key.
    pub(super) fn last_failures(&self, most: usize) -> Vec<(ObjectKey, KeyFailure)> {
        let calls = locked(&self.0);
        let mut failed: Vec<_> =
            calls.stories.iter().filter_map(|(key, story)| Some((key, story.failure.as_ref()?))).collect();
        failed.sort_by(|(one, failure), (other, then)| then.at.cmp(&failure.at).then_with(|| one.cmp(other)));
        failed.into_iter().take(most).map(|(key, failure)| (key.clone(), failure.clone())).collect()
    }

    /// The calls about `key`, latest first.
    pub(super) fn to_json(&self, key: &ObjectKey) -> Vec<Value> {
        let calls = locked(&self.0);
        let recent = calls.recent.iter().filter(|(of, _)| of == key).map(|(_, call)| call);
        let own = calls.stories.get(key).into_iter().flat_map(|story| &story.calls);
        let all: Vec<_> = recent.chain(own).collect();
        all.into_iter().rev().take(KEY_CALLS_MAX).map(EndedCall::to_json).collect()
    }
}

impl Calls {
    fn take(&mut self, key: &ObjectKey) -> Option<RunningCall> {
        let at = self.running.iter().position(|running| running.key == *key)?;
        Some(self.running.swap_remove(at))
    }

    fn keep_recent(&mut self, key: &ObjectKey, call: EndedCall) {
        if self.recent.len() == RECENT_DONE_CALLS_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back((key.clone(), call));
    }

    /// Forgets the key whose last call is the oldest, if there is no room for `key`.
    fn make_room(&mut self, key: &ObjectKey) {
        if self.stories.len() < CALLED_KEYS_MAX || self.stories.contains_key(key) {
            return;
        }
        let last = |story: &KeyStory| story.calls.back().map(|call| call.began);
        let oldest = self.stories.iter().min_by_key(|(_, story)| last(story)).map(|(key, _)| key.clone());
        if let Some(oldest) = oldest {
            self.stories.remove(&oldest);
        }
    }

    fn glance(&self, key: &ObjectKey) -> CallsGlance {
        let running = self.running.iter().find(|running| running.key == *key);
        let story = self.stories.get(key);
        CallsGlance {
            running: running.map(|running| running.since.elapsed()),
            last: story.and_then(|story| story.calls.back()).map(|call| call.end),
            failure: story.and_then(|story| story.failure.clone()),
        }
    }
}

impl KeyFailure {
    /// Includes the lines that the plugin had logged before the failure, oldest first.
    pub(super) fn to_json(&self) -> Value {
        let log = self.lines.iter().map(|line| json!({"level": line.level, "message": &*line.text}));
        json!({"error": &*self.error, "secondsAgo": rounded(self.at.elapsed()), "log": log.collect::<Vec<_>>()})
    }
}

impl EndedCall {
    fn to_json(&self) -> Value {
        json!({
            "secondsAgo": rounded(self.began.elapsed()),
            "tookSeconds": rounded(self.took),
            "outcome": self.end.as_str(),
            "error": self.error.as_deref(),
            "writes": self.writes,
            "wrote": self.written.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "triggers": self.triggers.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "traceId": &*self.trace_id,
        })
    }
}

/// In seconds, rounded to milliseconds.
pub(super) fn rounded(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e3).round() / 1e3
}

pub(super) fn cut(error: &str) -> &str {
    &error[..error.floor_char_boundary(CALL_ERROR_BYTES)]
}

#[cfg(test)]
mod tests {
    use windlass_core::object::ObjectKind;

    use super::*;
    use crate::tests::played::call;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::namespaced("prod", name)
    }

    fn called(calls: &KeyCalls, key: &ObjectKey, end: CallEnd, error: &str) {
        calls.begin(key);
        calls.ended(key, KeyCallEnd { end, error, context: &call(None).1 });
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_that_fails_has_its_last_ten_calls_and_its_last_error() {
        let (calls, shop) = (KeyCalls::default(), key("shop"));
        for attempt in 0..12 {
            called(&calls, &shop, CallEnd::Failed, &format!("no {attempt}"));
            tokio::time::advance(Duration::from_millis(1500)).await;
        }
        let shown = calls.to_json(&shop);
        assert_eq!(shown.len(), 10);
        let last = &shown[0];
        assert_eq!(
            (&last["error"], &last["outcome"], &last["secondsAgo"]),
            (&json!("no 11"), &json!("failed"), &json!(1.5))
        );
        assert_eq!(shown[9]["error"], "no 2");
        let glance = calls.glance(&shop);
        assert_eq!(
            (glance.last, glance.failure.expect("one").error.to_string()),
            (Some(CallEnd::Failed), "no 11".to_owned())
        );
        assert_eq!(calls.count(CallEnd::is_failure), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_that_is_done_is_forgotten_but_for_the_last_calls_of_all() {
        let (calls, shop) = (KeyCalls::default(), key("shop"));
        called(&calls, &shop, CallEnd::Failed, "no");
        called(&calls, &shop, CallEnd::Done, "");
        assert!(calls.glances().is_empty() && calls.last_failures(10).is_empty());
        let outcomes: Vec<_> = calls.to_json(&shop).iter().map(|call| call["outcome"].clone()).collect();
        assert_eq!(outcomes, ["done", "failed"]);
        (0..16).for_each(|at| called(&calls, &key(&format!("other-{at}")), CallEnd::Done, ""));
        assert!(calls.to_json(&shop).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_has_the_objects_that_it_wrote_and_no_other_key_has_them() {
        let (calls, shop) = (KeyCalls::default(), key("shop"));
        let object = |name: &str| ObjectRef { kind: ObjectKind::new("v1", "Secret"), key: key(name), uid: None };
        calls.begin(&shop);
        for name in ["a", "a", "b", "c", "d"] {
            calls.wrote(&shop, &object(name));
            calls.wrote(&key("other"), &object(name));
        }
        assert!(calls.glance(&shop).running.is_some());
        calls.ended(&shop, KeyCallEnd { end: CallEnd::RequeueAfter, error: "", context: &call(None).1 });
        let shown = &calls.to_json(&shop)[0];
        assert_eq!(
            (&shown["writes"], &shown["wrote"]),
            (&json!(5), &json!(["Secret prod/a", "Secret prod/b", "Secret prod/c"]))
        );
        assert!(calls.glance(&shop).running.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_has_the_lines_that_its_call_had_logged() {
        let (calls, shop, context) = (KeyCalls::default(), key("shop"), call(None).1);
        context.lines.add("INFO", "deploys");
        calls.begin(&shop);
        calls.ended(&shop, KeyCallEnd { end: CallEnd::Failed, error: "no image", context: &context });
        let (_, failure) = &calls.last_failures(9)[0];
        assert_eq!(failure.to_json()["log"], json!([{"level": "INFO", "message": "deploys"}]));
        calls.begin(&shop);
        calls.ended(&shop, KeyCallEnd { end: CallEnd::Failed, error: "no image", context: &call(None).1 });
        assert_eq!(calls.last_failures(9)[0].1.to_json()["log"], json!([]), "only the lines of the last failure");
    }

    #[tokio::test(start_paused = true)]
    async fn memory_for_failing_keys_is_bounded() {
        let calls = KeyCalls::default();
        for at in 0..=1_000 {
            called(&calls, &key(&at.to_string()), CallEnd::Failed, &"ü".repeat(5000));
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert_eq!(calls.glances().len(), 1_000);
        assert!(calls.to_json(&key("0")).is_empty(), "its last call is the oldest");
        assert!(
            calls.glance(&key("1")).failure.expect("one").error.len()
                <= super::super::SHOWN_ERROR_BYTES_MAX + '…'.len_utf8()
        );
        assert!(calls.to_json(&key("1"))[0]["error"].as_str().expect("one").len() <= 256);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_reports_no_end_is_removed_when_it_is_over() {
        let (calls, shop) = (KeyCalls::default(), key("shop"));
        calls.begin(&shop);
        calls.over(&shop);
        assert!(calls.glances().is_empty());
    }
}
