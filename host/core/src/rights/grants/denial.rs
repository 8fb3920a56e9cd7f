//! Why something is denied, in words that an operator can act on.

use std::fmt;

use super::Access;

/// A layer that has a say in what a plugin may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Layer {
    /// The plugin's manifest: what its author asks for.
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
    /// These layers allow no such thing; at least one.
    NoRule(Vec<Layer>),
    /// The host runs in that namespace.
    HostNamespace,
    /// `--namespace` keeps the host out of it.
    Confined,
    /// The kind is another plugin's.
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

/// Why an access is denied: what was asked for, who does not allow it, and what is missing there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Denial {
    /// The request: `patch deployments.apps/scale prod/shop`.
    pub access: String,
    pub cause: Cause,
    /// The rules that a policy would need, in YAML: `rules:` and its items, all in one line.
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
            Cause::OtherPlugin(plugin) => write!(f, "{access} is always denied: the plugin {plugin} brings that kind"),
        }
    }
}

impl Denial {
    /// The same for several requests for the API, where those of one cause are one denial that names all rules. So whoever
    /// mends it need not ask again for each.
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

/// Begins what is missing, before its items.
const RULES: &str = "rules: ";

/// The rule that would allow `verbs` on what `access` is about, as an item of `rules` in a policy. It names no object: a plugin
/// that may work on one of a namespace mostly needs others too, and names are easily added.
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
