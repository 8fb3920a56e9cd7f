//! Rules that several tests begin with.

use windlass_core::rights::grants::Rule;

pub(crate) fn list(items: &[&str]) -> Vec<String> {
    items.iter().map(|item| (*item).to_owned()).collect()
}

pub(crate) fn rule(verbs: &[&str], namespaces: &[&str]) -> Rule {
    Rule {
        groups: list(&["apps"]),
        resources: list(&["deployments"]),
        verbs: list(verbs),
        namespaces: list(namespaces),
        names: vec![],
        cluster: false,
    }
}
