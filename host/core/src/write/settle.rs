//! Decides when everything that a call has started is over.
//!
//! A call ends with an answer, with a trap, or at its deadline. A write that it has sent may end later. Everything that
//! works for a call holds a [`Hold`] (it is part of the call's context), and the key is done only when [`Settled`]
//! completes.
//!
//! A mutation ends committed, refused, or with an unknown outcome if it was sent and no response came. An unknown
//! mutation holds its key until it has taken effect visibly or can no longer do so (ADR 5). The host reads the object
//! from the server; [`after_look`] and [`after_look_for_create`] decide what follows.

use std::convert::Infallible;

use tokio::sync::mpsc;

use crate::object::compact::{Uid, Version};

/// Held by everything that works for a call. Clones count too: the call is settled when the last one is dropped.
#[derive(Clone, Debug)]
pub struct Hold {
    _sender: mpsc::Sender<Infallible>,
}

/// Waits until no [`Hold`] of its call is left.
#[derive(Debug)]
pub struct Settled(mpsc::Receiver<Infallible>);

/// A hold, and a handle that completes when the hold and all its clones have been dropped.
#[must_use]
pub fn hold() -> (Hold, Settled) {
    let (sender, receiver) = mpsc::channel(1);
    (Hold { _sender: sender }, Settled(receiver))
}

impl Hold {
    /// A hold that no task waits for.
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
        // Nothing can be sent, so this returns when the last sender is dropped.
        let None = self.0.recv().await;
    }
}

/// How the request of a mutation with an unknown outcome ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The server itself has answered, so it stops working on the request. What it has passed to its storage may still
    /// be stored, but only on top of the state that the server had read.
    Answered,
    /// The server may still be working on the request.
    Silent,
}

/// The object that a write applies to, as far as the write identifies it. The server refuses the write for any other
/// object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preconditions {
    pub uid: Option<Uid>,
    /// The `resourceVersion`, as a decimal number. The server treats `0` as no precondition, and refuses anything that
    /// is not a number.
    pub version: Option<u64>,
    /// Whether the write may create the object if it does not exist.
    pub may_create: bool,
}

impl Preconditions {
    /// Whether there is any precondition.
    #[must_use]
    pub fn is_some(&self) -> bool {
        self.uid.is_some() || self.version.is_some()
    }

    /// Whether the server will refuse the write from now on, given the live object. `None` if there is no object.
    ///
    /// UIDs never return and versions only grow, so another UID or a later version proves that the server will refuse
    /// the write. An object at an earlier version may still reach the required version, and a version that is not a
    /// number cannot be compared. If there is no object, the server refuses a write that would create it because of a
    /// required UID, but not because of a required version (`Store.Update` in
    /// `apiserver/pkg/registry/generic/registry/store.go`, `applyPatch` in
    /// `apiserver/pkg/endpoints/handlers/patch.go`).
    #[must_use]
    pub fn fail_for_good(&self, live: Option<(&Uid, &Version)>) -> bool {
        let Some((uid, version)) = live else {
            return self.uid.is_some() || (self.version.is_some() && !self.may_create);
        };
        let is_another = self.uid.as_ref().is_some_and(|named| named != uid);
        let is_later = self.version.is_some_and(|named| version.number().is_some_and(|live| live > named));
        is_another || is_later
    }
}

/// The result of a live read of an object after a write with an unknown outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettleLook {
    /// The object is as the write was meant to leave it, and only that write can have done so.
    Ours,
    /// The write's [`Preconditions`] fail for good: either the write has changed the object, or it never will.
    Superseded,
    /// Any other object. A create has been refused, or will be refused for as long as this object exists.
    OtherObject,
    Nothing,
    /// The server answered, but the answer does not help: the read is forbidden, or the answer cannot be parsed.
    Unclear,
    /// The server did not answer, or failed.
    Unanswered,
}

/// The next step after a [`SettleLook`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettleStep {
    Settled(Settlement),
    /// Look again after a pause, and at the latest when the write can no longer take effect.
    LookAgain,
    /// Wait until the write can no longer take effect, then look again. An earlier look would not help.
    LookWhenOver,
}

/// How a write with an unknown outcome has settled. In each case, the write cannot take effect later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// The write took effect: the object is there.
    Committed,
    /// The write had no effect, or its object is gone again.
    NotCommitted,
    /// The object has moved on from the write's [`Preconditions`]. Whether this write changed it is not known and makes
    /// no difference: any effect is part of the object as it is now.
    Superseded,
    /// Whether the write took effect is not known. The caches may lack the effect until they have proven that they are
    /// fresh (ADR 11).
    Expired,
}

impl Settlement {
    /// The name in logs and metric labels.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Committed => "committed",
            Self::NotCommitted => "not committed",
            Self::Superseded => "superseded",
            Self::Expired => "expired",
        }
    }
}

