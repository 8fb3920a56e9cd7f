//! Puts one generation of a plugin in the place of the other, while the lease term goes on (ADR 13).
//!
//! The next one gets ready beside the one that is at work, which goes on as if nothing were. Then, at once: what is at
//! work takes no further key, and the next one begins with its queue. Calls that run end on the generation that they
//! began on. The new one is on probation from then on; if it fails, the one before comes back in the same way.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use windlass_core::object::finalizer;
use windlass_wasm::Plugin;

use super::serve::{Generation, Serving, ServingState};
use super::swap_wait::{READY_REPORT_AFTER, SWAP_LOOK_INTERVAL, SwapWait};
use crate::controller::{Controller, Ready};
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
    /// Told of whatever a generation that gets ready may wait for.
    changed: Arc<Notify>,
    /// Nothing newer may begin before what begins the term is at work, for nothing would hold it back before; but not
    /// for longer than until this.
    held_back: Option<Instant>,
}

/// A generation at work, or that was to be.
struct RunningGeneration {
    generation: Generation,
    /// Its controllers.
    begun: StartedGeneration,
    is_on_probation: bool,
}

/// The controllers of one generation, begun.
struct StartedGeneration {
    controllers: Vec<Controller>,
    /// Ends them.
    stop: CancellationToken,
    /// Ends the installation of the definitions. Cancelled: nothing installs them.
    installing: CancellationToken,
}

impl Drop for StartedGeneration {
    /// Also after a panic: an installation that waits would put the definitions of an attempt that is over in the place
    /// of others.
    fn drop(&mut self) {
        self.installing.cancel();
    }
}

/// A generation that gets ready.
struct NextGeneration {
    generation: Generation,
    begun: StartedGeneration,
    may_begin: CancellationToken,
    /// It has run before, and need not prove itself.
    comes_back: bool,
    waiting: SwapWait,
}

/// An event in the service of a plugin.
enum SwapEvent {
    /// Controllers have ended.
    Ended(Option<ControllerEnd>),
    /// There is a newer generation.
    Wanted,
    /// The next generation may have what it waits for.
    Changed,
    /// A generation that is held back may be tried.
    Resumed,
    /// A probation has ended.
    Judged(Judged),
}

impl<'a> Swaps<'a> {
    pub(super) fn of(serving: &'a mut Serving, past: &'a mut ServingState, term: &'a PluginTerm) -> Self {
        let phases = serving.phases.of_term(term.ends.clone());
        Self { serving, past, term, phases, running: JoinSet::new(), changed: Arc::default(), held_back: None }
    }

    /// Serves to the end of the term, beginning with `current`. Returns how that ended, and with which generation.
    pub(super) async fn serve(mut self, current: Generation) -> (ControllerEnd, Generation) {
        // They are no definitions, which was told of when the plugin was loaded.
        let Some(begun) = self.begin(&current, None) else { return (ControllerEnd::Impossible, current) };
        // It may have begun in an earlier term, and what has passed since then proves nothing.
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
        // The term may have been over before one that was to come back could.
        let generation = self.serving.returned(self.past, current.generation);
        (end, generation)
    }

    async fn follow(&mut self, current: &mut RunningGeneration) -> ControllerEnd {
        let (mut next, mut ends) = (None::<NextGeneration>, Vec::new());
        loop {
            match self.event(current, next.as_ref()).await {
                SwapEvent::Ended(None) => return ControllerEnd::of_all(&ends),
                SwapEvent::Ended(Some(end)) => ends.push(end),
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
                // Whatever gets ready ends with the rest.
                continue;
            }
            if let Some(mut it) = next.take() {
                if self.is_due(&mut it, current) {
                    // Those of the one before say nothing of this one, but that calls were cut.
                    ends.retain(|end| *end == ControllerEnd::Cut);
                    self.swap(current, it);
                } else {
                    next = Some(it);
                }
            }
        }
    }

