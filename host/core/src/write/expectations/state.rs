//! All expectations of a controller, by the key that waits for them.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::time::Duration;

use super::interest::{CacheLook, ExpectedWrite, Follows};
use super::pending::{CacheNotice, ExpectationVerdict, PendingExpectation, Sight};
use super::{Cache, DOUBT_AFTER, EXPIRE_AFTER, Effect, ExpectationCounts, PROBE_AFTER, Shown};
use crate::clock::Moment;
use crate::object::ObjectKey;
use crate::object::progress::{Advance, Stamp};

/// The expectations of one controller.
pub(crate) struct Expectations {
    pub(super) caches: Vec<WatchedCache>,
    pub(super) keys: HashMap<ObjectKey, KeyExpectations>,
    interests: HashMap<u64, ExpectedWrite>,
    /// The open interests in each object.
    by_object: HashMap<ObjectKey, Vec<u64>>,
    last_interest: u64,
    /// The earliest new due time.
    pub(super) alarm: Option<Moment>,
    pub(crate) counts: ExpectationCounts,
}

/// A cache and the keys that wait for it.
pub(super) struct WatchedCache {
    pub(super) cache: Cache,
    by_version: BTreeMap<u64, Vec<ObjectKey>>,
    by_name: HashMap<ObjectKey, Vec<ObjectKey>>,
}

/// The expectations of one key.
#[derive(Default)]
pub(super) struct KeyExpectations {
    pub(super) pending: Vec<PendingExpectation>,
    pub(super) held: Option<Moment>,
}

impl KeyExpectations {
    pub(super) fn blocks(&self) -> bool {
        self.pending.iter().any(|pending| pending.blocks)
    }
}

