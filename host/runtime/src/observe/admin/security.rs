//! All that stands between whoever can connect and the pages: TLS, and the question who asks.

use http::{Method, Request};
use tokio::time::Instant;

use super::authorization::{AccessRefusal, Authorizer, TokenReviewer};
use super::review_answers::YES_FOR;
use super::settings::{AdminAuth, AdminSettings};
use super::tls::{AdminTls, AdminTlsError};

/// The security of one admin endpoint.
#[derive(Default)]
pub(crate) struct AdminSecurity {
    /// None: plain HTTP.
    pub(super) tls: Option<AdminTls>,
    /// None: everyone is answered.
    authorizer: Option<Authorizer>,
}

impl AdminSecurity {
    /// As `settings` say; `reviewer` is asked about tokens, if there is to be any.
    pub(crate) fn of(settings: &AdminSettings, reviewer: impl TokenReviewer + 'static) -> Result<Self, AdminTlsError> {
        let needs_token = settings.auth == AdminAuth::Token;
        let tls = match &settings.tls {
            Some(files) => Some(AdminTls::from_files(files.clone())?),
            // A token that travels in the clear is everybody's.
            None if needs_token => Some(AdminTls::self_signed()?),
            None => None,
        };
        let security = Self { tls, authorizer: needs_token.then(|| Authorizer::new(reviewer)) };
        let (tls, auth) =
            (security.tls.as_ref().map_or("off", AdminTls::source), if needs_token { "token" } else { "none" });
        tracing::info!(tls, auth, "who may ask the admin address, and how");
        Ok(security)
    }

    /// Takes over new certificates, for ever.
    pub(crate) async fn follow(&self) {
        if let Some(tls) = &self.tls {
            tls.follow().await;
        }
    }

    /// Whether `request` may be answered, and whose it is, as far as that is known. Without tokens everybody may look,
    /// and only who asks from the same machine or Pod (`is_local`) may change anything. That includes users of `kubectl
    /// port-forward`, which the API server has authorized.
    pub(super) async fn check<B>(&self, request: &Request<B>, is_local: bool) -> Result<Option<String>, AccessRefusal> {
        match &self.authorizer {
            Some(authorizer) => authorizer.check(request).await,
            None if *request.method() == Method::POST && !is_local => Err(AccessRefusal::NotLocal),
            None => Ok(None),
        }
    }

    /// The end of an answer that begins now, and may be a stream until `longest`: a token that is taken back must not
    /// be good for as long as its stream might be open.
    pub(super) fn until(&self, longest: Instant) -> Instant {
        if self.authorizer.is_some() { longest.min(Instant::now() + YES_FOR) } else { longest }
    }
}

#[cfg(test)]
mod tests;
