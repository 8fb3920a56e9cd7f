//! The format of recordings: one JSON document per line, as specified by `docs/schema/recording.schema.json`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the format. The first line of each file names it.
pub const FORMAT: &str = "windlass.dev/recording/v1";

/// The first line of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordingHeader {
    /// [`FORMAT`].
    pub format: String,
    pub plugin: String,
    /// The version of the host that made the recording.
    pub host: String,
    /// JSON pointers to redacted values, in addition to those that are always redacted.
    pub redacted: Vec<String>,
}

/// One call, self-contained: its request, its imports, and its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedCall {
    /// The called component.
    pub component: RecordedComponent,
    /// `reconcile` or `compose`.
    pub export: String,
    /// The start time, in RFC 3339.
    pub began: String,
    pub request: RecordedRequest,
    pub surroundings: RecordedSurroundings,
    /// The imports that were answered by ports, in order.
    pub imports: Vec<RecordedImport>,
    pub result: Value,
    pub used: RecordedUse,
}

/// The identity of a component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedComponent {
    pub plugin: String,
    /// The SHA-256 of its file.
    pub digest: String,
    /// The version of the interface.
    pub interface: String,
    /// The path of the file.
    pub file: String,
}

/// The request of a call. Objects are texts, as the plugin received them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedRequest {
    /// The controller's name in the manifest.
    pub controller: String,
    pub api_version: String,
    pub kind: String,
    /// `None` for a cluster-scoped primary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
    /// Its last known UID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The primary, or the parent of a composer. `None` if it is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// Whether the object is being deleted and waits for its finalizers.
    pub deleting: bool,
    /// The number of counted retries since the last success.
    pub attempt: u32,
    /// 32 hexadecimal digits.
    pub trace_id: String,
    /// The known reasons for the call.
    pub triggers: Vec<RecordedTrigger>,
    /// The operator's configuration, a JSON text.
    pub config: String,
    /// For a composer: the objects that the parent controls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<String>,
    /// For a composer: the objects of its other watches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub related: Vec<String>,
    /// Whether the instance may have served earlier calls and remember them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reused: bool,
}

/// One trigger of the key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedTrigger {
    /// The name of the reason, as plugins see it.
    pub reason: String,
    /// The name of the watch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch: Option<String>,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub object: Value,
}

/// The clock readings and random data of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedSurroundings {
    /// The times of day that the call read, in nanoseconds since 1970.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub now: Vec<u64>,
    /// The readings of the monotonic clock, in nanoseconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub monotonic: Vec<u64>,
    /// For requests sent by `wasi:http`: the numbers of the requests that were found answered, for each poll. Requests
    /// are numbered from 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answered: Vec<Vec<u32>>,
    /// The seed of all random data, 64 hexadecimal digits. `None` if it is not recorded, because a Secret may have been
    /// derived from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<String>,
}

/// One import that was answered by a port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedImport {
    /// Such as `cache.get`.
    pub import: String,
    pub args: Value,
    /// `{"ok": …}` or `{"error": …}`. `None` if the call ended before the answer arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
    /// CPU time that the call had used before this import, in microseconds.
    #[serde(default)]
    pub cpu_us: u64,
}

/// The resources that a call used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedUse {
    /// CPU time of the guest's thread, in microseconds.
    pub cpu_us: u64,
    /// Wall-clock time, in microseconds.
    pub wall_us: u64,
}

impl RecordedRequest {
    /// `NAMESPACE/NAME`, or just the name.
    #[must_use]
    pub fn key(&self) -> String {
        self.namespace.as_ref().map_or_else(|| self.name.clone(), |namespace| format!("{namespace}/{}", self.name))
    }
}
