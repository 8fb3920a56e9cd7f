//! Detects that the API server's etcd was restored from a backup, so that the history this process has seen is gone
//! (ADR 33). No I/O: the edge reports the server's answers and acts on the verdict.
//!
//! Two signs show a restore. The server's revision **went back**: a request that began after a higher revision had
//! been seen is answered with a lower one. Or it **leapt ahead** by more revisions than an etcd can write in the time
//! between, as after a restore with `--bump-revision`.
//!
//! Only answers that etcd orders count: writes, and reads without a `resourceVersion`. Each is compared with earlier
//! answers about the same resource, because a resource may have its own etcd (`--etcd-servers-overrides`).

use std::cmp::Ordering;
use std::time::Duration;

use crate::clock::Moment;
use crate::object::ObjectKind;
use crate::object::compact::Version;
use crate::object::progress::Stamp;

/// More writes per second than an etcd carries out for a Kubernetes API server. The guide to etcd's `--bump-revision`
/// assumes 1,500 as a high rate.
const REVISIONS_A_SECOND_MAX: u64 = 10_000;
/// The smallest leap that counts. The time between two answers is known only roughly.
const LEAP_MIN: u64 = 100_000;

/// Why the server must have been restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreSign {
    /// Its revision is lower than one seen before.
    WentBack,
    /// Its revision is higher than writes can explain.
    LeaptAhead,
}

/// A read without a `resourceVersion`, and what the cache of the same resource had before it.
#[derive(Clone, Copy, Debug)]
pub struct ConsistentRead<'a> {
    /// The last restore that the cache has caught up with.
    pub era: Option<Stamp>,
    /// The version of the cache before the read began.
    pub known: &'a Version,
    /// The time from when the cache learnt that version until the answer.
    pub apart: Duration,
    /// The version in the server's answer.
    pub answered: &'a Version,
}

/// The verdict on the answer to a consistent read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadVerdict {
    /// No sign: the answer may follow from what the cache had.
    Continues,
    /// The server was restored, and this answer is the first to show it.
    Restored(RestoreSign),
    /// The answer shows a state after the known restore, which the cache has not caught up with yet.
    FollowsRestore,
}

/// The server's revisions, as this process has seen them.
#[derive(Debug, Default)]
pub struct ServerHistory {
    /// When the last restore was noticed. Requests sent before may show state that the server no longer has.
    restored: Option<Stamp>,
    /// The highest revision of a Lease written since the restore.
    written: Option<HighestWrite>,
}

#[derive(Debug)]
struct HighestWrite {
    version: Version,
    seen: Stamp,
    at: Moment,
}

/// Whether `kind` often has an etcd of its own, whose restore says nothing about other kinds.
#[must_use]
pub fn may_have_own_etcd(kind: &ObjectKind) -> bool {
    &*kind.kind == "Event" && matches!(kind.group(), "" | "events.k8s.io")
}

impl ServerHistory {
    /// When the last restore was noticed. A list that began later shows the restored server.
    #[must_use]
    pub fn restored(&self) -> Option<Stamp> {
        self.restored
    }

    /// Takes a write of a Lease that began at `began`, was answered at `now` and produced `version`. Returns the sign
    /// of a restore once for each restore.
    pub fn wrote_lease(&mut self, began: Stamp, version: &Version, now: Moment) -> Option<RestoreSign> {
        if self.is_outdated(began) {
            return None;
        }
        let sign = self.written.as_ref().and_then(|highest| {
            let apart = now.0.saturating_sub(highest.at.0);
            // A lower revision proves nothing if both requests were under way at once.
            sign(&highest.version, version, apart).filter(|sign| *sign != RestoreSign::WentBack || began > highest.seen)
        });
        if sign.is_some() {
            self.restore();
        }
        let is_highest = |highest: &HighestWrite| version.compare(&highest.version) != Some(Ordering::Less);
        if self.written.as_ref().is_none_or(is_highest) {
            self.written = Some(HighestWrite { version: version.clone(), seen: Stamp::take(), at: now });
        }
        sign
    }

    /// Takes the answer to a consistent read.
    pub fn read(&mut self, read: ConsistentRead<'_>) -> ReadVerdict {
        match sign(read.known, read.answered, read.apart) {
            None => ReadVerdict::Continues,
            Some(_) if read.era != self.restored => ReadVerdict::FollowsRestore,
            Some(sign) => {
                self.restore();
                ReadVerdict::Restored(sign)
            }
        }
    }

    /// Whether a request sent at `began` may show state that the server no longer has.
    fn is_outdated(&self, began: Stamp) -> bool {
        Some(began) <= self.restored
    }

    fn restore(&mut self) {
        (self.restored, self.written) = (Some(Stamp::take()), None);
    }
}

