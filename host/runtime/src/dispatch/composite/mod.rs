//! A controller whose plugin composes: the host asks the plugin which children should exist, and writes them (ADR 9).
//!
//! `windlass_core::call::compose` decides what an answer means; this module carries it out in this order: it reads the
//! current state, asks the plugin, checks the answer as a whole, applies the children, prunes children that the answer
//! left out, writes the status, and sends Events. A failure on the way prevents the pruning, and nothing else.

mod carry_out;
mod observed_state;
mod saved;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use windlass_core::call::compose::{
    Applied, ChildStep, CompositeParent, Composition, Flaw, ObservedChildren, Pruning, Withheld, prune, step,
};
use windlass_core::call::ports::{CallContext, EventType, Ports};
use windlass_core::object::Object;
use windlass_core::object::finalizer;
use windlass_core::queue::outcome::{CallResult, Failure, Requeue};
use windlass_wasm::{CallLimits, Called, Composed, CompositionRequest, CpuTime, Customized, Plugin, Request};

use crate::dispatch::reconcile::{Call, Reconcile};
use crate::dispatch::spans::{self, RUN};
use carry_out::ChildWriter;
pub(crate) use observed_state::{ObservedState, OwnedWatch, RelatedWatch};
pub(crate) use saved::CompositionSaver;

/// When to retry if the plugin waits for something that no watch reports.
const UNWATCHED_LOOK_DELAY: Duration = Duration::from_secs(5);
/// The most flaws of an answer that a message lists.
const LISTED_FLAWS_MAX: usize = 20;

/// A composing plugin, or a test double.
pub(crate) trait Compose: Send + Sync {
    /// Makes one call.
    fn compose(
        &self,
        request: CompositionRequest,
        call: Arc<CallContext>,
        limits: CallLimits,
    ) -> BoxFuture<'_, Composed>;

    /// Asks the plugin which objects are related to a parent.
    fn customize(&self, request: Request, call: Arc<CallContext>, limits: CallLimits) -> BoxFuture<'_, Customized>;
}

impl Compose for Arc<Plugin> {
    fn compose(
        &self,
        request: CompositionRequest,
        call: Arc<CallContext>,
        limits: CallLimits,
    ) -> BoxFuture<'_, Composed> {
        async move {
            let mut span = call.trace.span(RUN);
            let composed = Plugin::compose(self, request, call.within(&span), limits).await;
            spans::ran(&mut span, composed.cpu, composed.answer.as_ref().err(), &call.config);
            composed
        }
        .boxed()
    }

    fn customize(&self, request: Request, call: Arc<CallContext>, limits: CallLimits) -> BoxFuture<'_, Customized> {
        Plugin::customize(self, request, call, limits).boxed()
    }
}

/// A composing plugin as dispatch calls it.
pub(crate) struct Composite<P> {
    pub(crate) plugin: P,
    pub(crate) observed_state: ObservedState,
    /// True if the host keeps a finalizer on the parents, so that they are composed until they may go.
    pub(crate) finalizes: bool,
    /// `None` if every call is made.
    pub(crate) saver: Option<CompositionSaver>,
}

impl<P: Compose> Reconcile for Composite<P> {
    fn reconcile<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Called> {
        let Call { request, ports, context, limits, must_be_made, .. } = call;
        async move {
            // The host's work for the parent on this thread is charged to the plugin.
            let work = CpuTime::default();
            let called = work.metered(self.run(request, ports, context, limits, must_be_made)).await;
            Called { cpu: called.cpu.max(work.used()), ..called }
        }
        .boxed()
    }
}

/// The state that the plugin is asked about.
struct ObservedParent {
    parent: CompositeParent,
    children: Vec<ObservedChildren>,
}

impl<P: Compose> Composite<P> {
    async fn run(
        &self,
        request: Request,
        ports: &Ports,
        call: Arc<CallContext>,
        limits: CallLimits,
        must_be_made: bool,
    ) -> Called {
        // The garbage collector deletes the children with their parent. With a finalizer, the plugin decides the order,
        // and when the parent may go.
        let is_composed = |object: &Object| self.finalizes || !object.header.deleting;
        let Some(object) = call.primary.clone().filter(is_composed) else {
            if call.primary.is_none() {
                self.observed_state.primaries.related.forget(&call.primary_key);
                if let Some(saver) = &self.saver {
                    saver.forget(&call);
                }
            }
            return Called::not_made(CallResult::Done);
        };
        let (limits, asked) = match self.relate(&request, &call, limits).await {
            Ok(left) => left,
            Err(failed) => return failed,
        };
        let (seen, request) = match self.look(request, &object, ports, &call).await {
            Ok(seen) => seen,
            Err(failure) if asked.is_zero() => return Called::not_made(CallResult::Failed(vec![failure])),
            Err(failure) => return Called::made(CallResult::Failed(vec![failure]), asked),
        };
        let composed = match &self.saver {
            Some(saver) => saver.compose(&self.plugin, request, &call, limits, must_be_made).await,
            None => self.plugin.compose(request, call.clone(), limits).await,
        };
        let Composed { answer, cpu, left, held } = composed;
        let is_deleting = object.header.deleting;
        let (result, may_go) = match answer {
            Ok(mut answer) => {
                let finalized = is_deleting && answer.finalized;
                if is_deleting {
                    // A parent that is being deleted will have no children in the end.
                    answer.allow_empty = true;
                    answer.requeue = answer.requeue.filter(|_| !finalized);
                }
                let hand = ChildWriter::new(ports, call, left);
                let (result, is_whole) = self.bring_about(&seen, &object, answer, &hand).await;
                (result, finalized && is_whole)
            }
            Err(failed) => (failed, false),
        };
        // Held until nothing of the answer is in use any more.
        drop(held);
        Called { keeps_finalizer: is_deleting && !may_go, ..Called::made(result, asked + cpu) }
    }

