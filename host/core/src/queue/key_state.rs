//! Why a key is not done: its state, decided once from the facts of queue, gate and dispatch.
//!
//! For display only. Nothing that the host does depends on it: the parts of the host that hold a key back have decided
//! already, and this value names the reason that matters. Status, command line and metrics all show this value and its
//! reason.

use crate::queue::{DirtyStage, QueuedKey};

/// Why a controller can make no call now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallBlock {
    /// The controller does not run in this process.
    NotServed,
    /// The API server does not answer.
    ServerUnreachable,
    /// The server was restored, or may have been, and the controller's caches do not show that yet.
    CachesUnproven,
    /// The operator has paused the plugin.
    PluginPaused,
    /// The controller's circuit breaker is open.
    BreakerOpen,
}

/// How the last call about a key ended, if that is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// Nothing is left to do.
    Done,
    /// The call asked to run again later.
    RequeueAfter,
    /// The call asked to run again after the key's backoff.
    RequeueBackoff,
    /// The call failed, and is retried after the key's backoff.
    Failed,
    /// The key used up its retries, and is now retried rarely.
    GaveUp,
    /// The call failed, and no retry would help.
    FailedForGood,
    /// The plugin lacked a right.
    Denied,
    /// No call was made, because the operator does not want one.
    NotMade,
    /// No call was made, because it could have changed nothing.
    Saved,
}

impl CallEnd {
    /// In `kebab-case`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::RequeueAfter => "requeue-after",
            Self::RequeueBackoff => "requeue-backoff",
            Self::Failed => "failed",
            Self::GaveUp => "gave-up",
            Self::FailedForGood => "failed-for-good",
            Self::Denied => "denied",
            Self::NotMade => "not-made",
            Self::Saved => "saved",
        }
    }

    /// Whether a person may have to look at the key.
    #[must_use]
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Failed | Self::GaveUp | Self::FailedForGood | Self::Denied)
    }
}

/// The facts about one key from which its state follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyFacts {
    /// The queue's knowledge about the key, if it has any.
    pub queued: Option<QueuedKey>,
    /// Whether a call about the key is under way.
    pub is_called: bool,
    /// Whether the key's call has ended, but a write of that call has not settled.
    pub is_settling: bool,
    /// Whether the key is slowed down because it writes one object over and over.
    pub is_looping: bool,
    /// Why the controller can make no call.
    pub block: Option<CallBlock>,
    /// How its last call ended.
    pub last: Option<CallEnd>,
}

/// The state of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyState {
    /// There is nothing to do.
    Done,
    /// The key's last call asked to run again later.
    Scheduled,
    /// The key waits for a worker.
    Queued,
    /// A worker has the key and waits for a call permit.
    WaitingForPermit,
    /// A call about the key is under way.
    Running,
    /// The gate holds the key until a cache shows the key's own writes.
    Held,
    /// The key waits until a write of its last call has settled.
    Settling,
    /// The key's last call failed, and the key waits for the retry.
    Backoff,
    /// The key's retries are used up, and it is retried rarely.
    GivenUp,
    /// The key's last call failed for good.
    Failed,
    /// The key's last call lacked a right.
    Denied,
    /// The key writes one object over and over, and is slowed down.
    HotLoop,
    /// The key's object is paused.
    Paused,
    /// The key's plugin is paused.
    PluginPaused,
    /// The controller's circuit breaker is open.
    BreakerOpen,
    /// The API server does not answer.
    ServerUnreachable,
    /// The server was restored, or may have been, and the controller's caches do not show that yet.
    CachesUnproven,
    /// The key's controller does not run in this process.
    NotServed,
}

impl KeyState {
    pub const ALL: [Self; 18] = [
        Self::Done,
        Self::Scheduled,
        Self::Queued,
        Self::WaitingForPermit,
        Self::Running,
        Self::Held,
        Self::Settling,
        Self::Backoff,
        Self::GivenUp,
        Self::Failed,
        Self::Denied,
        Self::HotLoop,
        Self::Paused,
        Self::PluginPaused,
        Self::BreakerOpen,
        Self::ServerUnreachable,
        Self::CachesUnproven,
        Self::NotServed,
    ];

