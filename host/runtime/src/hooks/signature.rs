//! Checks whether a delivery is authentic. Deliveries are signed as the Standard Webhooks specification says: the
//! header `webhook-signature` has the HMAC-SHA-256 of the id, the time and the body.
//!
//! Pure: the time is passed in.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit as _, Mac};
use http::HeaderMap;
use sha2::Sha256;
use windlass_policy::HOOK_SECRETS_MAX;

/// How far the time of a delivery may be from the host's, in either direction.
pub(super) const DELIVERY_TIME_TOLERANCE: Duration = Duration::from_mins(5);
/// The shortest secret, in bytes.
const HOOK_SECRET_BYTES_MIN: usize = 16;
/// The longest id of a delivery, in bytes.
const DELIVERY_ID_BYTES_MAX: usize = 256;
/// The most signatures of one delivery. A sender that replaces its secret sends two.
const SIGNATURES_MAX: usize = 8;
/// The prefix of a secret in base64. Other secrets are used as they are.
const SECRET_PREFIX: &str = "whsec_";
/// The prefix of a signature of this form. Other forms are ignored, as the specification demands.
const SIGNATURE_PREFIX: &str = "v1,";

/// Stands for the secrets that a hook does not have. A signature by it never counts.
const NO_KEY: [u8; 64] = [0; 64];

/// A secret that signs deliveries, ready to be used.
#[derive(Clone)]
pub(super) struct HookSecret(Hmac<Sha256>);

/// Why a text is not a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum HookSecretError {
    #[error("it begins with {SECRET_PREFIX}, but the rest is not base64: copy the whole secret")]
    Encoding,
    #[error("it has {0} bytes: use at least {HOOK_SECRET_BYTES_MIN}, chosen at random")]
    Short(usize),
}

/// Why a request is refused. The sender does not learn which of these it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HookRefusal {
    /// No policy opens a hook of this name, or the request is for no hook.
    Unknown,
    /// A header is missing, appears twice, or is not well-formed.
    Headers,
    /// No signature fits.
    Signature,
    /// It was sent too long ago, or by a clock that is ahead.
    Time,
    /// The body is too large, or took too long to arrive.
    Body,
}

/// The headers of an authentic delivery.
#[derive(Debug)]
pub(super) struct DeliveryHeaders<'a> {
    /// The same each time that the sender tries.
    pub(super) id: &'a str,
    /// The time of this attempt, since the Unix epoch.
    pub(super) sent: Duration,
}

impl fmt::Debug for HookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HookSecret")
    }
}

impl HookSecret {
    /// Reads the value of a Secret.
    pub(super) fn parse(text: &str) -> Result<Self, HookSecretError> {
        let text = text.trim();
        let bytes = match text.strip_prefix(SECRET_PREFIX) {
            Some(encoded) => BASE64_STANDARD.decode(encoded).map_err(|_| HookSecretError::Encoding)?,
            None => text.as_bytes().to_vec(),
        };
        let mac = Hmac::new_from_slice(&bytes).ok().filter(|_| bytes.len() >= HOOK_SECRET_BYTES_MIN);
        mac.map(Self).ok_or(HookSecretError::Short(bytes.len()))
    }
}

impl HookRefusal {
    /// The label of the metric.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Headers => "wrong_headers",
            Self::Signature => "wrong_signature",
            Self::Time => "wrong_time",
            Self::Body => "wrong_body",
        }
    }
}

/// Checks that one of `secrets` signed the delivery, and that it was sent about `now`, a time since the Unix epoch.
/// It takes as long without secrets, which means an unknown hook, as with any number of them.
pub(super) fn check<'a>(
    headers: &'a HeaderMap,
    body: &[u8],
    secrets: Option<&[HookSecret]>,
    now: Duration,
) -> Result<DeliveryHeaders<'a>, HookRefusal> {
    let id = single(headers, "webhook-id").unwrap_or_default();
    let timestamp = single(headers, "webhook-timestamp").unwrap_or_default();
    let signatures = single(headers, "webhook-signature").unwrap_or_default();
    // Computed first, whatever else is wrong.
    let signed = |mac: Hmac<Sha256>| {
        let parts = [id.as_bytes(), b".", timestamp.as_bytes(), b".", body];
        parts.iter().fold(mac, Mac::chain_update)
    };
    let known = secrets.unwrap_or_default();
    let macs = keys(known).map(signed);
    let is_signed = fits_any(signatures, &macs, known.len());
    let is_plain = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    let is_id = is_plain(id) && id.len() <= DELIVERY_ID_BYTES_MAX;
    let seconds = timestamp.parse().ok().filter(|_| timestamp.bytes().all(|byte| byte.is_ascii_digit()));
    let (Some(seconds), true, false) = (seconds, is_id, signatures.is_empty()) else {
        return Err(HookRefusal::Headers);
    };
    if secrets.is_none() {
        return Err(HookRefusal::Unknown);
    }
    if !is_signed {
        return Err(HookRefusal::Signature);
    }
    let sent = Duration::from_secs(seconds);
    if sent.abs_diff(now) > DELIVERY_TIME_TOLERANCE { Err(HookRefusal::Time) } else { Ok(DeliveryHeaders { id, sent }) }
}

