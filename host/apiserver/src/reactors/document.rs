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
    /// The seed for the probabilities and orders of all rules.
    #[serde(default)]
    pub seed: u64,
    /// In the order in which they apply to a request.
    pub rules: Vec<ReactorRule>,
    /// A server's counts; ignored as input.
    #[serde(default, skip_serializing)]
    pub status: Option<Value>,
}

/// Selects requests, and says what happens to them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReactorRule {
    /// Unique among the rules.
    pub name: String,
    /// The requests; by default all.
    #[serde(default)]
    pub when: RequestFilter,
    /// The reactions, in this order.
    pub then: Vec<Reaction>,
}

/// Selects requests. An empty list matches all; in texts, `*` stands for any characters and `?` for one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RequestFilter {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<String>,
    /// As in RBAC, with group and subresource: `pods`, `deployments.apps/status`, `*.apps`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// The namespaces in the request's path.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// The names in the path; for a create, the object's name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// The client's `User-Agent`, whole: `kubectl/*`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub user_agents: Vec<String>,
    /// Which of the matching requests so far; by default all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<CallSelector>,
    /// The probability with which it then acts, from 0 to 1; by default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
}

/// Selects requests by their number, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CallSelector {
    /// Only this one.
    Nth(u64),
    /// Each multiple of this number.
    Every(u64),
    /// All up to this one.
    First(u64),
    /// All after this one.
    After(u64),
}

/// Something that happens to a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Reaction {
    /// It is answered with an error.
    Error(ErrorAnswer),
    /// It is delayed.
    Delay(Pause),
    /// Its connection is closed without an answer.
    Drop(ConnectionDrop),
    /// A get, list or watch uses an older state, as from a cache.
    Older(OlderState),
    /// Events of a watch are delayed.
    Hold(WatchHold),
    /// Groups of this many events of a watch arrive in another order; the order for each object is kept.
    Reorder(EventCount),
    /// The first events of a watch, as many as this, arrive twice.
    Duplicate(EventCount),
    /// Some events of a watch are never delivered. After them, the watch ends with 410, and the client must list again.
    Hide(WatchHide),
    /// A watch ends early.
    Cut(WatchCut),
    /// The history is forgotten, as after a compaction: running watches, and requests for older versions, get a 410.
    Expire(Nothing),
    /// Another client writes before the request is served.
    Edit(ForeignEdit),
    /// The clock for timestamps is set forward or back. Timers are not affected.
    Jump(ClockLeap),
}

impl Reaction {
    /// Whether it changes a watch's events, and not the request that starts the watch.
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

/// Whether the request fails before or after it is carried out. After it, the client does not learn that it was.
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
    /// By default, the code's usual reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// By default, a message that names the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The `details`, unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Map<String, Value>>,
    /// When the client should retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u32>,
    /// Whether the request is carried out nevertheless.
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

/// An earlier state of the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OlderState {
    /// Before this many of its last changes, as far as the history reaches.
    Changes(u64),
    /// At this version.
    ResourceVersion(u64),
}

/// How long events are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WatchHold {
    /// Each event for this long.
    For(#[serde(with = "durations")] Duration),
    /// Until there are this many, which are then delivered together.
    Events(usize),
}

/// A number of events, not counting bookmarks.
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
    /// The number of events before it.
    #[serde(default)]
    pub after: usize,
    /// The number of hidden events.
    pub events: usize,
}

/// The early end of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WatchCut {
    /// The number of events before it.
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
    /// As when its timeout has passed.
    #[default]
    Close,
    /// In the middle of the stream, as when the connection is lost.
    Drop,
    /// With 410 Expired, so that the client must list again.
    Expired,
}

/// A write by another client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ForeignEdit {
    /// Resource and subresource, such as `deployments.apps` or `webapps.example.com/status`. By default, the request's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// By default that of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// By default that of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The field manager of the write; `somebody-else` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manager: Option<String>,
    /// The change.
    pub change: EditKind,
}

/// The change that the other client makes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EditKind {
    /// A merge patch.
    Merge(Map<String, Value>),
    /// A JSON patch.
    Json(Vec<Value>),
    /// A new object.
    Create(Map<String, Value>),
    /// Deletes the object.
    Delete(Nothing),
}

/// The amount by which a clock is set: `1h` forward, `-90s` back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockLeap {
    /// How far.
    pub by: Duration,
    /// True if it is set back.
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

/// Durations in a readable format.
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
