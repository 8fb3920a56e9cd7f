//! Makes the calls of a shadow, one at a time, and compares them with those of the current version.

use std::sync::Arc;

use serde_json::json;
use tracing::Instrument;
use windlass_core::cache::overlay::Overlay;
use windlass_core::call::intent::{DryState, IntentDifference, differences, end_difference};
use windlass_core::call::ports::{Ask, CallContext, Reads};
use windlass_core::object::ObjectRef;
use windlass_core::queue::breaker::BreakerRound;
use windlass_core::queue::outcome::CallResult;
use windlass_wasm::{Called, CpuTime, Plugin};

use super::noted::NotedCall;
use super::ports::{OTHERS, ShadowedCall};
use super::{Backlog, NextOf, NextVersion};
use crate::dispatch::reconcile::{Call, Reconcile};
use crate::observe::status::ControllerStatus;

/// A shadow is charged this many times the CPU that it uses. So if CPU is short, it gets an eighth of a plugin's share.
const SHADOW_CPU_PRICE: u32 = 8;

/// Builds what a worker would call for a plugin: the plugin itself, or the host's composite around it.
pub(crate) type NextCallee = Box<dyn Fn(Arc<Plugin>) -> Box<dyn Reconcile> + Send + Sync>;

/// Makes the calls of one controller's shadow.
pub(crate) struct ShadowCaller {
    pub(crate) backlog: Arc<Backlog>,
    pub(crate) next: NextOf,
    /// The caches of the controller.
    pub(crate) reads: Arc<dyn Reads>,
    pub(crate) callee: NextCallee,
    /// Counts the processor time that the calls use.
    pub(crate) status: Arc<ControllerStatus>,
}

impl ShadowCaller {
    /// Makes the noted calls, for ever. Skips calls that were noted for a version that has been replaced since.
    pub(crate) async fn run(&self) {
        let mut next = self.next.clone();
        loop {
            let call = self.backlog.next().await;
            // Read after the call was taken, so the version that the call was noted for is this one, or was replaced.
            let version = next.borrow_and_update().clone();
            let Some(version) = version.filter(|version| Arc::ptr_eq(&version.ledger, &call.ledger)) else { continue };
            let callee = (self.callee)(version.plugin.clone());
            tokio::select! {
                biased;
                // If the version is replaced, the call is abandoned, because that version's ledger is no longer shown.
                _ = next.changed() => {}
                () = self.shadow(&version, &*callee, call) => {}
            }
        }
    }

    /// Repeats one call with the next version, and compares the two calls.
    async fn shadow(&self, next: &NextVersion, plugin: &dyn Reconcile, call: NotedCall) {
        let permit = next.share.acquire().await;
        let config = next.configured.borrow().clone();
        let Some(config) = config else {
            permit.unused();
            return next.ledger.passed_over("its configuration does not fit its schema, or has not been read");
        };
        let NotedCall { request, context, limits, noted, called: current, ledger: _ } = call;
        let principal = Arc::new(context.principal.shadow(next.plugin.short_digest().into()));
        let cpu_permit = permit.cpu_permit();
        let context = Arc::new(CallContext { principal, cpu_permit, config, overlay: Overlay::fixed(), ..context });
        let shadowed = ShadowedCall::new(self.reads.clone(), next.live.clone(), noted);
        let ports = shadowed.ports();
        let span = tracing::info_span!(
            "shadow", plugin = %context.principal.plugin, controller = %context.controller, key = %context.primary_key,
            trace_id = &*context.trace_id
        );
        let work = CpuTime::default();
        let making = async {
            shadowed.rewind(&context).await;
            let round = BreakerRound::default();
            plugin
                .reconcile(Call { request, ports: &ports, context: context.clone(), limits, round, must_be_made: true })
                .await
        };
        let called = work.metered(making.instrument(span.clone())).await;
        let cpu = called.cpu.max(work.used());
        self.status.used(cpu);
        permit.finish(cpu * SHADOW_CPU_PRICE);
        span.in_scope(|| enter(next, &context, &shadowed, &current, &called));
        context.overlay.close();
    }
}

