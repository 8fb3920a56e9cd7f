//! The proxy's state: rules, counts, connections, running watches. One lock, never held across an await.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::Client;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use crate::fault::Cut;
use crate::matching::Match;
use crate::request::RequestInfo;
use crate::rule::{EventPlan, RequestPlan, Rules};
use crate::socket::Silence;

/// Shared by the proxy, its connections and its watches.
pub(crate) struct Shared {
    pub(crate) upstream: Client,
    pub(crate) silence: Arc<Silence>,
    pub(crate) changed: Arc<Notify>,
    state: Mutex<State>,
}

pub(crate) struct State {
    pub(crate) rules: Rules,
    pub(crate) requests: BTreeMap<RequestInfo, u64>,
    pub(crate) accepted: u64,
    pub(crate) dark: bool,
    /// The next number of a connection or watch.
    next: u64,
    /// A token for each connection resets it.
    pub(crate) connections: BTreeMap<u64, CancellationToken>,
    watches: BTreeMap<u64, Running>,
}

struct Running {
    request: Arc<RequestInfo>,
    cut: mpsc::UnboundedSender<Cut>,
}

impl Shared {
    pub(crate) fn new(upstream: Client, seed: u64) -> Self {
        let changed = Arc::<Notify>::default();
        let state = State {
            rules: Rules::new(seed, Arc::clone(&changed)),
            requests: BTreeMap::new(),
            accepted: 0,
            dark: false,
            next: 0,
            connections: BTreeMap::new(),
            watches: BTreeMap::new(),
        };
        Self { upstream, silence: Arc::default(), changed, state: Mutex::new(state) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request and decides about it.
    pub(crate) fn admit(&self, request: &RequestInfo) -> RequestPlan {
        let mut state = self.lock();
        *state.requests.entry(request.clone()).or_default() += 1;
        let plan = state.rules.for_request(request);
        self.changed.notify_waiters();
        plan
    }

    /// Decides about an event of the watch with the number `watch`.
    pub(crate) fn plan_event(&self, request: &RequestInfo, watch: u64) -> EventPlan {
        self.lock().rules.for_event(request, watch)
    }

    /// Counts a connection. `None` if the proxy is dark.
    pub(crate) fn connect(self: &Arc<Self>) -> Option<Registration> {
        let mut state = self.lock();
        state.accepted += 1;
        let open = !state.dark;
        let registration = open.then(|| {
            let reset = CancellationToken::new();
            let number = state.number();
            state.connections.insert(number, reset.clone());
            Registration { shared: Arc::clone(self), number, reset }
        });
        self.changed.notify_waiters();
        registration
    }

    /// Registers a running watch, until the second value is dropped. The first value receives its cuts.
    pub(crate) fn begin_watch(
        self: &Arc<Self>,
        request: &Arc<RequestInfo>,
    ) -> (mpsc::UnboundedReceiver<Cut>, RunningWatch) {
        let (cut, cuts) = mpsc::unbounded_channel();
        let mut state = self.lock();
        let number = state.number();
        state.watches.insert(number, Running { request: Arc::clone(request), cut });
        self.changed.notify_waiters();
        (cuts, RunningWatch { shared: Arc::clone(self), number })
    }
}

impl State {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(crate) fn watching(&self, watches: &Match) -> usize {
        self.watches.values().filter(|it| watches.matches(&it.request)).count()
    }

    /// Notifies the running watches to end, and removes them, so that no watch is notified twice.
    pub(crate) fn cut(&mut self, watches: &Match, cut: Cut) -> usize {
        let before = self.watches.len();
        self.watches.retain(|_, it| {
            let is_meant = watches.matches(&it.request);
            // A watch that has just ended by itself is not cut.
            let is_told = is_meant && it.cut.send(cut).is_ok();
            !is_told
        });
        before - self.watches.len()
    }
}

/// An open connection, until dropped.
pub(crate) struct Registration {
    shared: Arc<Shared>,
    number: u64,
    pub(crate) reset: CancellationToken,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.shared.lock().connections.remove(&self.number);
        self.shared.changed.notify_waiters();
    }
}

/// A running watch, until dropped.
pub(crate) struct RunningWatch {
    shared: Arc<Shared>,
    pub(crate) number: u64,
}

impl Drop for RunningWatch {
    fn drop(&mut self) {
        self.shared.lock().watches.remove(&self.number);
        self.shared.changed.notify_waiters();
    }
}
