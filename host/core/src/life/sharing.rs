//! Distributes plugins over replicas (ADR 12): decides which lease covers a plugin, which replica each lease is meant
//! for, and when a replica acquires or releases a lease.
//!
//! With a lease per plugin renewed every two seconds, a thousand plugins would cost five hundred requests a second.
//! So plugins share [`SHARDS`] leases. Each live member has a weight for each lease, from a hash of the two names
//! (rendezvous hashing); the member with the highest weight is the lease's *target*. A member that leaves moves only
//! its own leases; a member that joins becomes the target of about its share. The election decides who *holds* a
//! lease: whatever members believe about each other, it has at most one holder.
//!
//! Only members that can serve the most plugins of a lease are targets, because a member that lacks a plugin would
//! not run it. Members publish what they can serve in their [`Offer`]. A member of an older version publishes nothing
//! and counts as able to serve everything.

mod offer;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Moment;
use crate::life::lease::{FoundLease, LeaseVersion};

pub use offer::Offer;

/// The number of leases that plugins share.
pub const SHARDS: u64 = 32;

/// The maximum number of periods that a member waits for a free lease because of its rank. A member that can serve
/// fewer plugins than another member waits this much longer.
const FREE_LEASE_PERIODS_MAX: usize = 4;
/// A lease that is seen for the first time counts as a sign of life only for the full time divided by this number,
/// because the lease may be old and its replica long dead. A live replica renews several times within the full time.
const FIRST_SIGHT_PARTS: u32 = 3;

/// The shard of `plugin`. It never changes, because replicas of different versions must agree on it.
#[must_use]
pub fn shard_of(plugin: &str) -> u64 {
    hash(&[plugin]) % SHARDS
}

/// FNV-1a over the texts, each followed by a zero byte, then `MurmurHash3`'s finalizer, which spreads texts that
/// differ only in the last letter. Replicas of different versions must agree on it.
fn hash(texts: &[&str]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in texts.iter().flat_map(|text| text.bytes().chain([0])) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// How many of `members` rank above `me` for `lease`. Zero means that `me` is the target.
pub fn rank<'a>(lease: &str, me: &str, members: impl IntoIterator<Item = &'a Arc<str>>) -> usize {
    let weight = |member: &str| (hash(&[lease, member]), hash(&[member]));
    let mine = weight(me);
    members.into_iter().filter(|member| &***member != me && weight(member) > mine).count()
}

/// Which replicas live, and since when this set has not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The live replicas including this one, each with its offer. `None` if a replica publishes no offer.
    pub live: BTreeMap<Arc<str>, Option<Arc<Offer>>>,
    /// When a member last joined or left.
    pub since: Moment,
}

/// Why no replica runs a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unserved {
    /// The replica that holds the plugin's lease cannot run the plugin.
    ByHolder {
        holder: Arc<str>,
        /// Another replica, which can serve the plugin.
        other: Option<Arc<str>>,
    },
    /// No replica can serve the plugin.
    ByAll,
}

impl Membership {
    /// How many plugins of `lease` each member cannot serve.
    fn lacks(&self, lease: &str) -> BTreeMap<Arc<str>, usize> {
        let offers = self.live.values().flatten();
        let all: BTreeSet<_> = offers.flat_map(|offer| offer.of_lease(lease)).collect();
        let lacks = |offer: &Arc<Offer>| all.len() - offer.of_lease(lease).count();
        self.live.iter().map(|(member, offer)| (member.clone(), offer.as_ref().map_or(0, lacks))).collect()
    }

    /// Why no replica runs `plugin`, covered by `lease`, judging by the offers. `None` if a replica runs it or may run
    /// it.
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

    /// The members whose offer includes `plugin`, covered by `lease`, each with the digest of its file.
    pub fn serving<'a>(
        &'a self,
        plugin: &'a str,
        lease: &'a str,
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a Arc<str>)> {
        self.live.iter().filter_map(move |(member, offer)| Some((member, offer.as_ref()?.digest(lease, plugin)?)))
    }
}

