//! The state of each key of one controller, and the reason. This gathers the facts from the parts that have them;
//! [`KeyState`] decides.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::object::ObjectKey;
use windlass_core::queue::key_state::{CallBlock, KeyFacts, KeyState};
use windlass_core::queue::{Queue, QueuedKey};
use windlass_core::write::gate::Gate;

use super::super::calls::{CallsGlance, KeyFailure, rounded};
use super::super::{locked, shortened};
use super::{CallGuards, ControllerState, ControllerStatus, GateCaches, KeySource};

/// One key of a list.
#[derive(Clone, Debug)]
pub(crate) struct KeyListing {
    pub(crate) key: ObjectKey,
    /// The name in the manifest.
    pub(crate) controller: Arc<str>,
    pub(crate) state: KeyState,
    /// How long the key has been in a call, settling, ready or held.
    since: Option<Duration>,
    queued: Option<QueuedKey>,
    glance: CallsGlance,
}

/// The parts that know keys, at one moment.
struct KeyParts {
    block: Option<CallBlock>,
    /// Why the controller is not at work.
    reason: Option<String>,
    queue: Option<Queue<ObjectKey>>,
    gate: Option<(Arc<Gate>, Arc<dyn GateCaches>)>,
    guards: Option<Arc<dyn CallGuards>>,
    source: Option<Arc<dyn KeySource>>,
}

impl ControllerStatus {
    /// Its name in the manifest.
    pub(crate) fn own_name(&self) -> &str {
        self.name.split_once('/').map_or(&*self.name, |(_, name)| name)
    }

    /// Everything that is known of `key`: its state, the reason, and its last calls. `None` if nothing is known.
    pub(crate) fn key(&self, key: &ObjectKey) -> Option<Value> {
        let parts = self.parts();
        let queued = parts.queue.as_ref().and_then(|queue| queue.look(key));
        let (settling, glance) = (self.settling.since(key), self.calls.glance(key));
        let has_primary = parts.source.as_ref().is_some_and(|source| source.has(key));
        let calls = self.calls.to_json(key);
        if !has_primary && queued.is_none() && settling.is_none() && calls.is_empty() {
            return None;
        }
        let timer = parts.source.as_ref().filter(|_| has_primary).and_then(|source| source.timer());
        let looping = parts.guards.as_ref().and_then(|guards| guards.loops_over(key));
        let unchanged = parts.guards.as_ref().and_then(|guards| guards.unchanged(key));
        let state = state(&parts, queued, &glance, settling.is_some(), looping.is_some());
        let since = since(state, queued, &glance, settling);
        let triggers = parts.source.as_ref().map(|source| source.triggers(key)).unwrap_or_default();
        Some(json!({
            "key": key.to_string(),
            "namespace": key.namespace.as_deref(),
            "name": &*key.name,
            "controller": self.own_name(),
            "state": state.as_str(),
            "why": why(state, &parts),
            "exists": has_primary,
            "sinceSeconds": since.map(rounded),
            "triggers": triggers.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "failures": queued.map_or(0, |queued| queued.failures),
            "attempts": queued.map_or(0, |queued| queued.counted),
            "retryInSeconds": queued.and_then(|queued| queued.due_in).map(rounded),
            "waitsFor": parts.held(key),
            "loopsOver": looping.as_deref(),
            "unchanged": unchanged.map(|unchanged| json!({
                "seconds": rounded(unchanged.since), "savedCalls": unchanged.saved,
            })),
            "timer": timer,
            "lastError": glance.failure.as_ref().map(KeyFailure::to_json),
            "calls": calls,
        }))
    }

    /// All known keys, in no particular order. Each key is looked at, which takes some milliseconds for a hundred
    /// thousand keys.
    pub(crate) fn keys(&self) -> Vec<KeyListing> {
        let parts = self.parts();
        let mut glances = self.calls.glances();
        let settling = self.settling.all();
        let mut known: HashMap<ObjectKey, Option<QueuedKey>> = HashMap::new();
        let names = glances.keys().chain(settling.keys()).cloned();
        known.extend(names.map(|key| (key, None)));
        let queued = parts.queue.as_ref().map(Queue::known).unwrap_or_default();
        known.extend(queued.into_iter().map(|(key, queued)| (key, Some(queued))));
        let all = parts.source.as_ref().map(|source| source.all()).unwrap_or_default();
        for key in all {
            known.entry(key).or_default();
        }
        let controller: Arc<str> = self.own_name().into();
        let listed = known.into_iter().map(|(key, queued)| {
            let glance = glances.remove(&key).unwrap_or_default();
            let is_looping = parts.guards.as_ref().is_some_and(|guards| guards.loops_over(&key).is_some());
            let state = state(&parts, queued, &glance, settling.contains_key(&key), is_looping);
            let since = since(state, queued, &glance, settling.get(&key).copied());
            KeyListing { key, controller: controller.clone(), state, since, queued, glance }
        });
        listed.collect()
    }

