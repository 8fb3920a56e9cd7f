//! The requests of one push or pull: the login, redirects, and waits for a busy server.
//!
//! The token of a login goes only to the registry. A password goes to the registry, or to a token server for which the
//! credentials have the registry's own login ([`Credentials`](crate::Credentials)). With another login, a registry
//! could name the token server of another one, and would get a token that is good there.

use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderValue, LOCATION, RETRY_AFTER};
use http::{Method, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use tokio::time::sleep;
use windlass_core::rights::egress::HttpTarget;
use windlass_core::rights::grants::Scheme;

use crate::challenge::Challenge;
use crate::error::OciError;
use crate::reference::OciReference;
use crate::registry::Registry;
use crate::transport::{OciAnswer, OciRequest, Reach};

/// The longest token.
const TOKEN_LENGTH_MAX: usize = 32 << 10;
/// The longest name of a service that a challenge may state.
const SERVICE_LENGTH_MAX: usize = 256;
/// The wait for a busy server that does not say how long. Each further wait is twice as long.
const FIRST_BUSY_WAIT: Duration = Duration::from_secs(1);

/// The right to the repository that the requests of a session need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Pull,
    Push,
}

/// The requests to one repository.
pub(crate) struct Session<'a> {
    registry: &'a Registry,
    server: HttpTarget,
    repository: &'a str,
    scope: Scope,
    /// Set by a login.
    authorization: Option<HeaderValue>,
    /// The server to which a login lacked credentials.
    lacking: Option<String>,
    is_logged_in: bool,
}

#[derive(Deserialize)]
struct TokenAnswer {
    token: Option<String>,
    access_token: Option<String>,
}

impl<'a> Session<'a> {
    pub(crate) fn new(registry: &'a Registry, reference: &'a OciReference, scope: Scope) -> Result<Self, OciError> {
        Ok(Self {
            registry,
            server: registry.server(reference)?,
            repository: reference.repository(),
            scope,
            authorization: None,
            lacking: None,
            is_logged_in: false,
        })
    }

    /// The server's name in errors.
    pub(crate) fn name(&self) -> String {
        self.server.to_string()
    }

    /// A target on the registry, below the repository.
    pub(crate) fn target(&self, path: &str) -> HttpTarget {
        HttpTarget { path_and_query: format!("/v2/{}/{path}", self.repository), ..self.server.clone() }
    }

    /// The target of a `Location`, which may be a path on the registry.
    pub(crate) fn located(&self, answer: &OciAnswer) -> Result<HttpTarget, OciError> {
        let refused = |why| OciError::Redirect { server: answer.server.clone(), why };
        let location = answer.headers().get(LOCATION).ok_or(refused("it has no location"))?;
        let location = location.to_str().map_err(|_| refused("its location is not a URL"))?;
        let is_path = location.starts_with('/') && !location.starts_with("//");
        let url = if is_path { format!("{}{location}", self.server) } else { location.to_owned() };
        HttpTarget::parse(&url).map_err(|_| refused("its location is not a URL"))
    }

    /// Whether `target` is on the registry: the same scheme, host and port.
    pub(crate) fn is_own(&self, target: &HttpTarget) -> bool {
        (target.scheme, &target.host, target.port) == (self.server.scheme, &self.server.host, self.server.port)
    }

    /// Sends `request` to the registry, after a login if that is needed. The answer is not one that refuses the login.
    pub(crate) async fn request(&mut self, request: OciRequest) -> Result<OciAnswer, OciError> {
        loop {
            let mut authorized = request.clone();
            authorized.headers.extend(self.authorization.clone().map(|it| (AUTHORIZATION, it)));
            let answer = self.patiently(authorized, self.registry.reach(&self.server)).await?;
            match answer.status() {
                StatusCode::UNAUTHORIZED if !self.is_logged_in => self.log_in(&answer).await?,
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => return Err(self.denied()),
                _ => return Ok(answer),
            }
        }
    }

    /// As [`Self::request`], and follows redirects. Elsewhere, they carry no credentials, must use HTTPS, and must not
    /// lead to addresses that are not public.
    pub(crate) async fn follow(&mut self, request: OciRequest) -> Result<OciAnswer, OciError> {
        let mut answer = self.request(request.clone()).await?;
        for _ in 0..self.registry.options.limits.redirects {
            if !is_redirect(answer.status()) {
                return Ok(answer);
            }
            let target = self.located(&answer)?;
            let next = OciRequest { target, ..request.clone() };
            answer = if self.is_own(&next.target) {
                self.request(next).await?
            } else {
                if next.target.scheme != Scheme::Https {
                    return Err(OciError::Redirect { server: answer.server, why: "it leads away from HTTPS" });
                }
                self.patiently(next, Reach::Listed(&self.registry.options.elsewhere)).await?
            };
        }
        if is_redirect(answer.status()) {
            return Err(OciError::Redirect { server: answer.server, why: "there are too many redirects" });
        }
        Ok(answer)
    }

