//! The fields of a `CertificateSigningRequest` that the plugin reads.

use serde::Deserialize;
use serde_json::Value;

/// The group and version.
pub(crate) const API_VERSION: &str = "certificates.k8s.io/v1";
/// The kind.
pub(crate) const KIND: &str = "CertificateSigningRequest";
/// The signer of the certificates with which kubelets serve.
pub(crate) const SIGNER: &str = "kubernetes.io/kubelet-serving";
/// The type of the condition that lets the signer sign.
pub(crate) const APPROVED: &str = "Approved";
/// The type of the condition that forbids the signer to sign.
pub(crate) const DENIED: &str = "Denied";

/// A request for a certificate.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct SigningRequest {
    /// The content, which never changes.
    pub(crate) spec: Spec,
    /// The decision.
    #[serde(default)]
    pub(crate) status: Status,
}

/// The content of a request. The API server itself sets the user's name, so a client cannot forge it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Spec {
    /// A PEM block, in Base64.
    pub(crate) request: String,
    /// The signer that is asked.
    pub(crate) signer_name: String,
    /// The user who created the request.
    #[serde(default)]
    pub(crate) username: String,
    /// The purposes of the key.
    #[serde(default)]
    pub(crate) usages: Vec<String>,
    /// The requested lifetime of the certificate. If it is `None`, the signer chooses.
    #[serde(default)]
    pub(crate) expiration_seconds: Option<i64>,
}

/// The decision about a request.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Status {
    /// The conditions, with all their fields.
    #[serde(default)]
    pub(crate) conditions: Vec<Value>,
}

impl SigningRequest {
    /// Whether the request is approved or denied. Such a decision is final.
    pub(crate) fn is_decided(&self) -> bool {
        self.status.conditions.iter().any(|it| it["type"] == APPROVED || it["type"] == DENIED)
    }
}
