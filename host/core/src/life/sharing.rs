//! Shares plugins out over replicas (ADR 12): decides which lease a plugin goes by, which replica each lease is meant
//! for, and when who takes or gives.
//!
//! A lease for each plugin would be renewed every two seconds, a thousand of them by five hundred requests a second; so
//! plugins share [`SHARDS`] leases. Each live member has a weight for each lease, from a hash of the two names
//! (rendezvous hashing): the heaviest is its *target*. A member that leaves moves its own leases and no other; one that
//! joins becomes the target of about its share. Nothing here decides who *holds* a lease: the election does, and
//! whatever members believe of each other, it has one holder at most.
//!
//! Only members that can serve the most of a lease's plugins are targets: one that lacks a plugin would run it nowhere.
//! Members say in their [`Offer`] what they can serve. One of an older version says nothing, and counts as one that can
//! serve everything.

mod offer;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Moment;
use crate::life::lease::{FoundLease, LeaseVersion};

pub use offer::Offer;

/// Into how many leases plugins are shared out.
pub const SHARDS: u64 = 32;

/// How many periods the last of many waits before it takes a lease that is free.
const FREE_LEASE_PERIODS_MAX: usize = 4;
/// Into so many parts the time is divided for which a lease counts as a sign of life: when it is first seen, nobody
/// knows how old it is, and its replica may be long dead. One that lives renews several times within the whole.
const FIRST_SIGHT_PARTS: u32 = 3;

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
pub fn rank<'a>(lease: &str, me: &str, members: impl IntoIterator<Item = &'a Arc<str>>) -> usize {
    let weight = |member: &str| (hash(&[lease, member]), hash(&[member]));
    let mine = weight(me);
    members.into_iter().filter(|member| &***member != me && weight(member) > mine).count()
}

/// Which replicas live, and since when these and no others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Their names, one's own among them, each with what it can serve. None: it does not say.
    pub live: BTreeMap<Arc<str>, Option<Arc<Offer>>>,
    /// When the last of them joined or left.
    pub since: Moment,
}

/// Why nobody runs a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unserved {
    /// The holder of its lease cannot serve it.
    ByHolder {
        holder: Arc<str>,
        /// A replica that can.
        other: Option<Arc<str>>,
    },
    /// No replica can serve it.
    ByAll,
}

impl Membership {
    /// How many of the plugins that go by `lease` each member cannot serve.
    fn lacks(&self, lease: &str) -> BTreeMap<Arc<str>, usize> {
        let offers = self.live.values().flatten();
        let all: BTreeSet<_> = offers.flat_map(|offer| offer.of_lease(lease)).collect();
        let lacks = |offer: &Arc<Offer>| all.len() - offer.of_lease(lease).count();
        self.live.iter().map(|(member, offer)| (member.clone(), offer.as_ref().map_or(0, lacks))).collect()
    }

    /// Why nobody runs `plugin`, which goes by `lease`, as far as members say. None: somebody does, or may.
    #[must_use]
    pub fn unserved(&self, plugin: &str, lease: &str, holder: Option<&Arc<str>>) -> Option<Unserved> {
        let cannot = |offer: &Option<Arc<Offer>>| offer.as_ref().is_some_and(|it| it.digest(lease, plugin).is_none());
        let other = self.live.iter().find(|(_, offer)| !cannot(offer)).map(|(member, _)| member.clone());
        if other.is_none() {
            return Some(Unserved::ByAll);
        }
        let holder = holder.filter(|holder| self.live.get(*holder).is_some_and(cannot))?.clone();
        Some(Unserved::ByHolder { holder, other })
    }

    /// Returns those who say that they can serve `plugin`, which goes by `lease`, and the digest of their file.
    pub fn serving<'a>(
        &'a self,
        plugin: &'a str,
        lease: &'a str,
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a Arc<str>)> {
        self.live.iter().filter_map(move |(member, offer)| Some((member, offer.as_ref()?.digest(lease, plugin)?)))
    }
}

/// The living replicas, as the leases show by which members say so.
#[derive(Debug)]
pub struct Members {
    me: Arc<str>,
    mine: Option<Arc<Offer>>,
    known: BTreeMap<Arc<str>, Member>,
    membership: Membership,
}

#[derive(Debug)]
struct Member {
    version: LeaseVersion,
    until: Moment,
    offer: Option<Arc<Offer>>,
}

impl Members {
    /// Nobody but `me`.
    #[must_use]
    pub fn new(me: Arc<str>, now: Moment) -> Self {
        let membership = Membership { live: BTreeMap::from([(me.clone(), None)]), since: now };
        Self { me, mine: None, known: BTreeMap::new(), membership }
    }

    /// The lease of `member` has been seen to be so, with what it can serve, if it says that.
    pub fn observe(&mut self, member: &Arc<str>, found: FoundLease, offer: Option<Arc<Offer>>, now: Moment) {
        let Some((version, record)) = found.filter(|(_, record)| !record.holder.is_empty()) else {
            self.known.remove(member);
            return;
        };
        let lasts = match self.known.get(member) {
            Some(known) if known.version == version => return,
            Some(_) => record.duration,
            None => record.duration / FIRST_SIGHT_PARTS,
        };
        self.known.insert(member.clone(), Member { version, until: now + lasts, offer });
    }

