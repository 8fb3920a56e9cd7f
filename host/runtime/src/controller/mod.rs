//! One controller's life: it waits until its kinds are served, runs until one of them goes, and waits again. The
//! controller of the plugin's next generation takes over its [`handover`].

mod admit;
mod assemble;
mod begin;
mod callee;
mod forbidden;
mod gain_pauses;
mod gained;
mod handover;
pub(crate) mod kinds;
mod muted;
mod prepared;
mod reporter;
mod resync;
pub(crate) mod running;
mod served;
mod start;
mod suspended;
mod timing;
mod warm;
mod watching;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use windlass_core::budget::fair::CpuShare;
use windlass_kube::{Budget, LiveReader};
use windlass_manifest::Controller as Declared;
use windlass_wasm::Plugin;

use self::begin::StartedRound;
use self::handover::kept::ActiveRound;
pub(crate) use self::handover::kept::Handover;
use self::handover::takeover::Takeover;
use self::kinds::ControllerIdentity;
use self::reporter::GenerationReport;
use self::watching::{KindLoss, Watching};
use crate::admission::Admitted;
use crate::controller::running::Running;
use crate::dispatch::call_record::CallRecord;
use crate::dispatch::configured::Configured;
use crate::host::Host;
use crate::leadership::PluginTerm;
use crate::observe::status::ControllerState;
use crate::phases::{ControllerEnd, Phases, kept_up, tracker};
use crate::supervise::jittered;
use crate::suspension::Suspension;

/// Whether the plugin's definitions are installed as it needs them.
pub(crate) type Ready = watch::Receiver<bool>;

/// The first pause before the kinds of a controller are resolved again. It doubles.
const RESOLVE_BACKOFF_MIN: Duration = Duration::from_millis(500);

/// The parts that all controllers of one generation share.
#[derive(Clone)]
pub(crate) struct GenerationParts {
    pub(crate) host: Arc<Host>,
    pub(crate) plugin: Arc<Plugin>,
    /// The plugin's share of the host's permits.
    pub(crate) share: CpuShare,
    /// The memory budget of the generation's caches.
    pub(crate) budget: Arc<Budget>,
    /// Knows whether the generation is suspended because its caches are too large.
    pub(crate) suspension: Arc<Suspension>,
    /// The plugin's reads from the API server itself.
    pub(crate) live: LiveReader,
    /// Counts how the generation's calls end.
    pub(crate) record: Arc<CallRecord>,
    /// The plugin's configuration, as the generation describes it.
    pub(crate) configured: Configured,
}

/// One controller of one generation of a plugin.
#[derive(Clone)]
pub(crate) struct Controller {
    parts: GenerationParts,
    identity: ControllerIdentity,
    handover: Arc<Handover>,
    /// The status of this generation.
    report: Arc<GenerationReport>,
    /// Whether the plugin's definitions are installed.
    ready: Ready,
    /// The right to run.
    term: PluginTerm,
    /// The workers of all rounds of this generation in this term.
    workers: TaskTracker,
    /// Notified of each change that a generation that is getting ready may wait for.
    changed: Arc<Notify>,
    /// Set if it replaces another generation's controller.
    takeover: Option<Arc<Takeover>>,
}

/// How a round ends.
#[derive(Debug, PartialEq, Eq)]
enum RoundEnd {
    /// The controller ends with its round.
    Ended(ControllerEnd),
    /// Something that the controller watches is gone. It begins another round when it can.
    Lost(KindLoss),
}

impl Controller {
    /// A controller of a generation. It does nothing yet.
    pub(crate) fn new(parts: GenerationParts, handover: Arc<Handover>, identity: ControllerIdentity) -> Self {
        let (ready, term) = (watch::channel(true).1, PluginTerm::unshared(&CancellationToken::new()));
        let (report, changed, workers, takeover) = (Arc::default(), Arc::default(), tracker(), None);
        Self { parts, identity, handover, report, ready, term, workers, changed, takeover }
    }