    /// Asks the plugin for the objects related to the parent, if the manifest says so, and stores the rules that it
    /// returns. Later changes arrive as events, and earlier ones are in the caches already. Returns the limits of the
    /// rest of the call, and the CPU time used.
    async fn relate(
        &self,
        request: &Request,
        call: &Arc<CallContext>,
        limits: CallLimits,
    ) -> Result<(CallLimits, Duration), Called> {
        if !self.observed_state.customizes() {
            return Ok((limits, Duration::ZERO));
        }
        let Customized { answer, cpu, left } =
            self.plugin.customize(request.clone(), call.clone(), limits.clone()).await;
        let rules = answer.and_then(|rules| self.observed_state.checked(rules));
        let rules = rules.map_err(|failed| Called::made(failed, cpu))?;
        self.observed_state.primaries.related.set(&call.primary_key, rules);
        Ok((CallLimits { deadline: Some(left), ..limits }, cpu))
    }

    async fn look(
        &self,
        request: Request,
        object: &Object,
        ports: &Ports,
        call: &CallContext,
    ) -> Result<(ObservedParent, CompositionRequest), Failure> {
        let parent = CompositeParent {
            plugin: call.principal.plugin.clone(),
            kind: call.primary_kind.clone(),
            key: call.primary_key.clone(),
            uid: object.header.uid.text(),
        };
        let children = self.observed_state.children(ports, call).await?;
        let related = self.observed_state.related(ports, call, object).await?;
        let request = CompositionRequest {
            request: Request { object: None, ..request },
            parent: object.text(),
            children: self.observed_state.parts(&children, call).await?,
            related,
            config: call.config.clone(),
        };
        Ok((ObservedParent { parent, children }, request))
    }

    /// Makes the cluster match the answer. Returns the result, and whether every child is as composed and no extra
    /// child is left.
    async fn bring_about(
        &self,
        seen: &ObservedParent,
        object: &Object,
        answer: Composition,
        hand: &ChildWriter<'_>,
    ) -> (CallResult, bool) {
        let failed = |failure| (CallResult::Failed(vec![failure]), false);
        let wanted = match self.observed_state.check(&answer, &seen.parent) {
            Ok(wanted) => wanted,
            Err(flaws) => return failed(wrong(&flaws)),
        };
        let others = match observed_state::others(&wanted, &seen.children, hand) {
            Ok(others) => others,
            Err(failure) => return failed(failure),
        };
        let find = |child: &windlass_core::call::compose::Child| {
            seen.children.iter().chain(&others).find(|it| it.kind == child.kind && it.key == child.key)
        };
        let mut steps: Vec<_> =
            wanted.children.iter().map(|child| (child, step(&seen.parent, child, find(child)))).collect();
        let is_the_collectors = is_the_collectors(object);
        if object.header.deleting {
            steps.retain(|(_, step)| !is_the_collectors && step.is_for_deleted_parent());
        }
        let applied = hand.apply(&seen.parent, &steps, &|kind| self.observed_state.shows_all(kind)).await;
        let pruning =
            if is_the_collectors { Pruning::default() } else { prune(&seen.parent, &wanted, &applied, &seen.children) };
        report(hand, &steps, &applied, &pruning);
        let is_whole = applied.iter().all(|it| *it == Applied::Done) && pruning.withheld.is_none();
        let mut failures = hand.prune(pruning.doomed).await;
        failures.extend(hand.status(object, wanted.status.as_ref()).await);
        let Composition { events, requeue, .. } = answer;
        for event in events {
            hand.emit(event);
        }
        (result(applied, failures, requeue), is_whole)
    }
}

/// Whether the garbage collector works on the children of `object`: it deletes them before the object goes, or orphans
/// them. (`metav1.FinalizerOrphanDependents`, `metav1.FinalizerDeleteDependents`.)
fn is_the_collectors(object: &Object) -> bool {
    object.header.deleting && ["orphan", "foregroundDeletion"].iter().any(|name| finalizer::has(object, name))
}

