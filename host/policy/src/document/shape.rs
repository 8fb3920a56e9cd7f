//! The structure of a policy's YAML, as serde parses it before `check` validates it.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_saphyr::Spanned;
use windlass_core::life::instances::Instances;
use windlass_core::rights::grants::{HttpRule, Rule, Scheme};

use crate::{OpenHook, RolloutStrategy, SecretKeyRef};

/// A document of either kind.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PolicyDocument {
    #[serde(rename = "apiVersion")]
    pub(super) _api_version: String,
    pub(super) kind: String,
    pub(super) plugin: Option<Spanned<String>>,
    pub(super) paused: Option<Spanned<bool>>,
    pub(super) instances: Option<Spanned<Instances>>,
    pub(super) impersonate: Option<Spanned<String>>,
    pub(super) rollout: Option<Spanned<RolloutDocument>>,
    #[serde(default)]
    pub(super) hooks: Vec<Spanned<HookDocument>>,
    #[serde(default)]
    pub(super) rules: Vec<Spanned<RuleDocument>>,
    #[serde(default)]
    pub(super) http: Vec<Spanned<HttpDocument>>,
    #[serde(default)]
    pub(super) crds: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) finalizers: Vec<Spanned<String>>,
}

/// How a new version becomes the current one. In YAML it is a map, or a word: `shadow` is short for
/// `{strategy: shadow}`.
#[derive(Clone)]
pub(super) struct RolloutDocument {
    pub(super) strategy: Option<RolloutStrategy>,
    pub(super) promote_after: Option<PromoteAfterDocument>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RolloutMap {
    strategy: Option<RolloutStrategy>,
    promote_after: Option<PromoteAfterDocument>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PromoteAfterDocument {
    pub(super) calls: u32,
    pub(super) time: String,
}

/// A rule like those in a Kubernetes role, with additional fields.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RuleDocument {
    pub(super) api_groups: Vec<String>,
    pub(super) resources: Vec<String>,
    pub(super) verbs: Vec<String>,
    #[serde(default)]
    pub(super) namespaces: Vec<String>,
    #[serde(default)]
    pub(super) names: Vec<String>,
    #[serde(default)]
    pub(super) cluster: bool,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct HttpDocument {
    pub(super) scheme: Scheme,
    pub(super) host: String,
    pub(super) port: Option<u16>,
    pub(super) methods: Vec<String>,
    #[serde(default)]
    pub(super) addresses: Vec<String>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct HookDocument {
    pub(super) name: String,
    pub(super) secret_key_refs: Vec<SecretKeyRef>,
}

impl<'de> Deserialize<'de> for RolloutDocument {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EitherForm)
    }
}

/// Parses the short form (a word) or the long form (a map), each with its own error messages.
struct EitherForm;

impl<'de> Visitor<'de> for EitherForm {
    type Value = RolloutDocument;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`shadow`, or a map with `strategy` or `promoteAfter`")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<RolloutDocument, E> {
        if text != "shadow" {
            return Err(E::invalid_value(serde::de::Unexpected::Str(text), &self));
        }
        Ok(RolloutDocument { strategy: Some(RolloutStrategy::Shadow), promote_after: None })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RolloutDocument, A::Error> {
        let RolloutMap { strategy, promote_after } = RolloutMap::deserialize(MapAccessDeserializer::new(map))?;
        Ok(RolloutDocument { strategy, promote_after })
    }
}

/// The fields with which every Windlass document begins.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DocumentHead {
    pub(super) api_version: Option<String>,
    pub(super) kind: Option<String>,
}

impl From<RuleDocument> for Rule {
    fn from(rule: RuleDocument) -> Self {
        let RuleDocument { api_groups, resources, verbs, namespaces, names, cluster } = rule;
        Self { groups: api_groups, resources, verbs, namespaces, names, cluster }
    }
}

impl From<HookDocument> for OpenHook {
    fn from(hook: HookDocument) -> Self {
        Self { name: hook.name, secrets: hook.secret_key_refs }
    }
}

impl From<HttpDocument> for HttpRule {
    fn from(rule: HttpDocument) -> Self {
        Self {
            scheme: rule.scheme,
            host: rule.host.to_lowercase(),
            port: rule.port,
            methods: rule.methods.iter().map(|method| method.to_uppercase()).collect(),
            addresses: rule.addresses,
        }
    }
}