    /// The same controller for one term, which begins when the plugin's definitions are `ready`. `changed` is notified
    /// when the controller is no longer at work.
    pub(crate) fn under(&self, term: &PluginTerm, ready: Ready, changed: &Arc<Notify>) -> Self {
        let report = Arc::default();
        self.handover.reporter.follow(&report);
        let (term, changed) = (term.clone(), changed.clone());
        Self { report, ready, term, workers: tracker(), changed, takeover: None, ..self.clone() }
    }

    /// The same controller for a lease term in which another generation works until this one `may_begin`. `changed` is
    /// also notified of its progress.
    pub(crate) fn after(
        &self,
        term: &PluginTerm,
        ready: Ready,
        may_begin: &CancellationToken,
        changed: &Arc<Notify>,
    ) -> Self {
        let takeover = Some(Arc::new(Takeover::new(may_begin.clone())));
        let (report, term, changed) = (Arc::default(), term.clone(), changed.clone());
        Self { report, ready, term, workers: tracker(), changed, takeover, ..self.clone() }
    }

    /// Its name in logs, metrics and status.
    pub(crate) fn name(&self) -> &str {
        &self.identity.name
    }

    pub(crate) fn plugin_name(&self) -> &str {
        self.parts.plugin.name()
    }

    pub(crate) fn handover(&self) -> &Arc<Handover> {
        &self.handover
    }

    /// Reports the controller's state, and the reason for it.
    fn report_state(&self, state: ControllerState, reason: Option<String>) {
        self.handover.reporter.report(&self.report, state, reason);
        self.show_unsuspended();
    }

    /// Runs until the host stops, and then until the running calls have ended. Restarts after panics.
    pub(crate) async fn run(&self, phases: &Phases) -> ControllerEnd {
        let calls = || self.workers.wait();
        kept_up("controller", &self.parts.host.panics, phases, calls, || self.rounds(phases)).await
    }

    async fn rounds(&self, phases: &Phases) -> ControllerEnd {
        let stop = &phases.stop;
        if !self.prepared(stop).await {
            return ControllerEnd::Clean;
        }
        if self.stands_for_kinds() {
            self.say_no_kinds();
            stop.cancelled().await;
            return ControllerEnd::Clean;
        }
        loop {
            let Some(excesses) = stop.run_until_cancelled(self.unsuspended()).await else {
                return ControllerEnd::Clean;
            };
            let definitions = self.parts.host.kinds.snapshot();
            let Admitted { resolved, live, terms } = match stop.run_until_cancelled(self.admitted()).await {
                Some(Some(admitted)) => admitted,
                Some(None) => {
                    self.report_state(ControllerState::Stopped, Some("see the log".to_owned()));
                    if self.identity.kind.is_some() {
                        // The plugin goes on, because its configuration may name another kind later.
                        stop.cancelled().await;
                        return ControllerEnd::Clean;
                    }
                    return ControllerEnd::Impossible;
                }
                None => return ControllerEnd::Clean,
            };
            // Everything that the controller waited for is there.
            self.report_state(ControllerState::Starting, None);
            let watching = self.subscribe(resolved, live, &terms);
            let (bound, revoked) = self.bound(&watching, terms);
            let gone = self.gone(&watching, excesses, &definitions, revoked);
            // Poll `bound` first, because a revocation must not wait for anything. Poll it until the round's last call
            // has ended.
            let round = tokio::select! {
                biased;
                never = bound => match never {},
                round = self.round(watching, gone, phases) => round,
            };
            let kind = match round {
                RoundEnd::Ended(end) => return end,
                RoundEnd::Lost(KindLoss::NotServed(kind) | KindLoss::Redefined(kind)) => kind,
                RoundEnd::Lost(
                    KindLoss::OverBudget(_)
                    | KindLoss::Revoked(_)
                    | KindLoss::OtherKinds
                    | KindLoss::Gained(_)
                    | KindLoss::Forbidden(_),
                ) => continue,
            };
            if kind == self.with_kinds().primary.object_kind() {
                self.handover.left.forget_gone();
            }
            // The server's discovery takes a moment to drop a kind that has gone.
            stop.run_until_cancelled(tokio::time::sleep(jittered(RESOLVE_BACKOFF_MIN))).await;
            self.parts.host.discovery.invalidate(kind.group());
        }
    }