/// The failure for a wrong answer. The plugin is not asked again before something has changed, because it sees only its
/// request, and would give the same answer.
fn wrong(flaws: &[Flaw]) -> Failure {
    let mut listed: Vec<String> = flaws.iter().take(LISTED_FLAWS_MAX).map(ToString::to_string).collect();
    if flaws.len() > LISTED_FLAWS_MAX {
        listed.push(format!("and {} more", flaws.len() - LISTED_FLAWS_MAX));
    }
    Failure::Terminal(format!("the plugin's answer is wrong, so nothing of it was applied: {}", listed.join("; ")))
}

/// Logs the steps that people would not notice otherwise, and emits Events about them.
fn report(
    hand: &ChildWriter<'_>,
    steps: &[(&windlass_core::call::compose::Child, ChildStep<'_>)],
    applied: &[Applied],
    pruning: &Pruning,
) {
    for ((child, step), applied) in steps.iter().zip(applied) {
        match (step, applied) {
            (ChildStep::Adopt { .. }, Applied::Done) => {
                let note = format!("adopted {}, which was there already; it is never pruned", child.reference());
                hand.emit_about_primary(EventType::Normal, "Adopted", "Adopt", note);
            }
            (ChildStep::Leave { .. }, Applied::Failed(failure)) => {
                hand.emit_about_primary(EventType::Warning, "NotOurs", "Apply", failure.to_string());
            }
            (_, Applied::Pending | Applied::PendingUnseen) => {
                tracing::info!(child = %child.reference(), "waiting until the child has been deleted");
            }
            _ => {}
        }
    }
    match pruning.withheld {
        Some(Withheld::Empty(count)) => {
            let note = format!(
                "the plugin composed no children, but {count} of its children exist: none is deleted, unless the \
                 plugin confirms it (allow-empty)"
            );
            tracing::warn!("{note}");
            hand.emit_about_primary(EventType::Warning, "EmptyComposition", "Prune", note);
        }
        Some(Withheld::Unfinished(count)) => {
            tracing::info!(children = count, "nothing is pruned until every child matches the composition");
        }
        None => {}
    }
    for child in &pruning.adopted {
        tracing::debug!(%child, "not composed any more, but kept: this host did not create it");
    }
}

fn result(applied: Vec<Applied>, mut failures: Vec<Failure>, requeue: Option<Requeue>) -> CallResult {
    let looks_for_unseen = applied.contains(&Applied::PendingUnseen);
    let failed = applied.into_iter().filter_map(|applied| match applied {
        Applied::Failed(failure) => Some(failure),
        Applied::Done | Applied::Pending | Applied::PendingUnseen | Applied::NotTried => None,
    });
    failures.splice(0..0, failed);
    if !failures.is_empty() {
        return CallResult::Failed(failures);
    }
    match requeue {
        Some(Requeue::After(after)) if looks_for_unseen => CallResult::RequeueAfter(after.min(UNWATCHED_LOOK_DELAY)),
        // The backoff goes on when the deletion is over.
        _ if looks_for_unseen => CallResult::RequeueAfter(UNWATCHED_LOOK_DELAY),
        requeue => requeue.map_or(CallResult::Done, CallResult::from),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use windlass_core::call::ports::Absent;
    use windlass_core::queue::breaker::BreakerRound;

    use super::*;
    use crate::dispatch::route::Stores;
    use crate::tests::played;

    /// A composer whose calls keep the host busy for a while, and use no processor time of the guest.
    struct BusyHost;

    impl Compose for BusyHost {
        fn compose(&self, _: CompositionRequest, _: Arc<CallContext>, _: CallLimits) -> BoxFuture<'_, Composed> {
            async {
                let began = Instant::now();
                while began.elapsed() < Duration::from_millis(5) {
                    std::hint::spin_loop();
                }
                let answer = Err(CallResult::Failed(vec![Failure::Terminal("no answer".to_owned())]));
                Composed { answer, cpu: Duration::ZERO, left: Duration::ZERO, held: None }
            }
            .boxed()
        }

        fn customize(&self, _: Request, _: Arc<CallContext>, _: CallLimits) -> BoxFuture<'_, Customized> {
            unreachable!("no watch is customized")
        }
    }

    #[tokio::test]
    async fn a_composer_pays_for_the_hosts_work_for_its_parent() {
        let observed_state = ObservedState { primaries: Stores::default(), owned: vec![], related: vec![] };
        let composite = Composite { plugin: BusyHost, observed_state, finalizes: false, saver: None };
        let (request, context) = played::call(Some(played::object("1", "{}", false)));
        let (ports, round) = (Absent::ports(), BreakerRound::default());
        let call = Call { request, ports: &ports, context, limits: CallLimits::default(), round, must_be_made: true };
        assert!(composite.reconcile(call).await.cpu > Duration::ZERO);
    }
}