/// The keys of these secrets, and as many others as it takes, so that time does not show how many secrets there are.
fn keys(secrets: &[HookSecret]) -> [Hmac<Sha256>; HOOK_SECRETS_MAX] {
    let none = Hmac::new(&NO_KEY.into());
    std::array::from_fn(|at| secrets.get(at).map_or(&none, |secret| &secret.0).clone())
}

/// The value of a header that appears exactly once.
fn single<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut all = headers.get_all(name).iter();
    let (Some(only), None) = (all.next(), all.next()) else { return None };
    only.to_str().ok()
}

/// Whether any of `signatures` is one of the first `known` of `macs`. Each comparison takes constant time, and all are
/// made.
fn fits_any(signatures: &str, macs: &[Hmac<Sha256>], known: usize) -> bool {
    let values = signatures.split(' ').take(SIGNATURES_MAX).filter_map(|text| text.strip_prefix(SIGNATURE_PREFIX));
    let mut fits = false;
    for value in values.filter_map(|text| BASE64_STANDARD.decode(text).ok()) {
        for (at, mac) in macs.iter().enumerate() {
            fits |= mac.clone().verify_slice(&value).is_ok() && at < known;
        }
    }
    fits
}

#[cfg(test)]
pub(super) mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    /// A secret in base64.
    pub(in crate::hooks) const SECRET: &str = "whsec_YSBzZWNyZXQgb2YgYSBob29rLCAzMiBieXRlcyBpdCE=";
    const BODY: &[u8] = br#"{"name":"prod/shop"}"#;
    const SENT: Duration = Duration::from_secs(1_700_000_000);

    /// The headers of a delivery that `secret` signs.
    pub(in crate::hooks) fn headers(id: &str, sent: Duration, body: &[u8], secret: &str) -> HeaderMap {
        let secret = HookSecret::parse(secret).expect("a secret");
        let seconds = sent.as_secs();
        let signed = secret.0.chain_update(format!("{id}.{seconds}.")).chain_update(body);
        let signature = format!("v1,{}", BASE64_STANDARD.encode(signed.finalize().into_bytes()));
        let value = |text: &str| HeaderValue::from_str(text).expect("ASCII");
        let mut headers = HeaderMap::new();
        headers.insert("webhook-id", value(id));
        headers.insert("webhook-timestamp", value(&seconds.to_string()));
        headers.insert("webhook-signature", value(&signature));
        headers
    }

    fn delivery() -> HeaderMap {
        headers("delivery-1", SENT, BODY, SECRET)
    }

    fn refused(headers: &HeaderMap, body: &[u8], now: Duration) -> Option<HookRefusal> {
        let secrets = [HookSecret::parse(SECRET).expect("a secret")];
        check(headers, body, Some(&secrets), now).err()
    }

    #[test]
    fn a_signature_of_another_implementation_is_accepted() {
        let signature = HeaderValue::from_static("v1,Jtjb20ecIelFvCJqSBFcpNHTLlfUA3JwesB3Ui7LHQM=");
        assert_eq!(delivery()["webhook-signature"], signature);
        assert_eq!(refused(&delivery(), BODY, SENT), None);
    }

    #[test]
    fn every_part_of_a_delivery_is_signed() {
        assert_eq!(refused(&delivery(), br#"{"name":"prod/bank"}"#, SENT), Some(HookRefusal::Signature));
        for (name, value) in [("webhook-id", "delivery-2"), ("webhook-timestamp", "1700000001")] {
            let mut headers = delivery();
            headers.insert(name, HeaderValue::from_static(value));
            assert_eq!(refused(&headers, BODY, SENT), Some(HookRefusal::Signature), "{name}");
        }
        let other = headers("delivery-1", SENT, BODY, "another secret of a hook");
        assert_eq!(refused(&other, BODY, SENT), Some(HookRefusal::Signature));
    }

    #[test]
    fn a_delivery_is_accepted_within_five_minutes_of_its_time() {
        let late = SENT + DELIVERY_TIME_TOLERANCE;
        let early = SENT.saturating_sub(DELIVERY_TIME_TOLERANCE);
        let second = Duration::from_secs(1);
        assert_eq!([late, early].map(|now| refused(&delivery(), BODY, now)), [None; 2]);
        let outside = [late + second, early.saturating_sub(second), Duration::ZERO];
        assert_eq!(outside.map(|now| refused(&delivery(), BODY, now)), [Some(HookRefusal::Time); 3]);
    }

    #[test]
    fn any_of_the_signatures_and_secrets_may_fit() {
        let old = headers("delivery-1", SENT, BODY, "the secret before the rotation");
        let both = [&old, &delivery()].map(|it| it["webhook-signature"].to_str().expect("ASCII").to_owned());
        let mut rotated = delivery();
        rotated.insert(
            "webhook-signature",
            HeaderValue::from_str(&format!("v1a,AAAA {}", both.join(" "))).expect("ASCII"),
        );
        assert_eq!(refused(&rotated, BODY, SENT), None);
        let secrets = ["the secret before the rotation", SECRET].map(|text| HookSecret::parse(text).expect("a secret"));
        assert!(check(&old, BODY, Some(&secrets), SENT).is_ok());
        let many = format!("{}{}", "v1,AAAA ".repeat(SIGNATURES_MAX), both[1]);
        rotated.insert("webhook-signature", HeaderValue::from_str(&many).expect("ASCII"));
        assert_eq!(refused(&rotated, BODY, SENT), Some(HookRefusal::Signature), "only a few are compared");
    }

    #[test]
    fn missing_repeated_and_malformed_headers_are_refused() {
        for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
            let mut without = delivery();
            without.remove(name);
            let mut twice = delivery();
            twice.append(name, delivery()[name].clone());
            let mut empty = delivery();
            empty.insert(name, HeaderValue::from_static(""));
            for headers in [without, twice, empty] {
                assert_eq!(refused(&headers, BODY, SENT), Some(HookRefusal::Headers), "{name}");
            }
        }
        for (name, value) in [
            ("webhook-timestamp", "+1700000000".to_owned()),
            ("webhook-timestamp", "99999999999999999999".to_owned()),
            ("webhook-id", "a b".to_owned()),
            ("webhook-id", "a".repeat(DELIVERY_ID_BYTES_MAX + 1)),
        ] {
            let mut headers = delivery();
            headers.insert(name, HeaderValue::from_str(&value).expect("ASCII"));
            assert_eq!(refused(&headers, BODY, SENT), Some(HookRefusal::Headers), "{name}");
        }
    }

    #[test]
    fn the_key_that_stands_for_an_unknown_hook_opens_none() {
        let forged = headers("delivery-1", SENT, BODY, &format!("whsec_{}", BASE64_STANDARD.encode(NO_KEY)));
        assert_eq!(check(&forged, BODY, None, SENT).err(), Some(HookRefusal::Unknown));
        assert_eq!(check(&forged, BODY, Some(&[]), SENT).err(), Some(HookRefusal::Signature));
        assert_eq!(refused(&forged, BODY, SENT), Some(HookRefusal::Signature), "nor one with a secret");
    }

    #[test]
    fn as_many_signatures_are_computed_whatever_secrets_a_hook_has() {
        let secret = HookSecret::parse(SECRET).expect("a secret");
        for known in 0..=HOOK_SECRETS_MAX {
            let keys = keys(&vec![secret.clone(); known]).map(|key| key.finalize().into_bytes());
            let of_secret = secret.0.clone().finalize().into_bytes();
            assert_eq!(keys.iter().filter(|key| **key == of_secret).count(), known);
        }
    }

    /// Texts that are near enough to a delivery's to get past the first checks, and any bytes.
    fn header_values() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof!["(v1,|v1a,|whsec_)?[A-Za-z0-9+/=, ]{0,60}", "[0-9]{0,25}", "delivery-1"]
            .prop_map(String::into_bytes)
            .boxed()
            .prop_union(prop::collection::vec(any::<u8>(), 0..60).boxed())
    }

    proptest! {
        /// Strangers choose every byte of a request.
        #[test]
        fn no_request_of_a_stranger_counts(
            values in prop::collection::vec((0..3_usize, header_values()), 0..5),
            body in prop::collection::vec(any::<u8>(), 0..40),
            now in any::<u32>(),
        ) {
            let mut headers = HeaderMap::new();
            for (name, value) in values {
                if let Ok(value) = HeaderValue::from_bytes(&value) {
                    headers.append(["webhook-id", "webhook-timestamp", "webhook-signature"][name], value);
                }
            }
            let now = Duration::from_secs(now.into());
            prop_assert!(refused(&headers, &body, now).is_some());
            prop_assert!(check(&headers, &body, None, now).is_err());
        }

        /// Operators write secrets.
        #[test]
        fn any_text_is_read_as_a_secret_or_refused(text in "(whsec_)?\\PC{0,60}") {
            let long_enough = text.trim().len() >= HOOK_SECRET_BYTES_MIN;
            prop_assert!(long_enough || HookSecret::parse(&text).is_err());
        }
    }

    #[test]
    fn a_secret_is_text_or_base64_of_sixteen_bytes_or_more() {
        let plain = headers("delivery-1", SENT, BODY, " a secret of a hook, 32 bytes it!\n");
        assert_eq!(plain, delivery());
        let problem = |text: &str| HookSecret::parse(text).err();
        assert_eq!(problem("whsec_?"), Some(HookSecretError::Encoding));
        assert_eq!([problem("password"), problem("")], [8, 0].map(|bytes| Some(HookSecretError::Short(bytes))));
        let shown = format!("{:?}", HookSecret::parse(SECRET));
        assert_eq!(shown, "Ok(HookSecret)", "a secret is not shown");
    }
}
