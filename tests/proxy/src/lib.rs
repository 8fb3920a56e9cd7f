//! A fault-injecting HTTP proxy before a Kubernetes API server, driven from test code.
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
//! The way of a request: `connection` (accepts) → `request` (what is asked) → `rule` (what is to happen, decided in one
//! place) → `forward` (sends, answers, breaks) → `watch` (a stream, event by event) or `body`.
//!
//! It cannot do upgraded connections (exec, attach, port-forward). It passes requests on when they are complete, and
//! answers as they come.

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

/// Why there is no proxy.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No client can be made of the configuration.
    #[error("no client for upstream can be made: {0}")]
    Upstream(#[source] Box<kube::Error>),
    /// No loopback port is free.
    #[error("cannot listen on a loopback port")]
    Listen(#[source] std::io::Error),
}

/// How often something was asked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestCount {
    /// The verb of the requests.
    pub verb: Verb,
    /// Their resource, as in RBAC with group and subresource: `deployments.apps/status`.
    pub resource: String,
    /// How often.
    pub count: u64,
}

/// Connections of clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// Accepted since the counts were reset, also those that were reset at once.
    pub accepted: u64,
    /// Open now.
    pub open: usize,
}

/// A running proxy. Dropping it resets nothing but ends all: the port closes, and so do all connections.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: AbortHandle,
}

impl Proxy {
    /// Listens, and forwards to `upstream` (of which kube's own retries and time limits are not used). Nothing is asked
    /// of upstream before a client does.
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

    /// Where it listens, for as long as it lives.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its URL, as in a kubeconfig.
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

    /// Puts a rule into force, behind those that there are, until its handle is dropped.
    pub fn add(&self, rule: Rule) -> RuleHandle {
        let tally = self.shared.lock().rules.add(rule);
        RuleHandle { tally, shared: Arc::clone(&self.shared), kept: false }
    }

    /// Puts the rules of `weather` into force, until the spell is dropped.
    pub fn begin(&self, weather: &Weather) -> Spell {
        Spell::new(weather.rules().into_iter().map(|(what, rule)| (what, self.add(rule))).collect())
    }

    /// Ends all running watches that match, now. Events that are held or delayed are lost with them. Returns how many.
    #[allow(clippy::must_use_candidate, reason = "the count is a bonus")]
    pub fn cut(&self, watches: &Match, cut: Cut) -> usize {
        self.shared.lock().cut(watches, cut)
    }

    /// How many watches that match are running: upstream has begun to answer, and neither side has ended it.
    #[must_use]
    pub fn watching(&self, watches: &Match) -> usize {
        self.shared.lock().watching(watches)
    }

    /// Resets all connections, and every new one, until [`Proxy::come_back`]: the API server has gone. The port stays
    /// ours, so that clients see connections that are reset at once rather than refused.
    pub fn go_dark(&self) {
        let mut state = self.shared.lock();
        state.dark = true;
        for reset in state.connections.values() {
            reset.cancel();
        }
    }

    /// Stops reading and writing on all connections, present and new, until [`Proxy::come_back`], and closes none: the
    /// network has gone. Clients see connections that are made and then say nothing; afterwards, those that they have
    /// not given up go on.
    pub fn go_silent(&self) {
        self.shared.silence.begin();
    }

    /// Ends [`Proxy::go_dark`] and [`Proxy::go_silent`].
    pub fn come_back(&self) {
        self.shared.lock().dark = false;
        self.shared.silence.end();
    }

    /// The requests of clients since the counts were reset, by verb and resource, whatever became of them.
    #[must_use]
    pub fn requests(&self) -> Vec<RequestCount> {
        let mut counts = std::collections::BTreeMap::<_, u64>::new();
        for (request, count) in &self.shared.lock().requests {
            *counts.entry((request.verb, request.full_resource())).or_default() += count;
        }
        counts.into_iter().map(|((verb, resource), count)| RequestCount { verb, resource, count }).collect()
    }

    /// How many of the requests since the counts were reset match.
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

    /// Counts requests and accepted connections from nothing again.
    pub fn reset_counts(&self) {
        let mut state = self.shared.lock();
        state.requests.clear();
        state.accepted = 0;
    }

    /// Waits until `condition` holds. It is asked again whenever something that the proxy or a rule's handle counts has
    /// changed. There is no time limit: put one around it.
    pub async fn until(&self, condition: impl Fn() -> bool) {
        loop {
            // Enlisted before the condition is asked, or a change in between would be missed.
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

/// A rule in force. Dropping it removes the rule and releases what the rule holds.
#[must_use = "dropping the handle removes the rule"]
pub struct RuleHandle {
    tally: Arc<Tally>,
    shared: Arc<Shared>,
    kept: bool,
}

impl RuleHandle {
    /// How often it has happened.
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.tally.fired()
    }

    /// How many events it keeps back now.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.tally.held()
    }

    /// How many answers it has lost so far: upstream has given them, so what they answer is done. [`RuleHandle::fired`]
    /// counts a request as soon as it has come.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.tally.lost()
    }

    /// Removes the rule; what it holds comes, in order. The same as dropping the handle, where that is to be seen.
    pub fn remove(self) {}

    /// Lets the rule stay as long as the proxy.
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
