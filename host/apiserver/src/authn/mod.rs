//! Authentication: finds the user of a request by its bearer token, or by the client certificate that TLS has verified.
//! Impersonation headers may then name another user. `authz` decides what a user may do.

mod accounts;
mod impersonation;

use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;

use crate::authz::{Access, Attributes, User};
use crate::status_error::ApiError;
use crate::storage::state::State;
use crate::tokens::{ISSUER, TokenError};

/// A bearer token for one user, valid while the server runs.
#[derive(Clone, PartialEq, Eq)]
pub struct StaticToken {
    /// The text that a client sends as `Authorization: Bearer …`.
    pub token: String,
    /// The user's name.
    pub user: String,
    /// The user's groups, beside `system:authenticated`.
    pub groups: Vec<String>,
}

/// Leaves out the token, because a configuration may be logged.
impl std::fmt::Debug for StaticToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StaticToken").field("user", &self.user).field("groups", &self.groups).finish_non_exhaustive()
    }
}

/// The tokens that the server knows.
pub(crate) struct Authenticator {
    tokens: Vec<(String, Arc<User>)>,
    anybody: Arc<User>,
}

impl Authenticator {
    /// Without authorization by roles, every client is the administrator.
    pub(crate) fn new(by_roles: bool, administrator: String, tokens: Vec<StaticToken>) -> Authenticator {
        let anybody = Arc::new(if by_roles { User::anonymous() } else { User::administrator() });
        let given = tokens.into_iter().map(|given| {
            let mut groups = given.groups;
            if !groups.iter().any(|group| group == User::AUTHENTICATED) {
                groups.push(User::AUTHENTICATED.to_owned());
            }
            (given.token, Arc::new(User { name: given.user, groups, ..User::default() }))
        });
        let administrator = (administrator, Arc::new(User::administrator()));
        Authenticator { tokens: std::iter::once(administrator).chain(given).collect(), anybody }
    }

    /// The user of a request: from its certificate, or else from its token. With impersonation headers, the
    /// impersonated user.
    pub(crate) fn authenticate(
        &self,
        state: &State,
        headers: &HeaderMap,
        request: &Attributes,
        certified: Option<&Arc<User>>,
    ) -> Result<Arc<User>, ApiError> {
        let user = match (certified, bearer_token(headers)) {
            (Some(user), _) => Arc::clone(user),
            (None, Some(token)) => match self.verify(state, token, &[]) {
                Ok((user, _)) => user,
                Err(_) if !state.by_roles => Arc::clone(&self.anybody),
                Err(error) => {
                    tracing::debug!(%error, "a bearer token is refused");
                    return Err(ApiError::unauthorized());
                }
            },
            (None, None) => Arc::clone(&self.anybody),
        };
        let impersonated = impersonation::impersonate(Access::of(state), &user, headers, request)?;
        Ok(impersonated.map_or(user, Arc::new))
    }

    /// The user of a token, and the audiences for which the token is valid. `audiences` are the wanted ones; empty
    /// means this server's own.
    pub(crate) fn verify(
        &self,
        state: &State,
        token: &str,
        audiences: &[String],
    ) -> Result<(Arc<User>, Vec<String>), TokenError> {
        let own = [ISSUER.to_owned()];
        let wanted = if audiences.is_empty() { &own[..] } else { audiences };
        // All tokens are compared, so that the time reveals nothing about the matching one.
        let known =
            self.tokens.iter().fold(None, |found, (given, user)| found.or(is_same(given, token).then_some(user)));
        match known {
            // A static token names no audience, so it is valid for this server.
            Some(user) if wanted.contains(&own[0]) => Ok((Arc::clone(user), own.to_vec())),
            Some(_) => Err(TokenError::Unknown),
            None => accounts::verify(state, token, wanted).map(|(user, audiences)| (Arc::new(user), audiences)),
        }
    }
}

/// Compares two texts in a time that does not depend on where they differ.
fn is_same(one: &str, other: &str) -> bool {
    let differences = one.bytes().zip(other.bytes()).fold(0, |sum, (one, other)| sum | (one ^ other));
    one.len() == other.len() && differences == 0
}

fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.trim().split_once(' ')?;
    // Text after the token is ignored, as a token has no blanks.
    let token = token.split(' ').next().unwrap_or_default();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(authorization: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, authorization.parse().expect("a header"));
        headers
    }

    #[test]
    fn a_bearer_token_is_the_second_word() {
        assert_eq!(bearer_token(&headers("Bearer abc")), Some("abc"));
        assert_eq!(bearer_token(&headers("bearer abc def")), Some("abc"));
        for other in ["Bearer", "Bearer ", "Basic abc", "abc"] {
            assert_eq!(bearer_token(&headers(other)), None, "{other}");
        }
    }

    #[test]
    fn a_static_token_is_not_shown() {
        let token = StaticToken { token: "secret".to_owned(), user: "jane".to_owned(), groups: Vec::new() };
        assert!(!format!("{token:?}").contains("secret"));
    }
}