/// The sign in a server's move from `known` to `answered` within `apart`.
fn sign(known: &Version, answered: &Version, apart: Duration) -> Option<RestoreSign> {
    match answered.compare(known)? {
        Ordering::Less => Some(RestoreSign::WentBack),
        Ordering::Equal => None,
        Ordering::Greater => {
            let leap = answered.number()?.saturating_sub(known.number()?);
            let explained = REVISIONS_A_SECOND_MAX.saturating_mul(apart.as_secs().saturating_add(1)).max(LEAP_MIN);
            (leap > explained).then_some(RestoreSign::LeaptAhead)
        }
    }
}

#[cfg(test)]
mod tests {
    use RestoreSign::{LeaptAhead, WentBack};

    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment(Duration::from_secs(seconds))
    }

    /// The signs of consecutive writes of Leases, each with the second of its answer.
    fn signs(writes: &[(&str, u64)]) -> Vec<Option<RestoreSign>> {
        let mut history = ServerHistory::default();
        writes
            .iter()
            .map(|(version, second)| history.wrote_lease(Stamp::take(), &(*version).into(), at(*second)))
            .collect()
    }

    #[test]
    fn a_lower_revision_is_a_sign_once() {
        assert_eq!(
            signs(&[("100", 0), ("102", 2), ("50", 4), ("51", 6), ("200", 8)]),
            [None, None, Some(WentBack), None, None]
        );
        assert_eq!(
            signs(&[("100", 0), ("50", 2), ("40", 4)]),
            [None, Some(WentBack), Some(WentBack)],
            "restored again"
        );
    }

    #[test]
    fn a_leap_that_no_writes_explain_is_a_sign_once() {
        assert_eq!(signs(&[("100", 0), ("1000000100", 60), ("1000000102", 62)]), [None, Some(LeaptAhead), None]);
        assert_eq!(signs(&[("100", 0), ("100100", 0)]), [None, None], "a small one may be a burst");
        assert_eq!(signs(&[("100", 0), ("100101", 0)]), [None, Some(LeaptAhead)]);
        assert_eq!(signs(&[("100", 0), ("30000000", 3600)]), [None, None], "an hour has room for that");
    }

    #[test]
    fn versions_that_are_not_numbers_are_no_sign() {
        assert_eq!(signs(&[("b", 0), ("a", 2), ("7", 4), ("x", 6), ("6", 8)]), [None; 5]);
    }

    #[test]
    fn overlapping_requests_may_be_answered_out_of_order() {
        let mut history = ServerHistory::default();
        let [slow, quick] = [(); 2].map(|()| Stamp::take());
        assert_eq!(history.wrote_lease(quick, &"101".into(), at(0)), None);
        assert_eq!(history.wrote_lease(slow, &"100".into(), at(1)), None);
        assert_eq!(history.wrote_lease(Stamp::take(), &"100".into(), at(2)), Some(WentBack), "this one began later");
    }

    #[test]
    fn a_late_answer_from_before_the_restore_is_no_second_restore() {
        let mut history = ServerHistory::default();
        history.wrote_lease(Stamp::take(), &"100".into(), at(0));
        let late = Stamp::take();
        assert_eq!(history.wrote_lease(Stamp::take(), &"50".into(), at(2)), Some(WentBack));
        assert_eq!(history.wrote_lease(late, &"101".into(), at(2)), None);
        assert_eq!(history.wrote_lease(Stamp::take(), &"52".into(), at(4)), None);
    }

    #[test]
    fn caches_and_leases_report_one_restore_once() {
        let (high, low) = (Version::from("100"), Version::from("50"));
        let read = |era, known, answered| ConsistentRead { era, known, apart: Duration::from_secs(1), answered };
        let mut history = ServerHistory::default();
        assert_eq!(history.wrote_lease(Stamp::take(), &high, at(0)), None);
        assert_eq!(history.read(read(None, &high, &high)), ReadVerdict::Continues);
        assert_eq!(history.restored(), None);
        assert_eq!(history.read(read(None, &high, &low)), ReadVerdict::Restored(WentBack));
        let restored = history.restored();
        assert!(restored.is_some());
        assert_eq!(
            history.read(read(None, &high, &low)),
            ReadVerdict::FollowsRestore,
            "another cache of the former server"
        );
        assert_eq!(history.wrote_lease(Stamp::take(), &low, at(2)), None);
        assert_eq!(history.restored(), restored);
        assert_eq!(history.read(read(restored, &low, &high)), ReadVerdict::Continues, "it goes on from there");
        assert_eq!(history.read(read(restored, &high, &low)), ReadVerdict::Restored(WentBack), "the next restore");
        assert!(history.restored() > restored);
    }

    #[test]
    fn events_may_have_an_etcd_of_their_own() {
        let may = |version, kind| may_have_own_etcd(&ObjectKind::new(version, kind));
        assert!(may("v1", "Event") && may("events.k8s.io/v1", "Event"));
        assert!(!may("v1", "Pod") && !may("example.com/v1", "Event") && !may("coordination.k8s.io/v1", "Lease"));
    }
}
