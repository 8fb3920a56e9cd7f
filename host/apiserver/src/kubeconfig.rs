//! Writes the kubeconfig for a server.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

/// The administrator's credentials: a certificate or a token, not both. A client that adds a token of its own to a
/// certificate would still be the administrator, because the certificate takes precedence.
pub(crate) struct Credentials<'a> {
    pub(crate) token: Option<&'a str>,
    /// The client certificate and its key, as PEM.
    pub(crate) certificate: Option<&'a (String, String)>,
}

/// A kubeconfig (YAML) with the context `windlass`, for a server whose certificate is signed by this authority (PEM).
pub(crate) fn text(url: &str, authority: Option<&str>, credentials: &Credentials<'_>) -> String {
    let data = |name: &str, pem: &str| format!("{name}-data: {}", BASE64_STANDARD.encode(pem));
    let trust = authority.map_or(String::new(), |pem| format!("    {}\n", data("certificate-authority", pem)));
    let token = credentials.token.filter(|_| credentials.certificate.is_none());
    let token = token.iter().map(|token| format!("token: {token}"));
    let certificate = credentials
        .certificate
        .iter()
        .flat_map(|(certificate, key)| [data("client-certificate", certificate), data("client-key", key)]);
    let user = token.chain(certificate).collect::<Vec<_>>().join(", ");
    format!(
        "apiVersion: v1\n\
         kind: Config\n\
         current-context: windlass\n\
         clusters:\n\
         - name: windlass\n  \
           cluster:\n    \
             server: {url}\n\
         {trust}\
         contexts:\n\
         - name: windlass\n  \
           context:\n    \
             cluster: windlass\n    \
             namespace: default\n    \
             user: windlass\n\
         users:\n\
         - name: windlass\n  \
           user: {{ {user} }}\n"
    )
}
