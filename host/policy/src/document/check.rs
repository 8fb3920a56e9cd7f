//! Checks that a policy makes sense. Also reports rules that can never match, although they seem to grant something.

use windlass_core::object::path_segment;
use windlass_core::rights::egress::is_host_pattern;
use windlass_core::rights::grants::Cidr;
use windlass_core::rights::verbs::{CONSEQUENCE_VERBS, ConsequenceVerb, REQUEST_VERBS, SIGNERS};
use windlass_manifest::{is_dns_label, nearest};

use super::POLICY_LIST_ENTRIES_MAX;
use super::shape::{HookDocument, HttpDocument, RuleDocument};
use crate::hook::HOOK_SECRETS_MAX;

/// The longest key in a Secret's data.
const SECRET_KEY_BYTES_MAX: usize = 253;
/// The verbs that a rule may allow, in their customary order.
pub const VERBS: [&str; 13] = {
    let [get, list, watch, create, update, patch, delete, collection] = REQUEST_VERBS;
    let [approve, sign, bind, escalate] = CONSEQUENCE_VERBS;
    let (approve, sign, bind, escalate) = (approve.verb, sign.verb, bind.verb, escalate.verb);
    [get, list, watch, create, update, patch, delete, collection, approve, sign, bind, escalate, "*"]
};

pub(super) fn check_rule(rule: &RuleDocument, problem: &mut impl FnMut(String)) {
    let lists = [
        ("apiGroups", &rule.api_groups, true),
        ("resources", &rule.resources, true),
        ("verbs", &rule.verbs, true),
        ("namespaces", &rule.namespaces, false),
        ("names", &rule.names, false),
    ];
    for (field, list, needed) in lists {
        if needed && list.is_empty() {
            problem(format!("`{field}` is empty, so the rule allows nothing"));
        }
        if list.len() > POLICY_LIST_ENTRIES_MAX {
            problem(format!("`{field}` has {} entries, but at most {POLICY_LIST_ENTRIES_MAX} are allowed", list.len()));
        }
        if !needed && list.iter().any(|item| item == "*") {
            problem(format!("`{field}` does not support `*`: leave `{field}` out to match all"));
        }
    }
    for verb in rule.verbs.iter().filter(|verb| !VERBS.contains(&&***verb)) {
        let hint = nearest(verb, VERBS.into_iter()).unwrap_or_else(|| REQUEST_VERBS.join(", "));
        problem(format!("{verb:?} is not a verb that plugins can use: {hint}"));
    }
    for verb in rule.verbs.iter().filter_map(|verb| ConsequenceVerb::named(verb)) {
        if !verb.fits(&rule.api_groups, &rule.resources) {
            problem(format!("{verb}: write a separate rule for it"));
        }
    }
    for group in rule.api_groups.iter().filter(|group| group.contains('/')) {
        problem(format!("{group:?} is not a group: write it without the version"));
    }
    let is_none = |group: &&String| !group.contains('/') && !matches!(&***group, "" | "*") && !is_subdomain(group);
    for group in rule.api_groups.iter().filter(is_none) {
        problem(format!("{group:?} is not a group: use a name like `apps`, `\"\"` for the core group, or `*` for all"));
    }
    let is_known = |name: &str| is_name(name) || (rule.resources == [SIGNERS] && is_signer(name));
    for name in rule.names.iter().filter(|name| *name != "*" && !is_known(name)) {
        problem(format!("{name:?} cannot be the name of an object: `names` has complete names, not patterns"));
    }
    for resource in &rule.resources {
        if let Some(what) = resource_problem(resource) {
            problem(format!("{resource:?} is not a resource: {what}"));
        }
    }
    for namespace in rule.namespaces.iter().filter(|namespace| *namespace != "*" && !is_dns_label(namespace)) {
        problem(format!("{namespace:?} cannot be the name of a namespace"));
    }
    if rule.cluster && !rule.namespaces.is_empty() {
        problem("`cluster: true` covers cluster-scoped objects: write a separate rule for the namespaces".to_owned());
    }
}

fn resource_problem(resource: &str) -> Option<String> {
    let (plural, subresource) = resource.split_once('/').unwrap_or((resource, "scale"));
    let is_word = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || b"-0123456789".contains(&byte))
    };
    if let Some((_, group)) = plural.split_once('.') {
        return Some(format!("put its group into `apiGroups`, as {group:?}"));
    }
    if subresource == "*" {
        return Some(format!("name each subresource as in RBAC, such as `{plural}/status`"));
    }
    if plural.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Some("resources are plurals in lower case, such as `deployments`, not kinds".to_owned());
    }
    ((plural != "*" && !is_word(plural)) || !is_word(subresource))
        .then(|| "use a name like `deployments` or `deployments/scale`".to_owned())
}

pub(super) fn check_http(rule: &HttpDocument, problem: &mut impl FnMut(String)) {
    let host = &rule.host;
    if !is_host_pattern(host) {
        problem(format!("{host:?} is not a host name: use a name like `api.example.com`, with `*` for one label"));
    }
    if rule.port == Some(0) {
        problem("0 is not a port".to_owned());
    }
    if rule.methods.is_empty() {
        problem("`methods` is empty, so the rule allows no request; `[\"*\"]` allows all methods".to_owned());
    }
    let is_method = |method: &&String| *method == "*" || method.bytes().all(|byte| byte.is_ascii_alphabetic());
    for method in rule.methods.iter().filter(|method| method.is_empty() || !is_method(method)) {
        problem(format!("{method:?} is not a method: use a name like `GET`"));
    }
    for range in &rule.addresses {
        if let Err(error) = range.parse::<Cidr>() {
            problem(format!("addresses: {error}"));
        }
    }
}

pub(super) fn check_hook(hook: &HookDocument, problem: &mut impl FnMut(String)) {
    let HookDocument { name, secret_key_refs } = hook;
    if !is_dns_label(name) {
        problem(format!("{name:?} is not the name of a hook: use one from the plugin's manifest"));
    }
    if secret_key_refs.is_empty() || secret_key_refs.len() > HOOK_SECRETS_MAX {
        problem(format!(
            "`secretKeyRefs` has {} entries: name 1 to {HOOK_SECRETS_MAX} keys of Secrets, each of which signs deliveries",
            secret_key_refs.len()
        ));
    }
    let is_key = |key: &str| {
        (1..=SECRET_KEY_BYTES_MAX).contains(&key.len())
            && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    for secret in secret_key_refs {
        if !is_dns_label(&secret.namespace) || !is_subdomain(&secret.name) {
            problem(format!(
                "\"{}/{}\" cannot be the name of a Secret: check both parts",
                secret.namespace, secret.name
            ));
        }
        if !is_key(&secret.key) {
            problem(format!(
                "{:?} cannot be a key in a Secret's data: use letters, digits, `-`, `_` and `.`",
                secret.key
            ));
        }
    }
}

/// Checks a name as the API server does: names of some kinds have colons, capitals or blanks. A `*` is rejected because
/// it is probably meant as a pattern.
fn is_name(name: &str) -> bool {
    path_segment::flaw(name).is_none() && !name.contains('*')
}

fn is_signer(name: &str) -> bool {
    name.split_once('/').is_some_and(|(domain, path)| is_subdomain(domain) && is_name(path))
}

pub(super) fn is_subdomain(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_dns_label)
}

pub(super) fn is_definition(name: &str) -> bool {
    name.contains('.') && is_subdomain(name)
}

pub(super) fn is_finalizer(name: &str) -> bool {
    let is_word = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    name.split_once('/').is_some_and(|(domain, word)| is_subdomain(domain) && is_word(word))
}
