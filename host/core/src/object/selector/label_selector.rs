//! Selectors that are fields of objects: a `LabelSelector`, as in a Deployment, a plain map of labels, as in a Service,
//! or a text, as in the status of a Scale.
//!
//! Absent selectors, and selectors that the API server would have refused, select nothing. An empty `LabelSelector` or
//! text selects everything and an empty map of labels nothing, as in Kubernetes' own controllers.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{Requirement, Selector, Test};

/// How many requirements a selector that is a text may have. No server has checked such a text, and each object may
/// have to be compared with all of them.
pub const TEXT_REQUIREMENTS_MAX: usize = 1_000;

impl Selector {
    /// Reads `value` as a `LabelSelector`. `None`, which selects nothing, if `value` is not one.
    #[must_use]
    pub fn of_label_selector(value: &Value) -> Option<Self> {
        let fields = value.as_object()?;
        // A map of labels mistaken for a LabelSelector must not select everything.
        if fields.keys().any(|field| field != "matchLabels" && field != "matchExpressions") {
            return None;
        }
        let mut requirements = Vec::new();
        if let Some(labels) = present(fields, "matchLabels") {
            requirements.extend(equalities(labels.as_object()?)?);
        }
        if let Some(expressions) = present(fields, "matchExpressions") {
            for expression in expressions.as_array()? {
                requirements.push(requirement(expression)?);
            }
        }
        Some(Self { requirements })
    }

    /// Reads `value` as a map of labels. `None`, which selects nothing, if `value` is not one or is empty.
    #[must_use]
    pub fn of_labels(value: &Value) -> Option<Self> {
        let labels = value.as_object().filter(|labels| !labels.is_empty())?;
        Some(Self { requirements: equalities(labels)? })
    }

    /// Reads `value` as a text such as `app in (web,api),!canary`. `None`, which selects nothing, if `value` is not
    /// one, or has more than [`TEXT_REQUIREMENTS_MAX`] requirements.
    #[must_use]
    pub fn of_text(value: &Value) -> Option<Self> {
        let selector: Self = value.as_str()?.parse().ok()?;
        (selector.requirements.len() <= TEXT_REQUIREMENTS_MAX).then_some(selector)
    }
}

fn present<'v>(fields: &'v Map<String, Value>, name: &str) -> Option<&'v Value> {
    fields.get(name).filter(|value| !value.is_null())
}

fn equalities(labels: &Map<String, Value>) -> Option<Vec<Requirement>> {
    let equal = |(key, value): (&String, &Value)| {
        let value = value.as_str()?.to_owned();
        Some(Requirement { key: key.clone(), test: Test::In(BTreeSet::from([value])) })
    };
    labels.iter().map(equal).collect()
}

fn requirement(expression: &Value) -> Option<Requirement> {
    let key = expression.get("key")?.as_str()?.to_owned();
    let values = || -> Option<BTreeSet<String>> {
        let values = expression.get("values")?.as_array().filter(|values| !values.is_empty())?;
        values.iter().map(|value| value.as_str().map(str::to_owned)).collect()
    };
    let test = match expression.get("operator")?.as_str()? {
        "In" => Test::In(values()?),
        "NotIn" => Test::NotIn(values()?),
        "Exists" => Test::Exists,
        "DoesNotExist" => Test::Absent,
        _ => return None,
    };
    Some(Requirement { key, test })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::object::labels::Labels;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
    }

    #[test]
    fn a_label_selector_reads_as_its_text_does() {
        let object = json!({
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["a", "b"]},
                {"key": "zone", "operator": "NotIn", "values": ["x"]},
                {"key": "team", "operator": "Exists"},
                {"key": "canary", "operator": "DoesNotExist", "values": []},
            ],
        });
        let text: Selector = "app=web,tier in (a,b),zone notin (x),team,!canary".parse().expect("a selector");
        assert_eq!(Selector::of_label_selector(&object), Some(text));
    }

    #[test]
    fn an_empty_label_selector_selects_everything_and_an_empty_map_nothing() {
        for empty in [json!({}), json!({"matchLabels": {}}), json!({"matchLabels": null, "matchExpressions": []})] {
            let selector = Selector::of_label_selector(&empty).expect("it selects");
            assert!(selector.matches(&labels(&[])) && selector.matches(&labels(&[("a", "b")])), "{empty}");
        }
        assert_eq!(Selector::of_labels(&json!({})), None);
    }

    #[test]
    fn a_map_of_labels_requires_all_of_them() {
        let selector = Selector::of_labels(&json!({"app": "web", "tier": "a"})).expect("it selects");
        assert!(selector.matches(&labels(&[("app", "web"), ("tier", "a"), ("more", "x")])));
        assert!(!selector.matches(&labels(&[("app", "web")])));
    }

    #[test]
    fn a_text_with_very_many_requirements_selects_nothing() {
        let text = |count: usize| json!((0..count).map(|at| format!("!k{at}")).collect::<Vec<_>>().join(","));
        assert!(Selector::of_text(&text(TEXT_REQUIREMENTS_MAX)).is_some());
        assert_eq!(Selector::of_text(&text(TEXT_REQUIREMENTS_MAX + 1)), None);
    }

    #[test]
    fn a_value_that_is_no_selector_selects_nothing() {
        let wrong = [
            json!(null),
            json!("app=web"),
            json!({"app": "web"}),
            json!({"matchLabels": {"app": 7}}),
            json!({"matchExpressions": [{"key": "a", "operator": "In", "values": []}]}),
            json!({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}),
            json!({"matchExpressions": [{"operator": "Exists"}]}),
        ];
        for value in wrong {
            assert_eq!(Selector::of_label_selector(&value), None, "{value}");
        }
        assert_eq!(Selector::of_labels(&json!({"matchLabels": {"app": "web"}})), None);
    }

    #[test]
    fn the_label_with_the_fewest_values_is_needed() {
        let needed = |text: &str| {
            let selector: Selector = text.parse().expect("a selector");
            selector.needed().map(|(key, values)| (key.to_owned(), values.map(str::to_owned).collect::<Vec<_>>()))
        };
        assert_eq!(needed("tier in (a,b),app=web"), Some(("app".into(), vec!["web".into()])));
        assert_eq!(needed("a,!b,c notin (d)"), None);
    }
}
