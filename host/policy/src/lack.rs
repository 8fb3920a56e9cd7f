//! The requests of a plugin that a policy does not grant.

use std::sync::Arc;

use windlass_core::grants::{Access, Allowance, Grants, HttpRule, Layer, Rule};
use windlass_core::object::ObjectKey;

/// The part of `asked` that `allowed` does not cover: for each resource and place, the verbs that lack.
pub(crate) fn of_rule(asked: &Rule, allowed: &Allowance) -> Vec<Rule> {
    // What asks and what allows are two layers, of which only the second can say no here.
    let everything =
        Rule { groups: vec!["*".into()], resources: vec!["*".into()], verbs: vec!["*".into()], ..Rule::default() };
    let grants = Grants::new(vec![everything]).bounded(Layer::Policy, Arc::new(allowed.clone()));
    let mut lacking = Vec::new();
    for group in &asked.groups {
        for resource in &asked.resources {
            for namespace in or_none(&asked.namespaces) {
                let verbs = asked.verbs.iter().filter(|verb| !allows(&grants, asked, group, resource, namespace, verb));
                let verbs: Vec<_> = verbs.cloned().collect();
                if !verbs.is_empty() {
                    lacking.push(Rule {
                        groups: vec![group.clone()],
                        resources: vec![resource.clone()],
                        verbs,
                        namespaces: namespace.cloned().into_iter().collect(),
                        names: asked.names.clone(),
                        cluster: asked.cluster,
                    });
                }
            }
        }
    }
    lacking
}

fn or_none(list: &[String]) -> Vec<Option<&String>> {
    if list.is_empty() { vec![None] } else { list.iter().map(Some).collect() }
}

fn allows(grants: &Grants, asked: &Rule, group: &str, path: &str, namespace: Option<&String>, verb: &str) -> bool {
    let (resource, subresource) = path.split_once('/').unwrap_or((path, ""));
    or_none(&asked.names).into_iter().all(|name| {
        let name = name.map_or("", String::as_str);
        let key = match namespace {
            Some(namespace) => Some(ObjectKey::namespaced(namespace.as_str(), name)),
            None if name.is_empty() => None,
            None => Some(ObjectKey::cluster(name)),
        };
        let access = Access { verb, group, resource, subresource, namespaced: !asked.cluster, key: key.as_ref() };
        grants.allows(&access)
    })
}

/// Which of `asked` are not among `allowed`.
pub(crate) fn of_names<'a>(asked: &'a [String], allowed: &[String]) -> Vec<&'a String> {
    asked.iter().filter(|name| !allowed.iter().any(|it| it == "*" || it == *name)).collect()
}

/// The part of `asked` that no rule of `allowed` covers, method by method.
pub(crate) fn of_http(asked: &HttpRule, allowed: &[HttpRule]) -> Option<HttpRule> {
    let covers = |rule: &&HttpRule| {
        rule.scheme == asked.scheme && rule.port() == asked.port() && covers_host(&rule.host, &asked.host)
    };
    let covering: Vec<_> = allowed.iter().filter(covers).collect();
    let has = |method: &String| covering.iter().any(|rule| rule.methods.iter().any(|it| it == "*" || it == method));
    let methods: Vec<_> = asked.methods.iter().filter(|method| !has(method)).cloned().collect();
    (!methods.is_empty()).then(|| HttpRule { methods, ..asked.clone() })
}

fn covers_host(pattern: &str, asked: &str) -> bool {
    let (pattern, asked): (Vec<_>, Vec<_>) = (pattern.split('.').collect(), asked.split('.').collect());
    pattern.len() == asked.len()
        && pattern.iter().zip(asked).all(|(allowed, asked)| *allowed == "*" || *allowed == asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(items: &[&str]) -> Vec<String> {
        items.iter().map(|item| (*item).to_owned()).collect()
    }

    fn rule(verbs: &[&str], namespaces: &[&str]) -> Rule {
        Rule {
            groups: list(&["apps"]),
            resources: list(&["deployments"]),
            verbs: list(verbs),
            namespaces: list(namespaces),
            names: vec![],
            cluster: false,
        }
    }

    fn lacking(asked: &Rule, allowed: Rule) -> Vec<Rule> {
        of_rule(asked, &Allowance { rules: vec![allowed], ..Allowance::default() })
    }

    #[test]
    fn only_what_is_not_covered_lacks() {
        assert!(lacking(&rule(&["get"], &[]), rule(&["*"], &[])).is_empty());
        assert_eq!(
            lacking(&rule(&["get", "patch"], &["a", "b"]), rule(&["get"], &["a"])),
            [rule(&["patch"], &["a"]), rule(&["get", "patch"], &["b"]),]
        );
        assert_eq!(lacking(&rule(&["get"], &[]), rule(&["get"], &["a"])), [rule(&["get"], &[])]);
        let everything = Rule { groups: list(&["*"]), resources: list(&["*"]), ..rule(&["*"], &[]) };
        assert!(lacking(&everything, everything.clone()).is_empty());
        assert_eq!(lacking(&everything, rule(&["*"], &[])).len(), 1);
        let cluster = Rule { cluster: true, ..rule(&["get"], &[]) };
        assert_eq!(lacking(&cluster, rule(&["get"], &[])), std::slice::from_ref(&cluster));
    }

    #[test]
    fn of_http_each_method_counts() {
        let rule = |host: &str, methods: &[&str]| HttpRule {
            scheme: windlass_core::grants::Scheme::Https,
            host: host.to_owned(),
            port: None,
            methods: list(methods),
            addresses: vec![],
        };
        let asked = rule("api.example.com", &["GET", "POST"]);
        assert_eq!(of_http(&asked, &[rule("*.example.com", &["*"])]), None);
        assert_eq!(of_http(&asked, &[rule("api.example.com", &["GET"])]), Some(rule("api.example.com", &["POST"])));
        assert_eq!(of_http(&rule("*.example.com", &["GET"]), &[asked]).map(|lack| lack.methods), Some(list(&["GET"])));
    }

    #[test]
    fn one_object_by_its_name_is_less_than_all() {
        let named = Rule { names: list(&["a"]), ..rule(&["get"], &["prod"]) };
        assert!(lacking(&named, rule(&["get"], &[])).is_empty());
        assert_eq!(lacking(&rule(&["get"], &["prod"]), named).len(), 1);
    }
}
