//! Whether a webhook's certificate is trusted, as Go's verifier decides: `Certificate.Verify` in
//! `crypto/x509/verify.go` of Go 1.26.
//!
//! It differs from webpki's verifier where tests notice it. A certificate in the `caBundle` is trusted itself, even if
//! it is not an authority; envtest's bundle is the serving certificate. An authority in the bundle is trusted only
//! while it is valid, which webpki does not check.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
    client::VerifierBuilderError,
};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The reason why no connection to a webhook can be made, whatever certificate it presents.
#[derive(Debug, thiserror::Error)]
pub(super) enum TrustError {
    /// client-go's error for a `caBundle` without certificates.
    #[error("unable to load root certificates: unable to parse bytes as PEM block")]
    NoCertificate,
    #[error(transparent)]
    Verifier(#[from] VerifierBuilderError),
}

/// Go's error for a certificate that it does not trust.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("x509: {0}")]
struct Distrust(String);

impl From<Distrust> for Error {
    fn from(why: Distrust) -> Error {
        Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(why))))
    }
}

/// Trusts the certificates of a `caBundle`.
#[derive(Debug)]
pub(super) struct BundleVerifier {
    bundle: Vec<CertificateDer<'static>>,
    /// The bundle's certificates that may sign others.
    authorities: Vec<Authority>,
    provider: Arc<CryptoProvider>,
}

#[derive(Debug)]
struct Authority {
    certificate: CertificateDer<'static>,
    /// Finds chains that end with the certificate.
    chains: Arc<WebPkiServerVerifier>,
}

impl BundleVerifier {
    /// Reads a bundle (PEM). Skips unreadable certificates, as `CertPool.AppendCertsFromPEM` does. An empty bundle
    /// means the operating system's authorities, which are not used here.
    pub(super) fn of(bundle: &[u8], provider: Arc<CryptoProvider>) -> Result<BundleVerifier, TrustError> {
        let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(bundle)
            .flatten()
            .filter(|certificate| X509Certificate::from_der(certificate).is_ok())
            .collect();
        if certificates.is_empty() && !bundle.is_empty() {
            return Err(TrustError::NoCertificate);
        }
        let mut authorities = Vec::new();
        for certificate in certificates.iter().filter(|certificate| may_sign(certificate)) {
            let mut roots = RootCertStore::empty();
            if roots.add(certificate.clone()).is_ok() {
                let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
                authorities.push(Authority { certificate: certificate.clone(), chains: builder.build()? });
            }
        }
        Ok(BundleVerifier { bundle: certificates, authorities, provider })
    }

    /// `UnknownAuthorityError.Error`: as a hint, it names a certificate of the bundle that has the issuer's name but is
    /// not the issuer.
    fn unknown_authority(&self, shown: &X509Certificate<'_>) -> Error {
        let mut why = "certificate signed by unknown authority".to_owned();
        for trusted in &self.bundle {
            let Ok((_, candidate)) = X509Certificate::from_der(trusted) else { continue };
            if candidate.subject().as_raw() != shown.issuer().as_raw() {
                continue;
            }
            let reason = if may_sign(trusted) {
                "x509: ECDSA verification failure"
            } else {
                "x509: invalid signature: parent certificate cannot sign this kind of certificate"
            };
            let subject = candidate.subject();
            let mut names = subject.iter_common_name().chain(subject.iter_organization());
            let name = names.find_map(|name| name.as_str().ok().filter(|name| !name.is_empty()).map(str::to_owned));
            let name = name.unwrap_or_else(|| format!("serial:{}", candidate.serial));
            let _ = write!(
                why,
                " (possibly because of {reason:?} while trying to verify candidate authority certificate {name:?})"
            );
            break;
        }
        Distrust(why).into()
    }
}

