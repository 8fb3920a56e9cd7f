//! Service account tokens: JSON web tokens that this server signs (HS256) and only this server can verify.
//! `serviceaccounts/token` issues them; authentication and token reviews verify them. Nothing is stored: a token names
//! its purpose, and the verifier checks whether its account still exists.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

/// The issuer, and the audience of a token that does not name one: kubeadm's defaults.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// `{"alg":"HS256","typ":"JWT"}`
const HEADER: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9";

/// The key that signs this server's tokens.
#[derive(Clone)]
pub(crate) struct TokenKey([u8; 64]);

/// The claims of a token. Times are seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claims {
    #[serde(rename = "aud")]
    pub(crate) audiences: Vec<String>,
    #[serde(rename = "exp")]
    pub(crate) expires: i64,
    #[serde(rename = "iat")]
    pub(crate) issued: i64,
    #[serde(rename = "iss")]
    pub(crate) issuer: String,
    /// The token's own UID.
    #[serde(rename = "jti")]
    pub(crate) id: String,
    #[serde(rename = "kubernetes.io")]
    pub(crate) account: AccountClaims,
    #[serde(rename = "nbf")]
    pub(crate) not_before: i64,
    /// The account's user name: `system:serviceaccount:<namespace>:<name>`.
    #[serde(rename = "sub")]
    pub(crate) subject: String,
}

/// The account of a token, and the object whose deletion ends it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AccountClaims {
    pub(crate) namespace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<Reference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pod: Option<Reference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<Reference>,
    #[serde(rename = "serviceaccount")]
    pub(crate) account: Reference,
}

/// One object, identified by UID: a later object of the same name does not match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reference {
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// The reason why a token is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokenError {
    /// Not signed by this server.
    #[error("invalid bearer token")]
    Unknown,
    #[error("service account token has expired")]
    Expired,
    #[error("service account token is not valid yet")]
    NotYet,
    /// Issued for another audience.
    #[error("token audiences {found:?} is invalid for the target audiences {wanted:?}")]
    Audience {
        /// The audiences of the token.
        found: Vec<String>,
        /// The audiences of the verifier.
        wanted: Vec<String>,
    },
}

impl TokenKey {
    pub(crate) fn new(secret: [u8; 64]) -> TokenKey {
        TokenKey(secret)
    }

    /// Signs the claims. Returns the token.
    pub(crate) fn issue(&self, claims: &Claims) -> String {
        // Strings and numbers always serialize.
        let payload = serde_json::to_vec(claims).unwrap_or_default();
        let signed = format!("{HEADER}.{}", URL_SAFE_NO_PAD.encode(payload));
        let signature = self.hmac(&signed).finalize().into_bytes();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// The claims of a token, if this server signed it and it is valid at `now` (seconds since 1970) for one of the
    /// audiences.
    pub(crate) fn verify(&self, token: &str, now: i64, audiences: &[String]) -> Result<Claims, TokenError> {
        let (signed, signature) = token.rsplit_once('.').ok_or(TokenError::Unknown)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| TokenError::Unknown)?;
        self.hmac(signed).verify_slice(&signature).map_err(|_| TokenError::Unknown)?;
        let payload = signed.strip_prefix(HEADER).and_then(|rest| rest.strip_prefix('.')).ok_or(TokenError::Unknown)?;
        let payload = URL_SAFE_NO_PAD.decode(payload).map_err(|_| TokenError::Unknown)?;
        let claims: Claims = serde_json::from_slice(&payload).map_err(|_| TokenError::Unknown)?;
        if now >= claims.expires {
            return Err(TokenError::Expired);
        }
        if now < claims.not_before {
            return Err(TokenError::NotYet);
        }
        if !claims.audiences.iter().any(|audience| audiences.contains(audience)) {
            return Err(TokenError::Audience { found: claims.audiences, wanted: audiences.to_vec() });
        }
        Ok(claims)
    }

    fn hmac(&self, text: &str) -> Hmac<Sha256> {
        let mut hmac = Hmac::<Sha256>::new(&self.0.into());
        hmac.update(text.as_bytes());
        hmac
    }
}

impl std::fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> Claims {
        Claims {
            audiences: vec![ISSUER.to_owned()],
            expires: 200,
            issued: 100,
            issuer: ISSUER.to_owned(),
            id: "1".to_owned(),
            account: AccountClaims { namespace: "a".to_owned(), ..AccountClaims::default() },
            not_before: 100,
            subject: "system:serviceaccount:a:b".to_owned(),
        }
    }

    fn here() -> Vec<String> {
        vec![ISSUER.to_owned()]
    }

    #[test]
    fn a_token_yields_its_signed_claims() {
        let key = TokenKey::new([1; 64]);
        let token = key.issue(&claims());
        assert_eq!(key.verify(&token, 199, &here()), Ok(claims()));
        let header = URL_SAFE_NO_PAD.decode(token.split('.').next().expect("a part")).expect("base64");
        assert_eq!(header, br#"{"alg":"HS256","typ":"JWT"}"#);
    }

    #[test]
    fn a_token_is_valid_in_its_period_and_for_its_audiences() {
        let key = TokenKey::new([1; 64]);
        let token = key.issue(&claims());
        assert_eq!(key.verify(&token, 200, &here()), Err(TokenError::Expired));
        assert_eq!(key.verify(&token, 99, &here()), Err(TokenError::NotYet));
        let elsewhere = key.verify(&token, 150, &["vault".to_owned()]).expect_err("another audience");
        assert!(matches!(elsewhere, TokenError::Audience { .. }), "{elsewhere:?}");
    }

    #[test]
    fn a_token_of_another_key_or_with_a_changed_part_is_unknown() {
        let key = TokenKey::new([1; 64]);
        let token = key.issue(&claims());
        assert_eq!(TokenKey::new([2; 64]).verify(&token, 150, &here()), Err(TokenError::Unknown));
        let other = key.issue(&Claims { subject: "system:serviceaccount:a:admin".to_owned(), ..claims() });
        let (signed, _) = other.rsplit_once('.').expect("parts");
        let (_, signature) = token.rsplit_once('.').expect("parts");
        let forged = [format!("{signed}.{signature}"), format!("{token}x"), String::new(), "a.b".to_owned()];
        for forged in forged {
            assert_eq!(key.verify(&forged, 150, &here()), Err(TokenError::Unknown), "{forged}");
        }
        let unsigned = format!("{}.", token.rsplit_once('.').expect("parts").0);
        assert_eq!(key.verify(&unsigned, 150, &here()), Err(TokenError::Unknown));
    }
}
