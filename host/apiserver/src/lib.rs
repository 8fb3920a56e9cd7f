//! Windlass's embedded Kubernetes API server: real HTTP on loopback, state in memory.
//!
//! It is for `windlass dev`, demos and tests; `kubectl` and any other client can use it. It is not a whole cluster:
//! README.md lists what is missing. A request passes through these modules: `server` (HTTP, `server/route`) → `request`
//! (parsing) → `verbs` (one file per verb, under one lock), which applies the `rules` and calls `merge` and `schema` →
//! `storage` (the state and its history) → `server` again (`watch`, `respond`, `represent`, `table`), which answers. If
//! `admission` or a conversion needs a webhook, `server/consulted` calls it and then serves the request again.
//! `controllers` react to changes like a cluster's controllers.
//!
//! ```no_run
//! # async fn example() -> Result<(), windlass_apiserver::StartError> {
//! use windlass_apiserver::{ApiServer, Config};
//!
//! let server = ApiServer::start(Config::default()).await?;
//! println!("{}", server.kubeconfig());
//! server.shutdown().await;
//! # Ok(())
//! # }
//! ```

#![deny(missing_docs)]

mod admission;
mod authn;
mod authz;
mod cause;
mod cel;
mod clock;
mod consultation;
mod controllers;
mod files;
mod kubeconfig;
mod merge;
mod object;
mod pattern;
mod pieces;
mod protobuf;
mod reactors;
mod request;
mod request_counts;
mod resources;
mod rules;
mod schema;
mod server;
mod standalone;
mod status_error;
mod storage;
#[cfg(feature = "tls")]
mod tls;
mod tokens;
mod verbs;
mod warnings;
mod webhooks;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

pub use crate::authn::StaticToken;
pub use crate::authz::Authorization;
pub use crate::cel::Condition;
pub use crate::clock::Clock;
pub use crate::controllers::{StandIns, UnknownStandIn};
pub use crate::files::{LoadError, ReactorFileError, StateFileError};
pub use crate::reactors::{
    CallSelector, ClockLeap, CommitSide, ConnectionDrop, EditKind, ErrorAnswer, EventCount, ForeignEdit, Nothing,
    OlderState, Pause, Reaction, ReactorCount, ReactorDocument, ReactorError, ReactorRule, Reactors, RequestFilter,
    WatchCut, WatchEnd, WatchHide, WatchHold,
};
pub use crate::request_counts::RequestCount;
pub use crate::server::{ApiService, ConnectionDropped};
pub use crate::standalone::{StandaloneError, StandaloneOptions, serve};
pub use crate::storage::Snapshot;
#[cfg(feature = "tls")]
pub use crate::tls::{ServerCertificate, Tls, TlsError};

use crate::authn::Authenticator;
use crate::clock::Chance;
use crate::kubeconfig::Credentials;
use crate::server::Context;
use crate::server::listen::Transport;
use crate::storage::state::Shared;

/// The configuration of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The listening address; port 0 selects a free port.
    pub address: SocketAddr,
    /// The controllers, and the parts of a node, that the server simulates.
    pub stand_ins: StandIns,
    /// Whether dependents are deleted with their owners. If this and `namespace_deletion` are false and there are no
    /// `stand_ins`, the server has no controllers, like envtest's.
    pub garbage_collection: bool,
    /// Whether a deleted namespace is emptied and removed. Otherwise it stays in phase Terminating.
    pub namespace_deletion: bool,
    /// The number of changes that are kept for each resource, so that watches can resume.
    pub watch_history: usize,
    /// The clock for timestamps.
    pub clock: Clock,
    /// The seed for UIDs and generated names. `None` for the system's randomness.
    pub seed: Option<u64>,
    /// The authorization mode.
    pub authorization: Authorization,
    /// The tokens of further users. The administrator's token is in [`ApiServer::kubeconfig`].
    pub tokens: Vec<StaticToken>,
    /// The settings for HTTPS. `None` means HTTP.
    #[cfg(feature = "tls")]
    pub tls: Option<Tls>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            stand_ins: StandIns::default(),
            garbage_collection: true,
            namespace_deletion: true,
            watch_history: 4096,
            clock: Clock::Wall,
            seed: None,
            authorization: Authorization::AlwaysAllow,
            tokens: Vec::new(),
            #[cfg(feature = "tls")]
            tls: None,
        }
    }
}

