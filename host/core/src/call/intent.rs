//! Compares what two versions of a plugin would have done about one key: by object, not by request. A write that
//! changes nothing counts as no write, and a patch equals an apply with the same result.
//!
//! Nothing is sent. `dry` computes from texts what a write would leave. Both versions' writes are computed from the
//! same states, so anything that only a server adds is missing on both sides.

mod dry;
#[cfg(test)]
mod tests;
mod times;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use serde_json::Value;

use crate::error::ApiReason;
use crate::object::difference::{Difference, Disclosure};
use crate::object::{ObjectKey, ObjectKind, ObjectRef};
use crate::queue::outcome::{CallResult, summary};
use crate::secret::confidential::Confidential;
use crate::write::{Operation, WriteOptions};

pub use self::dry::{DryState, carried_out};

/// Two delays count as equal if they differ by at most one part in `DELAY_TOLERANCE`, because plugins may add jitter.
const DELAY_TOLERANCE: u32 = 10;
/// The longest text about the end of a call, in bytes.
const CALL_END_TEXT_BYTES_MAX: usize = 200;

/// A difference between what two versions would have done about one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntentDifference {
    /// The object, such as `Deployment prod/shop`, or `the call`.
    pub about: String,
    /// The difference: the current version first, then the next one.
    pub text: String,
}

impl fmt::Display for IntentDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.about, self.text)
    }
}

/// The object that `operation` writes, in a call about `primary`. `None` if its body does not name one. A name that
/// the server generates ends with `*`.
#[must_use]
pub fn object_of(operation: &Operation, primary: &ObjectRef) -> Option<ObjectRef> {
    let of_body = |text: &str, options: &WriteOptions| {
        if let Some(parent) = options.subresource.as_ref().and_then(|it| it.parent.clone()) {
            return Some(parent);
        }
        let body: Value = serde_json::from_str(text).ok()?;
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let metadata = &body["metadata"];
        let generated = || text(&metadata["generateName"]).map(|prefix| format!("{prefix}*"));
        let name = text(&metadata["name"]).or_else(generated)?;
        let kind = ObjectKind::new(text(&body["apiVersion"])?, text(&body["kind"])?);
        let key = ObjectKey { namespace: text(&metadata["namespace"]).map(Into::into), name: name.into() };
        Some(ObjectRef { kind, key, uid: None })
    };
    let mut object = match operation {
        Operation::Create { object, options }
        | Operation::Update { object, options }
        | Operation::Apply { object, options } => of_body(object, options)?,
        Operation::Patch { target, .. } | Operation::Delete { target, .. } => target.clone(),
    };
    if object.key.namespace.is_none() {
        // The writer does the same, but it also knows the kinds without namespaces, which are not known here. A mistake
        // here affects both versions alike.
        object.key.namespace.clone_from(&primary.key.namespace);
    }
    Some(ObjectRef { uid: None, ..object })
}

/// Whether `operation` is a dry run.
#[must_use]
pub fn is_dry_run(operation: &Operation) -> bool {
    match operation {
        Operation::Create { options, .. }
        | Operation::Update { options, .. }
        | Operation::Patch { options, .. }
        | Operation::Apply { options, .. } => options.dry_run,
        Operation::Delete { options, .. } => options.dry_run,
    }
}

/// The writes of one call, by object.
#[derive(Debug)]
struct IntendedEnds<'a> {
    primary: &'a ObjectRef,
    ends: BTreeMap<(ObjectKind, ObjectKey), IntendedEnd>,
}

/// The state of one object after the writes of one call.
#[derive(Clone, Debug, PartialEq)]
struct IntendedEnd {
    /// Whether the object existed when the call began.
    was_there: bool,
    state: DryState,
    is_deleted: bool,
    /// The last body applied to each subresource by each field manager. The server removes fields that an apply
    /// leaves out, which the computed state does not show.
    applied: BTreeMap<(String, String), Value>,
    /// Writes of subresources whose effect only a server knows.
    others: Vec<Value>,
}