    /// This replica can serve `mine`.
    pub fn offer(&mut self, mine: Option<Arc<Offer>>) {
        self.mine = mine;
    }

    /// The replicas that live now; this one always does.
    pub fn at(&mut self, now: Moment) -> &Membership {
        let alive = self.known.iter().filter(|(_, member)| now < member.until);
        let mut live: BTreeMap<_, _> = alive.map(|(name, member)| (name.clone(), member.offer.clone())).collect();
        live.insert(self.me.clone(), self.mine.clone());
        if !live.keys().eq(self.membership.live.keys()) {
            self.membership.since = now;
        }
        self.membership.live = live;
        &self.membership
    }

    /// When somebody else dies who does not say otherwise before. This replica lives, also where its own lease has run out:
    /// a moment in the past would be waited for again and again.
    #[must_use]
    pub fn next_death(&self) -> Option<Moment> {
        let others = self.known.iter().filter(|(name, _)| **name != self.me);
        let live = others.filter(|(name, _)| self.membership.live.contains_key(*name));
        live.map(|(_, member)| member.until).min()
    }

    /// Those who have been dead for `long`, if it is on `me` to clear their leases away: it is on the first of the living.
    #[must_use]
    pub fn long_dead(&self, long: Duration, now: Moment) -> Vec<Arc<str>> {
        if self.membership.live.keys().next() != Some(&self.me) {
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
    /// How long members, and what they can serve, must be the same before a lease moves from one that lives and serves
    /// something.
    stability: Duration,
    /// The time for which a replica that is not the target waits before it takes the lease, once for each replica that
    /// it is rather meant for. It is also the stability that a holder waits for that serves none of the plugins.
    period: Duration,
    /// The holder keeps it while nobody can serve more.
    is_sticky: bool,
    /// How many of its plugins each member cannot serve.
    lacks: BTreeMap<Arc<str>, usize>,
    /// `me` says that it can serve none of its plugins.
    serves_none: bool,
    /// When that last changed for one that lived before.
    since: Moment,
    /// Handed over to these members. If nobody took it, that is not tried again while they are the same.
    handed_to: Option<BTreeMap<Arc<str>, usize>>,
}

impl Part {
    /// The part of `me` in `lease`.
    #[must_use]
    pub fn new(lease: Arc<str>, me: Arc<str>, stability: Duration, period: Duration) -> Self {
        let (lacks, since) = (BTreeMap::new(), Moment::default());
        Self { lease, me, stability, period, is_sticky: false, lacks, serves_none: false, since, handed_to: None }
    }

    /// The same in a lease that whoever has it keeps, unless another can serve more of its plugins.
    #[must_use]
    pub fn sticky(self) -> Self {
        Self { is_sticky: true, ..self }
    }

    /// Returns what to do, as the holder or not.
    pub fn stance(&mut self, is_holder: bool, members: &Membership, now: Moment) -> Stance {
        self.observe(members, now);
        let mine = self.lacks.get(&self.me).copied().unwrap_or_default();
        // Who can serve more comes first, however many they are.
        let more = self.lacks.values().filter(|lacks| **lacks < mine).count();
        let equal = self.lacks.iter().filter(|(_, lacks)| **lacks == mine).map(|(member, _)| member);
        let rank = if self.is_sticky { 0 } else { rank(&self.lease, &self.me, equal) };
        if !is_holder {
            let behind = if more > 0 { FREE_LEASE_PERIODS_MAX } else { 0 };
            let periods = u32::try_from(behind + (more + rank).min(FREE_LEASE_PERIODS_MAX)).unwrap_or(u32::MAX);
            return Stance::Take { after: self.period * periods };
        }
        if more + rank == 0 || self.handed_to.as_ref() == Some(&self.lacks) {
            return Stance::Keep { until: None };
        }
        // A holder that can serve none of the lease's plugins has no work that a move would interrupt.
        let stability = if more > 0 && self.serves_none { self.period } else { self.stability };
        let stable = members.since.max(self.since) + stability;
        if now < stable {
            return Stance::Keep { until: Some(stable) };
        }
        self.handed_to = Some(self.lacks.clone());
        Stance::HandOver
    }

    fn observe(&mut self, members: &Membership, now: Moment) {
        let lacks = members.lacks(&self.lease);
        // Since when the members are the same is in `members`.
        let has_changed =
            lacks.iter().any(|(member, lacks)| self.lacks.get(member).is_some_and(|before| before != lacks));
        if has_changed {
            self.since = now;
        }
        self.lacks = lacks;
        let mine = members.live.get(&self.me).and_then(Option::as_ref);
        self.serves_none = mine.is_some_and(|offer| offer.of_lease(&self.lease).next().is_none());
    }
}

#[cfg(test)]
mod tests;
