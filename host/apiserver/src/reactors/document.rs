//! The format of reactors in files, over HTTP and in Rust. `docs/schema/reactors.schema.json` publishes it.

use std::time::Duration;

use jiff::SignedDuration;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value};

/// All rules of a server. Reading checks them: see [`ReactorDocument::parse`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReactorDocument {
    /// Always `windlass.dev/v1alpha1`.
    pub api_version: String,
    /// Always `Reactors`.
    pub kind: String,
    /// The seed for everything random in the rules, such as probabilities.
    #[serde(default)]
    pub seed: u64,
    /// The rules, in the order in which they apply to a request.
    pub rules: Vec<ReactorRule>,
    /// The counts of a running server. Ignored in input.
    #[serde(default, skip_serializing)]
    pub status: Option<Value>,
}

/// Selects requests, and says what happens to them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReactorRule {
    /// Unique among the rules.
    pub name: String,
    /// The requests to which the rule applies. By default, all.
    #[serde(default)]
    pub when: RequestFilter,
    /// The reactions, in the order in which they happen.
    pub then: Vec<Reaction>,
}

/// Selects requests. An empty list matches all requests. In texts, `*` stands for any characters, and `?` for one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RequestFilter {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<String>,
    /// Resources with group and subresource, such as `pods`, `deployments.apps/status` or `*.apps`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// The namespaces in the request's path.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// The object names in the request's path. For a create, the name of the object in the body.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// The client's complete `User-Agent`, for example `kubectl/*`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub user_agents: Vec<String>,
    /// Selects among the matching requests by their number. By default, all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<CallSelector>,
    /// The probability with which the rule acts on a selected request, from 0 to 1. By default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
}

/// Selects matching requests by their number. The first has number 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CallSelector {
    /// Only the request with this number.
    Nth(u64),
    /// Each request whose number is a multiple of this one.
    Every(u64),
    /// All requests up to this number.
    First(u64),
    /// All requests after this number.
    After(u64),
}

/// The effect of a rule on a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Reaction {
    /// The request is answered with an error.
    Error(ErrorAnswer),
    /// The request is delayed.
    Delay(Pause),
    /// The connection is closed without an answer.
    Drop(ConnectionDrop),
    /// A get, list or watch uses an older state, as from a cache.
    Older(OlderState),
    /// Events of a watch are delayed.
    Hold(WatchHold),
    /// Events of a watch are collected in groups of this size, and each group is delivered in another order. Events of
    /// one object stay in order.
    Reorder(EventCount),
    /// The first events of a watch arrive twice, up to this number.
    Duplicate(EventCount),
    /// Some events of a watch are never delivered. After them, the watch ends with 410, and the client must list again.
    Hide(WatchHide),
    /// A watch ends early.
    Cut(WatchCut),
    /// The history is discarded, as in a compaction. Running watches and requests for older versions get a 410.
    Expire(Nothing),
    /// Another client writes before the request is served.
    Edit(ForeignEdit),
    /// The clock for timestamps is set forward or back. Timers are not affected.
    Jump(ClockLeap),
}

impl Reaction {
    /// Whether the reaction changes the events of a watch, and not the request that starts the watch.
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

/// The options of a reaction that has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// Whether the reaction happens before or after the request is carried out. If the request fails afterwards, the client
/// does not learn that it was carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CommitSide {
    /// Before the write.
    #[default]
    BeforeCommit,
    /// After the write.
    AfterCommit,
}

/// A `Status` that the client gets instead of the answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ErrorAnswer {
    /// The HTTP status code, from 400 to 599.
    pub code: u16,
    /// The reason. By default, the usual one for the code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The message. By default, a text that names the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The `details` of the `Status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Map<String, Value>>,
    /// The number of seconds after which the client should retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u32>,
    /// Whether the request fails before or after it is carried out.
    #[serde(default)]
    pub at: CommitSide,
}

/// A delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pause {
    /// The length of the delay, such as `250ms`, `2s` or `1h30m`.
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

/// Selects an earlier state of the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OlderState {
    /// The state before the last changes. The number says how many changes; it is limited by the length of the history.
    Changes(u64),
    /// The state at this resource version.
    ResourceVersion(u64),
}

/// How long events are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WatchHold {
    /// Each event is held for this time.
    For(#[serde(with = "durations")] Duration),
    /// Events are held until there are this many, and are then delivered together.
    Events(usize),
}

/// A number of events, not counting bookmarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EventCount {
    /// The number of events.
    pub events: usize,
}

/// Consecutive events that the client never sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WatchHide {
    /// The number of events before the hidden events.
    #[serde(default)]
    pub after: usize,
    /// The number of hidden events.
    pub events: usize,
}

/// The early end of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WatchCut {
    /// The number of events before the end of the watch.
    #[serde(default)]
    pub after: usize,
    /// The way in which the watch ends.
    #[serde(default)]
    pub with: WatchEnd,
}

/// How a watch ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WatchEnd {
    /// The watch ends normally, as at its timeout.
    #[default]
    Close,
    /// The connection is closed in the middle of the stream, as if it were lost.
    Drop,
    /// The watch ends with 410 Expired, so the client must list again.
    Expired,
}

/// A write by another client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ForeignEdit {
    /// The resource and subresource that is written, such as `deployments.apps` or `webapps.example.com/status`. By
    /// default, that of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// The namespace of the object. By default, that of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name of the object. By default, that of the request.
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
    /// Applies this merge patch.
    Merge(Map<String, Value>),
    /// Applies this JSON patch.
    Json(Vec<Value>),
    /// Creates this object.
    Create(Map<String, Value>),
    /// Deletes the object.
    Delete(Nothing),
}

/// The amount by which the clock is set forward or back. It is written like `1h`, or `-90s` to set the clock back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockLeap {
    /// How far the clock is set.
    pub by: Duration,
    /// True if the clock is set back.
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

/// Reads and writes durations as text, such as `1h30m`.
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
        let explain = |_| de::Error::custom(format!("{text:?} is not a duration: write it like 250ms, 2s or 1h30m"));
        text.parse().map_err(explain)
    }
}