    /// Handles the end of a round and its calls. Keeps the keys whose writes the caches have not shown, and drops the
    /// round's gate, which would keep its caches in memory. If another generation has the round's queue, it may use the
    /// gate as well.
    fn rests(&self, active: &ActiveRound) {
        if let Some(gate) = active.gate.as_ref().filter(|_| !active.retired.is_cancelled()) {
            self.handover.prior.rest(gate);
        }
    }

    /// Works until `stop` or until a kind is lost.
    async fn round(&self, watching: Watching, mut gone: BoxFuture<'static, KindLoss>, phases: &Phases) -> RoundEnd {
        let _in_round = self.takeover.as_ref().map(|takeover| takeover.round(&self.changed));
        let takeover = self.takeover.as_ref().filter(|takeover| !takeover.may_begin.is_cancelled());
        let started = match takeover {
            Some(takeover) => self.begin_in_place(takeover, watching, &mut gone, phases).await,
            None => self.begin(watching, &mut gone, phases).await,
        };
        let started = match started {
            Ok(started) => started,
            Err(end) => return end,
        };
        let active = started.active.clone();
        let end = self.at_work(started, gone, phases).await;
        self.rests(&active);
        end
    }

    /// Works until `stop` or until a kind is lost.
    async fn at_work(
        &self,
        StartedRound { running, active, beginning, left_out, gained }: StartedRound,
        gone: BoxFuture<'static, KindLoss>,
        phases: &Phases,
    ) -> RoundEnd {
        let shown_active = self.handover.activate(&active);
        self.parts.host.earlier_rounds.note(self.parts.plugin.name(), self.name());
        self.work(&running, left_out);
        drop(beginning);
        let hooked = self.serve_hooks(&running);
        if let Some(takeover) = &self.takeover {
            takeover.has_begun();
            self.changed.notify_one();
        }
        let loss = tokio::select! {
            biased;
            () = phases.stop.cancelled() => None,
            loss = gone => Some(loss),
            loss = gained => Some(loss),
        };
        drop((hooked, shown_active));
        // A generation that is getting ready no longer has to wait for this one.
        self.changed.notify_one();
        if active.retired.is_cancelled() {
            return RoundEnd::Ended(
                phases.until_cut(running.retire(&active.relieved, || active.leave_abandoned())).await,
            );
        }
        match loss {
            Some(loss) => self.lose(running, loss, phases).await,
            None if self.term.ends.is_cancelled() => RoundEnd::Ended(running.end().await),
            // The other generation starts with a queue of its own, and gets the keys that this round leaves.
            None => RoundEnd::Ended(phases.until_cut(running.abandon()).await),
        }
    }

    /// Stops because of `loss`.
    async fn lose(&self, running: Running, loss: KindLoss, phases: &Phases) -> RoundEnd {
        self.log_loss(&loss);
        let mut abandoned = pin!(running.abandon());
        match phases.stop.run_until_cancelled(abandoned.as_mut()).await {
            Some(()) => RoundEnd::Lost(loss),
            // The running calls still need the futures that `abandoned` polls.
            None => RoundEnd::Ended(phases.until_cut(abandoned).await),
        }
    }

    /// The controller as the manifest declares it. Kinds that the configuration names are not filled in.
    fn declared(&self) -> &Declared {
        &self.parts.plugin.manifest().controllers[self.identity.index]
    }
}

#[cfg(test)]
mod tests;
