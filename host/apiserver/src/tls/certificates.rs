//! Creates the certificates of the server and the administrator, and reads the user of a client certificate.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::authz::User;

/// The host names of the server, for clients on this machine and for code that is written for a cluster.
const NAMES: [&str; 6] =
    ["localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];

/// A certificate, its key, and the authority that has signed it, all as PEM. The authority's key is discarded.
pub(super) struct Signed {
    pub(super) certificate: String,
    pub(super) key: String,
    pub(super) authority: String,
}

/// Creates the certificate of a server on this machine.
pub(super) fn of_server() -> Result<Signed, rcgen::Error> {
    let authority = authority("windlass")?;
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(NAMES.map(str::to_owned))?;
    params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
    let certificate = params.signed_by(&key, &authority)?;
    Ok(Signed { certificate: certificate.pem(), key: key.serialize_pem(), authority: authority.pem() })
}

/// Creates the administrator's client certificate.
pub(super) fn of_administrator() -> Result<Signed, rcgen::Error> {
    let authority = authority("windlass-clients")?;
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.distinguished_name.push(DnType::CommonName, User::administrator().name);
    params.distinguished_name.push(DnType::OrganizationName, User::MASTERS);
    let certificate = params.signed_by(&key, &authority)?;
    Ok(Signed { certificate: certificate.pem(), key: key.serialize_pem(), authority: authority.pem() })
}

fn authority(name: &str) -> Result<CertifiedIssuer<'static, KeyPair>, rcgen::Error> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.distinguished_name.push(DnType::CommonName, name);
    CertifiedIssuer::self_signed(params, KeyPair::generate()?)
}

/// The user in a verified client certificate. `None` if it has no common name.
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