    /// The watches whose caches have not been listed since the server was restored.
    pub(in super::super) fn unproven(&self) -> Vec<String> {
        self.parts().source.map_or_else(Vec::new, |source| source.unproven())
    }

    /// Why no call can be made now.
    pub(in super::super) fn block(&self) -> Option<CallBlock> {
        self.parts().block
    }

    fn parts(&self) -> KeyParts {
        let doing = locked(&self.doing);
        let source = doing.source.as_ref().and_then(std::sync::Weak::upgrade);
        let (queue, guards, reason) = (doing.queue.clone(), doing.guards.clone(), doing.reason.clone());
        let gate = doing.gate.clone().and_then(|(gate, caches)| Some((gate.upgrade()?, caches)));
        let is_served = doing.state == ControllerState::Running;
        drop(doing);
        let block = match &source {
            Some(source) if is_served => source.block(),
            _ => Some(CallBlock::NotServed),
        };
        KeyParts { block, reason, queue, gate, guards, source }
    }
}

impl KeyParts {
    /// The state that `key` must see before it runs.
    fn held(&self, key: &ObjectKey) -> Option<Value> {
        let (gate, caches) = self.gate.as_ref()?;
        let (held, now) = gate.waits_for(key)?;
        Some(json!({
            "watch": caches.watch(held.cache),
            "what": shortened(held.what),
            "seconds": rounded(now.0.saturating_sub(held.since.0)),
            "cacheVersion": held.cache_version.map(|version| version.to_string()),
            "silentSeconds": caches.silence(held.cache).map(rounded),
        }))
    }
}

impl KeyListing {
    /// The key as JSON, for a list of keys.
    pub(crate) fn to_json(&self) -> Value {
        let due_in = self.queued.and_then(|queued| queued.due_in);
        json!({
            "key": self.key.to_string(),
            "controller": &*self.controller,
            "state": self.state.as_str(),
            "sinceSeconds": self.since.map(rounded),
            "failures": self.queued.map_or(0, |queued| queued.failures),
            "retryInSeconds": due_in.map(rounded),
            "lastError": self.glance.failure.as_ref().map(|failure| &*failure.error),
        })
    }
}

fn state(
    parts: &KeyParts,
    queued: Option<QueuedKey>,
    glance: &CallsGlance,
    is_settling: bool,
    is_looping: bool,
) -> KeyState {
    KeyState::of(&KeyFacts {
        queued,
        is_called: glance.running.is_some(),
        is_settling,
        is_looping,
        block: parts.block,
        last: glance.last,
    })
}

/// How long a key has been in a call, settling, ready or held. `None` if it is in none of these states.
fn since(
    state: KeyState,
    queued: Option<QueuedKey>,
    glance: &CallsGlance,
    settling: Option<Duration>,
) -> Option<Duration> {
    match state {
        KeyState::Running => glance.running,
        KeyState::Settling => settling,
        _ => queued.map(|queued| queued.waited).filter(|waited| !waited.is_zero()),
    }
}