    /// The next thing that comes about.
    async fn event(&mut self, current: &RunningGeneration, next: Option<&NextGeneration>) -> SwapEvent {
        let over = self.term.ends.is_cancelled();
        let mut wanted = self.serving.wanted.clone();
        let look = next.filter(|_| !over).map(|next| next.waiting.look());
        let takes = !over && self.held_back.is_none() && next.is_none_or(NextGeneration::may_be_given_up);
        tokio::select! {
            biased;
            ended = self.running.join_next() => SwapEvent::Ended(ended.map(|end| end.unwrap_or(ControllerEnd::Cut))),
            Ok(()) = wanted.changed(), if takes => SwapEvent::Wanted,
            judged = current.generation.record.judged(), if !over && current.is_on_probation => SwapEvent::Judged(judged),
            () = at_work(current, self.held_back), if !over && self.held_back.is_some() => SwapEvent::Resumed,
            () = self.changed.notified(), if look.is_some() => SwapEvent::Changed,
            () = sleep_until(look.unwrap_or_else(Instant::now)), if look.is_some() => SwapEvent::Changed,
        }
    }

    /// Begins the controllers of `generation`: at once, or to get ready until they `may_begin`.
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

    fn begin_with(
        &mut self,
        generation: &Generation,
        may_begin: Option<&CancellationToken>,
        ready: &Ready,
        stop: CancellationToken,
        installing: CancellationToken,
    ) -> StartedGeneration {
        let under = |controller: &Controller| match may_begin {
            None => controller.under(self.term, ready.clone(), &self.changed),
            Some(may_begin) => controller.after(self.term, ready.clone(), may_begin, &self.changed),
        };
        let controllers: Vec<_> = generation.controllers.iter().map(under).collect();
        let phases = self.phases.of_generation(stop.clone());
        for controller in &controllers {
            let (controller, phases) = (controller.clone(), phases.clone());
            self.running.spawn(async move { controller.run(&phases).await });
        }
        StartedGeneration { controllers, stop, installing }
    }