/// The differences between what the `current` and the `next` version wanted to write in their calls about `primary`.
/// `before` returns the state of an object when the calls began. For an object that contains a secret of `config`,
/// only the names of fields are shown.
#[must_use]
pub fn differences<'a>(
    primary: &ObjectRef,
    current: impl IntoIterator<Item = &'a Operation>,
    next: impl IntoIterator<Item = &'a Operation>,
    before: &dyn Fn(&ObjectRef) -> DryState,
    config: &Confidential,
) -> Vec<IntentDifference> {
    let [current, next] = [IntendedEnds::of(primary, current, before), IntendedEnds::of(primary, next, before)];
    let objects: BTreeSet<_> = current.ends.keys().chain(next.ends.keys()).collect();
    let compared = objects.into_iter().filter_map(|object| {
        let (kind, key) = object;
        let untouched = || {
            let state = before(&ObjectRef { kind: kind.clone(), key: key.clone(), uid: None });
            IntendedEnd::begins(state)
        };
        let [current, next] = [&current, &next].map(|side| side.ends.get(object).cloned().unwrap_or_else(untouched));
        let has_secret = current.holds_secret_of(config) || next.holds_secret_of(config);
        let disclosure = if has_secret { Disclosure::Names } else { Disclosure::of(kind) };
        let text = current.difference(&next, disclosure)?;
        Some(IntentDifference { about: format!("{} {key}", kind.kind), text })
    });
    compared.collect()
}

impl<'a> IntendedEnds<'a> {
    fn of<'b>(
        primary: &'a ObjectRef,
        writes: impl IntoIterator<Item = &'b Operation>,
        before: &dyn Fn(&ObjectRef) -> DryState,
    ) -> Self {
        let mut ends = Self { primary, ends: BTreeMap::new() };
        for operation in writes.into_iter().filter(|operation| !is_dry_run(operation)) {
            ends.take(operation, before);
        }
        ends
    }

    fn take(&mut self, operation: &Operation, before: &dyn Fn(&ObjectRef) -> DryState) {
        let Some(mut object) = object_of(operation, self.primary) else { return };
        if object.key.name.ends_with('*') {
            // Each generated name is a different object. The first object of one version is compared with the first of
            // the other version.
            let alike =
                self.ends.keys().filter(|(kind, key)| *kind == object.kind && is_like(key, &object.key)).count();
            object.key.name = format!("{}{}", object.key.name, alike + 1).into();
        }
        let end = self
            .ends
            .entry((object.kind.clone(), object.key.clone()))
            .or_insert_with(|| IntendedEnd::begins(before(&object)));
        end.take(operation, self.primary);
    }
}

fn is_like(key: &ObjectKey, pattern: &ObjectKey) -> bool {
    key.namespace == pattern.namespace && key.name.starts_with(&*pattern.name)
}

impl IntendedEnd {
    fn begins(state: DryState) -> Self {
        let was_there = matches!(state, DryState::Is(_));
        Self { was_there, state, is_deleted: false, applied: BTreeMap::new(), others: vec![] }
    }

    fn take(&mut self, operation: &Operation, primary: &ObjectRef) {
        let subresource = dry::subresource(operation);
        if !matches!(subresource, "" | "status") {
            self.others.push(dry::literal(operation));
            return;
        }
        if let Operation::Apply { object, options } = operation
            && let Some(body) = dry::body(object, options, primary)
        {
            let manager = options.manager_suffix.as_deref().unwrap_or_default();
            self.applied.insert((manager.to_owned(), subresource.to_owned()), body);
        }
        match carried_out(operation, &self.state, primary) {
            Ok(state) => {
                self.is_deleted = state == DryState::Absent;
                self.state = state;
            }
            // An object that already exists stays as it is. If the call fails because of it, the end of the call
            // shows that.
            Err(ApiReason::AlreadyExists) => {}
            // The state may be unknown here: a cache with a selector does not show all objects.
            Err(_) => self.others.push(dry::literal(operation)),
        }
    }

