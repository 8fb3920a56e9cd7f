//! Authorizes requests to the admin endpoint by bearer tokens of the cluster. The token's user needs the verb of the
//! request (`get`, or `post` to resume a plugin) on the path, as with kube-rbac-proxy: a `TokenReview`, then a
//! `SubjectAccessReview` about `nonResourceURLs`. Probes need no token, as the kubelet has none.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::{HeaderMap, Method, Request, StatusCode};
use sha2::{Digest as _, Sha256};
use windlass_core::rights::principal::{Principal, Role};
use windlass_kube::client::Connection;
use windlass_kube::{ReviewError, TokenUser, may_access, whose_token};

use super::review_answers::{AnswerKey, OfUser, ReviewAnswers, Unanswered};

/// The paths of the kubelet's probes, which need no token.
pub(super) const PROBES: [&str; 2] = ["/healthz", "/readyz"];

/// The verbs in access reviews: one for POST, one for all other requests.
const POST: &str = "post";
const GET: &str = "get";

/// Answers reviews: the API server, or a test double.
pub(crate) trait TokenReviewer: Send + Sync {
    /// The user of `token`. `None` if the token is not valid.
    fn whose(&self, token: String) -> BoxFuture<'static, Result<Option<TokenUser>, ReviewError>>;

    /// Whether `user` may perform `verb` on `path`.
    fn may_access(
        &self,
        user: Arc<TokenUser>,
        verb: &'static str,
        path: String,
    ) -> BoxFuture<'static, Result<bool, ReviewError>>;
}

/// Reviews by the API server, made in the host's own name.
pub(crate) struct ServerTokenReviews {
    connection: Connection,
    role: Arc<Principal>,
}

impl ServerTokenReviews {
    pub(crate) fn new(connection: Connection, replica: &Arc<str>) -> Self {
        Self { connection, role: Arc::new(Principal::of_host(Role::Reviews, replica.clone())) }
    }
}

impl TokenReviewer for ServerTokenReviews {
    fn whose(&self, token: String) -> BoxFuture<'static, Result<Option<TokenUser>, ReviewError>> {
        let (client, role) = (self.connection.client.clone(), self.role.clone());
        async move { whose_token(&client, &role, &token).await }.boxed()
    }

    fn may_access(
        &self,
        user: Arc<TokenUser>,
        verb: &'static str,
        path: String,
    ) -> BoxFuture<'static, Result<bool, ReviewError>> {
        let (client, role) = (self.connection.client.clone(), self.role.clone());
        async move { may_access(&client, &role, &user, verb, &path).await }.boxed()
    }
}

/// Why a request is refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum AccessRefusal {
    #[error("no token: send one as `Authorization: Bearer TOKEN`; `kubectl create token ACCOUNT` makes one")]
    NoToken,
    #[error("the cluster does not know this token, or it has expired; `kubectl create token ACCOUNT` makes one")]
    WrongToken,
    #[error(
        "{user} may not {verb} {path}: bind a ClusterRole to it that has the verb {verb} and nonResourceURLs: [{path:?}], or a \
         pattern such as /plugins/*"
    )]
    Forbidden { user: String, verb: &'static str, path: String },
    #[error(
        "without a token, a plugin is resumed only from the host's own machine or Pod: forward the port (kubectl port-forward), or \
         start the host with --admin-auth token"
    )]
    NotLocal,
    #[error("too many tokens wait for the API server to review them: ask again in a second")]
    Busy,
    #[error("the API server cannot be asked whether this token may get this path: {0}")]
    Unavailable(String),
}

impl AccessRefusal {
    pub(super) fn code(&self) -> StatusCode {
        match self {
            Self::NoToken | Self::WrongToken => StatusCode::UNAUTHORIZED,
            Self::Forbidden { .. } | Self::NotLocal => StatusCode::FORBIDDEN,
            Self::Busy => StatusCode::TOO_MANY_REQUESTS,
            Self::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl From<Unanswered> for AccessRefusal {
    fn from(why: Unanswered) -> Self {
        match why {
            Unanswered::Busy => Self::Busy,
            Unanswered::Failed(why) => Self::Unavailable(why),
        }
    }
}

/// Decides about requests, and caches the cluster's answers for a while. It keeps digests of tokens, never a token.
pub(crate) struct Authorizer {
    reviewer: Arc<dyn TokenReviewer>,
    users: Arc<ReviewAnswers<Arc<TokenUser>>>,
    /// By token, verb and path.
    access: Arc<ReviewAnswers<Arc<TokenUser>>>,
}

impl OfUser for Arc<TokenUser> {
    fn user(&self) -> &str {
        &self.username
    }
}

impl Authorizer {
    pub(crate) fn new(reviewer: impl TokenReviewer + 'static) -> Self {
        Self { reviewer: Arc::new(reviewer), users: Arc::default(), access: Arc::default() }
    }

    /// Whether `request` may be answered, and its user. Probes have no user.
    pub(super) async fn check<B>(&self, request: &Request<B>) -> Result<Option<String>, AccessRefusal> {
        let (path, verb) = (request.uri().path(), if *request.method() == Method::POST { POST } else { GET });
        if PROBES.contains(&path) {
            return Ok(None);
        }
        let token = token(request.headers()).ok_or(AccessRefusal::NoToken)?;
        let key: AnswerKey = Sha256::digest(&token).into();
        let whose = {
            let asking = self.reviewer.whose(token);
            async move { asking.await.map(|user| user.map(Arc::new)) }
        };
        let user = self.users.answer(key, whose).await?.ok_or(AccessRefusal::WrongToken)?;
        let of_path = Sha256::new().chain_update(key).chain_update(verb).chain_update(path).finalize().into();
        let may = {
            let (asking, user) = (self.reviewer.may_access(user.clone(), verb, path.to_owned()), user.clone());
            async move { asking.await.map(|may| may.then_some(user)) }
        };
        let forbidden = || AccessRefusal::Forbidden { user: user.username.clone(), verb, path: path.to_owned() };
        self.access.answer(of_path, may).await?.map(|user| Some(user.username.clone())).ok_or_else(forbidden)
    }
}

/// The token of a request. A browser asks its user for a name and a password; the password is the token.
///
/// A token is visible ASCII without blanks (RFC 6750). The API server reviews only the first word of what it receives,
/// so with blanks one good token would count as any number of tokens, each cached separately here.
fn token(headers: &HeaderMap) -> Option<String> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let (Some(only), None) = (all.next(), all.next()) else { return None };
    let (scheme, sent) = only.to_str().ok()?.trim().split_once(' ')?;
    let sent = sent.trim();
    let token = if scheme.eq_ignore_ascii_case("bearer") {
        sent.to_owned()
    } else if scheme.eq_ignore_ascii_case("basic") {
        let decoded = String::from_utf8(BASE64_STANDARD.decode(sent).ok()?).ok()?;
        decoded.split_once(':')?.1.trim().to_owned()
    } else {
        return None;
    };
    (!token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic())).then_some(token)
}

#[cfg(test)]
pub(super) mod tests;
