//! Which policy covers a plugin.

use std::collections::BTreeMap;

use crate::artefact::InstalledArtefact;
use crate::plugin::PluginObject;
use crate::policy::{PolicyObject, PolicySource};
use crate::rendered::{has_shadow, rendered_policy};

/// Why a plugin is granted nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrantRefusal {
    /// The plugin's own spec cannot be read, for this reason.
    InvalidSpec(String),
    /// No policy has the plugin's name.
    NoPolicy,
    /// The policy of this name cannot be read.
    InvalidPolicy {
        /// The policy.
        policy: String,
        /// The problem.
        problem: String,
    },
    /// The policy is for another source.
    SourceNotAllowed {
        /// The policy.
        policy: String,
        /// The source that it allows, in words.
        allowed: String,
    },
    /// The policy does not list this digest.
    DigestNotAllowed {
        /// The policy.
        policy: String,
        /// The digest that the source names, or that was fetched.
        digest: String,
    },
}

/// The only policy of a plugin, and its text as a policy file.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyJudgement<'a> {
    /// The policy's name.
    pub policy: &'a str,
    /// The source that the policy is for.
    pub source: &'a PolicySource,
    /// The text of the policy file.
    pub text: String,
    /// Why the policy does not cover the source in the plugin's spec. An artefact that is installed may still be
    /// covered.
    pub refusal: Option<GrantRefusal>,
}

impl PolicyJudgement<'_> {
    /// Whether this artefact may run with the policy.
    #[must_use]
    pub fn covers(&self, artefact: &InstalledArtefact) -> bool {
        self.source.covers(artefact)
    }
}

/// The policy for `plugin` among all `policies`.
pub fn judge<'a>(
    plugin: &PluginObject,
    policies: &'a BTreeMap<String, PolicyObject>,
) -> Result<PolicyJudgement<'a>, GrantRefusal> {
    let unreadable = plugin.spec.as_ref().err().map(|problem| GrantRefusal::InvalidSpec(problem.clone()));
    let Some(spec) = plugin.readable_spec() else { return Err(unreadable.unwrap_or(GrantRefusal::NoPolicy)) };
    let policy = policies.get(&plugin.name).ok_or(GrantRefusal::NoPolicy)?;
    let invalid = |problem: String| GrantRefusal::InvalidPolicy { policy: policy.name.clone(), problem };
    let source = policy.source.as_ref().map_err(|problem| invalid(problem.clone()))?;
    let text = rendered_policy(&plugin.name, spec, policy).map_err(invalid)?;
    if !source.digests.is_empty() && has_shadow(&text) {
        // The running version could leave the list unnoticed, because only the waiting one is recorded.
        let problem = "it has digests, and the rollout is a shadow: choose one of the two".to_owned();
        return Err(invalid(problem));
    }
    let is_other = spec.source.origin().as_ref() != Ok(&source.origin);
    let refusal = is_other
        .then(|| GrantRefusal::SourceNotAllowed { policy: policy.name.clone(), allowed: source.origin.to_string() });
    // A digest that the source itself names need not be fetched to be refused.
    let unlisted = spec.source.digest().filter(|digest| !source.allows_digest(digest));
    let unlisted = unlisted.map(|digest| GrantRefusal::DigestNotAllowed { policy: policy.name.clone(), digest });
    let refusal = unreadable.or(refusal).or(unlisted);
    Ok(PolicyJudgement { policy: &policy.name, source, text, refusal })
}
