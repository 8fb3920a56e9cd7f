//! Shares plugins out over replicas (ADR 12): decides which lease a plugin goes by, which replica each lease is meant
//! for, and when who takes or gives.
//!
//! A lease for each plugin would be renewed every two seconds, a thousand of them by five hundred requests a second; so
//! plugins share [`SHARDS`] leases. Each live member has a weight for each lease, from a hash of the two names
//! (rendezvous hashing): the heaviest is its *target*. A member that leaves moves its own leases and no other; one that
//! joins becomes the target of about its share. Nothing here decides who *holds* a lease: the election does, and
//! whatever members believe of each other, it has one holder at most.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Moment;
use crate::lease::{FoundLease, LeaseVersion};

/// Into how many leases plugins are shared out.
pub const SHARDS: u64 = 32;

/// How many periods the last of many waits before it takes a lease that is free.
const MOST_PERIODS: usize = 4;

/// The shard of `plugin`. Part of what replicas of different versions agree on: it never changes.
#[must_use]
pub fn shard_of(plugin: &str) -> u64 {
    hash(&[plugin]) % SHARDS
}

/// FNV-1a over the texts, each ended by a zero byte, and `MurmurHash3`'s finalizer, which spreads what differs in the
/// last letter only. Replicas of different versions must agree on it.
fn hash(texts: &[&str]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in texts.iter().flat_map(|text| text.bytes().chain([0])) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// How many of `members` `lease` is rather meant for than for `me`. Zero: it is meant for `me`.
#[must_use]
pub fn rank(lease: &str, me: &str, members: &BTreeSet<Arc<str>>) -> usize {
    let weight = |member: &str| (hash(&[lease, member]), hash(&[member]));
    let mine = weight(me);
    members.iter().filter(|member| &***member != me && weight(member) > mine).count()
}

/// Which replicas live, and since when these and no others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Their names, one's own among them.
    pub live: BTreeSet<Arc<str>>,
    /// When the last of them joined or left.
    pub since: Moment,
}

/// The living replicas, as the leases show by which members say so.
#[derive(Debug)]
pub struct Members {
    me: Arc<str>,
    known: BTreeMap<Arc<str>, Member>,
    membership: Membership,
}

#[derive(Debug)]
struct Member {
    version: LeaseVersion,
    until: Moment,
}

impl Members {
    /// Nobody but `me`.
    #[must_use]
    pub fn new(me: Arc<str>, now: Moment) -> Self {
        let membership = Membership { live: BTreeSet::from([me.clone()]), since: now };
        Self { me, known: BTreeMap::new(), membership }
    }

    /// The lease of `member` has been seen to be so.
    pub fn observe(&mut self, member: &Arc<str>, found: FoundLease, now: Moment) {
        let Some((version, record)) = found.filter(|(_, record)| !record.holder.is_empty()) else {
            self.known.remove(member);
            return;
        };
        let is_news = self.known.get(member).is_none_or(|known| known.version != version);
        if is_news {
            self.known.insert(member.clone(), Member { version, until: now + record.duration });
        }
    }

    /// The replicas that live now; this one always does.
    pub fn at(&mut self, now: Moment) -> &Membership {
        let alive = self.known.iter().filter(|(_, member)| now < member.until).map(|(name, _)| name.clone());
        let live: BTreeSet<_> = alive.chain([self.me.clone()]).collect();
        if live != self.membership.live {
            self.membership = Membership { live, since: now };
        }
        &self.membership
    }

    /// When somebody dies who does not say otherwise before.
    #[must_use]
    pub fn next_death(&self) -> Option<Moment> {
        let live = &self.membership.live;
        self.known.iter().filter(|(name, _)| live.contains(*name)).map(|(_, member)| member.until).min()
    }

    /// Those who have been dead for `long`, if it is on `me` to clear their leases away: it is on the first of the living.
    #[must_use]
    pub fn long_dead(&self, long: Duration, now: Moment) -> Vec<Arc<str>> {
        if self.membership.live.first() != Some(&self.me) {
            return Vec::new();
        }
        self.known.iter().filter(|(_, member)| member.until + long <= now).map(|(name, _)| name.clone()).collect()
    }
}

/// A replica's attitude to one lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stance {
    /// Takes it when it has been free for so long.
    Take {
        /// None for the target; others wait, so that few leases move.
        after: Duration,
    },
    /// Keeps it, and asks again at this moment, unless it is for good.
    Keep {
        /// None: until the members change.
        until: Option<Moment>,
    },
    /// Has the work end, then lets go of it: it is meant for another.
    HandOver,
}