    /// `wanted` is to run.
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
            tracing::info!(%plugin, digest, "what runs is wanted again: nothing else is to take its place");
            if current.begun.installing.is_cancelled() {
                self.keep_definitions(current);
            }
            self.try_again(current);
            self.serving.report(wanted, Swapped::Runs(current.generation.plugin.clone()));
            return;
        }
        let Some(generation) = self.serving.generation(wanted.clone(), self.past) else { return };
        // Two that install the same definitions would undo each other's work.
        current.begun.installing.cancel();
        let may_begin = CancellationToken::new();
        let Some(begun) = self.begin(&generation, Some(&may_begin)) else { return };
        tracing::info!(%plugin, digest, "a new generation gets ready to take over");
        let comes_back = self.past.former.as_ref().is_some_and(|it| it.plugin.digest() == wanted.digest());
        *next = Some(NextGeneration::new(generation, begun, may_begin, comes_back));
    }

    /// The definitions of what is at work are installed from now on, as others of them may have been meanwhile. Nothing
    /// of it waits for that.
    fn keep_definitions(&self, current: &mut RunningGeneration) {
        let RunningGeneration { generation, begun, .. } = current;
        let (serving, fence) = (&*self.serving, self.term.fence.clone());
        begun.installing.cancel();
        begun.installing = begun.stop.child_token();
        // Whether they are there, and that they are definitions, was seen when it began.
        let _ = (serving.install)(&serving.host, &serving.supplies, &generation.plugin, fence, &begun.installing);
    }

    /// The generation at work has failed, and is wanted all the same: it may prove itself once more.
    fn try_again(&self, current: &mut RunningGeneration) {
        if let Some(former) = self.past.former.as_ref().filter(|_| !current.is_on_probation) {
            current.generation.record.begin_probation(former.record.record());
            current.is_on_probation = true;
        }
    }

    /// Whether `next` can take over now. If not, tells why when that takes long.
    fn is_due(&self, next: &mut NextGeneration, current: &RunningGeneration) -> bool {
        let now = Instant::now();
        let controllers = &next.begun.controllers;
        let waits = || {
            let unsettled = current.begun.controllers.iter().find(|it| !it.is_settled());
            let unsettled =
                unsettled.map(|it| format!("calls of the one before it still run for the controller {}", it.name()));
            controllers.iter().find_map(Controller::waits_for).or(unsettled)
        };
        let told = if let Some(why) = waits() {
            next.waiting.gets_ready(now, why)
        } else if let Some(why) = stranded(&current.begun.controllers, controllers) {
            next.waiting.is_kept_back(now, why)
        } else {
            return true;
        };
        if let Some(why) = told {
            self.tell_pending(&next.generation.plugin, why);
        }
        false
    }

    fn tell_pending(&self, plugin: &Plugin, why: String) {
        tracing::warn!(
            plugin = %plugin.name(), digest = plugin.short_digest(), reason = why,
            "the new generation does not take over yet: the one before it goes on"
        );
        self.serving.report(plugin, Swapped::Pending { digest: plugin.digest().clone(), reason: why });
    }

    /// The moment of the change.
    fn swap(&mut self, current: &mut RunningGeneration, next: NextGeneration) {
        let NextGeneration { generation, begun, may_begin, waiting, .. } = next;
        self.serving.succeeds(self.past, &generation, &current.generation);
        for controller in &begun.controllers {
            controller.take_over();
        }
        current.begun.stop.cancel();
        // Before it may begin: what it makes of that is then said after this.
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
            // Others may have been installed, and it did not wait for its own.
            self.keep_definitions(current);
        }
    }

    /// The probation of what runs has ended.
    fn judged(&mut self, judged: &Judged, current: &mut RunningGeneration, next: &mut Option<NextGeneration>) {
        current.is_on_probation = false;
        let plugin = &current.generation.plugin;
        let Judged::Failed(because) = judged else {
            tracing::info!(plugin = %plugin.name(), digest = plugin.short_digest(), "the generation has proven itself");
            self.past.former = None;
            return;
        };
        let Some(former) = &self.past.former else { return };
        let (former, record) = (former.plugin.clone(), former.record.clone());
        tracing::error!(
            plugin = %plugin.name(), rejected = plugin.short_digest(), digest = former.short_digest(), because,
            "the generation has not proven itself: the one before it comes back"
        );
        self.past.rejected.insert(plugin.digest().clone());
        let rejected =
            Swapped::RolledBack { rejected: plugin.digest().clone(), to: former.clone(), because: because.clone() };
        self.serving.report(plugin, rejected);
        // Delivered anew, but before it failed: that is no reason to try it again.
        let wanted_again = self.serving.wanted.borrow().digest() == plugin.digest();
        if wanted_again {
            self.serving.wanted.mark_unchanged();
        }
        if let Some(newer) = next.take() {
            // It may take long to get ready: it comes after the one that is proven.
            give_up(&newer);
            if !wanted_again {
                self.serving.wanted.mark_changed();
            }
        }
        let may_begin = CancellationToken::new();
        if let Some(generation) = self.serving.generation_of(former, record, self.past) {
            current.begun.installing.cancel();
            // It does not wait for its definitions: those that are there may be newer, and stay where stored objects
            // need them.
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

    /// Whether a newer generation may take its place. Not that of one that comes back, unless it has long been in vain.
    fn may_be_given_up(&self) -> bool {
        !self.comes_back || self.waiting.is_long(Instant::now())
    }
}

/// Whether objects may carry a finalizer of it, which only its caches tell.
fn keeps_finalizers(plugin: &Plugin) -> bool {
    plugin.manifest().controllers.iter().any(|controller| controller.options.finalizer)
}

/// Completes when all controllers of `current` are at work; or at `until`, if they cannot.
async fn at_work(current: &RunningGeneration, until: Option<Instant>) {
    let is_idle = |controller: &Controller| !controller.handover().is_at_work();
    while current.begun.controllers.iter().any(is_idle) && until.is_some_and(|until| Instant::now() < until) {
        sleep(SWAP_LOOK_INTERVAL).await;
    }
}

/// Ends what gets ready.
fn give_up(next: &NextGeneration) {
    next.begun.stop.cancel();
}

/// Why objects would keep a finalizer for ever that `next` does not keep.
fn stranded(current: &[Controller], next: &[Controller]) -> Option<String> {
    current.iter().find_map(|controller| {
        let (objects, example) = controller.strands(next.iter().find(|it| it.name() == controller.name()))?;
        let (plugin, name) = (controller.plugin_name(), controller.name());
        Some(format!(
            "{objects} objects, {example} among them, carry the finalizer {}, which the controller {name} would not keep any \
             more: once deleted, they would stay for ever. Remove the plugin's file, take the finalizer off with `windlass \
             finalizers release {plugin}`, and put the file back",
            finalizer::name(plugin)
        ))
    })
}

#[cfg(test)]
mod tests;
