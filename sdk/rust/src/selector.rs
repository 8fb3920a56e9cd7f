//! Label selectors as objects contain them, and their text form for lists.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

/// A `LabelSelector`, such as the `spec.selector` of a Deployment. Its text is in the form for
/// [`cache::list`](crate::cache::list) and [`live::list`](crate::live::list):
///
/// ```
/// use windlass_sdk::LabelSelector;
///
/// let selector = serde_json::json!({
///     "matchLabels": {"app": "web"},
///     "matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}],
/// });
/// let selector: LabelSelector = serde_json::from_value(selector)?;
/// assert_eq!(selector.to_string(), "app=web,tier in (a,b)");
/// # Ok::<_, serde_json::Error>(())
/// ```
///
/// An empty selector selects everything. If an object has no selector, it selects nothing, so do not list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LabelSelector {
    /// Labels that an object must have, with their values.
    pub match_labels: BTreeMap<String, String>,
    /// Requirements that the object must also meet.
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

/// One requirement of a [`LabelSelector`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelSelectorRequirement {
    /// The label's key.
    pub key: String,
    /// The operator.
    pub operator: LabelSelectorOperator,
    /// The values for [`In`](LabelSelectorOperator::In) and [`NotIn`](LabelSelectorOperator::NotIn), at least one.
    #[serde(default)]
    pub values: Vec<String>,
}

/// An operator on a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LabelSelectorOperator {
    /// The label has one of the values.
    In,
    /// The label is missing, or has a value that is not among these.
    NotIn,
    /// The label exists.
    Exists,
    /// The label is missing.
    DoesNotExist,
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels = self.match_labels.iter().map(|(key, value)| format!("{key}={value}"));
        let requirements = self.match_expressions.iter().map(ToString::to_string);
        f.write_str(&labels.chain(requirements).collect::<Vec<_>>().join(","))
    }
}

impl fmt::Display for LabelSelectorRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let word = match self.operator {
            LabelSelectorOperator::Exists => return write!(f, "{key}"),
            LabelSelectorOperator::DoesNotExist => return write!(f, "!{key}"),
            LabelSelectorOperator::In => "in",
            LabelSelectorOperator::NotIn => "notin",
        };
        let values: BTreeSet<&str> = self.values.iter().map(String::as_str).collect();
        write!(f, "{key} {word} ({})", values.into_iter().collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(selector: serde_json::Value) -> String {
        serde_json::from_value::<LabelSelector>(selector).expect("a selector").to_string()
    }

    #[test]
    fn every_requirement_is_in_the_text() {
        let expressions = json!([
            {"key": "tier", "operator": "In", "values": ["b", "a", "b"]},
            {"key": "zone", "operator": "NotIn", "values": ["x"]},
            {"key": "team", "operator": "Exists"},
            {"key": "canary", "operator": "DoesNotExist"},
        ]);
        let selector = json!({"matchLabels": {"b": "2", "a": "1"}, "matchExpressions": expressions});
        assert_eq!(text(selector), "a=1,b=2,tier in (a,b),zone notin (x),team,!canary");
    }

    #[test]
    fn an_empty_selector_is_an_empty_text() {
        assert_eq!(text(json!({})), "");
    }

    #[test]
    fn an_unknown_operator_is_refused() {
        let selector = json!({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]});
        assert!(serde_json::from_value::<LabelSelector>(selector).is_err());
    }
}
