//! `windlass rbac --check`: asks a cluster which of the rights of a host its user has.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use windlass_core::rights::grants::resource_name;
use windlass_kube::ReviewError;
use windlass_policy::rights::held::{RightsQuestion, questions, superfluous};
use windlass_policy::rights::role::in_order;
use windlass_policy::rights::{Rights, RightsScope, RoleRule};

use crate::cli::rights::own_review::{AskedAccess, HeldRule, OwnReviews};
use crate::cli::view;

/// The rights that a user lacks, and the superfluous ones.
pub(crate) struct RightsCheck {
    pub(crate) missing: BTreeSet<RightsQuestion>,
    /// The superfluous rules, by the namespace in which they were found. Such a rule may apply to the whole cluster.
    superfluous: BTreeMap<String, Vec<RoleRule>>,
}

/// The rules that the user has in one namespace.
struct AccountRules {
    rules: Vec<RoleRule>,
    incomplete: bool,
}

/// Compares the rights of the reviewed user with the `expected` ones, in their namespaces and in `home`.
pub(crate) async fn check(reviews: &OwnReviews, expected: &Rights, home: &str) -> Result<RightsCheck, ReviewError> {
    let named = expected.scopes().filter_map(|(scope, _)| match scope {
        RightsScope::Cluster => None,
        RightsScope::Namespace(namespace) => Some(namespace.clone()),
    });
    let namespaces: BTreeSet<String> = named.chain([home.to_owned()]).collect();
    let mut held = BTreeMap::new();
    for namespace in namespaces {
        let rules = reviews.rules(&namespace).await?;
        let incomplete = rules.incomplete;
        held.insert(
            namespace,
            AccountRules { rules: rules.resource_rules.into_iter().map(rule).collect(), incomplete },
        );
    }
    let mut missing = BTreeSet::new();
    for question in questions(expected) {
        if !has(reviews, &held, &question).await? {
            missing.insert(question);
        }
    }
    let beyond = held.into_iter().map(|(namespace, held)| {
        let beyond = superfluous(expected, &namespace, &held.rules);
        (namespace, beyond)
    });
    Ok(RightsCheck { missing, superfluous: beyond.filter(|(_, rules)| !rules.is_empty()).collect() })
}

/// Decides by the listed rules where possible. Otherwise asks about the single right, because the listed rules may be
/// incomplete, and do not say whether a rule applies to one namespace or to all.
async fn has(
    reviews: &OwnReviews,
    held: &BTreeMap<String, AccountRules>,
    question: &RightsQuestion,
) -> Result<bool, ReviewError> {
    let may_be = |held: &AccountRules| held.incomplete || question.is_allowed_by(&held.rules);
    let namespace = match &question.scope {
        RightsScope::Namespace(namespace) => match held.get(namespace) {
            Some(held) if !may_be(held) => return Ok(false),
            Some(held) if question.is_allowed_by(&held.rules) => return Ok(true),
            _ => Some(namespace.as_str()),
        },
        RightsScope::Cluster if !held.values().all(may_be) => return Ok(false),
        RightsScope::Cluster => None,
    };
    let RightsQuestion { group, resource, name, verb, .. } = question;
    reviews.may(AskedAccess { namespace, group, resource, name: name.as_deref(), verb }).await
}

fn rule(held: HeldRule) -> RoleRule {
    let HeldRule { verbs, api_groups, resources, resource_names } = held;
    let set = |list: Vec<String>| list.into_iter().collect::<BTreeSet<_>>();
    RoleRule { groups: set(api_groups), resources: set(resources), names: set(resource_names), verbs: set(verbs) }
}

fn place(scope: &RightsScope) -> &str {
    match scope {
        RightsScope::Cluster => "(cluster)",
        RightsScope::Namespace(namespace) => namespace,
    }
}

fn full_name(group: &str, path: &str) -> String {
    let (resource, subresource) = path.split_once('/').unwrap_or((path, ""));
    resource_name(group, resource, subresource)
}

