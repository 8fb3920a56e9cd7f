//! Distinguishes the rights that a plugin is missing from those that an operator has narrowed.
//!
//! A plugin that asks to watch all namespaces, but is granted only some, works in the granted namespaces: that is a
//! narrowed right. A plugin does not work if a verb or a resource is missing, or a namespace or name that its manifest
//! names explicitly: that is a missing right.

use windlass_core::rights::grants::{Allowance, Rule};

use super::document::VERBS;
use super::lack;

/// The maximum number of namespaces that are tried for one rule. The host splits a watch into at most this many
/// namespaces.
const WATCHED_NAMESPACES_MAX: usize = 256;
/// Verbs of requests for whole collections, which a rule with names never allows.
const OF_COLLECTIONS: [&str; 3] = ["list", "watch", "deletecollection"];

/// The part of `asked` that is missing even in the namespace with the most grants. A right that is granted for some
/// names only is not missing. Empty if nothing is missing, or if the rights are only narrowed.
pub(crate) fn missing(asked: &Rule, layers: &[&Allowance]) -> Vec<Rule> {
    let layers: Vec<_> = layers.iter().map(|layer| ignoring_names(asked, layer)).collect();
    let layers: Vec<_> = layers.iter().collect();
    let everywhere = lack::of_layers(asked, &layers);
    if everywhere.is_empty() || asked.cluster || !asked.namespaces.is_empty() {
        return everywhere;
    }
    let mut least = everywhere;
    for namespace in namespaces(asked, &layers).into_iter().take(WATCHED_NAMESPACES_MAX) {
        let there = lack::of_layers(&Rule { namespaces: vec![namespace], ..asked.clone() }, &layers);
        if there.is_empty() {
            return there;
        }
        if size(&there) < size(&least) {
            least = there;
        }
    }
    least.into_iter().map(|rule| Rule { namespaces: vec![], ..rule }).collect()
}

/// Adds rules to `layer`, so that a right that is granted for some names counts as narrowed, not as missing. If the
/// plugin asks for all names, each rule with names gets a copy without names. The copy has only the verbs whose
/// requests name an object.
fn ignoring_names(asked: &Rule, layer: &Allowance) -> Allowance {
    let mut rules = layer.rules.clone();
    if asked.names.is_empty() {
        rules.extend(layer.rules.iter().filter(|rule| !rule.names.is_empty()).map(of_all_names));
    }
    Allowance { rules, ..Allowance::default() }
}

fn of_all_names(rule: &Rule) -> Rule {
    let has = |verb: &&&str| rule.verbs.iter().any(|its| its == "*" || its == **verb);
    let of_objects = VERBS.iter().filter(|verb| **verb != "*" && !OF_COLLECTIONS.contains(*verb));
    let verbs = of_objects.filter(has).map(|verb| (*verb).to_owned()).collect();
    Rule { verbs, names: vec![], ..rule.clone() }
}

/// All namespaces in rules that overlap with `asked`, without duplicates.
fn namespaces(asked: &Rule, layers: &[&Allowance]) -> Vec<String> {
    let mut namespaces = Vec::new();
    for rule in layers.iter().flat_map(|layer| &layer.rules).filter(|rule| !rule.namespaces.is_empty()) {
        if lack::touches(rule, &Rule { namespaces: rule.namespaces.clone(), ..asked.clone() }) {
            namespaces.extend(rule.namespaces.iter().cloned());
        }
    }
    namespaces.sort_unstable();
    namespaces.dedup();
    namespaces
}

/// The number of combinations of group, resource and verb in the rules.
fn size(rules: &[Rule]) -> usize {
    let of = |rule: &Rule| rule.groups.len().saturating_mul(rule.resources.len()).saturating_mul(rule.verbs.len());
    rules.iter().map(of).fold(0, usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::{list, rule};

    fn layer(rules: &[Rule]) -> Allowance {
        Allowance { rules: rules.to_vec(), ..Allowance::default() }
    }

    fn missing_of(asked: &Rule, rules: &[Rule]) -> Vec<Rule> {
        missing(asked, &[&layer(rules)])
    }

    #[test]
    fn some_namespaces_are_narrowed_but_a_verb_is_missing() {
        let asked = rule(&["list", "watch", "patch"], &[]);
        assert!(missing_of(&asked, std::slice::from_ref(&asked)).is_empty());
        assert!(missing_of(&asked, &[rule(&["*"], &["a"])]).is_empty());
        assert_eq!(missing_of(&asked, &[rule(&["list", "watch"], &["a"])]), [rule(&["patch"], &[])]);
        assert_eq!(missing_of(&asked, &[]), std::slice::from_ref(&asked));
        // Only the rights that are missing in the namespace with the most grants count.
        let more_in_b = [rule(&["list"], &["a"]), rule(&["list", "watch"], &["b"])];
        assert_eq!(missing_of(&asked, &more_in_b), [rule(&["patch"], &[])]);
        // A rule for all namespaces covers each of them.
        assert!(missing_of(&asked, &[rule(&["list", "watch"], &[]), rule(&["patch"], &["a"])]).is_empty());
        let of_others = Rule { resources: list(&["services"]), ..rule(&["*"], &["a"]) };
        assert_eq!(missing_of(&asked, &[of_others]), [asked]);
    }

    #[test]
    fn a_namespace_that_the_manifest_names_can_be_missing() {
        assert_eq!(
            missing_of(&rule(&["list"], &["a", "b"]), &[rule(&["list"], &["a"])]),
            [rule(&["list"], &["b"])],
            "its watch would not begin"
        );
    }

    #[test]
    fn layers_without_a_common_namespace_grant_nothing() {
        let asked = rule(&["list", "watch"], &[]);
        let of = |namespaces: &[&str]| layer(&[rule(&["*"], namespaces)]);
        assert!(missing(&asked, &[&of(&["a", "b"]), &of(&["b", "c"])]).is_empty());
        assert_eq!(missing(&asked, &[&of(&["a"]), &of(&["c"])]), std::slice::from_ref(&asked));
    }

    #[test]
    fn fewer_names_narrow_single_requests_but_not_lists() {
        let asked = rule(&["get", "list", "patch"], &[]);
        let named = Rule { names: list(&["shop"]), ..rule(&["*"], &["a"]) };
        assert_eq!(missing_of(&asked, std::slice::from_ref(&named)), [rule(&["list"], &[])]);
        assert!(missing_of(&asked, &[named, rule(&["list"], &[])]).is_empty());
        let of_cluster = |rule: Rule| Rule { cluster: true, ..rule };
        let nodes = of_cluster(rule(&["patch"], &[]));
        assert!(missing_of(&nodes, &[Rule { names: list(&["n"]), ..nodes.clone() }]).is_empty());
        assert_eq!(
            missing_of(&nodes, &[rule(&["*"], &[])]),
            std::slice::from_ref(&nodes),
            "it says no `cluster: true`"
        );
    }
}
