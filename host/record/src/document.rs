//! The format of recordings: one JSON document a line. `docs/schema/recording.schema.json` says the same.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the format, which the first line of each file says.
pub const FORMAT: &str = "windlass.dev/recording/v1";

/// The first line of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordingHeader {
    /// [`FORMAT`].
    pub format: String,
    pub plugin: String,
    /// The version of the host that recorded.
    pub host: String,
    /// The JSON pointers whose values are redacted, beside those that always are.
    pub redacted: Vec<String>,
}

/// One call. Each is complete in itself: what it was asked, what it asked, and how it ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedCall {
    /// The component that was called.
    pub component: RecordedComponent,
    /// `reconcile` or `compose`.
    pub export: String,
    /// When it began, in RFC 3339.
    pub began: String,
    /// The thing that it was asked.
    pub request: RecordedRequest,
    pub surroundings: RecordedSurroundings,
    /// The imports that ports answer, in order.
    pub imports: Vec<RecordedImport>,
    pub result: Value,
    /// The resources that it used.
    pub used: RecordedUse,
}

/// Which component was called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedComponent {
    pub plugin: String,
    /// The SHA-256 of its file.
    pub digest: String,
    /// The version of the interface.
    pub interface: String,
    /// Where the file was.
    pub file: String,
}

/// The request of a call. Objects are texts, as the plugin got them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedRequest {
    /// The controller's name in the manifest.
    pub controller: String,
    pub api_version: String,
    pub kind: String,
    /// None for a cluster-scoped primary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
    /// Its last known UID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The primary; of a composer, the parent. None: it is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// It waits for its finalizers.
    pub deleting: bool,
    /// How many retries were counted since the last success.
    pub attempt: u32,
    /// 32 hexadecimal digits.
    pub trace_id: String,
    /// Why it was called, as far as it is known.
    pub triggers: Vec<RecordedTrigger>,
    /// The operator's configuration, a JSON text.
    pub config: String,
    /// Of a composer: the objects that the parent controls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<String>,
    /// Of a composer: the objects of its other watches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub related: Vec<String>,
    /// The instance may have served calls before, and remember them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reused: bool,
}

/// One thing that queued the key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedTrigger {
    /// As plugins see it.
    pub reason: String,
    /// The name of the watch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch: Option<String>,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub object: Value,
}

/// Time and chance of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedSurroundings {
    /// The times of day that it read, in nanoseconds since 1970.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub now: Vec<u64>,
    /// The readings of the clock that never goes back, in nanoseconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub monotonic: Vec<u64>,
    /// The HTTP requests that it found answered each time that it looked, if it had sent some by `wasi:http`. Requests are
    /// numbered from 0 on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answered: Vec<Vec<u32>>,
    /// The seed of all chance, 64 hexadecimal digits. None: it is not told, because a Secret may have come of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<String>,
}

/// One import call that a port answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedImport {
    /// Such as `cache.get`.
    pub import: String,
    pub args: Value,
    /// `{"ok": …}` or `{"error": …}`. None: the call ended before the answer came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
    /// The processor time that the call had used until then, in microseconds.
    #[serde(default)]
    pub cpu_us: u64,
}

/// The resources that a call used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedUse {
    /// The processor time of the guest's thread, in microseconds.
    pub cpu_us: u64,
    /// The wall time, in microseconds.
    pub wall_us: u64,
}

impl RecordedRequest {
    /// `NAMESPACE/NAME`, or the name.
    #[must_use]
    pub fn key(&self) -> String {
        self.namespace.as_ref().map_or_else(|| self.name.clone(), |namespace| format!("{namespace}/{}", self.name))
    }
}
