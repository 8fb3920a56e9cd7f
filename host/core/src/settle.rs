//! When all that a call has set in motion is over.
//!
//! A call ends by answering, by trapping, or at its deadline; a write that it has sent ends later. Whoever works for a
//! call holds a [`Hold`] (it is part of the call's context), and the key is not done before [`Settled`] says so.
//!
//! A mutation ends committed, refused, or with an unknown outcome: it was sent, and nobody said what became of it. One
//! that is unknown holds its key until it can no longer be carried out, or has shown (ADR 5). The server is asked for its
//! object: [`after_look`] and [`after_look_for_create`] decide what follows from the answer.

use std::convert::Infallible;

use tokio::sync::mpsc;

/// Held by everything that works for a call. Clones count; dropping the last one settles the call.
#[derive(Clone, Debug)]
pub struct Hold {
    _sender: mpsc::Sender<Infallible>,
}

/// Waits until no [`Hold`] of its call is left.
#[derive(Debug)]
pub struct Settled(mpsc::Receiver<Infallible>);

/// A hold and what waits for it and all its clones to be dropped.
#[must_use]
pub fn hold() -> (Hold, Settled) {
    let (sender, receiver) = mpsc::channel(1);
    (Hold { _sender: sender }, Settled(receiver))
}

impl Hold {
    /// A hold that nobody waits for.
    #[must_use]
    pub fn detached() -> Self {
        hold().0
    }
}

impl Settled {
    /// Whether the last hold has been dropped.
    pub fn is_over(&mut self) -> bool {
        matches!(self.0.try_recv(), Err(mpsc::error::TryRecvError::Disconnected))
    }

    /// Completes when the last hold has been dropped.
    pub async fn wait(mut self) {
        // Nothing can be sent, so this ends with the last sender.
        let None = self.0.recv().await;
    }
}

/// How the request of a mutation ended whose outcome is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The server itself has answered, so it does no more about the request. What it has handed to its storage may still
    /// be stored, but only upon the state that the server had read.
    Answered,
    /// Nobody knows whether the server still works on it.
    Silent,
}

/// The result of a live read of an object, of which it is not known whether a write of the plugin's has changed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettleLook {
    /// The object as the write was to leave it, and by nothing but the write.
    Ours,
    /// Any other object. A create has been refused, or will be for as long as this object exists.
    AnothersObject,
    /// No object.
    Nothing,
    /// The server answered, and does not tell: the read is forbidden, or cannot be understood.
    Untold,
    /// The server did not answer, or failed.
    Unanswered,
}

/// The consequence of a [`SettleLook`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettleStep {
    /// It is over.
    Settled(Settlement),
    /// Wait until the write cannot be carried out any more, then look again.
    LookWhenOver,
    /// Look again after a pause, however long the server takes to answer: before, the key must not run, since it would
    /// create a second object under another generated name.
    LookSoon,
}

/// How an unknown write has settled. In each case it cannot be carried out later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// It was carried out: what it made is there.
    Committed,
    /// It was not carried out, or what it made has gone again.
    NotCommitted,
    /// Whether it was carried out is not known. The caches may lack what it did until they have proven that they are fresh
    /// (ADR 11).
    Expired,
}

impl Settlement {
    /// For logs and the label of metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Committed => "committed",
            Self::NotCommitted => "not committed",
            Self::Expired => "expired",
        }
    }
}

/// Decides about an unknown create after a look at its name. `over`: the server's time for it had passed before the look.
#[must_use]
pub fn after_look_for_create(look: SettleLook, over: bool) -> SettleStep {
    match (look, over) {
        (SettleLook::Ours, _) => SettleStep::Settled(Settlement::Committed),
        // For as long as it takes: a second create may be of another name.
        (SettleLook::Unanswered, _) => SettleStep::LookSoon,
        // Another's object may be deleted, and the create that is under way then finds the name free.
        (SettleLook::AnothersObject | SettleLook::Nothing | SettleLook::Untold, false) => SettleStep::LookWhenOver,
        (SettleLook::AnothersObject | SettleLook::Nothing, true) => SettleStep::Settled(Settlement::NotCommitted),
        (SettleLook::Untold, true) => SettleStep::Settled(Settlement::Expired),
    }
}

/// The same of any other write. It does no harm twice, so its time ends the wait whatever is seen; and what is not seen may
/// have been carried out and undone by somebody.
#[must_use]
pub fn after_look(look: SettleLook, over: bool) -> SettleStep {
    match (look, over) {
        (SettleLook::Ours, _) => SettleStep::Settled(Settlement::Committed),
        (_, true) => SettleStep::Settled(Settlement::Expired),
        (SettleLook::Unanswered, false) => SettleStep::LookSoon,
        (SettleLook::AnothersObject | SettleLook::Nothing | SettleLook::Untold, false) => SettleStep::LookWhenOver,
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_create_that_is_not_seen_may_still_come_until_its_time_is_over() {
        for look in [SettleLook::Nothing, SettleLook::AnothersObject, SettleLook::Untold] {
            assert_eq!(after_look_for_create(look, false), SettleStep::LookWhenOver, "{look:?}");
        }
        assert_eq!(after_look_for_create(SettleLook::Nothing, true), SettleStep::Settled(Settlement::NotCommitted));
        assert_eq!(
            after_look_for_create(SettleLook::AnothersObject, true),
            SettleStep::Settled(Settlement::NotCommitted)
        );
        assert_eq!(after_look_for_create(SettleLook::Untold, true), SettleStep::Settled(Settlement::Expired));
    }

    #[test]
    fn what_is_there_settles_a_create_and_silence_never_does() {
        for over in [false, true] {
            assert_eq!(after_look_for_create(SettleLook::Ours, over), SettleStep::Settled(Settlement::Committed));
            assert_eq!(after_look_for_create(SettleLook::Unanswered, over), SettleStep::LookSoon);
        }
    }

    #[test]
    fn any_other_write_is_settled_by_its_time_whatever_is_seen() {
        let looks = [SettleLook::Nothing, SettleLook::AnothersObject, SettleLook::Untold, SettleLook::Unanswered];
        for look in looks {
            assert!(!matches!(after_look(look, false), SettleStep::Settled(_)), "{look:?}");
            assert_eq!(after_look(look, true), SettleStep::Settled(Settlement::Expired), "{look:?}");
        }
        assert_eq!(after_look(SettleLook::Ours, false), SettleStep::Settled(Settlement::Committed));
    }

    #[test]
    fn a_call_settles_with_its_last_hold() {
        let (first, settled) = hold();
        let second = first.clone();
        let mut waiting = std::pin::pin!(settled.wait());
        drop(first);
        assert_eq!(waiting.as_mut().now_or_never(), None);
        drop(second);
        assert_eq!(waiting.now_or_never(), Some(()));
    }
}