    /// The answer of a server that is not busy.
    async fn patiently(&self, request: OciRequest, reach: Reach<'_>) -> Result<OciAnswer, OciError> {
        let limits = &self.registry.options.limits;
        let mut waits = 0;
        loop {
            let answer = self.registry.network.send(request.clone(), reach, limits).await?;
            let status = answer.status();
            if !matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
                return Ok(answer);
            }
            let asked = answer.headers().get(RETRY_AFTER).and_then(|it| it.to_str().ok()?.parse().ok());
            let asked = asked.map(Duration::from_secs);
            if waits == limits.busy_waits {
                let (server, status) = (answer.server, status.as_u16());
                return Err(OciError::Busy { server, status, waits, retry_after: asked });
            }
            let wait = asked.unwrap_or(FIRST_BUSY_WAIT * 2_u32.saturating_pow(waits));
            drop(answer);
            sleep(wait.min(limits.busy_wait)).await;
            waits += 1;
        }
    }

    fn denied(&self) -> OciError {
        let server = self.name();
        match &self.lacking {
            Some(asking) => OciError::LoginNeeded { server, asking: asking.clone() },
            None => OciError::LoginRefused { server },
        }
    }

    /// Logs in as the registry's `answer` asks.
    async fn log_in(&mut self, answer: &OciAnswer) -> Result<(), OciError> {
        self.is_logged_in = true;
        let server = self.name();
        let unknown = || OciError::Challenge { server: server.clone() };
        let value = match Challenge::of(answer.headers()).ok_or_else(unknown)? {
            Challenge::Basic => self
                .basic(&self.server)?
                .ok_or_else(|| OciError::LoginNeeded { server: self.name(), asking: self.server.authority() })?,
            Challenge::Bearer { realm, service } => format!("Bearer {}", self.token(&realm, &service).await?),
        };
        let mut value = HeaderValue::from_str(&value).map_err(|_| unknown())?;
        value.set_sensitive(true);
        self.authorization = Some(value);
        Ok(())
    }

    /// The value of `Authorization` with the password for `server`, if the credentials name it.
    fn basic(&self, server: &HttpTarget) -> Result<Option<String>, OciError> {
        let Some(login) = self.registry.options.credentials.of(server)? else { return Ok(None) };
        // Only the registry itself may be without TLS. If it must be on this machine, its addresses are checked.
        if server.scheme == Scheme::Http && !matches!(self.registry.reach(server), Reach::Loopback) {
            return Err(OciError::Unencrypted { server: server.to_string() });
        }
        Ok(Some(login.basic()))
    }

    /// A token of the server at the URL `realm`.
    async fn token(&mut self, realm: &str, service: &str) -> Result<String, OciError> {
        let limits = &self.registry.options.limits;
        let mut target = HttpTarget::parse(realm).map_err(|_| OciError::Challenge { server: self.name() })?;
        let is_own = self.is_own(&target);
        if !is_own && target.scheme != Scheme::Https {
            return Err(OciError::Redirect { server: self.name(), why: "its token server does not use HTTPS" });
        }
        let credentials = &self.registry.options.credentials;
        let is_bound = is_own || credentials.have_one_login(&self.server, &target);
        let basic = if is_bound { self.basic(&target)? } else { None };
        // A server with the registry's own login was chosen by a person, as the registry was.
        let reach = match (is_own, is_bound) {
            (true, _) => self.registry.reach(&self.server),
            (false, true) if self.registry.options.reach.is_none() => Reach::Any,
            (false, _) => Reach::Listed(&self.registry.options.elsewhere),
        };
        let actions = if self.scope == Scope::Push { "pull,push" } else { "pull" };
        let scope = format!("repository:{}:{actions}", self.repository);
        let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let separator = if target.path_and_query.contains('?') { '&' } else { '?' };
        let service: String = service.chars().take(SERVICE_LENGTH_MAX).collect();
        let query = format!("{separator}service={}&scope={}", encoded(&service), encoded(&scope));
        target.path_and_query.push_str(&query);
        let bound = format!(" (the same login as for {})", self.server.authority());
        self.lacking = basic.is_none().then(|| target.authority() + if is_own { "" } else { &bound });
        let mut request = OciRequest::new(Method::GET, target, limits.token_bytes);
        if let Some(basic) = basic {
            let value = HeaderValue::from_str(&basic).map_err(|_| OciError::Challenge { server: self.name() })?;
            request.headers.insert(AUTHORIZATION, value);
        }
        let answer = self.patiently(request, reach).await?;
        match answer.status() {
            StatusCode::OK => token_of(answer).await,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(self.denied()),
            _ => Err(OciError::Token { server: answer.server }),
        }
    }
}

async fn token_of(answer: OciAnswer) -> Result<String, OciError> {
    let none = OciError::Token { server: answer.server.clone() };
    let bytes = answer.read("the answer of the token server").await?;
    let Ok(TokenAnswer { token, access_token }) = serde_json::from_slice(&bytes) else { return Err(none) };
    let is_sendable = |token: &String| {
        !token.is_empty() && token.len() <= TOKEN_LENGTH_MAX && token.bytes().all(|byte| byte.is_ascii_graphic())
    };
    token.or(access_token).filter(is_sendable).ok_or(none)
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// Checks that the `answer` has a status that the transfer expects.
pub(crate) fn expect(answer: OciAnswer, expected: &[StatusCode]) -> Result<OciAnswer, OciError> {
    let (status, server) = (answer.status(), &answer.server);
    if expected.contains(&status) {
        Ok(answer)
    } else if status == StatusCode::NOT_FOUND {
        Err(OciError::NotFound { server: server.clone() })
    } else {
        Err(OciError::Status { server: server.clone(), status: status.as_u16() })
    }
}
