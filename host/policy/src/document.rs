//! Parses `NAME.policy.yaml` and the ceiling, as specified by `docs/schema/policy.schema.json`.
//!
//! Unknown fields are errors, as in manifests: if a misspelt `paused` or `names` were ignored, the policy would grant
//! more than the operator intended. A document with any error is rejected as a whole.

mod check;
pub mod problems;
mod shape;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_saphyr::Spanned;
use windlass_core::rights::grants::Allowance;
use windlass_core::rights::principal::ServiceAccount;
use windlass_manifest::{API_VERSION, is_dns_label};

pub use self::check::VERBS;
use self::check::{check_hook, check_http, check_rule, is_definition, is_finalizer, is_subdomain};
use self::problems::{DocumentProblems, place};
use self::shape::{DocumentHead, PolicyDocument, PromoteAfterDocument, RolloutDocument};
use super::problem::Problem;
use super::{OpenHook, Policy, PolicyError, PromoteAfter, RolloutStrategy};

/// The `kind` of a plugin's policy.
pub const POLICY: &str = "PluginPolicy";
/// The `kind` of the document that limits all policies of a host.
pub const CEILING: &str = "PluginCeiling";
/// The largest accepted document, in bytes: larger than any written by hand, but still parsed quickly.
pub const POLICY_BYTES_MAX: u64 = 1 << 20;
/// The maximum number of rules, and of entries in any other list.
const POLICY_LIST_ENTRIES_MAX: usize = 1_000;

/// Parses the policy of `plugin`. `path` is used in messages.
pub fn policy(path: &Path, text: &[u8], plugin: &str) -> Result<Policy, PolicyError> {
    let mut problems = DocumentProblems::default();
    let read = document(text, POLICY, &mut problems).map(|document| {
        match &document.plugin {
            Some(named) if named.value == plugin => {}
            Some(named) => problems.at(
                named,
                format!(
                    "it is for the plugin {:?}, but its file is named after {plugin:?}: change one of them",
                    named.value
                ),
            ),
            None => problems.whole(format!("`plugin: {plugin}` is missing")),
        }
        Policy {
            plugin: plugin.to_owned(),
            instances: document.instances.as_ref().map(|instances| instances.value).unwrap_or_default(),
            paused: document.paused.as_ref().is_some_and(|paused| paused.value),
            impersonate: document.impersonate.as_ref().and_then(|text| service_account(text, &mut problems)),
            rollout: document.rollout.as_ref().map(|rollout| strategy(rollout, &mut problems)).unwrap_or_default(),
            promote_after: document.rollout.as_ref().and_then(|rollout| promote_after(rollout, &mut problems)),
            hooks: hooks(&document, &mut problems),
            allowance: Arc::new(allowance(document, &mut problems)),
        }
    });
    problems.or(path, read)
}

/// Parses the ceiling of the host.
pub fn ceiling(path: &Path, text: &[u8]) -> Result<Arc<Allowance>, PolicyError> {
    let mut problems = DocumentProblems::default();
    let read = document(text, CEILING, &mut problems).map(|document| {
        let of_policies = [
            ("plugin", document.plugin.as_ref().map(|it| place(it.referenced))),
            ("paused", document.paused.as_ref().map(|it| place(it.referenced))),
            ("instances", document.instances.as_ref().map(|it| place(it.referenced))),
            ("impersonate", document.impersonate.as_ref().map(|it| place(it.referenced))),
            ("rollout", document.rollout.as_ref().map(|it| place(it.referenced))),
            ("hooks", document.hooks.first().map(|it| place(it.referenced))),
        ];
        for (field, at) in of_policies.into_iter().filter(|(_, at)| at.is_some()) {
            problems.0.push(Problem { place: at, what: format!("`{field}` is for policies, not for a ceiling") });
        }
        Arc::new(allowance(document, &mut problems))
    });
    problems.or(path, read)
}

fn document(text: &[u8], kind: &str, problems: &mut DocumentProblems) -> Option<PolicyDocument> {
    if text.len() as u64 > POLICY_BYTES_MAX {
        problems.whole(format!("it has {} bytes, but at most {POLICY_BYTES_MAX} are allowed", text.len()));
        return None;
    }
    let head: DocumentHead = problems.yaml(text)?;
    let (version, its) = (head.api_version.unwrap_or_default(), head.kind.unwrap_or_default());
    if version != API_VERSION || its != kind {
        problems.whole(format!("it must begin with `apiVersion: {API_VERSION}` and `kind: {kind}`"));
        return None;
    }
    let document: PolicyDocument = problems.yaml(text)?;
    debug_assert_eq!(document.kind, kind);
    Some(document)
}

