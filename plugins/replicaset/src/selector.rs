//! Label selectors: their text for the host, and whether they match. Pure.

use serde_json::Value;

use crate::api::{Expression, Operator, Selector};

impl Selector {
    /// The selector in the syntax of `kubectl get -l`. It is empty if the selector would match everything.
    pub(crate) fn text(&self) -> String {
        let labels =
            self.match_labels.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
        let expressions = self.match_expressions.iter().map(Expression::text);
        labels.chain(expressions).collect::<Vec<_>>().join(",")
    }

    /// Whether the selector matches these labels.
    pub(crate) fn matches(&self, labels: &Value) -> bool {
        self.match_labels.iter().all(|(key, value)| labels[key] == *value)
            && self.match_expressions.iter().all(|expression| expression.matches(labels))
    }
}

impl Expression {
    fn text(&self) -> String {
        let Self { key, operator, values } = self;
        match operator {
            Operator::In => format!("{key} in ({})", values.join(",")),
            Operator::NotIn => format!("{key} notin ({})", values.join(",")),
            Operator::Exists => key.clone(),
            Operator::DoesNotExist => format!("!{key}"),
        }
    }

    fn matches(&self, labels: &Value) -> bool {
        let value = labels[&self.key].as_str();
        let is_listed = value.is_some_and(|value| self.values.iter().any(|listed| listed == value));
        match self.operator {
            Operator::In => is_listed,
            // As in Kubernetes, an object without the label matches, too.
            Operator::NotIn => !is_listed,
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }
}
