//! The format of a scenario's file, as specified by docs/schema/scenario.schema.json.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Expectation;
use crate::rule::RunRule;

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
    #[serde(default)]
    pub(super) start_time: Option<String>,
    #[serde(default)]
    pub(super) user: Option<String>,
    #[serde(default)]
    pub(super) rules: BTreeMap<RunRule, SwitchedOff>,
    #[serde(default)]
    pub(super) faults: BTreeMap<String, SwitchedOff>,
    pub(super) steps: Vec<StepDocument>,
    #[serde(default)]
    pub(super) expect: Vec<Expectation>,
}

fn default_stand_ins() -> String {
    "default".to_owned()
}

/// Switches off a rule, or a class of faults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Value")]
pub struct SwitchedOff {
    /// The reason, for people.
    pub off: String,
}

impl TryFrom<Value> for SwitchedOff {
    type Error = &'static str;

    fn try_from(value: Value) -> Result<SwitchedOff, &'static str> {
        let members = value.as_object().filter(|members| members.len() == 1);
        let reason = members.and_then(|members| members.get("off")?.as_str()).filter(|it| !it.trim().is_empty());
        let off = reason.ok_or("give the reason to switch it off, as in {off: Jobs run at their time}")?;
        Ok(SwitchedOff { off: off.to_owned() })
    }
}

/// Objects: the path of a manifest file relative to the scenario, or one inline object.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum ObjectSource {
    File(String),
    Inline(Map<String, Value>),
}

/// A step in the file's format.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum StepDocument {
    Apply(ObjectSource),
    Patch(ObjectPatch),
    Delete(ObjectName),
    Advance(String),
    Wait(Expectation),
}

/// A reference to an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObjectName {
    /// Such as `apps/v1`.
    pub api_version: String,
    /// Such as `Deployment`.
    pub kind: String,
    /// `default` if omitted. Ignored for cluster-scoped objects.
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
    /// The patch (RFC 7386).
    pub merge: Value,
    /// A subresource, such as `status` or `scale`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subresource: Option<String>,
}

/// Values that an object must have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObjectValues {
    /// The object, which must exist.
    pub object: ObjectName,
    /// Values by JSON pointer (RFC 6901). `null` stands for an absent value.
    pub values: BTreeMap<String, Value>,
}

/// A condition on an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObjectCondition {
    /// The object, which must exist.
    pub object: ObjectName,
    /// A CEL expression about `self`, such as `self.status.readyReplicas == self.spec.replicas`.
    pub cel: String,
}

/// The number of objects of a kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObjectCount {
    /// Such as `v1`.
    pub api_version: String,
    /// Such as `Pod`.
    pub kind: String,
    /// All namespaces if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub is: usize,
}

impl ObjectName {
    /// Checks that the name can be part of a request's path. The API server checks the rest.
    pub(crate) fn check(&self) -> Result<(), String> {
        let ObjectName { api_version, kind, namespace, name } = self;
        checked_kind(api_version, kind)?;
        let is_no_name = |text: &&String| text.contains(|it: char| "/?#%\\".contains(it) || it.is_control());
        match [namespace, name].into_iter().find(is_no_name) {
            Some(text) => Err(format!("{text:?} is not a name")),
            None => Ok(()),
        }
    }

    /// The name of `object`. Missing fields are empty, and the namespace defaults to `default`.
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

/// Checks that a request's path can name the kind.
pub(super) fn checked_kind(api_version: &str, kind: &str) -> Result<(), String> {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || ".-".contains(it);
    if api_version.matches('/').count() > 1 || !api_version.chars().all(|it| is_plain(it) || it == '/') {
        return Err(format!("{api_version:?} is not an apiVersion: use one like v1 or apps/v1"));
    }
    if !kind.chars().all(is_plain) {
        return Err(format!("{kind:?} is not a kind: use one like Deployment"));
    }
    Ok(())
}

impl std::fmt::Display for ObjectName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// Durations as people write them, such as `1h30m`.
pub(super) mod durations {
    use std::time::Duration;

    use jiff::SignedDuration;
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    /// The longest time that a world may run.
    const WORLD_TIME_MAX: Duration = Duration::from_hours(24 * 366);

    pub(crate) fn parse(text: &str) -> Result<Duration, String> {
        let signed: Option<SignedDuration> = text.parse().ok();
        let duration = signed.and_then(|signed| Duration::try_from(signed).ok());
        match duration {
            Some(duration) if duration <= WORLD_TIME_MAX => Ok(duration),
            Some(_) => Err(format!("{text:?} is too long: at most 366 days")),
            None => Err(format!("{text:?} is not a duration: use one like 250ms, 2s or 1h30m")),
        }
    }

    pub(crate) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:#}", SignedDuration::try_from(*duration).unwrap_or_default()))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}
