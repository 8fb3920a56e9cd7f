//! The shape of a policy's YAML: what serde reads, before anybody asks whether it makes sense.

use serde::Deserialize;
use serde_saphyr::Spanned;
use windlass_core::grants::{HttpRule, Rule, Scheme};
use windlass_wasm::Instances;

/// A document, in whichever of its two kinds.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PolicyDocument {
    #[serde(rename = "apiVersion")]
    pub(super) _api_version: String,
    pub(super) kind: String,
    pub(super) plugin: Option<Spanned<String>>,
    pub(super) paused: Option<Spanned<bool>>,
    pub(super) instances: Option<Spanned<InstancesDocument>>,
    pub(super) impersonate: Option<Spanned<String>>,
    pub(super) rollout: Option<Spanned<RolloutDocument>>,
    #[serde(default)]
    pub(super) rules: Vec<Spanned<RuleDocument>>,
    #[serde(default)]
    pub(super) http: Vec<Spanned<HttpDocument>>,
    #[serde(default)]
    pub(super) crds: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) finalizers: Vec<Spanned<String>>,
}

/// How a next version becomes the current one.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RolloutDocument {
    pub(super) promote_after: PromoteAfterDocument,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PromoteAfterDocument {
    pub(super) calls: u32,
    pub(super) time: String,
}

/// As a rule of a Kubernetes role, and a little more.
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
    pub(super) scheme: SchemeDocument,
    pub(super) host: String,
    pub(super) port: Option<u16>,
    pub(super) methods: Vec<String>,
    #[serde(default)]
    pub(super) addresses: Vec<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum SchemeDocument {
    Https,
    Http,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum InstancesDocument {
    Fresh,
    Reuse,
}

impl From<InstancesDocument> for Instances {
    fn from(instances: InstancesDocument) -> Self {
        match instances {
            InstancesDocument::Fresh => Self::Fresh,
            InstancesDocument::Reuse => Self::Reuse,
        }
    }
}

/// The head of every document of ours.
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

impl From<HttpDocument> for HttpRule {
    fn from(rule: HttpDocument) -> Self {
        Self {
            scheme: match rule.scheme {
                SchemeDocument::Https => Scheme::Https,
                SchemeDocument::Http => Scheme::Http,
            },
            host: rule.host.to_lowercase(),
            port: rule.port,
            methods: rule.methods.iter().map(|method| method.to_uppercase()).collect(),
            addresses: rule.addresses,
        }
    }
}
