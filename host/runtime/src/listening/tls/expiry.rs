//! The expiry of a certificate. If its renewal has stopped, the log should say so before clients fail.

use std::time::Duration;

use rustls::client::verify_server_cert_signed_by_trust_anchor as verify;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, Error, RootCertStore};

/// A certificate that is renewed in time never gets this close to its expiry: cert-manager renews after two thirds of
/// its life.
const EXPIRES_SOON_WITHIN: Duration = Duration::from_hours(7 * 24);
const DAY: Duration = Duration::from_hours(24);
const HOUR: Duration = Duration::from_hours(1);

/// A problem with a certificate's expiry.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ExpiryProblem {
    /// The certificate expires soon. Has the time left, in words.
    Soon(String),
    /// The certificate has expired. Has the time since then, in words.
    Expired(String),
}

/// The problem with a certificate that expires at `expires`, seen at the time `now`, both since the Unix epoch.
pub(super) fn problem(expires: Duration, now: Duration) -> Option<ExpiryProblem> {
    match expires.checked_sub(now) {
        None => Some(ExpiryProblem::Expired(in_words(now.saturating_sub(expires)))),
        Some(left) if left < EXPIRES_SOON_WITHIN => Some(ExpiryProblem::Soon(in_words(left))),
        Some(_) => None,
    }
}

/// The time at which the first certificate of `chain` expires, since the Unix epoch. `None` if unknown.
pub(super) fn of_chain(chain: &[CertificateDer<'_>]) -> Option<Duration> {
    chain.iter().filter_map(of_certificate).min()
}

/// rustls does not reveal a certificate's dates, but its error says when a certificate has expired. So this verifies it
/// at the end of time.
fn of_certificate(certificate: &CertificateDer<'_>) -> Option<Duration> {
    let (parsed, roots) = (ParsedCertificate::try_from(certificate).ok()?, RootCertStore::empty());
    let end_of_time = UnixTime::since_unix_epoch(Duration::from_secs(u64::MAX));
    match verify(&parsed, &roots, &[], end_of_time, &[]) {
        Err(Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => {
            Some(Duration::from_secs(not_after.as_secs()))
        }
        _ => None,
    }
}

/// `time` in days, or in hours if it is shorter than two days.
fn in_words(time: Duration) -> String {
    let whole = |unit: Duration| time.as_secs() / unit.as_secs();
    if time < 2 * DAY { format!("{} h", whole(HOUR)) } else { format!("{} days", whole(DAY)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A certificate that expires at the beginning of `year`.
    fn until(year: i32) -> CertificateDer<'static> {
        let mut parameters = rcgen::CertificateParams::new(["localhost".to_owned()]).expect("a name");
        parameters.not_before = rcgen::date_time_ymd(1999, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(year, 1, 1);
        let key = rcgen::KeyPair::generate().expect("a key");
        parameters.self_signed(&key).expect("a certificate").der().clone()
    }

    #[test]
    fn a_chain_ends_with_the_first_of_its_certificates() {
        let seconds = |chain: &[_]| of_chain(chain).map(|it| it.as_secs());
        assert_eq!(seconds(&[until(2001)]), Some(978_307_200));
        assert_eq!(seconds(&[until(2060), until(2001), until(2040)]), Some(978_307_200));
        assert_eq!(seconds(&[until(2060)]), Some(2_840_140_800), "years after 2049 have another format");
        assert_eq!(seconds(&[CertificateDer::from(vec![1, 2, 3])]), None);
    }

    #[test]
    fn an_expiry_is_reported_in_its_last_week_and_afterwards() {
        let now = 1000 * DAY;
        let soon = |left: &str| Some(ExpiryProblem::Soon(left.to_owned()));
        let expired = |ago: &str| Some(ExpiryProblem::Expired(ago.to_owned()));
        assert_eq!(problem(now + EXPIRES_SOON_WITHIN, now), None);
        assert_eq!(problem(now + 6 * DAY + 23 * HOUR, now), soon("6 days"));
        assert_eq!(problem(now + 3 * HOUR, now), soon("3 h"));
        assert_eq!(problem(now, now + HOUR), expired("1 h"));
        assert_eq!(problem(now, now + 30 * DAY), expired("30 days"));
    }
}
