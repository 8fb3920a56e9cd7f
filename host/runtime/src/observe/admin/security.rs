//! All that stands between whoever can connect and the pages: TLS, and the question who asks.

use http::Request;
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

    /// Whether `request` may be answered.
    pub(super) async fn check<B>(&self, request: &Request<B>) -> Result<(), AccessRefusal> {
        match &self.authorizer {
            Some(authorizer) => authorizer.check(request).await,
            None => Ok(()),
        }
    }

    /// The end of an answer that begins now, and may be a stream until `longest`: a token that is taken back must not be good for
    /// as long as its stream might be open.
    pub(super) fn until(&self, longest: Instant) -> Instant {
        if self.authorizer.is_some() { longest.min(Instant::now() + YES_FOR) } else { longest }
    }
}

#[cfg(test)]
mod tests;
