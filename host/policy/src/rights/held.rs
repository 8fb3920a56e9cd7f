//! Compares the rights that an account should have with the rights that a cluster reports. Does not query the cluster
//! itself.

use std::collections::BTreeSet;

use super::{COMPARED_RULES_MAX, Rights, RightsScope, RoleRule};

/// Resources that every authenticated user may use: reviews of the user's own rights.
const OF_EVERYBODY: [&str; 3] = ["selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"];

/// One request that an account should be allowed to make.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RightsQuestion {
    pub scope: RightsScope,
    pub group: String,
    /// The resource with its subresource: `deployments/scale`.
    pub resource: String,
    /// The object's name. `None` for any object.
    pub name: Option<String>,
    pub verb: String,
}

/// All requests that `rights` allow, without duplicates.
#[must_use]
pub fn questions(rights: &Rights) -> BTreeSet<RightsQuestion> {
    let rules = rights.scopes().flat_map(|(scope, rules)| rules.iter().map(move |rule| (scope, rule)));
    let of = |(scope, rule): (&RightsScope, &RoleRule)| {
        let names = || rule.names.iter().cloned().map(Some).chain(rule.names.is_empty().then_some(None));
        let mut questions = Vec::new();
        for (group, resource) in rule.groups.iter().flat_map(|group| rule.resources.iter().map(move |it| (group, it))) {
            for (name, verb) in names().flat_map(|name| rule.verbs.iter().map(move |verb| (name.clone(), verb))) {
                questions.push(RightsQuestion {
                    scope: scope.clone(),
                    group: group.clone(),
                    resource: resource.clone(),
                    name,
                    verb: verb.clone(),
                });
            }
        }
        questions
    };
    rules.flat_map(of).collect()
}

impl RightsQuestion {
    /// Whether one of `rules` allows this request.
    #[must_use]
    pub fn is_allowed_by(&self, rules: &[RoleRule]) -> bool {
        let asked = RoleRule::new(&self.group, &self.resource, &[&self.verb]).named(self.name.clone());
        rules.iter().any(|rule| rule.covers(&asked, &self.verb))
    }
}

/// The rules that an account holds in `namespace` beyond the rules that it should have. Each rule is about one
/// resource.
#[must_use]
pub fn superfluous(expected: &Rights, namespace: &str, held: &[RoleRule]) -> Vec<RoleRule> {
    let scope = RightsScope::Namespace(namespace.to_owned());
    let pairs = held.iter().map(RoleRule::pairs).fold(0, usize::saturating_add);
    let parts: Vec<RoleRule> =
        if pairs > COMPARED_RULES_MAX { held.to_vec() } else { held.iter().flat_map(RoleRule::split).collect() };
    let is_everybodys = |rule: &RoleRule| rule.resources.iter().all(|resource| OF_EVERYBODY.contains(&&**resource));
    let beyond = parts.into_iter().filter(|rule| !is_everybodys(rule)).map(|rule| {
        let more = |verb: &&String| verb.as_str() == "*" || !expected.allow(&scope, &rule, verb);
        RoleRule { verbs: rule.verbs.iter().filter(more).cloned().collect(), ..rule.clone() }
    });
    let mut beyond: Vec<_> = beyond.filter(|rule| !rule.verbs.is_empty()).collect();
    beyond.sort_unstable();
    beyond.dedup();
    beyond
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rights(rules: &[(RightsScope, RoleRule)]) -> Rights {
        let mut rights = Rights::default();
        for (scope, rule) in rules {
            rights.add(scope.clone(), rule.clone());
        }
        rights
    }

    #[test]
    fn each_verb_and_name_is_one_question() {
        let secret = RoleRule::new("", "secrets", &["get", "patch"]).named(["a", "b"]);
        let asked = questions(&rights(&[(RightsScope::Cluster, secret.clone()), (RightsScope::Cluster, secret)]));
        assert_eq!(asked.len(), 4);
        let question = asked.first().expect("there are four");
        assert!(question.is_allowed_by(&[RoleRule::new("*", "*", &["*"])]));
        assert!(question.is_allowed_by(&[RoleRule::new("", "secrets", &["get"]).named(["a"])]));
        assert!(!question.is_allowed_by(&[RoleRule::new("", "secrets", &["get"]).named(["b"])]));
    }

    #[test]
    fn superfluous_rights_are_reported_by_verb() {
        let prod = || RightsScope::Namespace("prod".to_owned());
        let expected = rights(&[
            (RightsScope::Cluster, RoleRule::new("", "pods", &["list"])),
            (prod(), RoleRule::new("", "pods", &["get"])),
        ]);
        let oneself = RoleRule::new("authorization.k8s.io", "selfsubjectaccessreviews", &["create"]);
        let held = [RoleRule::new("", "pods", &["get", "list"]), oneself];
        assert_eq!(superfluous(&expected, "prod", &held), []);
        assert_eq!(superfluous(&expected, "test", &held), [RoleRule::new("", "pods", &["get"])]);
        let all = RoleRule::new("*", "*", &["*"]);
        assert_eq!(superfluous(&expected, "prod", std::slice::from_ref(&all)), [all]);
    }
}
