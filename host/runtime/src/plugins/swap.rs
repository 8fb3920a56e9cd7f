//! Replaces one generation of a plugin by another while the lease term goes on (ADR 13).
//!
//! The next generation gets ready while the current one works as usual. Then, at one moment, the current one takes no
//! more keys, and the next one begins with its queue. Running calls end on the generation that they began on. From then
//! on the new generation is on probation; if it fails, the previous one takes over again in the same way.

mod started;

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use windlass_wasm::Plugin;

use self::started::{StartedGeneration, stranded};
use super::serve::{Generation, Serving, ServingState};
use super::swap_wait::{READY_REPORT_AFTER, SWAP_LOOK_INTERVAL, SwapWait};
use crate::controller::Controller;
use crate::dispatch::call_record::Judged;
use crate::leadership::PluginTerm;
use crate::phases::{ControllerEnd, Phases};
use crate::plugins::reports::Swapped;

/// The generations of one plugin in one term.
pub(super) struct Swaps<'a> {
    serving: &'a mut Serving,
    past: &'a mut ServingState,
    term: &'a PluginTerm,
    phases: Phases,
    /// The controllers of all generations that have not ended.
    running: JoinSet<ControllerEnd>,
    /// Notified of everything that a generation that is getting ready may wait for.
    changed: Arc<Notify>,
    /// Until the first generation of the term is at work, or until this time, no newer generation may begin. The checks
    /// that might hold back a newer generation need the caches of the first one.
    held_back: Option<Instant>,
}

/// A generation that is, or was to be, at work.
struct RunningGeneration {
    generation: Generation,
    /// Its controllers.
    begun: StartedGeneration,
    is_on_probation: bool,
}

/// A generation that is getting ready.
struct NextGeneration {
    generation: Generation,
    begun: StartedGeneration,
    may_begin: CancellationToken,
    /// True if the generation has run before, and needs no probation.
    comes_back: bool,
    waiting: SwapWait,
}

/// An event in serving a plugin.
enum SwapEvent {
    /// Controllers have ended. `None` if none is left.
    Ended(Option<ControllerEnd>),
    /// A newer generation was delivered.
    Wanted,
    /// Something that the next generation waits for may have changed.
    Changed,
    /// The configuration of a generation names other kinds.
    OtherKinds,
    /// A generation that was held back may be tried.
    Resumed,
    /// A probation has ended.
    Judged(Judged),
}

impl<'a> Swaps<'a> {
    pub(super) fn of(serving: &'a mut Serving, past: &'a mut ServingState, term: &'a PluginTerm) -> Self {
        let phases = serving.phases.of_term(term.ends.clone());
        Self { serving, past, term, phases, running: JoinSet::new(), changed: Arc::default(), held_back: None }
    }

    /// Serves until the end of the term, beginning with `current`. Returns how the term ended, and the last generation.
    pub(super) async fn serve(mut self, current: Generation) -> (ControllerEnd, Generation) {
        // Invalid definitions were logged when the plugin was loaded.
        let Some(begun) = self.begin(&current, None) else { return (ControllerEnd::Impossible, current) };
        // The probation may have begun in an earlier term, and the time since then does not count.
        current.record.rests();
        let is_on_probation = self.past.is_on_probation(&current);
        let holds_back = self.serving.has_newer(&current, self.past) || keeps_finalizers(&current.plugin);
        self.held_back = holds_back.then(|| Instant::now() + READY_REPORT_AFTER);
        let mut current = RunningGeneration { generation: current, begun, is_on_probation };
        let (phases, lost) = (self.phases.clone(), self.term.lost.clone());
        let end = tokio::select! {
            biased;
            end = self.follow(&mut current) => end,
            never = phases.hand_over(&lost) => match never {},
        };
        // If `current` was rolled back, but the term ended before the proven generation could take over again, return
        // the proven generation.
        let generation = self.serving.returned(self.past, current.generation);
        (end, generation)
    }

