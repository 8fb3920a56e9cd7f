//! The parameters of a policy: objects of its `paramKind` that a binding names or selects.

use std::sync::Arc;

use serde_json::Value;

use super::policy::ParamKind;
use crate::admission::request::AdmissionRequest;
use crate::object::{self, label_selector, text};

/// `paramRef` of a binding.
#[derive(Debug)]
pub(super) struct ParamRef {
    name: String,
    namespace: String,
    selector: Value,
    /// If no parameters are found: whether the request is denied (true) or the policy does not apply (false).
    is_needed: bool,
}

impl ParamRef {
    pub(super) fn read(reference: &Value) -> ParamRef {
        ParamRef {
            name: text(reference, "/name").to_owned(),
            namespace: text(reference, "/namespace").to_owned(),
            selector: reference["selector"].clone(),
            is_needed: text(reference, "/parameterNotFoundAction") == "Deny",
        }
    }

    /// The parameters for a request. The policy is evaluated with each of them.
    pub(super) fn collect(&self, kind: &ParamKind, request: &AdmissionRequest<'_>) -> Result<Vec<Arc<Value>>, String> {
        let resource = request.registry.find_kind(&kind.group, &kind.version, &kind.kind).ok_or_else(|| {
            format!(
                "failed to find resource referenced by paramKind: '{}/{}, Kind={}'",
                kind.group, kind.version, kind.kind
            )
        })?;
        let namespace = match (resource.namespaced, self.namespace.as_str(), request.namespace) {
            (false, "", _) => None,
            (false, ..) => {
                return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned());
            }
            (true, "", "") => {
                return Err(
                    "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources".to_owned()
                );
            }
            (true, "", of_request) => Some(of_request),
            (true, named, _) => Some(named),
        };
        let chosen = |object: &Arc<Value>| match self.name.as_str() {
            "" => label_selector::selects(&self.selector, object),
            name => object::name(object) == name,
        };
        let found: Vec<Arc<Value>> = (request.list)(resource, namespace).into_iter().filter(chosen).collect();
        if found.is_empty() && self.is_needed {
            return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
        }
        Ok(found)
    }
}
