//! The state of a running call: the data of its store, which each import can access.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use wasmtime::Engine;
use windlass_core::call::ports::{CallContext, Ports, Reads, Surroundings};

use crate::counters::PluginCounters;
use crate::meter::Meter;
use crate::request::Replay;
use crate::text::single_line;
use crate::wasi_http_state::Requests;
use crate::wasi_state::WasiState;

/// The maximum size of the log text of `describe` that is kept.
const DESCRIBE_LOG_BYTES_MAX: usize = 2 << 10;

/// The state of one call.
pub(crate) struct CallState {
    pub(crate) meter: Meter,
    pub(crate) world: World,
    /// The component's script, if it has one.
    pub(crate) script: Option<Arc<str>>,
    /// The import in which the guest waits, for the message of a deadline.
    pub(crate) waiting_in: Option<&'static str>,
    /// The last line that the guest logged as an error, or the first one of `describe`. If a trap follows, this is its
    /// reason.
    pub(crate) last_error: Option<String>,
    /// The import through which `describe` logged `last_error`.
    logged_by: Option<&'static str>,
    /// The time that has passed for the guest because it slept, if time otherwise stands still.
    slept: Duration,
    /// The last real time that the guest has seen.
    latest: Duration,
    /// `None` if the guest has not used WASI.
    wasi: Option<Box<WasiState>>,
    /// The engine that runs the guest.
    engine: Engine,
}

/// The environment that the imports can access.
pub(crate) enum World {
    /// `describe`: time stands still, random data is fixed, everything else is refused.
    Describe(Box<DescribeWorld>),
    /// `reconcile`: the real world.
    Reconcile(ReconcileWorld),
    /// An export that only answers, such as `compose`: time stands still, random data is derived from the request, and
    /// no action is possible. Mappers may read caches.
    Answer(Box<AnswerWorld>),
    /// The instance is parked.
    Parked,
}

impl World {
    /// The call's context. `None` in `describe`.
    pub(crate) fn call(&self) -> Option<&CallContext> {
        match self {
            Self::Describe(_) | Self::Parked => None,
            Self::Reconcile(world) => Some(&world.call),
            Self::Answer(world) => Some(&world.call),
        }
    }

    /// The source of time and random data, if it is not the host itself.
    pub(crate) fn surroundings(&self) -> Option<&dyn Surroundings> {
        match self {
            Self::Reconcile(world) => world.ports.surroundings.as_deref(),
            Self::Describe(_) | Self::Answer(_) | Self::Parked => None,
        }
    }

    /// The time, if time stands still. `None` if time is real.
    fn fixed_now(&self) -> Option<Duration> {
        match self {
            Self::Describe(world) => Some(world.now),
            Self::Reconcile(world) => world.replayed.as_ref().map(|replayed| replayed.now),
            Self::Answer(world) => Some(world.now),
            Self::Parked => Some(Duration::ZERO),
        }
    }

    /// Fills `bytes` from the random source of the call.
    pub(crate) fn fill_random(&mut self, bytes: &mut [u8]) {
        self.gets_chance();
        match self {
            Self::Describe(world) => world.random.fill_bytes(bytes),
            Self::Reconcile(world) => world.fill_random(bytes),
            Self::Answer(world) => world.random.fill_bytes(bytes),
            Self::Parked => windlass_world::fill(bytes),
        }
    }

    /// The counters of the plugin.
    pub(crate) fn counters(&self) -> Option<&PluginCounters> {
        match self {
            Self::Describe(_) | Self::Parked => None,
            Self::Reconcile(world) => Some(&world.counters),
            Self::Answer(world) => Some(&world.counters),
        }
    }
}

/// The world of an export that only answers.
pub(crate) struct AnswerWorld {
    pub(crate) export: &'static str,
    /// The caches that the export may read. `None` if its answer must follow from its arguments.
    pub(crate) reads: Option<Arc<dyn Reads>>,
    pub(crate) call: Arc<CallContext>,
    pub(crate) counters: Arc<PluginCounters>,
    pub(crate) now: Duration,
    pub(crate) random: StdRng,
}