    async fn follow(&mut self, current: &mut RunningGeneration) -> ControllerEnd {
        let (mut next, mut ends) = (None::<NextGeneration>, Vec::new());
        loop {
            match self.event(current, next.as_ref()).await {
                SwapEvent::Ended(None) => return ControllerEnd::of_all(&ends),
                SwapEvent::Ended(Some(end)) => {
                    ends.push(end);
                    self.forget_unused(&current.generation);
                }
                SwapEvent::OtherKinds => {
                    self.follow_kinds(&mut current.generation, &mut current.begun);
                    self.serving.show_controllers(&current.generation);
                    if let Some(next) = &mut next {
                        self.follow_kinds(&mut next.generation, &mut next.begun);
                    }
                }
                SwapEvent::Wanted => {
                    let wanted = self.serving.wanted.borrow_and_update().clone();
                    self.want(&wanted, current, &mut next);
                }
                SwapEvent::Changed => {}
                SwapEvent::Resumed => {
                    self.held_back = None;
                    if self.serving.has_newer(&current.generation, self.past) {
                        self.serving.wanted.mark_changed();
                    }
                }
                SwapEvent::Judged(judged) => self.judged(&judged, current, &mut next),
            }
            if self.term.ends.is_cancelled() {
                // A generation that is getting ready ends with the term.
                continue;
            }
            self.take_over(current, &mut next, &mut ends);
        }
    }

    /// Lets `next` take over if it can, or gives it up if it may not run any more.
    fn take_over(
        &mut self,
        current: &mut RunningGeneration,
        next: &mut Option<NextGeneration>,
        ends: &mut Vec<ControllerEnd>,
    ) {
        let Some(mut it) = next.take() else { return };
        if it.comes_back && !self.serving.may_return(&it.generation.plugin) {
            self.excluded(current, &it);
        } else if self.is_due(&mut it, current) {
            // The end of an earlier generation matters only if calls were cut.
            ends.retain(|end| *end == ControllerEnd::Cut);
            self.swap(current, it);
        } else {
            *next = Some(it);
        }
    }

    /// The next event.
    async fn event(&mut self, current: &RunningGeneration, next: Option<&NextGeneration>) -> SwapEvent {
        let over = self.term.ends.is_cancelled();
        let mut wanted = self.serving.wanted.clone();
        let look = next.filter(|_| !over).map(|next| next.waiting.look());
        let takes = !over && self.held_back.is_none() && next.is_none_or(NextGeneration::may_be_given_up);
        tokio::select! {
            biased;
            ended = self.running.join_next() => SwapEvent::Ended(ended.map(|end| end.unwrap_or(ControllerEnd::Cut))),
            () = current.generation.kinds_change(), if !over => SwapEvent::OtherKinds,
            () = kinds_change(next), if !over => SwapEvent::OtherKinds,
            Ok(()) = wanted.changed(), if takes => SwapEvent::Wanted,
            judged = current.generation.record.judged(), if !over && current.is_on_probation => SwapEvent::Judged(judged),
            () = at_work(current, self.held_back), if !over && self.held_back.is_some() => SwapEvent::Resumed,
            () = self.changed.notified(), if look.is_some() => SwapEvent::Changed,
            () = sleep_until(look.unwrap_or_else(Instant::now)), if look.is_some() => SwapEvent::Changed,
        }
    }

    /// Starts the controllers of `generation`: at once, or to get ready until they `may_begin`.
    fn begin(&mut self, generation: &Generation, may_begin: Option<&CancellationToken>) -> Option<StartedGeneration> {
        let serving = &*self.serving;
        let stop = self.term.ends.child_token();
        let installing = stop.child_token();
        let ready = (serving.install)(
            &serving.host,
            &serving.supplies,
            &generation.plugin,
            self.term.fence.clone(),
            &installing,
        )?;
        Some(self.begin_with(generation, may_begin, &ready, stop, installing))
    }