    /// Whether the object's end state contains a secret of the plugin's configuration.
    fn holds_secret_of(&self, config: &Confidential) -> bool {
        let state = if let DryState::Is(state) = &self.state { Some(state) } else { None };
        let mut all = state.into_iter().chain(self.applied.values());
        !config.secrets().is_empty() && all.any(|body| config.stands_in(&body.to_string()))
    }

    /// `None` if there is no difference.
    fn difference(&self, next: &Self, disclosure: Disclosure) -> Option<String> {
        match (self.is_deleted, next.is_deleted) {
            (true, true) => return None,
            (true, false) => return Some("is deleted → is not deleted".to_owned()),
            (false, true) => return Some("is not deleted → is deleted".to_owned()),
            (false, false) => {}
        }
        let (mut parts, mut both) = (Vec::new(), 0);
        for (manager, body) in &self.applied {
            let Some(other) = next.applied.get(manager) else { continue };
            both += 1;
            parts.push(between(body, other, disclosure));
        }
        // An apply also removes fields that it leaves out. Which fields these are is not known here.
        if self.applied.keys().ne(next.applied.keys()) && self.was_there && next.was_there {
            let count = |end: &Self| end.applied.len();
            parts.push(format!("is applied {} times → {} times, by its managers", count(self), count(next)));
        }
        let is_applied_alone = both > 0 && both == self.applied.len() && both == next.applied.len();
        match (&self.state, &next.state) {
            // Bodies that both versions apply were already compared above, and more exactly.
            _ if is_applied_alone && parts.iter().any(|it| !it.is_empty()) => {}
            (DryState::Is(one), DryState::Is(other)) => {
                parts.push(between(one, other, disclosure));
            }
            (DryState::Is(one), _) => {
                parts.push(format!("is written → is not written; {}", Difference::of_new(one, disclosure)));
            }
            (_, DryState::Is(other)) => {
                parts.push(format!("is not written → is written; {}", Difference::of_new(other, disclosure)));
            }
            _ => {}
        }
        if self.others != next.others {
            parts.push(format!("{} writes → {} different writes", self.others.len(), next.others.len()));
        }
        parts.retain(|it| !it.is_empty());
        parts.dedup();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// The difference between two states. The two versions read the clock at different moments.
fn between(one: &Value, other: &Value, disclosure: Disclosure) -> String {
    let mut other = other.clone();
    times::align(one, &mut other);
    Difference::between(one, &other, disclosure).to_string()
}

/// How the ends of two calls differ, or `None`.
#[must_use]
pub fn end_difference(current: &CallResult, next: &CallResult) -> Option<IntentDifference> {
    let is_alike = match (current, next) {
        (CallResult::Done, CallResult::Done)
        | (CallResult::RequeueBackoff, CallResult::RequeueBackoff)
        | (CallResult::Failed(_), CallResult::Failed(_))
        | (CallResult::Trapped { .. }, CallResult::Trapped { .. }) => true,
        (CallResult::RequeueAfter(one), CallResult::RequeueAfter(other)) => is_same_delay(*one, *other),
        _ => false,
    };
    let text = || format!("{} → {}", end_text(current), end_text(next));
    (!is_alike).then(|| IntentDifference { about: "the call".to_owned(), text: text() })
}

fn is_same_delay(one: Duration, other: Duration) -> bool {
    one.abs_diff(other) <= one.max(other) / DELAY_TOLERANCE
}

fn end_text(result: &CallResult) -> String {
    let mut text = match result {
        CallResult::Done => "done".to_owned(),
        CallResult::RequeueAfter(after) => format!("again after {after:?}"),
        CallResult::RequeueBackoff => "again after its backoff".to_owned(),
        CallResult::Failed(failures) => format!("fails: {}", summary(failures)),
        CallResult::Trapped { message, .. } => format!("traps: {message}"),
        CallResult::NotCalled { .. } => "not called".to_owned(),
    };
    text.truncate(text.floor_char_boundary(CALL_END_TEXT_BYTES_MAX));
    text
}