/// Determines the live replicas from their member leases.
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
    /// Only `me`.
    #[must_use]
    pub fn new(me: Arc<str>, now: Moment) -> Self {
        let membership = Membership { live: BTreeMap::from([(me.clone(), None)]), since: now };
        Self { me, mine: None, known: BTreeMap::new(), membership }
    }

    /// Takes a state of the lease of `member`, with its offer if it publishes one.
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

    /// Sets this replica's own offer.
    pub fn offer(&mut self, mine: Option<Arc<Offer>>) {
        self.mine = mine;
    }

    /// The replicas that live now, always including this one.
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

    /// The next moment at which another replica counts as dead, unless it renews its lease before. This replica always
    /// counts as live, even if its own lease has run out: otherwise the caller would wait for a moment in the past
    /// again and again.
    #[must_use]
    pub fn next_death(&self) -> Option<Moment> {
        let others = self.known.iter().filter(|(name, _)| **name != self.me);
        let live = others.filter(|(name, _)| self.membership.live.contains_key(*name));
        live.map(|(_, member)| member.until).min()
    }

    /// The members that have been dead for `long`, if `me` should delete their leases. The first live member does
    /// that.
    #[must_use]
    pub fn long_dead(&self, long: Duration, now: Moment) -> Vec<Arc<str>> {
        if self.membership.live.keys().next() != Some(&self.me) {
            return Vec::new();
        }
        self.known.iter().filter(|(_, member)| member.until + long <= now).map(|(name, _)| name.clone()).collect()
    }
}

/// The action that a replica should take about one lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stance {
    /// Acquire the lease once it has been free for `after`.
    Take {
        /// Zero for the target. Other replicas wait longer, so that few leases move.
        after: Duration,
    },
    /// Keep the lease, and ask again at `until`.
    Keep {
        /// `None` means until the members change.
        until: Option<Moment>,
    },
    /// End the work, then release the lease: another replica is the target.
    HandOver,
}

/// One replica's decisions about one lease.
#[derive(Debug)]
pub struct Part {
    lease: Arc<str>,
    me: Arc<str>,
    /// How long members and their offers must stay unchanged before a lease moves away from a live holder that serves
    /// some of the lease's plugins.
    stability: Duration,
    /// How long a replica that is not the target waits before it acquires the lease, once for each replica that ranks
    /// above it. Also the stability time for a holder that serves none of the plugins.
    period: Duration,
    /// Whether the holder keeps the lease while no other replica can serve more of its plugins.
    is_sticky: bool,
    /// How many of the lease's plugins each member cannot serve.
    lacks: BTreeMap<Arc<str>, usize>,
    /// Whether `me` can serve no plugin of the lease.
    serves_none: bool,
    /// When the count in `lacks` last changed for a member that was already present. Joins and departures do not
    /// count.
    since: Moment,
    /// The members at the last hand-over. If no member acquires the lease, the hand-over is not repeated until the
    /// members change.
    handed_to: Option<BTreeMap<Arc<str>, usize>>,
}

impl Part {
    /// The decisions of `me` about `lease`.
    #[must_use]
    pub fn new(lease: Arc<str>, me: Arc<str>, stability: Duration, period: Duration) -> Self {
        let (lacks, since) = (BTreeMap::new(), Moment::default());
        Self { lease, me, stability, period, is_sticky: false, lacks, serves_none: false, since, handed_to: None }
    }

    /// Makes the holder keep the lease unless another replica can serve more of its plugins.
    #[must_use]
    pub fn sticky(self) -> Self {
        Self { is_sticky: true, ..self }
    }

    /// Returns what this replica should do about the lease. `is_holder` says whether it holds the lease.
    pub fn stance(&mut self, is_holder: bool, members: &Membership, now: Moment) -> Stance {
        self.observe(members, now);
        let mine = self.lacks.get(&self.me).copied().unwrap_or_default();
        // Members that can serve more come first, however many there are.
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
        // A member that joins or leaves is not a change here: `members.since` already says when that happened.
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