/// Enters the differences between the two calls into the ledger.
fn enter(next: &NextVersion, call: &CallContext, shadowed: &ShadowedCall, current: &Called, called: &Called) {
    if !called.made {
        return next.ledger.passed_over("it was not called");
    }
    if called.result.is_wait() {
        return next.ledger.evaded("it waited too long for an answer");
    }
    if shadowed.wanted().is_too_much() {
        return next.ledger.evaded("it wanted to write more than is compared");
    }
    let ended_well =
        matches!(called.result, CallResult::Done | CallResult::RequeueAfter(_) | CallResult::RequeueBackoff);
    let found = compared(call, shadowed, current, called);
    let (differences, first) = (found.len(), found.first().cloned());
    let is_news = next.ledger.compared(&call.controller, &call.primary_key, found, ended_well);
    if let Some(first) = first.filter(|_| is_news) {
        tracing::info!(digest = next.plugin.short_digest(), differences, %first, "the next version would act differently");
    }
}

/// The differences between both calls about a primary, without the secrets of the plugin's configuration.
fn compared(call: &CallContext, shadowed: &ShadowedCall, current: &Called, next: &Called) -> Vec<IntentDifference> {
    let primary = &call.primary_ref();
    let (notes, wanted) = (shadowed.notes(), shadowed.wanted());
    let before = |object: &ObjectRef| {
        let mut known = notes.before.iter().chain(&wanted.before);
        known.find(|(known, _)| known == object).map_or(DryState::Unknown, |(_, state)| DryState::of(state))
    };
    let mut found: Vec<_> = end_difference(&current.result, &next.result).into_iter().collect();
    if current.keeps_finalizer != next.keeps_finalizer {
        let effect = |keeps: bool| if keeps { "does not let it go yet" } else { "lets it go" };
        let text = format!("{} → {}", effect(current.keeps_finalizer), effect(next.keeps_finalizer));
        found.push(IntentDifference { about: primary.to_string(), text });
    }
    let written = notes.answers.asks().flat_map(Ask::operations);
    found.extend(differences(primary, written, &wanted.writes, &before, &call.config));
    for (what, is_one) in OTHERS {
        found.extend(unlike(
            what,
            notes.answers.asks().filter(|ask| is_one(ask)),
            wanted.others.iter().filter(|ask| is_one(ask)),
        ));
    }
    found.extend(wanted.refused().iter().map(|request| IntentDifference {
        about: "the call".to_owned(),
        text: format!("does not ask → asks {}, which is not sent for a shadow", json!(request)),
    }));
    for difference in &mut found {
        call.config.redact_in(&mut difference.text);
    }
    found
}

