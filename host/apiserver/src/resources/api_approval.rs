//! Protected groups, which belong to the Kubernetes project: a definition in such a group needs an annotation that
//! names its approval. Follows `k8s.io/apiextensions-apiserver/pkg/apihelpers`.

use http::Uri;
use serde_json::Value;

use crate::object::text;

/// The name of the annotation.
pub(crate) const ANNOTATION: &str = "api-approved.kubernetes.io";

/// The parsed annotation of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApiApproval {
    Missing,
    /// The annotation is neither a URL nor a valid reason.
    Invalid,
    /// The annotation has a reason why the definition exists without an approval.
    Bypassed,
    /// The annotation has the URL of the approval.
    Approved,
}

impl ApiApproval {
    /// Reads the annotation of a definition. `None` if its group is not protected.
    pub(crate) fn of(definition: &Value) -> Option<ApiApproval> {
        let group = text(definition, "/spec/group");
        let is_protected = ["k8s.io", "kubernetes.io"]
            .iter()
            .any(|owner| group.strip_suffix(owner).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')));
        let is_url = |text: &str| text.parse::<Uri>().is_ok_and(|uri| uri.scheme().is_some() && uri.host().is_some());
        is_protected.then(|| match annotation(definition) {
            "" => ApiApproval::Missing,
            reason if reason.starts_with("unapproved") => ApiApproval::Bypassed,
            url if is_url(url) => ApiApproval::Approved,
            _ => ApiApproval::Invalid,
        })
    }

    /// The reason of the condition `KubernetesAPIApprovalPolicyConformant`.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            ApiApproval::Missing => "MissingAnnotation",
            ApiApproval::Invalid => "InvalidAnnotation",
            ApiApproval::Bypassed => "UnapprovedAnnotation",
            ApiApproval::Approved => "ApprovedAnnotation",
        }
    }

    /// The message of the condition. An error has the same message.
    pub(crate) fn message(self, definition: &Value) -> String {
        const RULE: &str = "protected groups must have approval annotation \"api-approved.kubernetes.io\"";
        const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";
        match self {
            ApiApproval::Missing => format!("{RULE}, {SEE}"),
            ApiApproval::Invalid => {
                format!("{RULE} with either a URL or a reason starting with \"unapproved\", {SEE}")
            }
            ApiApproval::Bypassed => format!("not approved: {:?}", annotation(definition)),
            ApiApproval::Approved => format!("approved in {}", annotation(definition)),
        }
    }
}

/// The value of the annotation.
pub(crate) fn annotation(definition: &Value) -> &str {
    text(definition, "/metadata/annotations/api-approved.kubernetes.io")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_definition_in_a_protected_group_needs_an_approval() {
        let of = |group: &str, approved: &str| {
            let annotations = json!({ ANNOTATION: approved });
            ApiApproval::of(&json!({ "metadata": { "annotations": annotations }, "spec": { "group": group } }))
        };
        for group in ["k8s.io", "a.k8s.io", "kubernetes.io", "a.b.kubernetes.io"] {
            assert_eq!(of(group, ""), Some(ApiApproval::Missing), "{group}");
        }
        for group in ["mk8s.io", "k8s.io.example.com", "example.com"] {
            assert_eq!(of(group, ""), None, "{group}");
        }
        assert_eq!(of("k8s.io", "unapproved, a test"), Some(ApiApproval::Bypassed));
        assert_eq!(of("k8s.io", "https://example.com/1"), Some(ApiApproval::Approved));
        for odd in ["yes", "/a", "example.com"] {
            assert_eq!(of("k8s.io", odd), Some(ApiApproval::Invalid), "{odd}");
        }
    }
}
