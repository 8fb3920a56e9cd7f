//! Protects the admin endpoint: TLS, and authorization.

use http::{Method, Request};
use tokio::time::Instant;

use super::authorization::{AccessRefusal, Authorizer, TokenReviewer};
use super::review_answers::YES_FOR;
use super::settings::{AdminAuth, AdminSettings};
use crate::listening::tls::{ServerTls, ServerTlsError, TlsNames};

/// The names of the admin address and its flags.
pub(super) const ADMIN_TLS: TlsNames =
    TlsNames { address: "admin address", certificate: "--admin-tls-cert-file", key: "--admin-tls-private-key-file" };

/// The security settings in effect for one admin endpoint.
#[derive(Default)]
pub(crate) struct AdminSecurity {
    /// `None` for plain HTTP.
    pub(super) tls: Option<ServerTls>,
    /// `None` if every client is answered.
    authorizer: Option<Authorizer>,
}

impl AdminSecurity {
    /// Applies `settings`. `reviewer` reviews tokens, if they are required.
    pub(crate) fn of(settings: &AdminSettings, reviewer: impl TokenReviewer + 'static) -> Result<Self, ServerTlsError> {
        let needs_token = settings.auth == AdminAuth::Token;
        let tls = match &settings.tls {
            Some(files) => Some(ServerTls::from_files(files.clone(), ADMIN_TLS)?),
            // Without TLS, tokens could be read on the network.
            None if needs_token => Some(ServerTls::self_signed(ADMIN_TLS)?),
            None => None,
        };
        let security = Self { tls, authorizer: needs_token.then(|| Authorizer::new(reviewer)) };
        let (tls, auth) =
            (security.tls.as_ref().map_or("off", ServerTls::source), if needs_token { "token" } else { "none" });
        tracing::info!(tls, auth, "access to the admin address is configured");
        Ok(security)
    }

    /// Takes over new certificates, for ever.
    pub(crate) async fn follow(&self) {
        if let Some(tls) = &self.tls {
            tls.follow().await;
        }
    }

    /// Whether `request` may be answered, and its user, if known. Without tokens, every client may read, but only
    /// clients on the same machine or in the same Pod (`is_local`) may change anything. That includes users of `kubectl
    /// port-forward`, whom the API server has authorized.
    pub(super) async fn check<B>(&self, request: &Request<B>, is_local: bool) -> Result<Option<String>, AccessRefusal> {
        match &self.authorizer {
            Some(authorizer) => authorizer.check(request).await,
            None if *request.method() == Method::POST && !is_local => Err(AccessRefusal::NotLocal),
            None => Ok(None),
        }
    }

    /// The time at which an answer that begins now must end. `longest` is the latest end of a stream. A stream must not
    /// outlive a revoked token for long.
    pub(super) fn until(&self, longest: Instant) -> Instant {
        if self.authorizer.is_some() { longest.min(Instant::now() + YES_FOR) } else { longest }
    }
}

#[cfg(test)]
mod tests;