fn service_account(text: &Spanned<String>, problems: &mut DocumentProblems) -> Option<ServiceAccount> {
    let named = text.value.split_once('/').filter(|(namespace, name)| is_dns_label(namespace) && is_subdomain(name));
    let Some((namespace, name)) = named else {
        problems.at(
            text,
            format!("{:?} is not a service account: write NAMESPACE/NAME, such as `prod/deployer`", text.value),
        );
        return None;
    };
    Some(ServiceAccount { namespace: namespace.into(), name: name.into() })
}

fn strategy(rollout: &Spanned<RolloutDocument>, problems: &mut DocumentProblems) -> RolloutStrategy {
    let RolloutDocument { strategy, promote_after } = &rollout.value;
    if strategy.is_none() && promote_after.is_none() {
        problems
            .at(rollout, "`rollout` is empty: write `shadow`, or a map with `strategy` or `promoteAfter`".to_owned());
    }
    strategy.unwrap_or_default()
}

fn promote_after(rollout: &Spanned<RolloutDocument>, problems: &mut DocumentProblems) -> Option<PromoteAfter> {
    let PromoteAfterDocument { calls, time } = rollout.value.promote_after.as_ref()?;
    if *calls == 0 {
        problems.at(rollout, "`promoteAfter.calls` is 0, but a version must agree in at least 1 call".to_owned());
        return None;
    }
    let Some(time) = duration(time) else {
        problems
            .at(rollout, format!("`promoteAfter.time` is {time:?}: write a whole number with s, m or h, such as 10m"));
        return None;
    };
    Some(PromoteAfter { calls: *calls, time })
}

/// A duration such as `90s`, `10m` or `2h`.
fn duration(text: &str) -> Option<Duration> {
    let seconds = match text.chars().last()? {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        _ => return None,
    };
    let number: u32 = text[..text.len() - 1].parse().ok()?;
    Some(Duration::from_secs(u64::from(number) * seconds))
}

/// The hooks that a policy opens.
fn hooks(document: &PolicyDocument, problems: &mut DocumentProblems) -> Vec<OpenHook> {
    let mut names = BTreeSet::new();
    for hook in &document.hooks {
        check_hook(&hook.value, &mut |what| problems.at(hook, what));
        if !names.insert(&*hook.value.name) {
            problems
                .at(hook, format!("the hook {:?} appears twice: list all its secrets in one entry", hook.value.name));
        }
    }
    document.hooks.iter().map(|hook| hook.value.clone().into()).collect()
}

fn allowance(document: PolicyDocument, problems: &mut DocumentProblems) -> Allowance {
    for (field, count) in [
        ("hooks", document.hooks.len()),
        ("rules", document.rules.len()),
        ("http", document.http.len()),
        ("crds", document.crds.len()),
        ("finalizers", document.finalizers.len()),
    ] {
        if count > POLICY_LIST_ENTRIES_MAX {
            problems.whole(format!("`{field}` has {count} entries, but at most {POLICY_LIST_ENTRIES_MAX} are allowed"));
        }
    }
    for rule in &document.rules {
        check_rule(&rule.value, &mut |what| problems.at(rule, what));
    }
    for rule in &document.http {
        check_http(&rule.value, &mut |what| problems.at(rule, what));
    }
    for name in document.crds.iter().filter(|name| name.value != "*" && !is_definition(&name.value)) {
        problems
            .at(name, format!("{:?} is not the name of a CustomResourceDefinition: write PLURAL.GROUP", name.value));
    }
    for name in document.finalizers.iter().filter(|name| name.value != "*" && !is_finalizer(&name.value)) {
        problems.at(name, format!("{:?} is not a finalizer: use a name like `example.com/clean-up`", name.value));
    }
    let texts = |list: Vec<Spanned<String>>| list.into_iter().map(|text| text.value).collect();
    Allowance {
        rules: document.rules.into_iter().map(|rule| rule.value.into()).collect(),
        http: document.http.into_iter().map(|rule| rule.value.into()).collect(),
        crds: texts(document.crds),
        finalizers: texts(document.finalizers),
    }
}
