//! HTTP requests of plugins (`http.fetch`). `core::egress` decides which requests may be sent; this module sends them.
//!
//! Fetches share nothing: each has its own look-up and its own connection, and nothing is kept for the next fetch or
//! for another plugin. The name is resolved once, all its addresses are checked, and the connection goes to a checked
//! address. So an attacker gains nothing by changing the name's addresses in between. Redirects are ordinary responses;
//! a plugin that follows one makes another fetch. Proxies from the environment are not used, because they would connect
//! to addresses that were not checked.

mod api_server;
mod own;
mod prepare;
#[cfg(test)]
pub(crate) mod tests;
mod trace;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tracing::Instrument;
use windlass_core::call::http::{HttpError, HttpReason, HttpRequest, HttpResponse};
use windlass_core::call::ports::{Answer, Ask, CallContext, Port, port_fn};
use windlass_core::rights::egress::{self, AddressReach, HttpTarget, UrlHost};
use windlass_core::rights::grants::{LiveGrants, Scheme};
use windlass_egress::bounded_stream::BoundedStream;
use windlass_egress::connect::{self, Resolve};
use windlass_egress::exchange::exchange;
use windlass_egress::tls::{self, Trust};
use windlass_egress::{HttpLimits, failed};

pub(crate) use self::api_server::ApiServer;
pub(crate) use self::own::post_own;
use self::prepare::{Outgoing, prepare};
use crate::observe::metrics::HttpTotals;

/// Carries out the HTTP requests of plugins. Clones share the permits.
#[derive(Clone)]
pub(crate) struct Egress(Arc<EgressInner>);

struct EgressInner {
    limits: HttpLimits,
    trust: Arc<Trust>,
    resolver: Arc<dyn Resolve>,
    api_server: ApiServer,
    totals: HttpTotals,
    /// The semaphore of each plugin.
    permits: Mutex<HashMap<Arc<str>, Arc<Semaphore>>>,
}

/// Held by everything that works for a fetch, even by a look-up whose caller no longer waits.
type HttpPermit = Arc<OwnedSemaphorePermit>;

impl Egress {
    /// Sends nothing, and reads no certificate, before the first fetch.
    pub(crate) fn new(
        limits: HttpLimits,
        trust: impl Into<Arc<Trust>>,
        resolver: Arc<dyn Resolve>,
        api_server: ApiServer,
        totals: HttpTotals,
    ) -> Self {
        let trust = trust.into();
        Self(Arc::new(EgressInner { limits, trust, resolver, api_server, totals, permits: Mutex::default() }))
    }
}

impl EgressInner {
    async fn carry_out(
        &self,
        call: &CallContext,
        request: HttpRequest,
        traceparent: Option<String>,
    ) -> Result<HttpResponse, HttpError> {
        let grants = &call.principal.grants;
        let time = request.timeout.map_or(self.limits.time, |asked| asked.min(self.limits.time));
        let mut outgoing = prepare(request, &self.limits, &call.principal.plugin)?;
        trace::continue_in(&mut outgoing, traceparent);
        // A denied request must not wait for a permit.
        allowed(grants, &outgoing)?;
        let sent = async {
            let permit = self.permit(&call.principal.plugin).await?;
            self.send(outgoing, grants, &permit).await
        };
        let late = || failed(HttpReason::Timeout, format!("the exchange had not ended after {time:?}"));
        tokio::time::timeout(time, sent).await.unwrap_or_else(|_| Err(late()))
    }

    async fn send(
        &self,
        outgoing: Outgoing,
        grants: &LiveGrants,
        permit: &HttpPermit,
    ) -> Result<HttpResponse, HttpError> {
        // The operator may have revoked the grant while the request waited. It is checked once more right before
        // sending.
        let reach = allowed(grants, &outgoing)?;
        let (resolver, target) = (self.resolver.as_ref(), &outgoing.target);
        let (found, api_server) =
            tokio::join!(connect::resolve(resolver, target, permit.clone()), self.api_server.addresses(resolver));
        let addresses = found?;
        connect::check(&addresses, &reach, &api_server).map_err(|denied| {
            let denial = egress::deny(grants, outgoing.request.method().as_str(), target, &denied);
            failed(reason_of_denied_address(&target.host), denial.to_string())
        })?;
        let stream = connect::to_one_of(&addresses, self.limits.connect).await?;
        let stream = BoundedStream::new(stream, self.limits.wire_bytes());
        match outgoing.target.scheme {
            Scheme::Http => {
                allowed(grants, &outgoing)?;
                exchange(stream, outgoing.request, &self.limits).await
            }
            Scheme::Https => {
                let stream = tls::handshake(self.trust.config()?, &outgoing.target.host, stream).await?;
                allowed(grants, &outgoing)?;
                exchange(stream, outgoing.request, &self.limits).await
            }
        }
    }

