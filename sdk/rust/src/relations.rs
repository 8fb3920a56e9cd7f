//! Relations between objects that the plugin's code computes. Pure values: nothing here calls the host.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bindings::customize::exports::windlass::plugin::customize;
use crate::bindings::mapper::exports::windlass::plugin::mapper;
use crate::error::JsonError;
use crate::json::read;

/// A change of one object.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    old: Option<String>,
    new: Option<String>,
}

impl Change {
    /// A change between two states, for tests. Either state may be `None`.
    pub fn between<T: Serialize>(old: Option<&T>, new: Option<&T>) -> Result<Self, JsonError> {
        let text = |object: Option<&T>| {
            object.map(|object| serde_json::to_string(object).map_err(|error| JsonError::new("an object", error)))
        };
        Ok(Self { old: text(old).transpose()?, new: text(new).transpose()? })
    }

    /// The state before the change. `None` if the object is new, or part of the watch's first list.
    pub fn old<T: DeserializeOwned>(&self) -> Result<Option<T>, JsonError> {
        self.old.as_deref().map(|text| read("the old object", text)).transpose()
    }

    /// The state after the change. `None` if the object was deleted.
    pub fn current<T: DeserializeOwned>(&self) -> Result<Option<T>, JsonError> {
        self.new.as_deref().map(|text| read("the new object", text)).transpose()
    }

    /// Both states, as far as they exist, the old one first. Handle both: a change also concerns the primaries that
    /// only the old state concerned.
    pub fn states<T: DeserializeOwned>(&self) -> Result<Vec<T>, JsonError> {
        Ok(self.old()?.into_iter().chain(self.current()?).collect())
    }
}

impl From<mapper::Change> for Change {
    fn from(change: mapper::Change) -> Self {
        let mapper::Change { old, new } = change;
        Self { old, new }
    }
}

/// Selects primaries that a change concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The primary with this key, which need not exist.
    Primary {
        /// `None` for a cluster-scoped primary.
        namespace: Option<String>,
        /// The name.
        name: String,
    },
    /// All primaries with this value in an index, in any namespace.
    Indexed {
        /// The name of an index that the manifest declares for the primary.
        index: String,
        /// The value. For an index of selectors it is a set of labels, such as `app=web,tier=front`: it selects the
        /// primaries whose selector matches these labels.
        value: String,
    },
}

impl Target {
    /// The primary of this namespace and name.
    pub fn primary(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self::Primary { namespace: Some(namespace.into()), name: name.into() }
    }

    /// The cluster-scoped primary of this name.
    pub fn cluster_scoped(name: impl Into<String>) -> Self {
        Self::Primary { namespace: None, name: name.into() }
    }

    /// All primaries with this value in an index.
    pub fn indexed(index: impl Into<String>, value: impl Into<String>) -> Self {
        Self::Indexed { index: index.into(), value: value.into() }
    }
}

impl From<Target> for mapper::Target {
    fn from(target: Target) -> Self {
        match target {
            Target::Primary { namespace, name } => Self::Primary(mapper::ObjectKey { namespace, name }),
            Target::Indexed { index, value } => Self::Indexed(mapper::IndexValue { index, value }),
        }
    }
}

/// Selects the objects of one watch that are related to a parent. An object must meet all conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct RelatedRule {
    watch: String,
    namespace: Option<String>,
    names: Vec<String>,
    labels: Option<String>,
}

impl RelatedRule {
    /// The objects of the watch of this name that are in the parent's namespace or cluster-scoped. For a
    /// cluster-scoped parent: the objects in any namespace.
    pub fn new(watch: impl Into<String>) -> Self {
        Self { watch: watch.into(), namespace: None, names: Vec::new(), labels: None }
    }

    /// Only objects in this namespace.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Only the object with this name. A further call adds a name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.names.push(name.into());
        self
    }

    /// Only objects with these labels, in Kubernetes' syntax.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.labels = Some(selector.into());
        self
    }
}

impl From<RelatedRule> for customize::RelatedRule {
    fn from(rule: RelatedRule) -> Self {
        let RelatedRule { watch, namespace, names, labels } = rule;
        Self { watch, namespace, names, label_selector: labels }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_change_has_its_existing_states() {
        let pod = json!({"metadata": {"name": "a"}});
        let appears = Change::between(None, Some(&pod)).expect("it is JSON");
        assert_eq!(appears.old::<Value>().expect("it is read"), None);
        assert_eq!(appears.current::<Value>().expect("it is read"), Some(pod.clone()));
        let changes = Change::between(Some(&pod), Some(&json!({}))).expect("it is JSON");
        assert_eq!(changes.states::<Value>().expect("they are read"), [pod, json!({})]);
    }

    #[test]
    fn a_plain_rule_selects_objects_near_the_parent() {
        let rule = customize::RelatedRule::from(RelatedRule::new("secrets"));
        assert_eq!((rule.namespace, rule.names, rule.label_selector), (None, vec![], None));
    }
}