/// Why the server could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address is in use, or does not belong to this machine.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address of the configuration.
        address: SocketAddr,
        /// The operating system's error.
        #[source]
        source: std::io::Error,
    },
    /// The TLS configuration cannot be used.
    #[cfg(feature = "tls")]
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// A running server. Dropping it stops it without waiting; [`ApiServer::shutdown`] waits.
pub struct ApiServer {
    context: Context,
    token: Option<String>,
    /// The authority (PEM) of the server's certificate. `None` for plain HTTP.
    authority: Option<String>,
    /// The administrator's client certificate and key (PEM) for HTTPS.
    administrator: Option<(String, String)>,
    tasks: JoinSet<()>,
    /// The file to which the state is written at the end.
    kept: Option<PathBuf>,
}

impl ApiServer {
    /// Starts to listen, and serves requests on the current tokio runtime.
    pub async fn start(config: Config) -> Result<ApiServer, StartError> {
        let listen = |source| StartError::Listen { address: config.address, source };
        let listener = TcpListener::bind(config.address).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let mut server = ApiServer::new(&config, address, None);
        let transport = server.transport(&config)?;
        let stop = server.context.shared.stop.clone();
        server.tasks.spawn(server::listen::serve(listener, transport, server.service(), stop));
        Ok(server)
    }

    #[cfg(feature = "tls")]
    fn transport(&mut self, config: &Config) -> Result<Transport, StartError> {
        let Some(tls) = &config.tls else { return Ok(Transport::Plain) };
        let prepared = tls.prepare()?;
        self.authority = Some(prepared.authority);
        self.administrator = Some(prepared.administrator);
        Ok(Transport::Tls(prepared.acceptor))
    }

    #[cfg(not(feature = "tls"))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "with the feature `tls` it may fail")]
    fn transport(&self, _: &Config) -> Result<Transport, StartError> {
        Ok(Transport::Plain)
    }

    /// Starts a server without a socket, which serves only this process, through [`ApiServer::service`]. Its tasks run
    /// on the current tokio runtime. With a single-threaded runtime, paused time, an injected clock and a seed, two
    /// runs are identical to the byte, except for webhooks.
    #[must_use]
    pub fn in_process(config: &Config) -> ApiServer {
        ApiServer::new(config, config.address, None)
    }

    /// Like [`ApiServer::in_process`], with the state of another server or of an earlier moment.
    #[must_use]
    pub fn from_snapshot(config: &Config, snapshot: &Snapshot) -> ApiServer {
        ApiServer::new(config, config.address, Some(snapshot))
    }

    fn new(config: &Config, address: SocketAddr, snapshot: Option<&Snapshot>) -> ApiServer {
        let shared = Arc::new(Shared::new(config.watch_history, config.clock, config.seed));
        let by_roles = config.authorization == Authorization::Rbac;
        let token = clock::secret::<16>(config.seed).map(|byte| format!("{byte:02x}")).concat();
        let authenticator = Arc::new(Authenticator::new(by_roles, token.clone(), config.tokens.clone()));
        {
            let mut state = shared.lock();
            state.by_roles = by_roles;
            (state.collects, state.empties_namespaces) = (config.garbage_collection, config.namespace_deletion);
        }
        match snapshot {
            Some(snapshot) => snapshot.restore(&shared),
            None => controllers::bootstrap::populate(&mut shared.lock(), address, config.stand_ins),
        }
        let mut tasks = JoinSet::new();
        tasks.spawn(controllers::run(Arc::clone(&shared), config.stand_ins));
        ApiServer {
            context: Context { shared, authenticator, reactors: Reactors::default(), address },
            token: by_roles.then_some(token),
            authority: None,
            administrator: None,
            tasks,
            kept: None,
        }
    }

    /// The server as a service that can be called within this process.
    #[must_use]
    pub fn service(&self) -> ApiService {
        ApiService::new(self.context.clone())
    }