impl Expectations {
    pub(crate) fn new(caches: Vec<Cache>) -> Self {
        let watched = |cache| WatchedCache { cache, by_version: BTreeMap::new(), by_name: HashMap::new() };
        Self {
            caches: caches.into_iter().map(watched).collect(),
            keys: HashMap::new(),
            interests: HashMap::new(),
            by_object: HashMap::new(),
            last_interest: 0,
            alarm: None,
            counts: ExpectationCounts::default(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.interests.is_empty()
    }

    /// The number of keys with expectations, plus the number of writes under way.
    pub(crate) fn active(&self) -> usize {
        self.keys.len() + self.interests.len()
    }

    /// The earliest due time that is new since the last call.
    pub(crate) fn take_alarm(&mut self) -> Option<Moment> {
        self.alarm.take()
    }

    /// The number of keys with expectations.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Opens an interest: `primary` is about to write `object`, which `caches` may show.
    pub(crate) fn open(&mut self, primary: ObjectKey, object: ObjectKey, caches: &[usize]) -> u64 {
        self.last_interest += 1;
        let look = |token: &usize| CacheLook::begin(*token, &self.caches[*token].cache, &object);
        let looks = caches.iter().map(look).collect();
        self.by_object.entry(object.clone()).or_default().push(self.last_interest);
        let opened = Stamp::take();
        self.interests.insert(self.last_interest, ExpectedWrite { primary, object, opened, looks });
        self.last_interest
    }

    /// Closes `interest`: its write ended at `since` with `effect`.
    pub(crate) fn close(&mut self, interest: u64, effect: &Effect, since: Stamp, now: Moment) {
        let Some(ExpectedWrite { primary, object, opened, looks }) = self.interests.remove(&interest) else { return };
        forget(&mut self.by_object, &object, &interest);
        for (at, look) in looks.into_iter().enumerate() {
            let shown = match effect {
                Effect::Left { shown, .. } => shown.get(at).copied().unwrap_or(Shown::Perhaps),
                _ => Shown::Yes,
            };
            if matches!(effect, Effect::Left { .. }) && shown == Shown::Yes {
                self.drop_earlier(&primary, &look, &object, opened);
            }
            let (sight, soon) = match look.follows(effect, shown, &object, &self.caches[look.cache].cache) {
                Follows::Nothing => {
                    self.counts.observed += u64::from(*effect != Effect::Nothing && shown != Shown::No);
                    continue;
                }
                Follows::Expect(sight) => (sight, PROBE_AFTER),
                Follows::Doubt(sight) => (sight, DOUBT_AFTER),
            };
            let soon = if sight == Sight::Fresh { Duration::ZERO } else { soon };
            let (cache, epoch) = (look.cache, look.epoch);
            let due = now + soon;
            self.raise(
                &primary,
                PendingExpectation {
                    cache,
                    sight,
                    since,
                    epoch,
                    raised: now,
                    due,
                    blocks: true,
                    probed: false,
                    expired: false,
                },
            );
        }
    }

    /// Drops expectations that this write covers. A cache that shows this write shows a later state than every write of
    /// the object that was answered before this write was sent.
    fn drop_earlier(&mut self, primary: &ObjectKey, look: &CacheLook, object: &ObjectKey, opened: Stamp) {
        let Some(entry) = self.keys.get_mut(primary) else { return };
        let is_earlier = |pending: &mut PendingExpectation| {
            let is_alike = pending.cache == look.cache && pending.epoch == look.epoch;
            is_alike && pending.since < opened && pending.sight.object() == Some(object)
        };
        let dropped: Vec<_> = entry.pending.extract_if(.., is_earlier).collect();
        if entry.pending.is_empty() {
            self.keys.remove(primary);
        }
        for pending in dropped {
            self.unindex(primary, &pending);
        }
    }

    pub(super) fn raise(&mut self, primary: &ObjectKey, mut pending: PendingExpectation) {
        let WatchedCache { cache, by_version, by_name } = &mut self.caches[pending.cache];
        match pending.judge(cache, None) {
            ExpectationVerdict::Over => return self.counts.observed += 1,
            ExpectationVerdict::Blocks => self.counts.raised += 1,
            ExpectationVerdict::Guards => (pending.blocks, pending.due) = (false, pending.raised + EXPIRE_AFTER),
        }
        if pending.sight == Sight::Fresh {
            pending.due = pending.raised;
        }
        if let Some(version) = pending.sight.version() {
            add(by_version.entry(version).or_default(), primary);
        }
        if let Some(object) = pending.sight.object() {
            add(by_name.entry(object.clone()).or_default(), primary);
        }
        sooner(&mut self.alarm, pending.due);
        let entry = self.keys.entry(primary.clone()).or_default();
        if entry.pending.iter().any(|other| matches!(other.sight, Sight::Reaches { .. }) && other.supersedes(&pending))
        {
            return;
        }
        entry.pending.retain(|earlier| !pending.supersedes(earlier));
        entry.pending.push(pending);
    }

    /// Whether `key` must not run. The caller must then park it; a later change frees it.
    pub(crate) fn holds(&mut self, key: &ObjectKey, now: Moment) -> bool {
        let Some(entry) = self.keys.get_mut(key).filter(|entry| entry.blocks()) else { return false };
        if entry.held.is_none() {
            entry.held = Some(now);
            self.counts.held += 1;
        }
        true
    }

    /// Whether a later change frees `key`, if it is parked.
    pub(crate) fn would_wake(&self, key: &ObjectKey) -> bool {
        self.keys.get(key).is_some_and(|entry| entry.held.is_some() && entry.blocks())
    }

    /// Takes note of a change of a cache. Returns the held keys that may run now.
    pub(crate) fn advanced(&mut self, token: usize, advance: Advance<'_>, now: Moment) -> Vec<ObjectKey> {
        match advance {
            Advance::Object { object, gone } => self.received(token, CacheNotice { object, gone }, now),
            Advance::Version(_) => self.reached(token, now),
            Advance::Listed => self.listed(token, now),
            // Either the controller's round ends, or a list follows. Until then the cache's contents are unknown.
            Advance::Lost => Vec::new(),
        }
    }

    fn received(&mut self, token: usize, event: CacheNotice<'_>, now: Moment) -> Vec<ObjectKey> {
        let WatchedCache { cache, by_name, .. } = &self.caches[token];
        let header = &event.object.header;
        for interest in self.by_object.get(&header.key).into_iter().flatten() {
            let looks = self.interests.get_mut(interest).into_iter().flat_map(|interest| &mut interest.looks);
            looks.filter(|look| look.cache == token).for_each(|look| look.received(event, cache));
        }
        let concerned = by_name.get(&header.key).cloned().unwrap_or_default();
        self.judge_again(concerned, token, Some(event), now)
    }

    fn reached(&mut self, token: usize, now: Moment) -> Vec<ObjectKey> {
        let WatchedCache { cache, by_version, .. } = &mut self.caches[token];
        if by_version.is_empty() {
            return Vec::new();
        }
        let Some(version) = cache.progress.version().and_then(|version| version.number()) else { return Vec::new() };
        let mut concerned = Vec::new();
        while let Some(first) = by_version.first_entry().filter(|first| *first.key() <= version) {
            concerned.extend(first.remove());
        }
        self.judge_again(concerned, token, None, now)
    }

    fn listed(&mut self, token: usize, now: Moment) -> Vec<ObjectKey> {
        let cache = &self.caches[token].cache;
        for interest in self.interests.values_mut() {
            let looks = interest.looks.iter_mut().filter(|look| look.cache == token);
            looks.for_each(|look| look.listed(cache, &interest.object));
        }
        let woken = self.judge_again(self.concerned(token), token, None, now);
        // The remaining expectations were raised while the list was under way, so the list may have skipped the states
        // that they wait for.
        let soon = now + DOUBT_AFTER;
        for entry in self.keys.values_mut() {
            for pending in entry.pending.iter_mut().filter(|it| it.cache == token && it.blocks && it.due > soon) {
                pending.due = soon;
                sooner(&mut self.alarm, soon);
            }
        }
        self.index(token);
        woken
    }

    /// Records that the cache has proven that it shows everything that was committed at `began`. Returns the held keys
    /// that may run now.
    pub(crate) fn proven(&mut self, token: usize, began: Stamp, now: Moment) -> Vec<ObjectKey> {
        let concerned = self.concerned(token);
        self.judge_each(concerned, now, |pending, _| {
            let is_over = pending.cache == token && pending.since < began;
            is_over.then_some(ExpectationVerdict::Over)
        })
    }

    /// Frees keys although no cache has met their expectations. These expectations are not counted as met.
    pub(crate) fn give_up(&mut self, keys: Vec<ObjectKey>) -> Vec<ObjectKey> {
        let mut free = Vec::new();
        for key in keys {
            let Some(KeyExpectations { pending, held }) = self.keys.remove(&key) else { continue };
            for pending in &pending {
                self.unindex(&key, pending);
            }
            if held.is_some() {
                free.push(key);
            }
        }
        self.tidy();
        free
    }

    fn concerned(&self, token: usize) -> Vec<ObjectKey> {
        let waits = |entry: &KeyExpectations| entry.pending.iter().any(|pending| pending.cache == token);
        self.keys.iter().filter(|(_, entry)| waits(entry)).map(|(key, _)| key.clone()).collect()
    }

    fn judge_again(
        &mut self,
        keys: Vec<ObjectKey>,
        token: usize,
        event: Option<CacheNotice<'_>>,
        now: Moment,
    ) -> Vec<ObjectKey> {
        let object = event.map(|event| &event.object.header.key);
        self.judge_each(keys, now, |pending, caches| {
            let is_concerned = pending.cache == token && (object.is_none() || pending.sight.object() == object);
            is_concerned.then(|| pending.judge(&caches[token].cache, event))
        })
    }

    /// Judges the expectations of `keys` again; a verdict of `None` leaves an expectation as it is. Returns the held
    /// keys that may run now.
    pub(super) fn judge_each(
        &mut self,
        keys: Vec<ObjectKey>,
        now: Moment,
        mut verdict: impl FnMut(&mut PendingExpectation, &[WatchedCache]) -> Option<ExpectationVerdict>,
    ) -> Vec<ObjectKey> {
        let mut free = Vec::new();
        for key in keys {
            let Some(entry) = self.keys.get_mut(&key) else { continue };
            let mut over = Vec::new();
            let (caches, alarm) = (&self.caches, &mut self.alarm);
            entry.pending.retain_mut(|pending| {
                let due = pending.due;
                let Some(verdict) = verdict(pending, caches) else { return true };
                if verdict == ExpectationVerdict::Over {
                    over.push(pending.clone());
                    return false;
                }
                pending.now(verdict, now);
                if pending.due != due {
                    sooner(alarm, pending.due);
                }
                true
            });
            let is_free = !entry.blocks() && entry.held.take().is_some();
            let is_empty = entry.pending.is_empty();
            if is_empty {
                self.keys.remove(&key);
            }
            for pending in over {
                self.met(&key, &pending, now);
            }
            if is_free {
                free.push(key);
            }
        }
        self.tidy();
        free
    }

    fn met(&mut self, key: &ObjectKey, pending: &PendingExpectation, now: Moment) {
        if pending.blocks {
            self.counts.satisfied += 1;
            self.counts.wait.observe(nanoseconds(now, pending.raised));
        }
        self.unindex(key, pending);
    }

    fn unindex(&mut self, key: &ObjectKey, pending: &PendingExpectation) {
        let others = self.keys.get(key).into_iter().flat_map(|entry| &entry.pending);
        let mut others = others.filter(|other| other.cache == pending.cache);
        if let Some(object) = pending.sight.object()
            && !others.any(|other| other.sight.object() == Some(object))
        {
            forget(&mut self.caches[pending.cache].by_name, object, key);
        }
    }

    /// Rebuilds the index of versions and objects for which keys wait at a cache.
    fn index(&mut self, token: usize) {
        let WatchedCache { by_version, by_name, .. } = &mut self.caches[token];
        by_version.clear();
        by_name.clear();
        for (key, entry) in &self.keys {
            for pending in entry.pending.iter().filter(|pending| pending.cache == token) {
                if let Some(version) = pending.sight.version() {
                    add(by_version.entry(version).or_default(), key);
                }
                if let Some(object) = pending.sight.object() {
                    add(by_name.entry(object.clone()).or_default(), key);
                }
            }
        }
    }

    /// Frees memory that is not needed any more.
    fn tidy(&mut self) {
        if !self.keys.is_empty() {
            return;
        }
        self.keys = HashMap::new();
        for watched in &mut self.caches {
            watched.by_version = BTreeMap::new();
            watched.by_name = HashMap::new();
        }
    }
}

pub(super) fn sooner(alarm: &mut Option<Moment>, due: Moment) {
    *alarm = Some(alarm.map_or(due, |alarm| alarm.min(due)));
}

fn nanoseconds(now: Moment, since: Moment) -> u64 {
    u64::try_from(now.0.saturating_sub(since.0).as_nanos()).unwrap_or(u64::MAX)
}

fn add(keys: &mut Vec<ObjectKey>, key: &ObjectKey) {
    if keys.last() != Some(key) {
        keys.push(key.clone());
    }
}

fn forget<K: Hash + Eq, V: PartialEq>(map: &mut HashMap<K, Vec<V>>, key: &K, value: &V) {
    if let Some(values) = map.get_mut(key) {
        values.retain(|other| other != value);
        if values.is_empty() {
            map.remove(key);
        }
    }
}