/// The world of one of the two runs of `describe`.
pub(crate) struct DescribeWorld {
    pub(crate) now: Duration,
    pub(crate) random: StdRng,
}

/// The world of a `reconcile`.
pub(crate) struct ReconcileWorld {
    pub(crate) ports: Ports,
    pub(crate) call: Arc<CallContext>,
    pub(crate) counters: Arc<PluginCounters>,
    /// The fixed data of a call that must repeat another call. `None` if time and random data are real.
    replayed: Option<Box<Replayed>>,
}

/// Time and random data of a call that can be repeated.
struct Replayed {
    now: Duration,
    random: StdRng,
}

impl ReconcileWorld {
    /// Whether its random data follow from a recording or a replay, or are recorded.
    pub(crate) fn is_repeated(&self) -> bool {
        self.replayed.is_some() || self.ports.surroundings.is_some()
    }

    pub(crate) fn new(
        ports: Ports,
        call: Arc<CallContext>,
        counters: Arc<PluginCounters>,
        replay: Option<Replay>,
    ) -> Self {
        let replayed = replay.map(|Replay { now, seed }| Replayed { now, random: StdRng::from_seed(seed) });
        Self { ports, call, counters, replayed: replayed.map(Box::new) }
    }

    /// Fills `bytes` with unpredictable data, unless the call can be repeated.
    fn fill_random(&mut self, bytes: &mut [u8]) {
        match (&mut self.replayed, &self.ports.surroundings) {
            (Some(replayed), _) => replayed.random.fill_bytes(bytes),
            (None, Some(surroundings)) => surroundings.fill_random(bytes),
            (None, None) => windlass_world::fill(bytes),
        }
    }
}

/// An export that only answers called an import that it may not call. This error travels through wasmtime as the cause
/// of the trap.
#[derive(Debug, thiserror::Error)]
#[error("`{export}` calls `{import}`, but it may only answer{}", if matches!(*.export, "map" | "matches") { ", and may read caches" } else { "" })]
pub(crate) struct ForbiddenImport {
    pub(crate) export: &'static str,
    pub(crate) import: &'static str,
}

/// A component without a script asked for its script. This error travels through wasmtime as the cause of the trap.
#[derive(Debug, thiserror::Error)]
#[error(
    "it asks for its script and contains none: a script is the last section of a component, `windlass:script`, with at most \
     4 MiB of UTF-8; `windlass build` joins an interpreter with a script"
)]
pub(crate) struct NoScript;

/// The host itself failed while it worked for a guest. This error travels through wasmtime as the cause of the trap.
#[derive(Debug, thiserror::Error)]
#[error("the host failed in {import}: {cause}")]
pub(crate) struct HostFailed {
    pub(crate) import: &'static str,
    pub(crate) cause: String,
}

impl HostFailed {
    /// The failure in `import` because of `cause`.
    pub(crate) fn in_import(import: &'static str, cause: &str) -> wasmtime::Error {
        Self { import, cause: cause.to_owned() }.into()
    }
}

impl CallState {
    pub(crate) fn new(meter: Meter, world: World, script: Option<Arc<str>>, engine: Engine) -> Self {
        let (waiting_in, last_error, logged_by) = (None, None, None);
        let (slept, latest) = (Duration::ZERO, Duration::ZERO);
        Self { meter, world, script, waiting_in, last_error, logged_by, slept, latest, wasi: None, engine }
    }

    /// Releases all data of the call, so that nothing keeps it alive while the instance is parked.
    pub(crate) fn park(&mut self) {
        (self.world, self.waiting_in, self.last_error, self.logged_by) = (World::Parked, None, None, None);
        (self.slept, self.latest) = (Duration::ZERO, Duration::ZERO);
        if let Some(wasi) = self.used_wasi() {
            wasi.http.requests.end();
        }
    }