/// One replica's part in one lease.
#[derive(Debug)]
pub struct Part {
    lease: Arc<str>,
    me: Arc<str>,
    /// How long members must be the same before a lease moves from one that lives.
    stability: Duration,
    /// The time for which a replica that is not the target waits before it takes the lease, once for each replica that
    /// it is rather meant for.
    period: Duration,
    /// Handed over to these members. If nobody took it, that is not tried again while they are the same.
    handed_to: Option<BTreeSet<Arc<str>>>,
}

impl Part {
    /// The part of `me` in `lease`.
    #[must_use]
    pub fn new(lease: Arc<str>, me: Arc<str>, stability: Duration, period: Duration) -> Self {
        Self { lease, me, stability, period, handed_to: None }
    }

    /// Returns what to do, as the holder or not.
    pub fn stance(&mut self, is_holder: bool, members: &Membership, now: Moment) -> Stance {
        let rank = rank(&self.lease, &self.me, &members.live);
        if !is_holder {
            let periods = u32::try_from(rank.min(MOST_PERIODS)).unwrap_or(u32::MAX);
            return Stance::Take { after: self.period * periods };
        }
        if rank == 0 || self.handed_to.as_ref() == Some(&members.live) {
            return Stance::Keep { until: None };
        }
        let stable = members.since + self.stability;
        if now < stable {
            return Stance::Keep { until: Some(stable) };
        }
        self.handed_to = Some(members.live.clone());
        Stance::HandOver
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::lease::LeaseRecord;

    const PERIOD: Duration = Duration::from_secs(2);
    const STABILITY: Duration = Duration::from_mins(1);

    fn named(names: impl IntoIterator<Item = u32>) -> BTreeSet<Arc<str>> {
        names.into_iter().map(|name| format!("windlass-{name}").into()).collect()
    }

    fn leases() -> Vec<Arc<str>> {
        (0..SHARDS).map(|shard| format!("windlass-shard-{shard:02}").into()).collect()
    }

    /// Whom each lease is meant for.
    fn targets(members: &BTreeSet<Arc<str>>) -> Vec<Arc<str>> {
        let target = |lease: &Arc<str>| members.iter().find(|me| rank(lease, me, members) == 0).cloned();
        leases().iter().map(|lease| target(lease).expect("there is one")).collect()
    }

    #[test]
    fn the_shard_of_a_plugin_is_the_same_in_every_version() {
        // Replicas of two versions share out plugins during an upgrade: these figures must never change.
        let plugins = ["webapp", "certificates", "backup", "a", "b"];
        assert_eq!(plugins.map(shard_of), [21, 19, 27, 5, 9]);
    }

    #[test]
    fn a_thousand_plugins_are_in_all_shards_about_equally() {
        let mut shards = BTreeMap::new();
        for plugin in 0..1000 {
            *shards.entry(shard_of(&format!("plugin-{plugin}"))).or_insert(0) += 1;
        }
        assert_eq!(shards.len(), 32);
        assert!(shards.values().all(|count| (10..=60).contains(count)), "{shards:?}");
    }

    proptest! {
        #[test]
        fn every_lease_has_one_target_and_one_that_leaves_moves_its_own_only(
            names in prop::collection::btree_set(0..1000_u32, 2..8), leaves in any::<prop::sample::Index>()
        ) {
            let members = named(names);
            let before = targets(&members);
            let gone = leaves.get(&members.iter().cloned().collect::<Vec<_>>()).clone();
            let left: BTreeSet<_> = members.iter().filter(|member| **member != gone).cloned().collect();
            for (before, after) in before.iter().zip(targets(&left)) {
                prop_assert!(*before == gone || *before == after, "{before} to {after}, and {gone} has left");
            }
            for lease in leases() {
                let mut ranks: Vec<_> = members.iter().map(|me| rank(&lease, me, &members)).collect();
                ranks.sort_unstable();
                prop_assert_eq!(ranks, (0..members.len()).collect::<Vec<_>>());
            }
        }

        #[test]
        fn one_that_joins_takes_about_its_share(names in prop::collection::btree_set(0..1000_u32, 2..6)) {
            let members = named(names.iter().copied());
            let before = targets(&members);
            let joined: BTreeSet<_> = members.iter().cloned().chain(["newcomer".into()]).collect();
            let moved = before.iter().zip(targets(&joined)).filter(|(before, after)| *before != after).count();
            let share = 32 / joined.len();
            prop_assert!(moved <= 3 * share && moved >= 1, "{moved} of 32 for one of {}", joined.len());
        }
    }

    fn record(holder: &str) -> LeaseRecord {
        LeaseRecord { holder: holder.into(), duration: Duration::from_secs(15), transitions: 0, acquired: None }
    }

    fn at(seconds: u64) -> Moment {
        Moment(Duration::from_secs(seconds))
    }

    #[test]
    fn a_member_lives_as_long_as_its_lease_is_seen_to_change() {
        let mut members = Members::new("a".into(), at(0));
        let b: Arc<str> = "b".into();
        members.observe(&b, Some(("1".into(), record("b"))), at(5));
        assert_eq!(members.at(at(5)).live.len(), 2);
        // The same state again is no sign of life.
        members.observe(&b, Some(("1".into(), record("b"))), at(19));
        assert_eq!((members.at(at(19)).live.len(), members.next_death()), (2, Some(at(20))));
        assert_eq!(*members.at(at(20)), Membership { live: BTreeSet::from(["a".into()]), since: at(20) });
        members.observe(&b, Some(("2".into(), record("b"))), at(21));
        assert_eq!(members.at(at(21)).live.len(), 2);
        members.observe(&b, None, at(22));
        assert_eq!(members.at(at(22)).live.len(), 1);
    }

    #[test]
    fn the_first_of_the_living_clears_the_long_dead_away() {
        let mut members = Members::new("b".into(), at(0));
        for name in ["a", "c"].map(Arc::from) {
            members.observe(&name, Some(("1".into(), record(&name))), at(0));
        }
        let long = Duration::from_mins(2);
        members.at(at(10));
        assert!(members.long_dead(long, at(1000)).is_empty(), "it is on a");
        members.at(at(20));
        assert!(members.long_dead(long, at(20)).is_empty(), "not long");
        assert_eq!(members.long_dead(long, at(200)), ["a".into(), "c".into()]);
    }

    /// A lease that is rather meant for `b` than for `a`.
    fn bs() -> (Arc<str>, BTreeSet<Arc<str>>) {
        let members: BTreeSet<Arc<str>> = ["a".into(), "b".into()].into();
        let lease = leases().into_iter().find(|lease| rank(lease, "a", &members) == 1).expect("half of them");
        (lease, members)
    }

    #[test]
    fn a_lease_moves_to_its_target_after_the_members_have_been_the_same_for_a_while() {
        let (lease, live) = bs();
        let mut part = Part::new(lease, "a".into(), STABILITY, PERIOD);
        let alone = Membership { live: ["a".into()].into(), since: at(0) };
        assert_eq!(part.stance(true, &alone, at(900)), Stance::Keep { until: None });
        let both = Membership { live: live.clone(), since: at(1000) };
        assert_eq!(part.stance(true, &both, at(1059)), Stance::Keep { until: Some(at(1060)) });
        assert_eq!(part.stance(true, &both, at(1060)), Stance::HandOver);
        assert_eq!(part.stance(false, &both, at(1061)), Stance::Take { after: PERIOD });
    }

    #[test]
    fn a_lease_that_its_target_did_not_take_stays_until_the_members_change() {
        let (lease, live) = bs();
        let mut part = Part::new(lease, "a".into(), STABILITY, PERIOD);
        let both = Membership { live: live.clone(), since: at(0) };
        assert_eq!(part.stance(true, &both, at(60)), Stance::HandOver);
        for later in [70, 1000, 100_000] {
            assert_eq!(part.stance(true, &both, at(later)), Stance::Keep { until: None }, "it came back");
        }
        let more = Membership { live: live.into_iter().chain(["c".into()]).collect(), since: at(100_000) };
        assert!(matches!(part.stance(true, &more, at(100_001)), Stance::Keep { until: Some(_) }));
    }

    #[test]
    fn nobody_waits_for_long_before_a_free_lease_however_many_there_are() {
        let live = named(0..100);
        for me in &live {
            let mut part = Part::new("windlass-shard-07".into(), me.clone(), STABILITY, PERIOD);
            let members = Membership { live: live.clone(), since: at(0) };
            let Stance::Take { after } = part.stance(false, &members, at(0)) else { panic!("it is free") };
            assert!(after <= PERIOD * 4);
        }
    }
}