fn why(state: KeyState, parts: &KeyParts) -> String {
    match &parts.reason {
        Some(reason) if state == KeyState::NotServed => format!("{}: {reason}", state.why()),
        _ => state.why().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;

    use windlass_core::object::ObjectKind;
    use windlass_core::queue::ItemExponential;
    use windlass_core::queue::key_state::CallEnd;
    use windlass_core::queue::outcome::Retry;
    use windlass_core::queue::trigger::{TriggerReason, Triggers};
    use windlass_kube::ConditionCounts;

    use super::super::super::calls::KeyCallEnd;
    use super::super::ResumedController;
    use super::*;
    use crate::clock::SystemClock;
    use crate::observe::metrics::HostMetrics;
    use crate::tests::played::call;

    /// A source with one primary, `prod/shop`, which a change has queued.
    #[derive(Default)]
    struct OnePrimary(Option<CallBlock>);

    impl KeySource for OnePrimary {
        fn block(&self) -> Option<CallBlock> {
            self.0
        }

        fn unproven(&self) -> Vec<String> {
            Vec::new()
        }

        fn has(&self, key: &ObjectKey) -> bool {
            *key == shop()
        }

        fn all(&self) -> Vec<ObjectKey> {
            vec![shop()]
        }

        fn triggers(&self, _: &ObjectKey) -> Triggers {
            let mut triggers = Triggers::default();
            triggers.note(&Arc::new(TriggerReason::Resync.into()));
            triggers
        }

        fn timer(&self) -> Option<Value> {
            None
        }

        fn conditions(&self) -> (ObjectKind, ConditionCounts) {
            (ObjectKind::new("v1", "Shop"), ConditionCounts::default())
        }

        fn resume(&self) -> ResumedController {
            ResumedController::default()
        }
    }

    fn shop() -> ObjectKey {
        ObjectKey::namespaced("prod", "shop")
    }

    /// A working controller, its queue, and its source of keys. Keep the source alive.
    fn at_work(source: OnePrimary) -> (Arc<ControllerStatus>, Queue<ObjectKey>, Arc<dyn KeySource>) {
        let metrics = HostMetrics::new().controller("webapp", "web");
        let status = ControllerStatus::unlisted(&"webapp".into(), "web", 1, metrics);
        let queue = Queue::new(Arc::new(SystemClock::new()), ItemExponential::default());
        status.begins(queue.clone());
        let source: Arc<dyn KeySource> = Arc::new(source);
        status.dispatched_by(Arc::downgrade(&source));
        status.set(ControllerState::Running, None);
        (status, queue, source)
    }

    fn states(status: &ControllerStatus) -> Vec<(String, &'static str)> {
        let mut all: Vec<_> = status.keys().iter().map(|it| (it.key.to_string(), it.state.as_str())).collect();
        all.sort();
        all
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_key_shows_its_error_its_failures_and_why_it_waits() {
        let (status, queue, _source) = at_work(OnePrimary::default());
        assert_eq!(status.key(&shop()).expect("it is there")["state"], "done");
        queue.add(shop());
        let queued = status.key(&shop()).expect("it is there");
        assert_eq!((&queued["state"], &queued["triggers"]), (&json!("queued"), &json!(["Resync"])));
        let key = queue.get().await.expect("it is queued");
        {
            let _active = status.call(&key);
            assert_eq!(status.key(&key).expect("it is there")["state"], "running");
            queue.add_rate_limited(key.clone(), Retry::Counted, Some(Duration::from_secs(30)));
            let end = KeyCallEnd { end: CallEnd::Failed, error: "no image", context: &call(None).1 };
            status.calls.ended(&key, end);
        }
        queue.done(&key);
        let shown = status.key(&key).expect("it is there");
        assert_eq!((&shown["state"], &shown["attempts"]), (&json!("backoff"), &json!(1)), "{shown}");
        assert_eq!((&shown["retryInSeconds"], &shown["lastError"]["error"]), (&json!(30.0), &json!("no image")));
        assert_eq!(shown["calls"].as_array().map(Vec::len), Some(1));
        assert_eq!(
            (status.failing(queue.metrics().failing), states(&status)),
            (1, vec![("prod/shop".to_owned(), "backoff")])
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_of_a_blocked_controller_shows_the_obstacle() {
        let (status, queue, source) = at_work(OnePrimary(Some(CallBlock::BreakerOpen)));
        queue.add(shop());
        tokio::time::advance(Duration::from_mins(7)).await;
        assert_eq!(states(&status), [("prod/shop".to_owned(), "breaker-open")]);
        let listed: Vec<_> = status.keys().iter().map(KeyListing::to_json).collect();
        assert_eq!(listed[0]["sinceSeconds"], json!(420.0), "a list tells how late each key is, too");
        status.set(ControllerState::StandingBy, Some("another replica holds its lease".to_owned()));
        let shown = status.key(&shop()).expect("it is there");
        assert_eq!(shown["state"], "not-served");
        assert!(shown["why"].as_str().is_some_and(|why| why.ends_with("another replica holds its lease")), "{shown}");
        drop(source);
        status.set(ControllerState::Running, None);
        assert_eq!(states(&status), [("prod/shop".to_owned(), "not-served")], "its round has ended");
    }

    #[tokio::test(start_paused = true)]
    async fn an_unknown_key_has_no_story() {
        let (status, _queue, _source) = at_work(OnePrimary::default());
        assert_eq!(status.key(&ObjectKey::namespaced("prod", "other")), None);
        status.dispatched_by(Weak::<OnePrimary>::new());
        assert_eq!(status.key(&shop()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn keys_that_wait_for_a_write_and_keys_that_failed_for_good_are_listed() {
        let (status, _queue, _source) = at_work(OnePrimary::default());
        let other = ObjectKey::namespaced("prod", "other");
        let _settling = status.settling.begin(other.clone());
        drop(status.call(&shop()));
        status.calls.begin(&shop());
        let end = KeyCallEnd { end: CallEnd::FailedForGood, error: "never", context: &call(None).1 };
        status.calls.ended(&shop(), end);
        assert_eq!(states(&status), [("prod/other".to_owned(), "settling"), ("prod/shop".to_owned(), "failed")]);
        assert_eq!(status.failing(0), 1);
    }
}