    /// Decides the state from the facts.
    #[must_use]
    pub fn of(facts: &KeyFacts) -> Self {
        if facts.block == Some(CallBlock::NotServed) {
            return Self::NotServed;
        }
        if facts.is_settling {
            return Self::Settling;
        }
        if facts.is_called {
            return Self::Running;
        }
        let Some(queued) = facts.queued else {
            return if facts.is_looping { Self::HotLoop } else { Self::at_rest(facts.last) };
        };
        match (queued.stage, facts.block) {
            (DirtyStage::Idle, Some(block)) if queued.due_in.is_some_and(|due_in| due_in.is_zero()) => {
                Self::blocked(block)
            }
            (DirtyStage::Parked, _) => Self::Held,
            (DirtyStage::Ready | DirtyStage::Processing, Some(block)) => Self::blocked(block),
            (DirtyStage::Processing, None) => Self::WaitingForPermit,
            (DirtyStage::Ready, None) => Self::Queued,
            (DirtyStage::Idle, _) if facts.is_looping => Self::HotLoop,
            (DirtyStage::Idle, _) if facts.last == Some(CallEnd::GaveUp) => Self::GivenUp,
            (DirtyStage::Idle, _) if queued.due_in.is_none() => Self::at_rest(facts.last),
            (DirtyStage::Idle, _) if queued.failures > 0 => Self::Backoff,
            (DirtyStage::Idle, _) => Self::Scheduled,
        }
    }

    /// The state of a key that runs again only after a change.
    fn at_rest(last: Option<CallEnd>) -> Self {
        match last {
            Some(CallEnd::FailedForGood) => Self::Failed,
            Some(CallEnd::Denied) => Self::Denied,
            Some(CallEnd::NotMade) => Self::Paused,
            Some(
                CallEnd::Done
                | CallEnd::RequeueAfter
                | CallEnd::RequeueBackoff
                | CallEnd::Failed
                | CallEnd::GaveUp
                | CallEnd::Saved,
            )
            | None => Self::Done,
        }
    }

    fn blocked(block: CallBlock) -> Self {
        match block {
            CallBlock::NotServed => Self::NotServed,
            CallBlock::ServerUnreachable => Self::ServerUnreachable,
            CallBlock::CachesUnproven => Self::CachesUnproven,
            CallBlock::PluginPaused => Self::PluginPaused,
            CallBlock::BreakerOpen => Self::BreakerOpen,
        }
    }

