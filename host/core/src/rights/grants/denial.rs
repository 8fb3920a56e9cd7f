//! The reason of a denial, in words that an operator can act on.

use std::fmt;

use super::Access;

/// A layer of rules that limits a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Layer {
    /// The plugin's manifest, written by its author.
    Manifest,
    /// The operator's policy for this plugin.
    Policy,
    /// The operator's ceiling for all plugins of the host.
    Ceiling,
}

impl Layer {
    /// The label of metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Manifest => "manifest",
            Self::Policy => "policy",
            Self::Ceiling => "ceiling",
        }
    }

    fn possessive(self) -> &'static str {
        match self {
            Self::Manifest => "its manifest",
            Self::Policy => "its policy",
            Self::Ceiling => "the host's ceiling",
        }
    }
}

/// The reason of a denial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The layers without a matching rule; at least one.
    NoRule(Vec<Layer>),
    /// The request is about the host's own namespace.
    HostNamespace,
    /// `--namespace` limits the host to another namespace.
    Confined,
    /// The kind belongs to this other plugin.
    OtherPlugin(String),
}

impl Cause {
    /// The label of metrics.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::NoRule(layers) => layers.first().map_or("", |layer| layer.as_str()),
            Self::HostNamespace => "host-namespace",
            Self::Confined => "namespace",
            Self::OtherPlugin(_) => "other-plugin",
        }
    }
}

/// The reason why a request is denied: the request, the layers that do not allow it, and the rule that these layers
/// lack.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Denial {
    /// The request, such as `patch deployments.apps/scale prod/shop`.
    pub access: String,
    pub cause: Cause,
    /// The rules that a policy would need, in YAML: `rules:` and its items on one line.
    pub missing: String,
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = &self.access;
        match &self.cause {
            Cause::NoRule(layers) => {
                let names: Vec<_> = layers.iter().map(|layer| layer.possessive()).collect();
                write!(f, "nothing in {} allows it to {access}; missing: {}", names.join(" and "), self.missing)
            }
            Cause::HostNamespace => {
                write!(f, "{access} is always denied: the host itself lives in that namespace")
            }
            Cause::Confined => {
                write!(f, "{access} is outside the namespace that the host is confined to (--namespace)")
            }
            Cause::OtherPlugin(plugin) => {
                write!(f, "{access} is always denied: the plugin {plugin} installs that kind")
            }
        }
    }
}

impl Denial {
    /// Merges the denials of API requests that have the same cause into one denial. It names all missing rules, so that
    /// an operator can add them in one go.
    #[must_use]
    pub fn merged(denials: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut merged: Vec<Self> = Vec::new();
        for denial in denials {
            let Some(other) = merged.iter_mut().find(|other| other.cause == denial.cause) else {
                merged.push(denial);
                continue;
            };
            let item = denial.missing.strip_prefix(RULES).unwrap_or(&denial.missing);
            if !other.missing.contains(item) {
                other.access = format!("{} and {}", other.access, denial.access);
                other.missing = format!("{} {item}", other.missing);
            }
        }
        merged
    }
}

/// The beginning of a list of missing rules.
const RULES: &str = "rules: ";

/// The rule that would allow `verbs` on the target of `access`, as an item of `rules` in a policy. The rule names no
/// object: a plugin that works on one object of a namespace usually needs other objects too, and names are easily
/// added.
pub(super) fn missing_rule(access: &Access<'_>, verbs: &[&str]) -> String {
    let group = access.group;
    let path = access.path();
    let place = match access.namespace() {
        Some(namespace) => format!(", namespaces: [{namespace:?}]"),
        None if access.namespaced => String::new(),
        None => ", cluster: true".to_owned(),
    };
    format!("{RULES}- {{apiGroups: [{group:?}], resources: [{path:?}], verbs: {verbs:?}{place}}}")
}
