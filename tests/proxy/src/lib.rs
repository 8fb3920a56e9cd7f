//! A fault-injecting HTTP proxy in front of a Kubernetes API server, controlled by test code.
//!
//! It listens on a free loopback port, speaks HTTP/1.1 and HTTP/2 with prior knowledge, and passes requests on to the
//! server of a kubeconfig with that kubeconfig's credentials; the client needs none. It counts requests as Kubernetes
//! names them, and injects faults by [`Rule`]s. All chance comes from one seed.
//!
//! ```no_run
//! # async fn example(upstream: kube::Config) -> Result<(), windlass_proxy::StartError> {
//! use windlass_proxy::{Cut, Fault, Loss, Match, Proxy, Verb};
//!
//! let proxy = Proxy::start(upstream, 7).await?;
//! println!("{}", proxy.kubeconfig());
//!
//! // One event in ten of all watches of pods is lost together with its watch.
//! let cuts = proxy.add(Fault::Cut(Cut::MidLine).on(Match::watches("pods")).with_probability(0.1));
//! // The answer to the next create of a Deployment gets lost.
//! let lost = proxy.add(Fault::Lose(Loss::Reset).on(Match::verb(Verb::Create).resource("deployments")).times(1));
//! proxy.until(|| lost.fired() == 1).await;
//! assert_eq!(proxy.count(&Match::verb(Verb::List).resource("pods")), 1);
//! drop(cuts); // a rule is in force as long as its handle lives
//! # Ok(())
//! # }
//! ```
//!
//! A request passes through `connection` (accepts) → `request` (parses) → `rule` (decides all faults) → `forward`
//! (sends, responds, breaks) → `watch` (a stream, event by event) or `body`.
//!
//! It does not support upgraded connections (exec, attach, port-forward). It forwards requests when they are complete,
//! and streams responses.

mod body;
mod connection;
mod fault;
mod forward;
mod matching;
mod request;
mod rule;
mod socket;
mod state;
mod watch;
mod weather;

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;

use kube::Client;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

pub use crate::fault::{Cut, Fault, Garbage, Loss, Refusal};
pub use crate::matching::Match;
pub use crate::request::{RequestInfo, Verb};
pub use crate::rule::Rule;
use crate::rule::Tally;
use crate::state::Shared;
pub use crate::weather::{Spell, Weather};

/// The reason why the proxy could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No client can be built from the configuration.
    #[error("no client for upstream can be made: {0}")]
    Upstream(#[source] Box<kube::Error>),
    /// No loopback port is free.
    #[error("cannot listen on a loopback port")]
    Listen(#[source] std::io::Error),
}

/// The number of requests of one kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestCount {
    /// The verb of the requests.
    pub verb: Verb,
    /// The resource of the requests, with group and subresource as in RBAC: `deployments.apps/status`.
    pub resource: String,
    /// The number of requests.
    pub count: u64,
}

/// Connections of clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// Connections accepted since the counts were reset, including connections that were closed at once.
    pub accepted: u64,
    /// Open now.
    pub open: usize,
}

/// A running proxy. Dropping it closes the port and all connections, without a reset.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: AbortHandle,
}

