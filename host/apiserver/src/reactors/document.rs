//! The format of reactors, as `docs/schema/reactors.schema.json` publishes it: in files, over HTTP, and as values.

use std::time::Duration;

use jiff::SignedDuration;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value};

/// All rules of a server. Reading checks them: see [`ReactorDocument::parse`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReactorDocument {
    /// `windlass.dev/v1alpha1`.
    pub api_version: String,
    /// `Reactors`.
    pub kind: String,
    /// Where the probabilities and orders of all rules follow from.
    #[serde(default)]
    pub seed: u64,
    /// In the order in which they act on a request.
    pub rules: Vec<ReactorRule>,
    /// A server's counts; ignored when it is given one.
    #[serde(default, skip_serializing)]
    pub status: Option<Value>,
}

/// Requests, and what happens to them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReactorRule {
    /// Of this rule only.
    pub name: String,
    /// The requests; by default all.
    #[serde(default)]
    pub when: RequestFilter,
    /// The reactions, in this order.
    pub then: Vec<Reaction>,
}

/// Which requests a rule is about. An empty list is any; in texts, `*` stands for any characters and `?` for one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RequestFilter {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<String>,
    /// As in RBAC, with group and subresource: `pods`, `deployments.apps/status`, `*.apps`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Of the request's path.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// Of the path; of a creation, that of the object.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// The client's `User-Agent`, whole: `kubectl/*`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub user_agents: Vec<String>,
    /// Which of all requests that fit so far; by default each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<CallSelector>,
    /// How likely it then is to act, from 0 to 1; by default it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
}

/// Requests by their number, which begins with 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CallSelector {
    /// Only this one.
    Nth(u64),
    /// Each that this divides.
    Every(u64),
    /// Up to this one.
    First(u64),
    /// Those beyond this one.
    After(u64),
}

/// Something that happens to a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Reaction {
    /// It is answered with an error.
    Error(ErrorAnswer),
    /// It takes longer.
    Delay(Pause),
    /// Its connection is closed, and no answer comes.
    Drop(ConnectionDrop),
    /// A get, list or watch begins from an older state, as a cache may show it.
    Older(OlderState),
    /// Events of a watch come later.
    Hold(WatchHold),
    /// So many events of a watch at a time come in another order; those of one object keep theirs.
    Reorder(EventCount),
    /// The first so many events of a watch come twice.
    Duplicate(EventCount),
    /// Events of a watch are never shown: after them, the watch ends with 410 and the client has to list again.
    Hide(WatchHide),
    /// A watch ends early.
    Cut(WatchCut),
    /// The history is forgotten, as by a compaction: running watches end with 410, and so does a request for an older
    /// version.
    Expire(Nothing),
    /// Somebody else writes before the request is served.
    Edit(ForeignEdit),
    /// The clock by which objects are stamped is set forward, or back. Timers go on as before.
    Jump(ClockLeap),
}

impl Reaction {
    /// Whether it is about what a watch shows, and not about the request that begins it.
    pub(crate) fn is_of_watches(&self) -> bool {
        match self {
            Self::Hold(_) | Self::Reorder(_) | Self::Duplicate(_) | Self::Hide(_) | Self::Cut(_) => true,
            Self::Error(_)
            | Self::Delay(_)
            | Self::Drop(_)
            | Self::Older(_)
            | Self::Expire(_)
            | Self::Edit(_)
            | Self::Jump(_) => false,
        }
    }
}

/// No options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// Before the request is carried out, or after that: then the client does not learn that it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CommitSide {
    /// Nothing is written.
    #[default]
    BeforeCommit,
    /// It is written.
    AfterCommit,
}

/// A `Status` in place of the answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ErrorAnswer {
    /// The HTTP status code, from 400 to 599.
    pub code: u16,
    /// By default the usual one of the code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// By default one that names the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The `details`, as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Map<String, Value>>,
    /// Tells the client when to come again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u32>,
    /// Whether the request is carried out all the same.
    #[serde(default)]
    pub at: CommitSide,
}

/// A delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pause {
    /// How long: `250ms`, `2s`, `1h30m`.
    #[serde(with = "durations")]
    pub by: Duration,
    /// Before or after the request is carried out.
    #[serde(default)]
    pub at: CommitSide,
}

/// A connection that is closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConnectionDrop {
    /// Before or after the request is carried out.
    #[serde(default)]
    pub at: CommitSide,
}

/// A state that the resource has had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OlderState {
    /// Before its last so many changes, as far as the history goes.
    Changes(u64),
    /// At this version.
    ResourceVersion(u64),
}

/// Until when events are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WatchHold {
    /// Each for this long.
    For(#[serde(with = "durations")] Duration),
    /// Until there are so many, which then come together.
    Events(usize),
}

/// A number of events; bookmarks are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EventCount {
    /// How many.
    pub events: usize,
}

/// A run of events that a client never sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WatchHide {
    /// How many events come before.
    #[serde(default)]
    pub after: usize,
    /// How many are hidden.
    pub events: usize,
}

/// The end of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WatchCut {
    /// How many events come before.
    #[serde(default)]
    pub after: usize,
    /// How it ends.
    #[serde(default)]
    pub with: WatchEnd,
}

/// How a watch ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WatchEnd {
    /// As when its time is up.
    #[default]
    Close,
    /// In the middle of the stream, as when the connection is lost.
    Drop,
    /// With 410 Expired: the client has to list again.
    Expired,
}

/// A write of somebody else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ForeignEdit {
    /// Resource and subresource, by default those of the request: `deployments.apps`, `webapps.example.com/status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// By default that of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// By default that of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The field manager that writes, by default `somebody-else`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manager: Option<String>,
    /// The change.
    pub change: EditKind,
}

/// The change that somebody else makes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EditKind {
    /// A merge patch.
    Merge(Map<String, Value>),
    /// A JSON patch.
    Json(Vec<Value>),
    /// A new object.
    Create(Map<String, Value>),
    /// The end of the object.
    Delete(Nothing),
}

/// How far a clock is set: `1h` forward, `-90s` back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockLeap {
    /// How far.
    pub by: Duration,
    /// Whether it is set back.
    pub back: bool,
}

impl Serialize for ClockLeap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let sign = if self.back { "-" } else { "" };
        serializer.collect_str(&format_args!("{sign}{:#}", SignedDuration::try_from(self.by).unwrap_or_default()))
    }
}

impl<'de> Deserialize<'de> for ClockLeap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ClockLeap, D::Error> {
        let by = durations::signed(deserializer)?;
        Ok(ClockLeap { by: by.unsigned_abs(), back: by.is_negative() })
    }
}

impl ClockLeap {
    pub(crate) fn signed(self) -> SignedDuration {
        let by = SignedDuration::try_from(self.by).unwrap_or(SignedDuration::MAX);
        if self.back { -by } else { by }
    }
}

/// Durations as people write them.
mod durations {
    use super::{Deserialize as _, Deserializer, Duration, Serializer, SignedDuration, de};

    pub(super) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:#}", SignedDuration::try_from(*duration).unwrap_or_default()))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let signed = signed(deserializer)?;
        Duration::try_from(signed).map_err(|_| de::Error::custom("a duration cannot be negative"))
    }

    pub(super) fn signed<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SignedDuration, D::Error> {
        let text = String::deserialize(deserializer)?;
        let explain = |_| de::Error::custom(format!("{text:?} is no duration, which is like 250ms, 2s or 1h30m"));
        text.parse().map_err(explain)
    }
}