    /// Handles that `wanted` should run.
    fn want(&mut self, wanted: &Arc<Plugin>, current: &mut RunningGeneration, next: &mut Option<NextGeneration>) {
        if next.as_ref().is_some_and(|next| next.generation.plugin.digest() == wanted.digest()) {
            return;
        }
        let (plugin, digest) = (wanted.name(), wanted.short_digest());
        self.past.delivered(wanted);
        if let Some(next) = next.take() {
            give_up(&next);
        }
        if wanted.digest() == current.generation.plugin.digest() {
            tracing::info!(%plugin, digest, "the running version is wanted again: no other version replaces it");
            if current.begun.installing.is_cancelled() {
                self.keep_definitions(current);
            }
            self.try_again(current);
            self.serving.report(wanted, Swapped::Runs(current.generation.plugin.clone()));
            return;
        }
        let Some(generation) = self.serving.generation(wanted.clone(), self.past) else { return };
        // Two generations that install the same definitions would undo each other's changes.
        current.begun.installing.cancel();
        let may_begin = CancellationToken::new();
        let Some(begun) = self.begin(&generation, Some(&may_begin)) else { return };
        tracing::info!(%plugin, digest, "a new generation gets ready to take over");
        let comes_back = self.past.former.as_ref().is_some_and(|it| it.plugin.digest() == wanted.digest());
        *next = Some(NextGeneration::new(generation, begun, may_begin, comes_back));
    }

    /// Installs the definitions of the running generation again, because other versions of them may have been installed
    /// meanwhile. Does not wait for the installation.
    fn keep_definitions(&self, current: &mut RunningGeneration) {
        let RunningGeneration { generation, begun, .. } = current;
        let (serving, fence) = (&*self.serving, self.term.fence.clone());
        begun.installing.cancel();
        begun.installing = begun.stop.child_token();
        // The result was checked when the generation began.
        let _ = (serving.install)(&serving.host, &serving.supplies, &generation.plugin, fence, &begun.installing);
    }

    /// Gives the running generation another probation. It has failed its probation, but is wanted nevertheless.
    fn try_again(&self, current: &mut RunningGeneration) {
        if let Some(former) = self.past.former.as_ref().filter(|_| !current.is_on_probation) {
            current.generation.record.begin_probation(former.record.record());
            current.is_on_probation = true;
        }
    }

    /// Whether `next` can take over now. If not, reports why once that takes long.
    fn is_due(&self, next: &mut NextGeneration, current: &RunningGeneration) -> bool {
        let now = Instant::now();
        let waits = || {
            let unsettled = current.begun.controllers().find(|it| !it.is_settled());
            let unsettled = unsettled
                .map(|it| format!("calls of an earlier generation still run for the controller {}", it.name()));
            next.begun.controllers().find_map(Controller::waits_for).or(unsettled)
        };
        let to_report = if let Some(why) = waits() {
            next.waiting.gets_ready(now, why)
        } else if let Some(why) = stranded(&current.begun, &next.begun) {
            next.waiting.is_kept_back(now, why)
        } else {
            return true;
        };
        if let Some(why) = to_report {
            self.report_pending(&next.generation.plugin, why);
        }
        false
    }

    /// Ends the generation that was to come back, because the policy of the plugin's object has excluded it since. If
    /// the running one was rolled back, the report that nothing returns lets the directory stop it.
    fn excluded(&mut self, current: &RunningGeneration, excluded: &NextGeneration) {
        give_up(excluded);
        self.past.former = None;
        let runs = &current.generation.plugin;
        self.serving.report(runs, Swapped::Runs(runs.clone()));
    }

    fn report_pending(&self, plugin: &Plugin, why: String) {
        tracing::warn!(
            plugin = %plugin.name(), digest = plugin.short_digest(), reason = why,
            "the new generation does not take over yet: the previous one continues"
        );
        self.serving.report(plugin, Swapped::Pending { digest: plugin.digest().clone(), reason: why });
    }

    /// Performs the swap.
    fn swap(&mut self, current: &mut RunningGeneration, next: NextGeneration) {
        let NextGeneration { generation, begun, may_begin, waiting, .. } = next;
        self.serving.succeeds(self.past, &generation, &current.generation);
        for controller in begun.controllers() {
            controller.take_over();
        }
        current.begun.stop.cancel();
        // Do this before the generation may begin, so that its own reports come after this one.
        self.serving.runs(self.past, &generation);
        may_begin.cancel();
        self.serving.report(&generation.plugin, Swapped::Runs(generation.plugin.clone()));
        let plugin = &generation.plugin;
        tracing::info!(
            plugin = %plugin.name(), version = plugin.manifest().version, digest = plugin.short_digest(),
            former = current.generation.plugin.short_digest(), took = ?waiting.since().elapsed(), "a new generation has taken over"
        );
        let is_on_probation = self.past.is_on_probation(&generation);
        *current = RunningGeneration { generation, begun, is_on_probation };
        if current.begun.installing.is_cancelled() {
            // Other definitions may be installed, because this generation did not wait for its own.
            self.keep_definitions(current);
        }
    }

