//! Checks whether one list of rules grants everything that another list grants. This is needed before a role or binding
//! is written. Rules are compared permission by permission, as in `k8s.io/component-helpers/auth/rbac/validation`.

use std::collections::BTreeMap;

use crate::authz::PolicyRule;
use crate::authz::rule::url_covers;

/// The single permissions in `wanted` that no rule in `owned` includes.
pub(super) fn missing(owned: &[PolicyRule], wanted: &[PolicyRule]) -> Vec<PolicyRule> {
    let single = wanted.iter().flat_map(break_down);
    single.filter(|permission| !owned.iter().any(|rule| covers(rule, permission))).collect()
}

/// Splits a rule into one for each verb on each resource, object or URL.
fn break_down(rule: &PolicyRule) -> Vec<PolicyRule> {
    let mut single = Vec::new();
    let one = |item: &String| vec![item.clone()];
    for group in &rule.api_groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                let base = PolicyRule {
                    verbs: one(verb),
                    api_groups: one(group),
                    resources: one(resource),
                    ..PolicyRule::default()
                };
                if rule.resource_names.is_empty() {
                    single.push(base.clone());
                }
                single.extend(
                    rule.resource_names.iter().map(|name| PolicyRule { resource_names: one(name), ..base.clone() }),
                );
            }
        }
    }
    for url in &rule.non_resource_urls {
        for verb in &rule.verbs {
            single.push(PolicyRule { verbs: one(verb), non_resource_urls: one(url), ..PolicyRule::default() });
        }
    }
    single
}

fn covers(owned: &PolicyRule, wanted: &PolicyRule) -> bool {
    let has_all = |own: &[String], other: &[String]| {
        own.iter().any(|item| item == "*") || other.iter().all(|item| own.contains(item))
    };
    let names_fit = owned.resource_names.is_empty()
        || (!wanted.resource_names.is_empty()
            && wanted.resource_names.iter().all(|name| owned.resource_names.contains(name)));
    has_all(&owned.verbs, &wanted.verbs)
        && has_all(&owned.api_groups, &wanted.api_groups)
        && resources_fit(&owned.resources, &wanted.resources)
        && wanted.non_resource_urls.iter().all(|url| owned.non_resource_urls.iter().any(|own| url_covers(own, url)))
        && names_fit
}

fn resources_fit(owned: &[String], wanted: &[String]) -> bool {
    owned.iter().any(|item| item == "*")
        || wanted.iter().all(|resource| {
            let any = resource.split_once('/').map(|(_, subresource)| format!("*/{subresource}"));
            owned.contains(resource) || any.is_some_and(|any| owned.contains(&any))
        })
}

/// Combines the verbs of permissions on the same resource, for people.
pub(super) fn compact(permissions: Vec<PolicyRule>) -> Vec<PolicyRule> {
    let mut compacted = Vec::new();
    let mut simple: BTreeMap<PolicyRule, Vec<String>> = BTreeMap::new();
    for permission in permissions {
        if permission.non_resource_urls.is_empty() {
            let verbs = permission.verbs.clone();
            simple.entry(PolicyRule { verbs: Vec::new(), ..permission }).or_default().extend(verbs);
        } else {
            compacted.push(permission);
        }
    }
    compacted.extend(simple.into_iter().map(|(rule, verbs)| PolicyRule { verbs, ..rule }));
    compacted
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::*;

    fn rules(rules: &Value) -> Vec<PolicyRule> {
        Vec::deserialize(rules).expect("rules")
    }

    fn on(group: &str, resource: &str, verbs: &[&str]) -> Value {
        json!({ "apiGroups": [group], "resources": [resource], "verbs": verbs })
    }

    #[test]
    fn rules_are_covered_permission_by_permission() {
        let named = json!({ "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"], "verbs": ["get"] });
        let urls = |url: &str| json!({ "nonResourceURLs": [url], "verbs": ["get"] });
        let cases = [
            // Only both rules together cover the wanted one.
            (
                json!([on("", "pods", &["get"]), on("", "pods", &["list"])]),
                json!([on("", "pods", &["get", "list"])]),
                true,
            ),
            (json!([on("", "pods", &["get"])]), json!([on("", "pods", &["get", "list"])]), false),
            (json!([on("*", "*", &["*"])]), json!([on("apps", "deployments/scale", &["update"])]), true),
            (json!([on("apps", "*/scale", &["update"])]), json!([on("apps", "deployments/scale", &["update"])]), true),
            (json!([on("apps", "*/scale", &["update"])]), json!([on("apps", "deployments", &["update"])]), false),
            // `*` includes future verbs, so it is more than all verbs of today.
            (json!([on("", "pods", &["get", "list"])]), json!([on("", "pods", &["*"])]), false),
            (json!([on("", "secrets", &["get"])]), json!([named.clone()]), true),
            (json!([named.clone()]), json!([on("", "secrets", &["get"])]), false),
            (json!([urls("/logs/*")]), json!([urls("/logs/a")]), true),
            (json!([urls("/logs/a")]), json!([urls("/logs/*")]), false),
            (json!([on("*", "*", &["*"])]), json!([urls("/logs")]), false),
        ];
        for (owned, wanted, expected) in cases {
            assert_eq!(missing(&rules(&owned), &rules(&wanted)).is_empty(), expected, "{owned} {wanted}");
        }
    }

    #[test]
    fn verbs_of_one_resource_are_named_together() {
        let permissions =
            rules(&json!([on("", "pods", &["get"]), on("", "nodes", &["get"]), on("", "pods", &["list"])]));
        let expected = rules(&json!([on("", "nodes", &["get"]), on("", "pods", &["get", "list"])]));
        assert_eq!(compact(permissions), expected);
    }
}
