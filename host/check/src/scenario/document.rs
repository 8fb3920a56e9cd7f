//! The format of a scenario's file, as docs/schema/scenario.schema.json publishes it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Expectation;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ScenarioDocument {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
    #[serde(default)]
    pub(super) load: Vec<ObjectSource>,
    #[serde(default = "default_stand_ins")]
    pub(super) stand_ins: String,
    pub(super) steps: Vec<StepDocument>,
    #[serde(default)]
    pub(super) expect: Vec<Expectation>,
}

fn default_stand_ins() -> String {
    "default".to_owned()
}

/// Objects: a file of manifests beside the scenario, or one object as it is.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum ObjectSource {
    File(String),
    Inline(Map<String, Value>),
}

/// A step, as the file has it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum StepDocument {
    Apply(ObjectSource),
    Patch(ObjectPatch),
    Delete(ObjectName),
    Advance(String),
    Wait(Expectation),
}

/// An object by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObjectName {
    /// Such as `apps/v1`.
    pub api_version: String,
    /// Such as `Deployment`.
    pub kind: String,
    /// By default `default`; without effect for an object of the cluster.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    pub name: String,
}

fn default_namespace() -> String {
    "default".to_owned()
}

/// A merge patch of an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObjectPatch {
    pub object: ObjectName,
    /// The patch: RFC 7386.
    pub merge: Value,
    /// A subresource, such as `status` or `scale`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subresource: Option<String>,
}

/// Values that an object has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObjectValues {
    /// The object, which must be there.
    pub object: ObjectName,
    /// By JSON pointer (RFC 6901). `null` stands for a value that is not there.
    pub values: BTreeMap<String, Value>,
}

/// A condition about an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObjectCondition {
    /// The object, which must be there.
    pub object: ObjectName,
    /// In CEL, about `self`, such as `self.status.readyReplicas == self.spec.replicas`.
    pub cel: String,
}

/// How many objects of a kind there are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObjectCount {
    /// Such as `v1`.
    pub api_version: String,
    /// Such as `Pod`.
    pub kind: String,
    /// By default those of all namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub is: usize,
}

impl ObjectName {
    /// Whether it can stand in the path of a request. The rest is the API server's to refuse.
    pub(crate) fn check(&self) -> Result<(), String> {
        let ObjectName { api_version, kind, namespace, name } = self;
        checked_kind(api_version, kind)?;
        let is_no_name = |text: &&String| text.contains(|it: char| "/?#%\\".contains(it) || it.is_control());
        match [namespace, name].into_iter().find(is_no_name) {
            Some(text) => Err(format!("{text:?} is no name")),
            None => Ok(()),
        }
    }

    /// The name of an object. What it does not have is empty, and its namespace by default `default`.
    pub(crate) fn of(object: &Value) -> ObjectName {
        let text = |pointer| object.pointer(pointer).and_then(Value::as_str);
        let owned = |pointer| text(pointer).unwrap_or_default().to_owned();
        ObjectName {
            api_version: owned("/apiVersion"),
            kind: owned("/kind"),
            namespace: text("/metadata/namespace").map_or_else(default_namespace, str::to_owned),
            name: owned("/metadata/name"),
        }
    }
}

/// Whether a kind can be asked for.
pub(super) fn checked_kind(api_version: &str, kind: &str) -> Result<(), String> {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || ".-".contains(it);
    if api_version.matches('/').count() > 1 || !api_version.chars().all(|it| is_plain(it) || it == '/') {
        return Err(format!("{api_version:?} is no apiVersion, which is like v1 or apps/v1"));
    }
    if !kind.chars().all(is_plain) {
        return Err(format!("{kind:?} is no kind, which is like Deployment"));
    }
    Ok(())
}

impl std::fmt::Display for ObjectName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// Durations as people write them.
pub(super) mod durations {
    use std::time::Duration;

    use jiff::SignedDuration;
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    /// For how long a world may go on.
    const WORLD_TIME_MAX: Duration = Duration::from_hours(24 * 366);

    pub(crate) fn parse(text: &str) -> Result<Duration, String> {
        let signed: Option<SignedDuration> = text.parse().ok();
        let duration = signed.and_then(|signed| Duration::try_from(signed).ok());
        match duration {
            Some(duration) if duration <= WORLD_TIME_MAX => Ok(duration),
            Some(_) => Err(format!("{text:?} is too long: at most 366 days")),
            None => Err(format!("{text:?} is no duration, which is like 250ms, 2s or 1h30m")),
        }
    }

    pub(crate) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:#}", SignedDuration::try_from(*duration).unwrap_or_default()))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}