impl Proxy {
    /// Listens, and forwards to `upstream` (without kube's own retries and time limits). Upstream gets no request
    /// before a client sends one.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub async fn start(mut upstream: kube::Config, seed: u64) -> Result<Self, StartError> {
        upstream.default_retry = false;
        upstream.read_timeout = None;
        upstream.write_timeout = None;
        let client = Client::try_from(upstream).map_err(|error| StartError::Upstream(Box::new(error)))?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(StartError::Listen)?;
        let address = listener.local_addr().map_err(StartError::Listen)?;
        let shared = Arc::new(Shared::new(client, seed));
        let acceptor = tokio::spawn(connection::accept(Arc::clone(&shared), listener)).abort_handle();
        Ok(Self { address, shared, acceptor })
    }

    /// The address on which the proxy listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The proxy's URL, as in a kubeconfig.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A kubeconfig (YAML) for clients, with the context `proxy` and no credentials.
    #[must_use]
    pub fn kubeconfig(&self) -> String {
        format!(
            "apiVersion: v1\n\
             kind: Config\n\
             current-context: proxy\n\
             clusters: [{{name: proxy, cluster: {{server: \"{}\"}}}}]\n\
             contexts: [{{name: proxy, context: {{cluster: proxy, namespace: default, user: proxy}}}}]\n\
             users: [{{name: proxy, user: {{}}}}]\n",
            self.url()
        )
    }

    /// Adds a rule after the existing ones, until its handle is dropped.
    pub fn add(&self, rule: Rule) -> RuleHandle {
        let tally = self.shared.lock().rules.add(rule);
        RuleHandle { tally, shared: Arc::clone(&self.shared), kept: false }
    }

    /// Adds the rules of `weather`, until the spell is dropped.
    pub fn begin(&self, weather: &Weather) -> Spell {
        Spell::new(weather.rules().into_iter().map(|(what, rule)| (what, self.add(rule))).collect())
    }

    /// Ends all matching watches that run now. Their held or delayed events are lost. Returns their number.
    #[allow(clippy::must_use_candidate, reason = "the count is a bonus")]
    pub fn cut(&self, watches: &Match, cut: Cut) -> usize {
        self.shared.lock().cut(watches, cut)
    }

    /// The number of matching watches that run: upstream has begun to respond, and neither side has ended it.
    #[must_use]
    pub fn watching(&self, watches: &Match) -> usize {
        self.shared.lock().watching(watches)
    }

    /// Resets all connections, and every new one, until [`Proxy::come_back`], as if the API server was gone. The proxy
    /// keeps the port, so clients see connections that are reset at once rather than refused.
    pub fn go_dark(&self) {
        let mut state = self.shared.lock();
        state.dark = true;
        for reset in state.connections.values() {
            reset.cancel();
        }
    }

    /// Stops reading and writing on all connections, present and new, until [`Proxy::come_back`], and closes none, as
    /// if the network was gone. Clients can connect but get no response; afterwards, the connections that they have not
    /// given up continue.
    pub fn go_silent(&self) {
        self.shared.silence.begin();
    }

    /// Ends [`Proxy::go_dark`] and [`Proxy::go_silent`].
    pub fn come_back(&self) {
        self.shared.lock().dark = false;
        self.shared.silence.end();
    }

    /// The requests of clients since the counts were reset, by verb and resource, whatever their result.
    #[must_use]
    pub fn requests(&self) -> Vec<RequestCount> {
        let mut counts = std::collections::BTreeMap::<_, u64>::new();
        for (request, count) in &self.shared.lock().requests {
            *counts.entry((request.verb, request.full_resource())).or_default() += count;
        }
        counts.into_iter().map(|((verb, resource), count)| RequestCount { verb, resource, count }).collect()
    }

    /// The number of matching requests since the counts were reset.
    #[must_use]
    pub fn count(&self, requests: &Match) -> u64 {
        let state = self.shared.lock();
        state.requests.iter().filter(|(request, _)| requests.matches(request)).map(|(_, count)| count).sum()
    }

    /// The connections of clients.
    #[must_use]
    pub fn connections(&self) -> Connections {
        let state = self.shared.lock();
        Connections { accepted: state.accepted, open: state.connections.len() }
    }

    /// Resets the counts of requests and of accepted connections.
    pub fn reset_counts(&self) {
        let mut state = self.shared.lock();
        state.requests.clear();
        state.accepted = 0;
    }

    /// Waits until `condition` holds. It is checked again after each change of the counts of the proxy or of a rule's
    /// handle. There is no time limit: add a timeout.
    pub async fn until(&self, condition: impl Fn() -> bool) {
        loop {
            // Subscribe before the condition is checked. Otherwise a change in between would be missed.
            let mut changed = pin!(self.shared.changed.notified());
            changed.as_mut().enable();
            if condition() {
                return;
            }
            changed.await;
        }
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.acceptor.abort();
    }
}

/// A rule that is in force. Dropping it removes the rule and releases the events that the rule holds.
#[must_use = "dropping the handle removes the rule"]
pub struct RuleHandle {
    tally: Arc<Tally>,
    shared: Arc<Shared>,
    kept: bool,
}

impl RuleHandle {
    /// The number of times that the fault has happened.
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.tally.fired()
    }

    /// The number of events that the rule holds back now.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.tally.held()
    }

    /// The number of responses that the rule has lost so far: upstream has sent them, so the requests are carried out.
    /// [`RuleHandle::fired`] counts a request as soon as it arrives.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.tally.lost()
    }

    /// Removes the rule; held events follow, in order. The same as dropping the handle, but explicit.
    pub fn remove(self) {}

    /// Keeps the rule as long as the proxy lives.
    pub fn keep(mut self) {
        self.kept = true;
    }
}

impl fmt::Debug for RuleHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuleHandle").field("fired", &self.fired()).field("held", &self.held()).finish_non_exhaustive()
    }
}

impl Drop for RuleHandle {
    fn drop(&mut self) {
        if !self.kept {
            self.shared.lock().rules.remove(&self.tally);
        }
    }
}