    /// Handles the end of the running generation's probation.
    fn judged(&mut self, judged: &Judged, current: &mut RunningGeneration, next: &mut Option<NextGeneration>) {
        current.is_on_probation = false;
        let plugin = &current.generation.plugin;
        let Judged::Failed(because) = judged else {
            tracing::info!(plugin = %plugin.name(), digest = plugin.short_digest(), "the generation has proven itself");
            self.past.former = None;
            return;
        };
        self.past.former.take_if(|former| !self.serving.may_return(&former.plugin));
        let Some(former) = &self.past.former else { return };
        let (former, record) = (former.plugin.clone(), former.record.clone());
        tracing::error!(
            plugin = %plugin.name(), rejected = plugin.short_digest(), digest = former.short_digest(), because,
            "the generation has not proven itself: the previous one comes back"
        );
        self.past.rejected.insert(plugin.digest().clone());
        let rejected =
            Swapped::RolledBack { rejected: plugin.digest().clone(), to: former.clone(), because: because.clone() };
        self.serving.report(plugin, rejected);
        // The generation was delivered again before it failed, which is no reason to try it again.
        let wanted_again = self.serving.wanted.borrow().digest() == plugin.digest();
        if wanted_again {
            self.serving.wanted.mark_unchanged();
        }
        if let Some(newer) = next.take() {
            // The newer generation may take long to get ready, so the proven one comes first.
            give_up(&newer);
            if !wanted_again {
                self.serving.wanted.mark_changed();
            }
        }
        let may_begin = CancellationToken::new();
        if let Some(generation) = self.serving.generation_of(former, record, self.past) {
            current.begun.installing.cancel();
            // The proven generation does not wait for its definitions: the installed ones may be newer, and stay if
            // stored objects need them.
            let ready = tokio::sync::watch::channel(true).1;
            let (stop, installing) = (self.term.ends.child_token(), CancellationToken::new());
            installing.cancel();
            let begun = self.begin_with(&generation, Some(&may_begin), &ready, stop, installing);
            *next = Some(NextGeneration::new(generation, begun, may_begin, true));
        }
    }
}

impl NextGeneration {
    fn new(generation: Generation, begun: StartedGeneration, may_begin: CancellationToken, comes_back: bool) -> Self {
        Self { generation, begun, may_begin, comes_back, waiting: SwapWait::new(Instant::now()) }
    }

    /// Whether a newer generation may replace this one. A generation that comes back is replaced only if it has waited
    /// too long.
    fn may_be_given_up(&self) -> bool {
        !self.comes_back || self.waiting.is_long(Instant::now())
    }
}

/// Whether objects may carry the finalizer of `plugin`. Only the plugin's caches show whether they do.
fn keeps_finalizers(plugin: &Plugin) -> bool {
    plugin.manifest().controllers.iter().any(|controller| controller.options.finalizer)
}

/// Completes when all controllers of `current` are at work, or at `until`.
async fn at_work(current: &RunningGeneration, until: Option<Instant>) {
    let is_idle = |controller: &Controller| !controller.handover().is_at_work();
    while current.begun.controllers().any(is_idle) && until.is_some_and(|until| Instant::now() < until) {
        sleep(SWAP_LOOK_INTERVAL).await;
    }
}

/// Completes when the configuration of the `next` generation names other kinds.
async fn kinds_change(next: Option<&NextGeneration>) {
    match next {
        Some(next) => next.generation.kinds_change().await,
        None => std::future::pending().await,
    }
}

/// Ends a generation that is getting ready.
fn give_up(next: &NextGeneration) {
    next.begun.stop.cancel();
}

#[cfg(test)]
mod tests;
