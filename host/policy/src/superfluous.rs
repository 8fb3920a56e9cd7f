//! Finds rules of a policy that the plugin does not need, for example rules left over from a template or an earlier
//! version.

use windlass_core::rights::grants::{Allowance, Rule};

use super::asks::Ask;
use super::lack;

/// The part of `policy`'s rules that no ask needs. A rule that is only wider than necessary, by `*`, namespaces or
/// names, is not reported. If a resource's name is a guess, no rule for its group is reported.
#[must_use]
pub fn of_policy(policy: &Allowance, asks: &[Ask]) -> Vec<Rule> {
    policy.rules.iter().flat_map(|rule| unneeded(rule, asks)).collect()
}

fn unneeded(rule: &Rule, asks: &[Ask]) -> Vec<Rule> {
    let mut needed = asks.iter().map(|ask| as_wide_as(rule, ask));
    if [&rule.groups, &rule.resources, &rule.verbs].into_iter().flatten().any(|item| item.contains('*')) {
        let everywhere = Rule { namespaces: vec![], names: vec![], cluster: true, ..rule.clone() };
        let is_needed = needed.any(|needed| lack::touches(&everywhere, &needed));
        return if is_needed { vec![] } else { vec![rule.clone()] };
    }
    lack::of_rule(rule, &Allowance { rules: needed.collect(), ..Allowance::default() })
}

/// The rule that `ask` needs, widened to all namespaces and names that `rule` covers.
fn as_wide_as(rule: &Rule, ask: &Ask) -> Rule {
    let unless = |all: bool, list: &[String]| if all { vec![] } else { list.to_vec() };
    Rule {
        resources: if ask.guessed { vec!["*".to_owned()] } else { ask.rule.resources.clone() },
        namespaces: unless(rule.namespaces.is_empty(), &ask.rule.namespaces),
        names: unless(rule.names.is_empty(), &ask.rule.names),
        cluster: true,
        ..ask.rule.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::list;

    fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Rule {
        Rule {
            groups: list(&[group]),
            resources: list(resources),
            verbs: list(verbs),
            cluster: false,
            ..Rule::default()
        }
    }

    fn superfluous_of(rules: &[Rule], asks: &[Ask]) -> Vec<Rule> {
        of_policy(&Allowance { rules: rules.to_vec(), ..Allowance::default() }, asks)
    }

    fn ask(rule: Rule) -> Ask {
        Ask { rule, why: String::new(), guessed: false }
    }

    #[test]
    fn only_rights_that_no_ask_needs_are_superfluous() {
        let asks = [ask(rule("apps", &["deployments"], &["get", "list"])), ask(rule("", &["pods"], &["get"]))];
        let left_over = rule("", &["configmaps"], &["get", "list"]);
        assert_eq!(superfluous_of(std::slice::from_ref(&left_over), &asks), [left_over]);
        assert!(superfluous_of(&[rule("apps", &["deployments"], &["list"])], &asks).is_empty());
        assert_eq!(
            superfluous_of(&[rule("apps", &["deployments", "daemonsets"], &["get", "patch"])], &asks),
            [rule("apps", &["deployments"], &["patch"]), rule("apps", &["daemonsets"], &["get", "patch"]),]
        );
        assert_eq!(superfluous_of(&[rule("", &["pods/status"], &["get"])], &asks).len(), 1);
    }

    #[test]
    fn a_wide_rule_is_needed_if_any_part_is() {
        let in_prod = Rule { namespaces: list(&["prod"]), names: list(&["a"]), ..rule("", &["pods"], &["get"]) };
        let asks = [ask(in_prod.clone())];
        assert!(superfluous_of(&[rule("", &["pods"], &["get"]), rule("*", &["*"], &["*"])], &asks).is_empty());
        assert!(superfluous_of(&[Rule { cluster: true, ..rule("", &["pods"], &["get"]) }], &asks).is_empty());
        let elsewhere = Rule { namespaces: list(&["test"]), ..in_prod };
        assert_eq!(superfluous_of(std::slice::from_ref(&elsewhere), &asks), [elsewhere]);
        assert_eq!(superfluous_of(&[rule("apps", &["*"], &["get"])], &asks).len(), 1);
    }

    #[test]
    fn rules_of_the_group_of_a_guessed_resource_are_not_superfluous() {
        let guessed = Ask { guessed: true, ..ask(rule("example.com", &["meshs"], &["get"])) };
        let rules = [rule("example.com", &["meshes"], &["get"]), rule("other.com", &["meshes"], &["get"])];
        assert_eq!(superfluous_of(&rules, &[guessed]), [rules[1].clone()]);
    }
}
