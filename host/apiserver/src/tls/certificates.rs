//! Certificates: making the server's, and reading whose a client's is.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};
use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::authz::User;

/// The names under which clients on this machine, and in a cluster's code, look for the server.
const NAMES: [&str; 6] =
    ["localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];

/// Certificate, key and authority, all as PEM.
pub(super) fn self_made() -> Result<(String, String, String), rcgen::Error> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.distinguished_name.push(DnType::CommonName, "windlass");
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(NAMES.map(str::to_owned))?;
    params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
    let certificate = params.signed_by(&key, &authority)?;
    Ok((certificate.pem(), key.serialize_pem(), authority.pem()))
}

/// The user that a verified client certificate names; none if it has no common name.
pub(super) fn user(certificate: &CertificateDer<'_>) -> Option<User> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let subject = parsed.subject();
    let name = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
    let mut groups: Vec<String> =
        subject.iter_organization().filter_map(|group| group.as_str().ok()).map(str::to_owned).collect();
    if !groups.iter().any(|group| group == User::AUTHENTICATED) {
        groups.push(User::AUTHENTICATED.to_owned());
    }
    let digest: Vec<String> = Sha256::digest(certificate).iter().map(|byte| format!("{byte:02x}")).collect();
    let credential = vec![format!("X509SHA256={}", digest.concat())];
    let extra = [("authentication.kubernetes.io/credential-id".to_owned(), credential)].into();
    Some(User { name, groups, extra, ..User::default() })
}