/// The difference between asks that are only compared for equality.
fn unlike<'a>(
    what: &str,
    current: impl Iterator<Item = &'a Ask>,
    next: impl Iterator<Item = &'a Ask>,
) -> Option<IntentDifference> {
    let (current, next): (Vec<_>, Vec<_>) = (current.collect(), next.collect());
    let times = |ask: &Ask, all: &[&Ask]| all.iter().filter(|it| **it == ask).count();
    let is_alike = current.len() == next.len() && next.iter().all(|ask| times(ask, &current) == times(ask, &next));
    let text = || format!("{} → {}, which are not the same", current.len(), next.len());
    (!is_alike).then(|| IntentDifference { about: what.to_owned(), text: text() })
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::time::Duration;

    use tokio::sync::{mpsc, oneshot, watch};
    use tokio_util::sync::CancellationToken;
    use windlass_core::budget::fair::Fair;
    use windlass_core::call::ports::{Absent, ReadingPort};
    use windlass_core::object::ObjectKey;
    use windlass_core::secret::confidential::Confidential;
    use windlass_wasm::CallLimits;

    use super::super::noted::CallNotes;
    use super::super::{ShadowLedger, Shadows};
    use super::*;
    use crate::observe::metrics::HostMetrics;
    use crate::tests::{played, simulated};

    /// A plugin that reports each call, and answers when the test lets it.
    struct Held(mpsc::UnboundedSender<(ObjectKey, oneshot::Sender<()>)>);

    impl Reconcile for Held {
        fn reconcile<'a>(&'a self, call: Call<'a>) -> futures::future::BoxFuture<'a, Called> {
            Box::pin(async move {
                let (answer, answered) = oneshot::channel();
                self.0.send((call.request.key, answer)).expect("the test listens");
                answered.await.expect("the test answers");
                Called::made(CallResult::Done, Duration::ZERO)
            })
        }
    }

    fn version(plugin: &Arc<Plugin>) -> NextVersion {
        let configured = watch::channel(Some(Confidential::from("{}"))).1;
        let share = Fair::new(1, 8).share(NonZeroU32::MIN);
        let live = ReadingPort::new(Arc::new(Absent));
        let following = CancellationToken::new().drop_guard();
        NextVersion::new(plugin.clone(), configured, share, live, Arc::default(), following)
    }

    fn noted(ledger: &Arc<ShadowLedger>, name: &str) -> NotedCall {
        let (mut request, context) = played::call(None);
        request.key = ObjectKey::namespaced("prod", name);
        let context = Arc::into_inner(context).expect("the only reference");
        let ended = Called::made(CallResult::Done, Duration::ZERO);
        NotedCall::new(ledger.clone(), request, context, CallLimits::default(), CallNotes::default(), ended)
    }

    #[tokio::test]
    async fn a_replaced_versions_calls_are_dropped_and_its_successors_are_made() {
        let (plugin, name, shadows) = (simulated::plugin().await, Arc::from("a"), Shadows::default());
        let (sender, mut calls) = mpsc::unbounded_channel();
        let caller = ShadowCaller {
            backlog: Arc::default(),
            next: shadows.of(&name),
            reads: Arc::new(Absent),
            callee: Box::new(move |_| Box::new(Held(sender.clone()))),
            status: ControllerStatus::unlisted(&name, "a", 1, HostMetrics::new().controller("a", "a")),
        };
        let [replaced, current, last] = [(); 3].map(|()| version(&plugin));
        let [old, new, newest] = [&replaced, &current, &last].map(|version| version.ledger.clone());
        let backlog = caller.backlog.clone();
        let test = async {
            shadows.set(&name, Some(replaced));
            assert!(backlog.offer(noted(&old, "begun")) && backlog.offer(noted(&old, "waiting")));
            let (key, unanswered) = calls.recv().await.expect("a call");
            assert_eq!(key.name, "begun".into());
            // Both lines run before the caller sees that there is another version.
            shadows.set(&name, Some(current));
            assert!(backlog.offer(noted(&new, "first")));
            let (key, answer) = calls.recv().await.expect("a call");
            assert_eq!(key.name, "first".into());
            assert!(unanswered.is_closed(), "the call of the replaced version has ended");
            answer.send(()).expect("it waits");
            new.agrees(1, Duration::ZERO).await;
            shadows.set(&name, None);
            assert!(backlog.offer(noted(&new, "late")));
            shadows.set(&name, Some(last));
            assert!(backlog.offer(noted(&newest, "last")));
            assert_eq!(calls.recv().await.expect("a call").0.name, "last".into());
        };
        tokio::select! {
            () = caller.run() => unreachable!("it runs for ever"),
            () = test => {}
        }
        let compared = [old, new].map(|ledger| ledger.to_json()["calls"]["agreeing"].clone());
        assert_eq!(compared, [0, 1].map(serde_json::Value::from));
    }
}
