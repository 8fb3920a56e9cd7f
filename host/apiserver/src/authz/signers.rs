//! Checks that a user may approve or sign a certificate request. The user needs the right for the request's signer, or
//! for all signers of its domain, as in the admission plugins `CertificateApproval` and `CertificateSigning`.

use serde_json::Value;

use crate::authz::{Access, Attributes, ResourceAttributes, User};
use crate::object::{self, text};
use crate::resources::resource::GroupResource;
use crate::status_error::ApiError;

const CERTIFICATES: &str = "certificates.k8s.io";

/// Refuses a write to a subresource of a certificate request if the user lacks the right on its signer.
pub(crate) fn check(
    access: Access<'_>,
    user: &User,
    (resource, subresource): (&GroupResource, &str),
    object: &Value,
    previous: &Value,
) -> Result<(), ApiError> {
    let is_request = resource.group == CERTIFICATES && resource.plural == "certificatesigningrequests";
    let changes = |path: &str| object.pointer(path) != previous.pointer(path);
    let verb = match subresource {
        "approval" if is_request => "approve",
        "status" if is_request && (changes("/status/certificate") || changes("/status/conditions")) => "sign",
        _ => return Ok(()),
    };
    let signer = text(previous, "/spec/signerName");
    let domain = signer.split_once('/').map_or(signer, |(domain, _)| domain);
    let may = |name: String| {
        let asked = ResourceAttributes {
            verb: verb.to_owned(),
            group: CERTIFICATES.to_owned(),
            resource: "signers".to_owned(),
            name,
            ..ResourceAttributes::default()
        };
        access.decide(user, &Attributes::Resource(asked)).allowed
    };
    if may(signer.to_owned()) || may(format!("{domain}/*")) {
        return Ok(());
    }
    let why = format!("user not permitted to {verb} requests with signerName {signer:?}");
    Err(ApiError::forbidden(resource, object::name(previous), &why))
}