/// Decides about an unknown create after a read of its name. `over` says that the server's time for the create had
/// passed before the read.
#[must_use]
pub fn after_look_for_create(look: SettleLook, over: bool) -> SettleStep {
    match (look, over) {
        (SettleLook::Ours, _) => SettleStep::Settled(Settlement::Committed),
        (SettleLook::Superseded, _) => SettleStep::Settled(Settlement::Superseded),
        // The key waits for an answer, however long that takes. If the key ran earlier, it could create a second object
        // under another generated name. If another object has the name, that object may be deleted, and the create that
        // is still under way then finds the name free.
        (SettleLook::Unanswered, _) | (SettleLook::OtherObject | SettleLook::Nothing, false) => SettleStep::LookAgain,
        (SettleLook::Unclear, false) => SettleStep::LookWhenOver,
        (SettleLook::OtherObject | SettleLook::Nothing, true) => SettleStep::Settled(Settlement::NotCommitted),
        (SettleLook::Unclear, true) => SettleStep::Settled(Settlement::Expired),
    }
}

/// As [`after_look_for_create`], for any other write. Repeating such a write does no harm, so the wait ends with the
/// server's time, whatever the read shows. If the read does not show the write, the write may have taken effect and
/// been undone by another client.
#[must_use]
pub fn after_look(look: SettleLook, over: bool) -> SettleStep {
    match (look, over) {
        (SettleLook::Ours, _) => SettleStep::Settled(Settlement::Committed),
        (SettleLook::Superseded, _) => SettleStep::Settled(Settlement::Superseded),
        (_, true) => SettleStep::Settled(Settlement::Expired),
        (SettleLook::OtherObject | SettleLook::Nothing | SettleLook::Unanswered, false) => SettleStep::LookAgain,
        (SettleLook::Unclear, false) => SettleStep::LookWhenOver,
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    const LOOKS: [SettleLook; 6] = [
        SettleLook::Ours,
        SettleLook::Superseded,
        SettleLook::OtherObject,
        SettleLook::Nothing,
        SettleLook::Unclear,
        SettleLook::Unanswered,
    ];

    /// The step after each of [`LOOKS`].
    fn steps(after: fn(SettleLook, bool) -> SettleStep, over: bool) -> [SettleStep; 6] {
        LOOKS.map(|look| after(look, over))
    }

    #[test]
    fn a_missing_create_settles_only_by_an_answer_after_its_time() {
        use SettleStep::{LookAgain, LookWhenOver, Settled};
        use Settlement::{Committed, Expired, NotCommitted, Superseded};
        assert_eq!(
            steps(after_look_for_create, false),
            [Settled(Committed), Settled(Superseded), LookAgain, LookAgain, LookWhenOver, LookAgain]
        );
        assert_eq!(
            steps(after_look_for_create, true),
            [
                Settled(Committed),
                Settled(Superseded),
                Settled(NotCommitted),
                Settled(NotCommitted),
                Settled(Expired),
                LookAgain,
            ]
        );
    }

    #[test]
    fn the_end_of_its_time_settles_any_other_write() {
        use SettleStep::{LookAgain, LookWhenOver, Settled};
        use Settlement::{Committed, Expired, Superseded};
        assert_eq!(
            steps(after_look, false),
            [Settled(Committed), Settled(Superseded), LookAgain, LookAgain, LookWhenOver, LookAgain]
        );
        let expired = Settled(Expired);
        assert_eq!(
            steps(after_look, true),
            [Settled(Committed), Settled(Superseded), expired, expired, expired, expired]
        );
    }

    #[test]
    fn another_uid_or_a_later_version_fails_preconditions_for_good() {
        let live = |uid: &str, version: &str| Some((Uid::from(uid), Version::from(version)));
        let naming = |uid: Option<&str>, version| Preconditions { uid: uid.map(Uid::from), version, may_create: false };
        let (uid, version, both) = (naming(Some("u"), None), naming(None, Some(7)), naming(Some("u"), Some(7)));
        for (live, fail) in [
            (live("u", "7"), [false, false, false]),
            (live("u", "8"), [false, true, true]),
            (live("u", "10"), [false, true, true]),
            // The server has gone back to an older state, or the plugin has guessed: the object may still reach version
            // 7.
            (live("u", "6"), [false, false, false]),
            (live("u", "x"), [false, false, false]),
            (live("v", "7"), [true, false, true]),
            (live("v", "6"), [true, false, true]),
            (live("v", "8"), [true, true, true]),
            (None, [true, true, true]),
        ] {
            let live = live.as_ref().map(|(uid, version)| (uid, version));
            assert_eq!([&uid, &version, &both].map(|it| it.fail_for_good(live)), fail, "{live:?}");
            assert!(!Preconditions::default().fail_for_good(live), "there are none: {live:?}");
        }
    }

    #[test]
    fn a_required_version_does_not_prevent_a_create() {
        let version = Preconditions { uid: None, version: Some(7), may_create: true };
        assert!(!version.fail_for_good(None));
        assert!(Preconditions { uid: Some("u".into()), ..version }.fail_for_good(None));
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
