//! `ValidatingAdmissionPolicyBinding`.

use serde_json::Value;

use super::params::ParamRef;
use crate::admission::matching::ResourceMatcher;
use crate::object::{self, strings, text};

/// The parts of a binding that are needed for evaluation.
#[derive(Debug)]
pub(super) struct PolicyBinding {
    pub(super) name: String,
    pub(super) policy: String,
    /// `None` if the binding applies to everything that the policy matches.
    pub(super) matcher: Option<ResourceMatcher>,
    pub(super) params: Option<ParamRef>,
    pub(super) denies: bool,
    pub(super) warns: bool,
}

impl PolicyBinding {
    pub(super) fn read(binding: &Value) -> PolicyBinding {
        let spec = &binding["spec"];
        let resources = spec.get("matchResources").filter(|resources| resources.is_object());
        let actions = strings(spec, "/validationActions");
        PolicyBinding {
            name: object::name(binding).to_owned(),
            policy: text(spec, "/policyName").to_owned(),
            matcher: resources.map(ResourceMatcher::read_of_binding),
            params: spec.get("paramRef").filter(|reference| reference.is_object()).map(ParamRef::read),
            denies: actions.contains(&"Deny"),
            warns: actions.contains(&"Warn"),
        }
    }
}
