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

use crate::object::compact::{Uid, Version};

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

/// The object that a write is for, as far as it names it: the server refuses the write for any other object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preconditions {
    pub uid: Option<Uid>,
    /// The `resourceVersion`, as a decimal number. The server takes `0` for none, and refuses what is no number.
    pub version: Option<u64>,
    /// Whether the write may create the object where there is none.
    pub may_create: bool,
}

impl Preconditions {
    /// Whether there are any.
    #[must_use]
    pub fn is_some(&self) -> bool {
        self.uid.is_some() || self.version.is_some()
    }

    /// Whether the server will refuse the write from now on, given the live object. None: there is no object.
    ///
    /// UIDs never return, and versions only grow. So another UID proves it, and so does a later version. An earlier
    /// version may still come to the one that is named, and a version that is no number cannot be compared. Where there is
    /// no object, the server refuses a write that would create it for its UID, but not for its version (`Store.Update` in
    /// `apiserver/pkg/registry/generic/registry/store.go`, `applyPatch` in `apiserver/pkg/endpoints/handlers/patch.go`).
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

/// The result of a live read of an object, of which it is not known whether a write of the plugin's has changed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettleLook {
    /// The object as the write was to leave it, and by nothing but the write.
    Ours,
    /// The write's [`Preconditions`] fail for good: either it has changed the object itself, or it never will.
    Superseded,
    /// Any other object. A create has been refused, or will be for as long as this object exists.
    AnothersObject,
    Nothing,
    /// The server answered, and does not tell: the read is forbidden, or cannot be understood.
    Untold,
    /// The server did not answer, or failed.
    Unanswered,
}

/// The consequence of a [`SettleLook`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettleStep {
    Settled(Settlement),
    /// Look again after a pause, and at the latest when the write can no longer be carried out.
    LookAgain,
    /// Wait until the write can no longer be carried out, then look again: before, a look tells nothing.
    LookWhenOver,
}

/// How an unknown write has settled. In each case it cannot be carried out later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// It was carried out: what it made is there.
    Committed,
    /// It was not carried out, or what it made has gone again.
    NotCommitted,
    /// The object has moved on from what the write's [`Preconditions`] name. Whether the write did that is not known, and
    /// makes no difference: what it did, if anything, is in the object as it is now.
    Superseded,
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
            Self::Superseded => "superseded",
            Self::Expired => "expired",
        }
    }
}

/// Decides about an unknown create after a look at its name. `over`: the server's time for it had passed before the look.
#[must_use]
pub fn after_look_for_create(look: SettleLook, over: bool) -> SettleStep {
    match (look, over) {
        (SettleLook::Ours, _) => SettleStep::Settled(Settlement::Committed),
        (SettleLook::Superseded, _) => SettleStep::Settled(Settlement::Superseded),
        // Without an answer, for however long: if the key ran before, it could create a second object under another
        // generated name. Another's object may be deleted, and the create that is under way then finds the name free.
        (SettleLook::Unanswered, _) | (SettleLook::AnothersObject | SettleLook::Nothing, false) => {
            SettleStep::LookAgain
        }
        (SettleLook::Untold, false) => SettleStep::LookWhenOver,
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
        (SettleLook::Superseded, _) => SettleStep::Settled(Settlement::Superseded),
        (_, true) => SettleStep::Settled(Settlement::Expired),
        (SettleLook::AnothersObject | SettleLook::Nothing | SettleLook::Unanswered, false) => SettleStep::LookAgain,
        (SettleLook::Untold, false) => SettleStep::LookWhenOver,
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    const LOOKS: [SettleLook; 6] = [
        SettleLook::Ours,
        SettleLook::Superseded,
        SettleLook::AnothersObject,
        SettleLook::Nothing,
        SettleLook::Untold,
        SettleLook::Unanswered,
    ];

    /// The step after each of [`LOOKS`].
    fn steps(after: fn(SettleLook, bool) -> SettleStep, over: bool) -> [SettleStep; 6] {
        LOOKS.map(|look| after(look, over))
    }

    #[test]
    fn a_create_that_is_not_seen_may_still_come_until_its_time_is_over_and_silence_never_settles_it() {
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
    fn any_other_write_is_settled_by_its_time_whatever_is_seen() {
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
    fn another_incarnation_and_a_later_version_fail_preconditions_for_good() {
        let live = |uid: &str, version: &str| Some((Uid::from(uid), Version::from(version)));
        let naming = |uid: Option<&str>, version| Preconditions { uid: uid.map(Uid::from), version, may_create: false };
        let (uid, version, both) = (naming(Some("u"), None), naming(None, Some(7)), naming(Some("u"), Some(7)));
        for (live, fail) in [
            (live("u", "7"), [false, false, false]),
            (live("u", "8"), [false, true, true]),
            (live("u", "10"), [false, true, true]),
            // The server has gone back, or the plugin has guessed: version 7 may still come.
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
    fn a_version_does_not_keep_a_write_from_creating_what_is_not_there() {
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