    /// A copy of the current state.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::take(&self.context.shared)
    }

    /// The resource version of the server's last change.
    #[must_use]
    pub fn resource_version(&self) -> u64 {
        self.context.shared.lock().store.revision()
    }

    /// Restores a snapshot. Running watches end. A client that continues from a version that no longer exists gets an
    /// error.
    pub fn restore(&self, snapshot: &Snapshot) {
        snapshot.restore(&self.context.shared);
    }

    /// Applies the manifests in a folder and its subfolders (`*.yaml`, `*.yml`, `*.json`), or in one file. Namespaces
    /// come first, then definitions, then all other objects, in the order of file names and documents. Statuses are not
    /// loaded. Returns the number of objects.
    ///
    /// # Errors
    /// If a file or document is invalid. The error names it, and nothing is loaded.
    pub fn load(&self, path: &Path) -> Result<usize, LoadError> {
        files::load(&mut self.context.shared.lock(), path)
    }

    /// Replaces the state by that of a file from [`ApiServer::write_state`]. False if there is no such file.
    ///
    /// # Errors
    /// If the file is damaged, or not a state file. The state is then unchanged.
    pub fn read_state(&self, path: &Path) -> Result<bool, StateFileError> {
        files::read(&mut self.context.shared.lock(), path)
    }

    /// Writes all objects to a file atomically.
    ///
    /// # Errors
    /// If the operating system refuses it.
    pub fn write_state(&self, path: &Path) -> Result<(), StateFileError> {
        // The clone is cheap, because it shares the objects. Requests need not wait for the disk.
        let state = self.context.shared.lock().clone();
        files::write(&state, path)
    }

    /// Reads the state from a file, and from then on writes the state to it: a second after each change, and at the
    /// end. False if there is no such file yet.
    ///
    /// # Errors
    /// As in [`ApiServer::read_state`]. After an error, nothing is written.
    pub fn keep_state(&mut self, path: &Path) -> Result<bool, StateFileError> {
        let was_there = self.read_state(path)?;
        self.tasks.spawn(files::keep(Arc::clone(&self.context.shared), path.to_owned()));
        self.kept = Some(path.to_owned());
        Ok(was_there)
    }

    /// The rules that disturb requests, for example by errors. A new server has no rules.
    #[must_use]
    pub fn reactors(&self) -> Reactors {
        self.context.reactors.clone()
    }

    /// Uses the reactors in a file, now and whenever the file changes. If a later text is invalid, the server logs a
    /// warning and keeps the previous rules.
    ///
    /// # Errors
    /// If the file cannot be used now.
    pub fn follow_reactors(&mut self, path: &Path) -> Result<(), ReactorFileError> {
        let reactors = self.reactors();
        let text = files::use_reactors(&reactors, path)?;
        let stop = self.context.shared.stop.clone();
        let follow = files::follow_reactors(reactors, path.to_owned(), text);
        self.tasks.spawn(async move {
            stop.run_until_cancelled(follow).await;
        });
        Ok(())
    }

    /// Sets another seed for UIDs and generated names from now on.
    pub fn reseed(&self, seed: u64) {
        self.context.shared.lock().chance = Chance::new(Some(seed));
    }

    /// Sets the clock forward.
    pub fn advance_clock(&self, by: Duration) {
        self.context.shared.lock().time.leap(SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX));
    }

    /// The listening address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.context.address
    }

    /// The server's URL, as in a kubeconfig.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.authority.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.context.address)
    }

    /// The authority (PEM) that signed the server's certificate. `None` without TLS.
    #[must_use]
    pub fn authority(&self) -> Option<&str> {
        self.authority.as_deref()
    }

    /// The administrator's bearer token. `None` if there is no authorization.
    #[must_use]
    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// The administrator's kubeconfig (YAML) with the context `windlass`. For HTTPS it has a client certificate, like
    /// envtest's. For HTTP it has a token if there is authorization.
    #[must_use]
    pub fn kubeconfig(&self) -> String {
        let credentials = Credentials { token: self.token.as_deref(), certificate: self.administrator.as_ref() };
        kubeconfig::text(&self.url(), self.authority.as_deref(), &credentials)
    }

    /// Counts of the requests served so far, ordered by client, verb and resource.
    #[must_use]
    pub fn requests(&self) -> Vec<RequestCount> {
        self.context.shared.counts.all()
    }

    /// Discards the history. Running watches, unfinished paged lists and requests for older versions get a 410.
    pub fn compact(&self) {
        self.context.shared.lock().store.compact();
    }

    /// Stops the server: ends watches and open connections, and waits until all of its tasks have ended.
    pub async fn shutdown(mut self) {
        self.context.shared.stop.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            if let Err(error) = ended {
                tracing::debug!(%error, "a task of the embedded API server failed");
            }
        }
        if let Some(path) = &self.kept
            && let Err(error) = self.write_state(path)
        {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, "cannot save the last state; the next start uses the previous one");
        }
    }
}

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiServer").field("address", &self.context.address).finish_non_exhaustive()
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.context.shared.stop.cancel();
    }
}
