//! One rule of a role, and what it allows.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::authz::{Attributes, ResourceAttributes};
use crate::object;

/// `rbac.authorization.k8s.io/v1` `PolicyRule`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PolicyRule {
    #[serde(deserialize_with = "list_or_null")]
    pub(crate) verbs: Vec<String>,
    #[serde(deserialize_with = "list_or_null", skip_serializing_if = "Vec::is_empty")]
    pub(crate) api_groups: Vec<String>,
    #[serde(deserialize_with = "list_or_null", skip_serializing_if = "Vec::is_empty")]
    pub(crate) resources: Vec<String>,
    #[serde(deserialize_with = "list_or_null", skip_serializing_if = "Vec::is_empty")]
    pub(crate) resource_names: Vec<String>,
    #[serde(rename = "nonResourceURLs", deserialize_with = "list_or_null", skip_serializing_if = "Vec::is_empty")]
    pub(crate) non_resource_urls: Vec<String>,
}

fn list_or_null<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

impl PolicyRule {
    /// The rules of a role. A malformed role grants nothing.
    pub(crate) fn of_role(role: &Value) -> Vec<PolicyRule> {
        object::items(role, "/rules").iter().filter_map(|rule| PolicyRule::deserialize(rule).ok()).collect()
    }

    /// Allows everything except non-resource paths.
    pub(crate) fn all_resources() -> PolicyRule {
        let all = || vec!["*".to_owned()];
        PolicyRule { verbs: all(), api_groups: all(), resources: all(), ..PolicyRule::default() }
    }

    /// Allows everything on non-resource paths.
    pub(crate) fn all_paths() -> PolicyRule {
        let all = || vec!["*".to_owned()];
        PolicyRule { verbs: all(), non_resource_urls: all(), ..PolicyRule::default() }
    }

    pub(crate) fn allows(&self, attributes: &Attributes) -> bool {
        has_or_all(&self.verbs, attributes.verb())
            && match attributes {
                Attributes::Resource(asked) => {
                    has_or_all(&self.api_groups, &asked.group) && self.names_resource(asked) && self.names_object(asked)
                }
                Attributes::Path { path, .. } => self.non_resource_urls.iter().any(|url| url_covers(url, path)),
            }
    }

    fn names_resource(&self, asked: &ResourceAttributes) -> bool {
        let combined = asked.combined();
        self.resources.iter().any(|resource| {
            let any_subresource = resource.strip_prefix("*/").filter(|subresource| !subresource.is_empty());
            resource == "*" || *resource == combined || any_subresource == Some(asked.subresource.as_str())
        })
    }

    fn names_object(&self, asked: &ResourceAttributes) -> bool {
        self.resource_names.is_empty() || self.resource_names.contains(&asked.name)
    }
}

pub(super) fn has_or_all(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == "*" || item == wanted)
}

/// Whether the URL of a rule covers `path`. The URL may end with `*`.
pub(super) fn url_covers(url: &str, path: &str) -> bool {
    url == path || (url.ends_with('*') && path.starts_with(url.trim_end_matches('*')))
}

/// Prints the rule on one line, as in the error about an escalation.
impl fmt::Display for PolicyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        let shown: Vec<String> = parts
            .iter()
            .filter(|(_, list)| !list.is_empty())
            .map(|(name, list)| format!("{name}:{}", go_list(list)))
            .collect();
        write!(f, "{{{}}}", shown.join(", "))
    }
}

/// A list of strings as Go's `%q` prints it.
pub(super) fn go_list(list: &[String]) -> String {
    let quoted: Vec<String> = list.iter().map(|item| format!("{item:?}")).collect();
    format!("[{}]", quoted.join(" "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rule(rule: &Value) -> PolicyRule {
        PolicyRule::deserialize(rule).expect("a rule")
    }

    /// `verb group resource[/subresource] [name]`
    fn asked(words: &str) -> Attributes {
        let words: Vec<&str> = words.split(' ').collect();
        let (resource, subresource) = words[2].split_once('/').unwrap_or((words[2], ""));
        Attributes::Resource(ResourceAttributes {
            verb: words[0].to_owned(),
            group: words[1].trim_matches('-').to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            name: words.get(3).copied().unwrap_or_default().to_owned(),
            ..ResourceAttributes::default()
        })
    }

    #[test]
    fn a_rule_allows_only_the_requests_that_it_names() {
        let read_pods = json!({ "verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "pods/log"] });
        let one_secret =
            json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"] });
        let any_status = json!({ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*/status"] });
        let all = json!({ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] });
        let cases = [
            (&read_pods, "get - pods x", true),
            (&read_pods, "get - pods/log x", true),
            (&read_pods, "get - pods/exec x", false),
            (&read_pods, "delete - pods x", false),
            (&read_pods, "get apps pods x", false),
            (&one_secret, "get - secrets a", true),
            (&one_secret, "get - secrets b", false),
            (&one_secret, "list - secrets", false),
            (&any_status, "update apps deployments/status x", true),
            (&any_status, "update apps deployments x", false),
            (&any_status, "update apps deployments/scale x", false),
            (&all, "delete apps deployments/scale x", true),
        ];
        for (granted, words, expected) in cases {
            assert_eq!(rule(granted).allows(&asked(words)), expected, "{granted} {words}");
        }
    }

    #[test]
    fn paths_match_exactly_or_by_a_prefix() {
        let granted = rule(&json!({ "verbs": ["get"], "nonResourceURLs": ["/version", "/healthz/*"] }));
        let asked = |verb: &str, path: &str| Attributes::Path { verb: verb.to_owned(), path: path.to_owned() };
        for (verb, path, expected) in [
            ("get", "/version", true),
            ("post", "/version", false),
            ("get", "/version/", false),
            ("get", "/healthz/etcd", true),
            ("get", "/healthz", false),
        ] {
            assert_eq!(granted.allows(&asked(verb, path)), expected, "{verb} {path}");
        }
        assert!(PolicyRule::all_paths().allows(&asked("get", "/anything")));
        assert!(!PolicyRule::all_resources().allows(&asked("get", "/anything")));
    }

    #[test]
    fn a_malformed_rule_grants_nothing() {
        let role = json!({ "rules": [{ "verbs": "*" }, 3, null, { "verbs": ["get"], "apiGroups": null }] });
        assert_eq!(PolicyRule::of_role(&role), [rule(&json!({ "verbs": ["get"] }))]);
    }

    #[test]
    fn a_rule_is_shown_as_a_real_server_shows_it() {
        let shown = rule(&json!({ "verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"] })).to_string();
        assert_eq!(shown, r#"{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}"#);
    }
}