    /// The guest's text without the secrets of its configuration.
    pub(crate) fn redacted<'a>(&self, said: &'a str) -> Cow<'a, str> {
        self.world.call().map_or(Cow::Borrowed(said), |call| call.config.redact(said))
    }

    /// Whether a line of this size is searched for secrets. A line for which the call's log budget has no room is not
    /// searched, because a guest could otherwise make the host search forever. A short line that may explain a trap
    /// (`may_explain`) is searched nevertheless.
    pub(crate) fn looks_for_secrets_in(&self, bytes: usize, may_explain: bool) -> bool {
        self.world.call().is_none_or(|call| !call.config.has_secrets())
            || self.meter.has_log_budget()
            || (may_explain && bytes <= self.meter.limits().log_line_bytes)
    }

    /// The time since 1970 that the guest gets.
    pub(crate) fn now(&mut self) -> Duration {
        self.world.gets_time();
        self.time()
    }

    /// The time since 1970. It never goes back within a call.
    pub(crate) fn time(&mut self) -> Duration {
        if let Some(fixed) = self.world.fixed_now() {
            return fixed + self.slept;
        }
        let really = windlass_world::now();
        let now = self.world.surroundings().map_or(really, |surroundings| surroundings.now(really));
        self.latest = self.latest.max(now);
        self.latest
    }

    /// The guest's monotonic clock, in nanoseconds.
    pub(crate) fn monotonic(&mut self) -> u64 {
        let now = if let Some(fixed) = self.world.fixed_now() {
            fixed + self.slept
        } else {
            // The clock does not start at zero, because some runtimes treat that as a broken clock.
            let really = Duration::from_secs(1) + self.wasi().epoch.elapsed();
            self.world.surroundings().map_or(really, |surroundings| surroundings.monotonic(really))
        };
        u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
    }

    /// If time stands still, advances it by `time` and returns true. Returns false if time is real.
    pub(crate) fn passes_at_once(&mut self, time: Duration) -> bool {
        let is_simulated = self.is_time_simulated();
        if is_simulated {
            self.slept = self.slept.saturating_add(time);
        }
        is_simulated
    }

    /// Whether time stands still except for waits, which pass at once.
    pub(crate) fn is_time_simulated(&self) -> bool {
        self.world.fixed_now().is_some() || self.world.surroundings().is_some_and(Surroundings::is_simulated)
    }

    /// Takes the requests of `wasi:http` that continue while the call waits for something else; [`Self::give_back`]
    /// must follow. `None` if there are none, or if the call is a replay, which answers only the requests whose answers
    /// the guest must see.
    pub(crate) fn take_requests(&mut self) -> Option<Requests> {
        if self.is_time_simulated() {
            return None;
        }
        self.used_wasi()?.http.take_requests()
    }

    /// Returns the requests after the wait.
    pub(crate) fn give_back(&mut self, requests: Option<Requests>) {
        if let Some((requests, wasi)) = requests.zip(self.used_wasi()) {
            wasi.http.requests = requests;
        }
    }

    /// The state of WASI, which is created when the guest first uses WASI.
    pub(crate) fn wasi(&mut self) -> &mut WasiState {
        self.wasi.get_or_insert_default()
    }

    /// The state of WASI, if the guest has used it.
    pub(crate) fn used_wasi(&mut self) -> Option<&mut WasiState> {
        self.wasi.as_deref_mut()
    }

    /// Whether the guest has left so many handles of WASI that the next call would have room for fewer than 2,048.
    pub(crate) fn keeps_handles(&mut self) -> bool {
        self.wasi.as_mut().is_some_and(|wasi| wasi.keeps_handles())
    }

    /// Reports at trace level that the guest calls `import`, for listeners such as `windlass check`.
    pub(crate) fn note_import(&self, import: &'static str) {
        if self.world.call().is_some() {
            tracing::trace!(target: "windlass::imports", %import);
        }
    }

    /// Counts an import call of any interface; every import call passes here. After too many calls, the guest is
    /// stopped at its next check of the epoch, which is always the same place.
    pub(crate) fn called(&mut self) -> &mut Self {
        if self.meter.import_call() {
            self.engine.increment_epoch();
        }
        self
    }

    /// Counts a call of `import`, and returns the world to act on. Only `reconcile` may act.
    pub(crate) fn enter(&mut self, import: &'static str) -> wasmtime::Result<&mut ReconcileWorld> {
        self.count_call(import)?;
        self.reconcile(import)
    }

    /// As [`Self::enter`], for reads of caches, which a mapper may make too. Returns the caches, and the call that
    /// reads them.
    pub(crate) fn enter_reads(
        &mut self,
        import: &'static str,
    ) -> wasmtime::Result<(&Arc<dyn Reads>, &Arc<CallContext>)> {
        self.count_call(import)?;
        match &self.world {
            World::Reconcile(world) => Ok((&world.ports.reads, &world.call)),
            World::Answer(world) => match &world.reads {
                Some(reads) => Ok((reads, &world.call)),
                None => Err(ForbiddenImport { export: world.export, import }.into()),
            },
            World::Describe(_) | World::Parked => Err(ForbiddenImport { export: "describe", import }.into()),
        }
    }

    fn count_call(&mut self, import: &'static str) -> wasmtime::Result<()> {
        self.note_import(import);
        self.meter.host_call()?;
        if let Some(surroundings) = self.world.surroundings() {
            surroundings.enters(self.meter.cpu());
        }
        Ok(())
    }

    /// Whether the call is about a primary. A mapper's call is not.
    pub(crate) fn has_primary(&self) -> bool {
        matches!(self.world, World::Reconcile(_))
    }

    /// As [`Self::enter`], for imports that cost hardly anything.
    pub(crate) fn reconcile(&mut self, import: &'static str) -> wasmtime::Result<&mut ReconcileWorld> {
        match &mut self.world {
            World::Reconcile(world) => Ok(world),
            World::Describe(_) | World::Parked => Err(ForbiddenImport { export: "describe", import }.into()),
            // For composers, these imports are not linked. This check is only a second safeguard.
            World::Answer(world) => Err(ForbiddenImport { export: world.export, import }.into()),
        }
    }

    /// Keeps a text that may explain a trap.
    pub(crate) fn note_error(&mut self, message: String) {
        self.last_error = Some(message);
    }

    /// Keeps the end of the text that the guest writes to standard error, as [`note_error`](Self::note_error) does,
    /// because a runtime prints a panic in several lines.
    pub(crate) fn note_stderr(&mut self, line: &str) {
        let noted = self.last_error.get_or_insert_default();
        noted.push_str(if noted.is_empty() { "" } else { " " });
        noted.push_str(line);
        let over = noted.len().saturating_sub(DESCRIBE_LOG_BYTES_MAX);
        noted.drain(..noted.ceil_char_boundary(over));
    }

    /// Keeps the beginning of the text that is logged by `import` outside of a call.
    pub(crate) fn note_said(&mut self, import: &'static str, message: &str) {
        self.logged_by.get_or_insert(import);
        let said = self.last_error.get_or_insert_default();
        if said.len() < DESCRIBE_LOG_BYTES_MAX {
            said.push_str(if said.is_empty() { "" } else { " " });
            said.push_str(&single_line(message, DESCRIBE_LOG_BYTES_MAX - said.len().min(DESCRIBE_LOG_BYTES_MAX)));
        }
    }

    /// Checks at the end of `describe` that the guest has not logged.
    pub(crate) fn said_nothing(&self) -> wasmtime::Result<()> {
        self.logged_by.map_or(Ok(()), |import| Err(ForbiddenImport { export: "describe", import }.into()))
    }
}