impl ServerCertVerifier for BundleVerifier {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let (_, parsed) =
            X509Certificate::from_der(shown).map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
        check_time(&parsed, now)?;
        check_name(&parsed, shown, server_name)?;
        if self.bundle.iter().any(|trusted| trusted == shown) {
            check_usage(&parsed)?;
            return Ok(ServerCertVerified::assertion());
        }
        let mut found = None;
        for authority in &self.authorities {
            let chains = &authority.chains;
            let why = match chains.verify_server_cert(shown, intermediates, server_name, ocsp_response, now) {
                Ok(verified) => match authority.check_time(now) {
                    Ok(()) => return Ok(verified),
                    Err(why) => why,
                },
                Err(Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature)) => {
                    continue;
                }
                Err(error) => in_words_of_go(error, now),
            };
            found = found.or(Some(why));
        }
        Err(found.unwrap_or_else(|| self.unknown_authority(&parsed)))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl Authority {
    fn check_time(&self, now: UnixTime) -> Result<(), Error> {
        let (_, parsed) = X509Certificate::from_der(&self.certificate)
            .map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
        Ok(check_time(&parsed, now)?)
    }
}

/// The error of a chain. The times are those of its intermediates.
fn in_words_of_go(error: Error, now: UnixTime) -> Error {
    let limit = |time: UnixTime| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    match error {
        Error::InvalidCertificate(CertificateError::InvalidPurposeContext { .. }) => incompatible_usage().into(),
        Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. }) => {
            not_valid(now, "after", limit(not_after)).into()
        }
        Error::InvalidCertificate(CertificateError::NotValidYetContext { not_before, .. }) => {
            not_valid(now, "before", limit(not_before)).into()
        }
        other => other,
    }
}

/// Whether a certificate may sign others: `Certificate.CheckSignatureFrom` in `crypto/x509/x509.go`.
fn may_sign(certificate: &CertificateDer<'_>) -> bool {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else { return false };
    let is_authority = match parsed.basic_constraints() {
        Ok(Some(constraints)) => constraints.value.ca,
        // Certificates before version 3 cannot declare whether they may sign others.
        Ok(None) => parsed.version().0 < 2,
        Err(_) => false,
    };
    is_authority && parsed.key_usage().is_ok_and(|usage| usage.is_none_or(|usage| usage.value.key_cert_sign()))
}

/// `Certificate.isValid`.
fn check_time(certificate: &X509Certificate<'_>, now: UnixTime) -> Result<(), Distrust> {
    let second = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let validity = certificate.validity();
    let (from, to) = (validity.not_before.timestamp(), validity.not_after.timestamp());
    match second {
        _ if second < from => Err(not_valid(now, "before", from)),
        _ if second > to => Err(not_valid(now, "after", to)),
        _ => Ok(()),
    }
}

fn not_valid(now: UnixTime, side: &str, limit: i64) -> Distrust {
    let shown =
        |second: i64| jiff::Timestamp::from_second(second).map_or_else(|_| second.to_string(), |time| time.to_string());
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let times = format!("current time {} is {side} {}", shown(now), shown(limit));
    Distrust(format!("certificate has expired or is not yet valid: {times}"))
}

/// `Certificate.VerifyHostname`, and `HostnameError.Error`.
fn check_name(
    certificate: &X509Certificate<'_>,
    shown: &CertificateDer<'_>,
    host: &ServerName<'_>,
) -> Result<(), Error> {
    if rustls::client::verify_server_name(&ParsedCertificate::try_from(shown)?, host).is_ok() {
        return Ok(());
    }
    let alternatives = certificate.subject_alternative_name().ok().flatten();
    let names = alternatives.as_ref().map(|found| found.value.general_names.as_slice()).unwrap_or_default();
    let is_address = matches!(host, ServerName::IpAddress(_));
    let host = host.to_str();
    let common = certificate.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
    if alternatives.is_none() && common.is_some_and(|name| name.eq_ignore_ascii_case(&host)) {
        let why = "certificate relies on legacy Common Name field, use SANs instead";
        return Err(Distrust(why.to_owned()).into());
    }
    let valid: Vec<String> = names.iter().filter_map(|name| alternative(name, is_address)).collect();
    let why = match valid.as_slice() {
        [] if is_address => format!("cannot validate certificate for {host} because it doesn't contain any IP SANs"),
        [] => format!("certificate is not valid for any names, but wanted to match {host}"),
        valid => format!("certificate is valid for {}, not {host}", valid.join(", ")),
    };
    Err(Distrust(why).into())
}