    async fn permit(&self, plugin: &Arc<str>) -> Result<HttpPermit, HttpError> {
        let permits = {
            let mut permits = self.permits.lock().unwrap_or_else(PoisonError::into_inner);
            let new = || Arc::new(Semaphore::new(self.limits.concurrent));
            permits.entry(plugin.clone()).or_insert_with(new).clone()
        };
        let permit = permits.acquire_owned().await;
        permit.map(Arc::new).map_err(|_| failed(HttpReason::Other, "the host stops".to_owned()))
    }

    /// Counts and logs how a fetch ended. The path, the query and the headers are not logged, because they may hold
    /// secrets.
    fn log_end(
        &self,
        call: &CallContext,
        summary: &RequestSummary,
        result: &Result<HttpResponse, HttpError>,
        took: Duration,
    ) {
        let plugin = &call.principal.plugin;
        let reason = result.as_ref().err().map(|error| reason(error.reason));
        self.totals.count(plugin, reason.unwrap_or("ok"));
        let (status, bytes) = match result {
            Ok(response) => (Some(response.status), Some(response.body.size())),
            Err(_) => (None, None),
        };
        tracing::debug!(
            %plugin, controller = %call.controller, key = %call.primary_key, trace_id = %call.trace_id,
            method = summary.method, server = summary.target, status, bytes, reason,
            error = result.as_ref().err().map(|error| error.message.as_str()), ?took, "fetched"
        );
    }
}

/// The parts of a request that may be logged.
struct RequestSummary {
    method: String,
    target: String,
    /// `None` if it is malformed.
    parsed: Option<HttpTarget>,
}

impl RequestSummary {
    fn of(request: &HttpRequest) -> Self {
        let parsed = HttpTarget::parse(&request.url).ok();
        let target = parsed.as_ref().map_or_else(|| "malformed".to_owned(), ToString::to_string);
        let method = if egress::is_method(&request.method) { request.method.as_str() } else { "malformed" };
        Self { method: method.to_owned(), target, parsed }
    }
}

impl Egress {
    /// A port that sends fetches, and passes everything else to `others`.
    pub(crate) fn in_front_of(&self, others: Arc<dyn Port>) -> Arc<dyn Port> {
        let egress = self.clone();
        port_fn(move |call, ask| match ask {
            Ask::Fetch(request) => egress.fetch(call, *request).map(Answer::Fetch).boxed(),
            ask => others.ask(call, ask),
        })
    }

    fn fetch(
        &self,
        call: Arc<CallContext>,
        request: HttpRequest,
    ) -> BoxFuture<'static, Result<HttpResponse, HttpError>> {
        let egress = self.0.clone();
        async move {
            let (summary, began) = (RequestSummary::of(&request), Instant::now());
            let mut span = trace::begin(&call.trace, &summary);
            let result = egress.carry_out(&call, request, span.traceparent()).await;
            trace::end(&mut span, &result, &call.config);
            drop(span);
            egress.log_end(&call, &summary, &result, began.elapsed());
            result
        }
        .in_current_span()
        .boxed()
    }
}

/// The addresses that the request may reach, according to the current grants.
fn allowed(grants: &LiveGrants, Outgoing { target, request }: &Outgoing) -> Result<AddressReach, HttpError> {
    egress::allow(grants, request.method().as_str(), target)
        .map_err(|denial| failed(HttpReason::NotGranted, denial.to_string()))
}

/// The error's reason for a request to `host` if one of its addresses is denied.
///
/// DNS may return other addresses next time, so a name counts as unreachable, and the key is retried. An address in the
/// URL does not change, so only another policy helps.
fn reason_of_denied_address(host: &UrlHost) -> HttpReason {
    match host {
        UrlHost::Name(_) => HttpReason::Connect,
        UrlHost::Address(_) => HttpReason::NotGranted,
    }
}

/// The label of metrics.
fn reason(reason: HttpReason) -> &'static str {
    match reason {
        HttpReason::NotGranted => "not-granted",
        HttpReason::InvalidRequest => "invalid-request",
        HttpReason::Dns => "dns",
        HttpReason::Connect => "connect",
        HttpReason::Tls => "tls",
        HttpReason::Timeout => "timeout",
        HttpReason::TooLarge => "too-large",
        HttpReason::Protocol => "protocol",
        HttpReason::Other => "other",
    }
}