    /// In `kebab-case`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Scheduled => "scheduled",
            Self::Queued => "queued",
            Self::WaitingForPermit => "waiting-for-permit",
            Self::Running => "running",
            Self::Held => "held",
            Self::Settling => "settling",
            Self::Backoff => "backoff",
            Self::GivenUp => "given-up",
            Self::Failed => "failed",
            Self::Denied => "denied",
            Self::HotLoop => "hot-loop",
            Self::Paused => "paused",
            Self::PluginPaused => "plugin-paused",
            Self::BreakerOpen => "breaker-open",
            Self::ServerUnreachable => "api-server-unreachable",
            Self::CachesUnproven => "caches-unproven",
            Self::NotServed => "not-served",
        }
    }

    /// The reason, as a sentence for people.
    #[must_use]
    pub fn why(self) -> &'static str {
        match self {
            Self::Done => "there is nothing to do until one of its objects changes",
            Self::Scheduled => "its last call asked to run again later",
            Self::Queued => "it waits for a worker: all workers of the controller have other keys",
            Self::WaitingForPermit => "a worker has it and waits for a permit: other calls of the host have them all",
            Self::Running => "the plugin is called about it now",
            Self::Held => "it does not run until a cache shows what its last call has written",
            Self::Settling => "it does not run until the outcome of a write of its last call is known",
            Self::Backoff => "its last call failed: it waits for its next attempt",
            Self::GivenUp => "its counted retries are used up: it is tried rarely, or when its object is changed",
            Self::Failed => "the plugin says that no retry would help: it runs when one of its objects changes",
            Self::Denied => "the plugin lacks a right: it runs when its policy or one of its objects changes",
            Self::HotLoop => "its calls write one object over and over: it runs rarely, or when its object is changed",
            Self::Paused => "its object has the annotation windlass.dev/paused",
            Self::PluginPaused => "the plugin's policy says `paused: true`",
            Self::BreakerOpen => "the circuit is open: calls about many objects in a row ended without an answer",
            Self::ServerUnreachable => "the API server does not answer, so no call is made",
            Self::CachesUnproven => {
                "the API server was restored, or may have been: no call is made until the caches have been listed anew"
            }
            Self::NotServed => "its controller does not run in this process",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;

    fn facts(stage: DirtyStage) -> KeyFacts {
        let waited = Duration::from_secs(1);
        let queued = QueuedKey { stage, waited, due_in: None, failures: 0, counted: 0 };
        KeyFacts { queued: Some(queued), ..KeyFacts::default() }
    }

    /// An idle key that is delayed and has this many failures.
    fn due(failures: u32, last: Option<CallEnd>) -> KeyFacts {
        let facts = facts(DirtyStage::Idle);
        let due_in = Some(Duration::from_secs(5));
        KeyFacts { queued: facts.queued.map(|queued| QueuedKey { due_in, failures, ..queued }), last, ..facts }
    }

    #[test]
    fn the_stage_in_the_queue_decides_who_has_a_key() {
        let state = |stage| KeyState::of(&facts(stage));
        let stages = [DirtyStage::Ready, DirtyStage::Processing, DirtyStage::Parked, DirtyStage::Idle];
        let expected = [KeyState::Queued, KeyState::WaitingForPermit, KeyState::Held, KeyState::Done];
        assert_eq!(stages.map(state), expected);
        let called = KeyFacts { is_called: true, ..facts(DirtyStage::Processing) };
        assert_eq!(KeyState::of(&called), KeyState::Running);
        assert_eq!(KeyState::of(&KeyFacts { is_settling: true, ..called }), KeyState::Settling);
        assert_eq!(KeyState::of(&KeyFacts { block: Some(CallBlock::NotServed), ..called }), KeyState::NotServed);
    }

    #[test]
    fn a_runnable_key_has_the_state_of_its_blocked_controller() {
        use CallBlock::{BreakerOpen, CachesUnproven, PluginPaused, ServerUnreachable};
        let blocks = [ServerUnreachable, CachesUnproven, PluginPaused, BreakerOpen];
        let expected =
            [KeyState::ServerUnreachable, KeyState::CachesUnproven, KeyState::PluginPaused, KeyState::BreakerOpen];
        for stage in [DirtyStage::Ready, DirtyStage::Processing] {
            let state = |block| KeyState::of(&KeyFacts { block: Some(block), ..facts(stage) });
            assert_eq!(blocks.map(state), expected);
        }
        let called = KeyFacts { is_called: true, block: Some(blocks[0]), ..facts(DirtyStage::Processing) };
        assert_eq!(KeyState::of(&called), KeyState::Running, "a call that has begun goes on");
        let waits = KeyFacts { block: Some(blocks[0]), ..due(1, Some(CallEnd::Failed)) };
        assert_eq!(KeyState::of(&waits), KeyState::Backoff, "it would not run now in any case");
        let queued = waits.queued.map(|queued| QueuedKey { due_in: Some(Duration::ZERO), ..queued });
        assert_eq!(KeyState::of(&KeyFacts { queued, ..waits }), KeyState::ServerUnreachable, "its time has come");
    }

    #[test]
    fn a_delayed_key_says_why_it_waits() {
        let state = |failures, last| KeyState::of(&due(failures, last));
        assert_eq!(state(0, Some(CallEnd::RequeueAfter)), KeyState::Scheduled);
        assert_eq!(state(0, Some(CallEnd::RequeueBackoff)), KeyState::Scheduled);
        assert_eq!(state(2, Some(CallEnd::Failed)), KeyState::Backoff);
        assert_eq!(state(2, None), KeyState::Backoff, "also when its call is not remembered");
        assert_eq!(state(15, Some(CallEnd::GaveUp)), KeyState::GivenUp);
        let looping = KeyFacts { is_looping: true, ..due(0, Some(CallEnd::NotMade)) };
        assert_eq!(KeyState::of(&looping), KeyState::HotLoop);
        assert_eq!(
            KeyState::of(&KeyFacts { queued: None, ..looping }),
            KeyState::HotLoop,
            "also while there is nothing to do"
        );
    }

    #[test]
    fn a_key_at_rest_is_done_unless_its_last_call_says_otherwise() {
        let state = |last| KeyState::of(&KeyFacts { last, ..KeyFacts::default() });
        assert_eq!([state(None), state(Some(CallEnd::Done))], [KeyState::Done; 2]);
        assert_eq!(state(Some(CallEnd::FailedForGood)), KeyState::Failed);
        assert_eq!(state(Some(CallEnd::Denied)), KeyState::Denied);
        assert_eq!(state(Some(CallEnd::NotMade)), KeyState::Paused);
    }

    #[test]
    fn each_state_has_a_name_and_a_reason_of_its_own() {
        for describe in [KeyState::as_str, KeyState::why] {
            let all: BTreeSet<_> = KeyState::ALL.iter().map(|state| describe(*state)).collect();
            assert_eq!(all.len(), KeyState::ALL.len());
        }
    }
}