/// A name of a certificate, if it has the requested type: an address or a host name.
fn alternative(name: &GeneralName<'_>, is_address: bool) -> Option<String> {
    match name {
        GeneralName::DNSName(name) if !is_address => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) if is_address => {
            let four = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
            let address = four.or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from));
            address.ok().map(|address| address.to_string())
        }
        _ => None,
    }
}

/// `checkChainForKeyUsage`, for a chain of one.
fn check_usage(certificate: &X509Certificate<'_>) -> Result<(), Distrust> {
    let usage = certificate.extended_key_usage().map_err(|_| incompatible_usage())?;
    match usage {
        Some(usage) if !usage.value.server_auth && !usage.value.any => Err(incompatible_usage()),
        _ => Ok(()),
    }
}

fn incompatible_usage() -> Distrust {
    Distrust("certificate specifies an incompatible key usage".to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};

    use super::*;

    /// Mid-2030.
    const NOW: UnixTime = UnixTime::since_unix_epoch(Duration::from_secs(1_908_500_000));

    fn authority(name: &str, years: (i32, i32)) -> CertifiedIssuer<'static, KeyPair> {
        CertifiedIssuer::self_signed(params(name, years, true), KeyPair::generate().expect("a key")).expect("an issuer")
    }

    fn params(name: &str, (from, to): (i32, i32), is_authority: bool) -> CertificateParams {
        let mut params = CertificateParams::new(["hook.test".to_owned()]).expect("a name");
        params.distinguished_name.push(DnType::CommonName, name);
        (params.not_before, params.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(to, 1, 1));
        if is_authority {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        params
    }

    /// The verdict about a webhook's certificate.
    fn verdict(bundle: &str, leaf: &CertificateDer<'_>, intermediates: &[CertificateDer<'_>]) -> Result<(), String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = BundleVerifier::of(bundle.as_bytes(), provider).expect("a bundle");
        let host = ServerName::try_from("hook.test").expect("a host");
        match verifier.verify_server_cert(leaf, intermediates, &host, &[], NOW) {
            Ok(_) => Ok(()),
            Err(Error::InvalidCertificate(CertificateError::Other(why))) => Err(why.0.to_string()),
            Err(other) => Err(other.to_string()),
        }
    }

    #[test]
    fn an_authority_is_trusted_only_while_it_is_valid() {
        let leaf = |issuer: &CertifiedIssuer<'static, KeyPair>| {
            let key = KeyPair::generate().expect("a key");
            params("leaf", (2029, 2032), false).signed_by(&key, issuer).expect("a certificate").der().clone()
        };
        let (valid, other) = (authority("a", (2025, 2035)), authority("a", (2025, 2035)));
        assert_eq!(verdict(&valid.pem(), &leaf(&valid), &[]), Ok(()));
        let expired = "x509: certificate has expired or is not yet valid: current time 2030-06-24";
        for (years, limit) in
            [((2020, 2025), "is after 2025-01-01T00:00:00Z"), ((2031, 2035), "is before 2031-01-01T00:00:00Z")]
        {
            let outdated = authority("a", years);
            let why = verdict(&outdated.pem(), &leaf(&outdated), &[]).expect_err("outdated");
            assert!(why.starts_with(expired) && why.ends_with(limit), "{why}");
            // An outdated certificate may accompany a valid one, in either order.
            for bundle in [outdated.pem() + &valid.pem(), valid.pem() + &outdated.pem()] {
                assert_eq!(verdict(&bundle, &leaf(&valid), &[]), Ok(()));
                assert!(verdict(&bundle, &leaf(&outdated), &[]).expect_err("outdated").ends_with(limit));
                let why = verdict(&bundle, &leaf(&other), &[]).expect_err("unknown");
                assert!(why.starts_with("x509: certificate signed by unknown authority"), "{why}");
            }
        }
        let key = KeyPair::generate().expect("a key");
        let middle = CertifiedIssuer::signed_by(params("middle", (2020, 2025), true), key, &valid).expect("an issuer");
        let why = verdict(&valid.pem(), &leaf(&middle), &[middle.der().clone()]).expect_err("expired");
        assert!(why.starts_with(expired) && why.ends_with("is after 2025-01-01T00:00:00Z"), "{why}");
    }
}