impl RightsCheck {
    /// The missing rights; verbs about the same thing share a line.
    fn missing_lines(&self) -> Vec<[String; 5]> {
        let mut verbs: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
        for RightsQuestion { scope, group, resource, name, verb } in &self.missing {
            verbs.entry((scope, group, resource, name)).or_default().insert(verb.clone());
        }
        let lines = verbs.into_iter().map(|((scope, group, resource, name), verbs)| {
            let name = name.clone().unwrap_or_default();
            line("missing", place(scope), &verbs, full_name(group, resource), name)
        });
        lines.collect()
    }

    fn superfluous_lines(&self) -> Vec<[String; 5]> {
        let rules =
            self.superfluous.iter().flat_map(|(namespace, rules)| rules.iter().map(move |rule| (namespace, rule)));
        let lines = rules.map(|(namespace, rule)| {
            let pairs = rule.groups.iter().flat_map(|group| rule.resources.iter().map(move |it| full_name(group, it)));
            let names: Vec<_> = rule.names.iter().cloned().collect();
            line("too much", namespace, &rule.verbs, pairs.collect::<Vec<_>>().join(","), names.join(","))
        });
        lines.collect()
    }

    /// A table for people.
    pub(crate) fn text(&self) -> String {
        let lines: Vec<_> = self.missing_lines().into_iter().chain(self.superfluous_lines()).collect();
        if lines.is_empty() {
            return "nothing is missing, and nothing is too much\n".to_owned();
        }
        view::table(&["WHAT", "WHERE", "VERBS", "RESOURCE", "NAMES"], lines)
    }

    /// The result as JSON, for programs.
    pub(crate) fn json(&self) -> Value {
        let missing = self.missing.iter().map(|it| {
            let RightsQuestion { scope, group, resource, name, verb } = it;
            let namespace = match scope {
                RightsScope::Cluster => None,
                RightsScope::Namespace(namespace) => Some(namespace),
            };
            json!({"namespace": namespace, "apiGroup": group, "resource": resource, "name": name, "verb": verb})
        });
        let beyond = self.superfluous.iter().flat_map(|(namespace, rules)| {
            rules.iter().map(move |rule| {
                json!({
                    "seenIn": namespace, "apiGroups": rule.groups, "resources": rule.resources, "verbs": in_order(&rule.verbs),
                    "resourceNames": rule.names,
                })
            })
        });
        json!({"missing": missing.collect::<Vec<_>>(), "superfluous": beyond.collect::<Vec<_>>()})
    }
}

fn line(what: &str, place: &str, verbs: &BTreeSet<String>, resource: String, names: String) -> [String; 5] {
    let verbs: Vec<&str> = in_order(verbs).into_iter().map(String::as_str).collect();
    [what.to_owned(), place.to_owned(), verbs.join(","), resource, names]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_about_the_same_are_one_line() {
        let question = |verb: &str| RightsQuestion {
            scope: RightsScope::Namespace("prod".to_owned()),
            group: "apps".to_owned(),
            resource: "deployments/scale".to_owned(),
            name: None,
            verb: verb.to_owned(),
        };
        let beyond = RoleRule::new("", "secrets", &["get"]).named(["a", "b"]);
        let check = RightsCheck {
            missing: ["patch", "get"].map(question).into(),
            superfluous: [("prod".to_owned(), vec![beyond])].into(),
        };
        let expected = "\
            WHAT      WHERE  VERBS      RESOURCE                NAMES\n\
            missing   prod   get,patch  deployments.apps/scale\n\
            too much  prod   get        secrets                 a,b\n";
        assert_eq!(check.text(), expected);
        let nothing = RightsCheck { missing: BTreeSet::new(), superfluous: BTreeMap::new() };
        assert_eq!(nothing.text(), "nothing is missing, and nothing is too much\n");
    }
}
