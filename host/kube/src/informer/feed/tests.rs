mod conditions;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Weak;
use std::thread;

use futures::FutureExt as _;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use windlass_core::object::progress::{Observer, Progress as _};
use windlass_core::object::{ObjectKey, ObjectKind};

use super::*;
use crate::informer::budget::BudgetScope;
use crate::informer::parse::ObjectParser;
use crate::informer::store::{NotSynced, StoreScope};

fn pods() -> WatchSpec {
    WatchSpec::all(ObjectKind::new("v1", "Pod"))
}

fn resource() -> Arc<Resource> {
    let kind = ObjectKind::new("v1", "Pod");
    let resource = Resource {
        kind,
        plural: "pods".into(),
        namespaced: false,
        subresources: Vec::new(),
        verbs: Vec::new(),
        comparable: true,
    };
    Arc::new(resource)
}

fn pod(name: u32, uid: u32, version: u32) -> Object {
    let text = format!(r#"{{"metadata":{{"name":"p{name}","uid":"u{uid}","resourceVersion":"{version}"}}}}"#);
    ObjectParser::new(&pods()).expect("no pointers").object(&text).expect("an object")
}

fn list(objects: Vec<Object>, version: u32) -> CompleteList {
    CompleteList {
        objects,
        version: version.to_string().as_str().into(),
        resource: resource(),
        began: Stamp::take(),
        era: None,
    }
}

/// Changes `feed` as a server might, but also in an order that a server would not use.
fn change_at_random(feed: &Feed, random: &mut SmallRng, version: u32) {
    let object = |random: &mut SmallRng| {
        let uid = if random.random_bool(0.9) { 1 } else { 2 };
        // Sometimes an earlier version.
        pod(random.random_range(0..8), uid, version.saturating_sub(random.random_range(0..4)).max(1))
    };
    match random.random_range(0..20) {
        0 => {
            let objects: BTreeMap<_, _> =
                (0..6).map(|_| object(random)).map(|pod| (pod.header.key.clone(), pod)).collect();
            feed.replace(list(objects.into_values().collect(), version))
        }
        1..=12 => feed.apply(&object(random)),
        _ => feed.delete(object(random)),
    }
    .expect("no budget");
}

/// The final objects of a subscriber that applies its events. Each event must follow from the earlier ones.
fn replayed(mut subscription: Subscription) -> BTreeMap<ObjectKey, Object> {
    let mut state = BTreeMap::new();
    while let Some(Some(event)) = subscription.next().now_or_never() {
        match event {
            WatchEvent::Applied { old, new, .. } => {
                assert_eq!(state.insert(new.header.key.clone(), new), old);
            }
            WatchEvent::Deleted(tombstone) => {
                let last = state.remove(&tombstone.last.header.key).expect("deleted once, after it was applied");
                assert_eq!(last.header.uid, tombstone.last.header.uid);
            }
        }
    }
    state
}

#[test]
fn subscribers_that_join_at_any_time_converge_on_the_store() {
    let feed = Arc::new(Feed::new(pods(), usize::MAX));
    let subscriptions = thread::scope(|scope| {
        let joining = (0..3).map(|_| scope.spawn(|| (0..40).map(|_| feed.subscribe()).collect::<Vec<_>>()));
        let joining: Vec<_> = joining.collect();
        let mut random = SmallRng::seed_from_u64(11);
        let mut subscriptions = Vec::new();
        for version in 1..4_000 {
            change_at_random(&feed, &mut random, version);
            if version % 100 == 0 {
                subscriptions.push(feed.subscribe());
                drop(feed.subscribe());
            }
        }
        subscriptions.extend(joining.into_iter().flat_map(|thread| thread.join().expect("no panic")));
        subscriptions
    });
    let stored: BTreeMap<_, _> =
        feed.store.all().into_iter().map(|object| (object.header.key.clone(), object)).collect();
    assert_eq!(subscriptions.len(), 159);
    for subscription in subscriptions {
        assert_eq!(replayed(subscription), stored);
    }
    assert_eq!(*feed.subscriber_count().borrow(), 0);
}

/// An observer that applies its notifications, and compares the result with the store wherever the two must agree.
struct Believer {
    store: Store,
    state: Mutex<BTreeMap<ObjectKey, Object>>,
    lines: Mutex<Vec<String>>,
}

impl Believer {
    fn of(feed: &Feed, token: usize) -> Arc<Self> {
        let believer = Arc::new(Self { store: feed.store.clone(), state: Mutex::default(), lines: Mutex::default() });
        let observer: Weak<Self> = Arc::downgrade(&believer);
        feed.store.observe(token, observer);
        *believer.state.lock().expect("no panic") = believer.stored();
        believer
    }

    fn stored(&self) -> BTreeMap<ObjectKey, Object> {
        self.store.all().into_iter().map(|object| (object.header.key.clone(), object)).collect()
    }

    fn take_lines(&self) -> Vec<String> {
        std::mem::take(&mut self.lines.lock().expect("no panic"))
    }
}

impl Observer for Believer {
    fn advanced(&self, token: usize, advance: Advance<'_>) {
        let mut state = self.state.lock().expect("no panic");
        let line = match advance {
            Advance::Object { object, gone } => {
                let key = &object.header.key;
                if !gone {
                    state.insert(key.clone(), object.clone());
                } else if state.get(key).is_some_and(|known| known.header.uid == object.header.uid) {
                    state.remove(key);
                }
                let sign = if gone { "-" } else { "" };
                format!("{token}: {sign}{}/{}@{}", key.name, object.header.uid, object.header.version)
            }
            Advance::Version(version) => {
                assert_eq!(self.store.version().as_ref(), Some(version));
                assert_eq!(*state, self.stored(), "all objects of the event were reported before");
                format!("{token}: {version}")
            }
            Advance::Listed => {
                *state = self.stored();
                format!("{token}: listed {:?} in {}", self.store.version(), self.store.epoch())
            }
            Advance::Lost => {
                assert_eq!((self.store.version(), self.store.listed()), (None, None));
                state.clear();
                format!("{token}: lost")
            }
        };
        self.lines.lock().expect("no panic").push(line);
    }
}

#[test]
fn replaying_the_observed_events_yields_the_store() {
    let feed = Feed::new(pods(), usize::MAX);
    let mut random = SmallRng::seed_from_u64(12);
    let mut believers = Vec::new();
    for version in 1..4_000 {
        if version % 400 == 1 {
            believers.push(Believer::of(&feed, 0));
        }
        match random.random_range(0..60) {
            0 => {
                feed.vanish();
                feed.vanish();
                feed.replace(list(vec![pod(0, 1, version)], version)).expect("no budget");
            }
            1 => feed.bookmark(version.to_string().as_str().into()),
            // As after a restored backup.
            2 => feed.replace(list(vec![pod(0, 1, version / 2)], version / 2)).expect("no budget"),
            _ => change_at_random(&feed, &mut random, version),
        }
        for believer in believers.iter().filter(|_| version % 9 == 0) {
            assert_eq!(*believer.state.lock().expect("no panic"), believer.stored(), "at {version}");
        }
    }
    assert!(feed.store.epoch() > 10, "{}", feed.store.epoch());
    assert_eq!(feed.status.borrow().epoch, feed.store.epoch());
}

#[test]
fn observers_receive_every_event_with_the_version_after_it() {
    let feed = Feed::new(pods(), usize::MAX);
    let observer = Believer::of(&feed, 7);
    assert_eq!((feed.store.listed(), feed.store.is_comparable()), (None, false));
    let before = Stamp::take();
    feed.replace(list(vec![pod(1, 1, 5)], 10)).expect("no budget");
    assert!(feed.store.listed() > Some(before) && feed.store.is_comparable());
    feed.apply(&pod(1, 1, 5)).expect("no budget");
    feed.apply(&pod(1, 1, 11)).expect("no budget");
    feed.apply(&pod(1, 1, 9)).expect("no budget");
    feed.bookmark("12".into());
    feed.bookmark("12".into());
    feed.apply(&pod(1, 2, 13)).expect("no budget");
    feed.delete(pod(1, 1, 14)).expect("no budget");
    feed.delete(pod(2, 3, 15)).expect("no budget");
    feed.vanish();
    feed.vanish();
    feed.replace(list(vec![], 30)).expect("no budget");
    feed.close();
    let expected = [
        "7: listed Some(\"10\") in 0",
        "7: p1/u1@5",
        "7: p1/u1@11",
        "7: 11",
        "7: p1/u1@11",
        "7: 12",
        "7: -p1/u1@11",
        "7: p1/u2@13",
        "7: 13",
        "7: -p1/u2@13",
        "7: -p1/u1@14",
        "7: 14",
        "7: -p2/u3@15",
        "7: 15",
        "7: lost",
        "7: listed Some(\"30\") in 1",
        "7: lost",
    ];
    assert_eq!(observer.take_lines(), expected);
}

#[test]
fn a_dropped_observer_costs_nothing() {
    let feed = Feed::new(pods(), usize::MAX);
    assert!(!feed.lock().writer.is_observed());
    drop(Believer::of(&feed, 0));
    feed.replace(list(vec![], 10)).expect("no budget");
    assert!(!feed.lock().writer.is_observed());
}

#[test]
fn a_closed_cache_charges_no_budget() {
    let feed = Arc::new(Feed::new(pods(), usize::MAX));
    feed.apply(&pod(1, 1, 1)).expect("no budget");
    feed.close();
    let budget = Budget::new(10_000);
    let options = SubscribeOptions { budget: Some(Arc::clone(&budget)), ..SubscribeOptions::default() };
    drop(feed.subscribe_with(options).expect("no indexes"));
    assert_eq!(budget.used(), 0);
}

/// A Pod with an annotation of many short parts, which an index over them multiplies.
fn pod_of_parts(name: u32, parts: usize) -> Object {
    let parts: Vec<_> = (0..parts).map(|part| part.to_string()).collect();
    let annotations = format!(r#"{{"uses":"{}"}}"#, parts.join(","));
    let metadata = format!(r#"{{"name":"p{name}","uid":"u","resourceVersion":"1","annotations":{annotations}}}"#);
    let text = format!(r#"{{"metadata":{metadata}}}"#);
    ObjectParser::new(&pods()).expect("no pointers").object(&text).expect("an object")
}

fn by_part() -> IndexSource {
    IndexSource::Annotation { key: "uses".into(), split: Some(',') }
}

#[test]
fn an_index_is_charged_to_the_plugin_that_declares_it_whenever_it_grows() {
    let (plain, indexing) = (Budget::new(100_000), Budget::new(100_000));
    let options = |budget: &Arc<Budget>, indexes| SubscribeOptions { budget: Some(Arc::clone(budget)), indexes };
    let grows = |feed: &Feed, is_list: bool| {
        let pod = pod_of_parts(1, 2_000);
        if is_list { feed.replace(list(vec![pod], 1)) } else { feed.apply(&pod) }
    };
    for is_list in [true, false] {
        let feed = Arc::new(Feed::new(pods(), usize::MAX));
        let _plain = feed.subscribe_with(options(&plain, vec![])).expect("no indexes");
        let before = indexing.excesses();
        let subscription = feed.subscribe_with(options(&indexing, vec![by_part()])).expect("no pointers");
        assert_eq!(feed.lock().subscribers.len(), 2);
        grows(&feed, is_list).expect("one stays");
        assert_eq!((feed.lock().subscribers.len(), indexing.excesses() - before, plain.excesses()), (1, 1, 0));
        assert_eq!(feed.store.index_bytes([&by_part()]), 0, "the index is gone with its user");
        drop(subscription);
        let later = feed.subscribe_with(options(&indexing, vec![by_part()])).expect("no pointers");
        assert_eq!((feed.lock().subscribers.len(), indexing.excesses() - before), (1, 2), "the cache was full before");
        drop(later);
        assert_eq!(indexing.used(), 0);
    }
}

#[test]
fn an_index_that_exceeds_the_limit_of_a_cache_stops_those_who_declare_it() {
    let (plain, indexing) = (Budget::new(usize::MAX), Budget::new(usize::MAX));
    let feed = Arc::new(Feed::new(pods(), 100_000));
    let options = |budget: &Arc<Budget>, indexes| SubscribeOptions { budget: Some(Arc::clone(budget)), indexes };
    let _plain = feed.subscribe_with(options(&plain, vec![])).expect("no indexes");
    let _indexing = feed.subscribe_with(options(&indexing, vec![by_part()])).expect("no pointers");
    feed.apply(&pod_of_parts(1, 10)).expect("room");
    assert_eq!(feed.store.indexed(&by_part(), "7").len(), 1);
    assert!(indexing.used() > plain.used());
    feed.apply(&pod_of_parts(2, 2_000)).expect("one stays");
    assert_eq!((feed.lock().subscribers.len(), indexing.used(), plain.excesses()), (1, 0, 0));
    let excess = indexing.last_excess().expect("notified");
    assert!(excess.scope == BudgetScope::Informer && excess.needed > 100_000);
    assert_eq!(feed.store.len(), 2, "the cache of the other goes on");
}

#[test]
fn an_index_is_no_longer_charged_once_its_last_user_leaves() {
    let budget = Budget::new(usize::MAX);
    let feed = Arc::new(Feed::new(pods(), usize::MAX));
    let options = |indexes| SubscribeOptions { budget: Some(Arc::clone(&budget)), indexes };
    let _plain = feed.subscribe_with(options(vec![])).expect("no indexes");
    feed.apply(&pod_of_parts(1, 100)).expect("room");
    let objects = budget.used();
    let indexing = feed.subscribe_with(options(vec![by_part()])).expect("no pointers");
    assert!(budget.used() > objects);
    drop(indexing);
    assert_eq!(budget.used(), objects);
}

#[test]
fn without_an_order_of_versions_a_smaller_one_is_an_ordinary_change() {
    let feed = Arc::new(Feed::new(pods(), usize::MAX));
    let mut listed = list(vec![pod(1, 1, 50), pod(2, 1, 60)], 100);
    listed.resource = Arc::new(Resource { comparable: false, ..(*resource()).clone() });
    feed.replace(listed).expect("no budget");
    feed.apply(&pod(1, 1, 7)).expect("no budget");
    assert_eq!(feed.store.get(&pod(1, 1, 7).header.key), Some(pod(1, 1, 7)), "it is dropped no more");
    assert_eq!(feed.store.version(), Some("7".into()), "and the watch goes on from there");
    assert!(!feed.is_late(&pod(3, 1, 5)), "so that nothing is listed again for it");
    feed.delete(pod(2, 1, 8)).expect("no budget");
    assert_eq!(feed.store.get(&pod(2, 1, 8).header.key), None);
    let epoch = feed.store.epoch();
    let mut again = list(vec![], 3);
    again.resource = feed.store.resource().expect("listed");
    feed.replace(again).expect("no budget");
    assert_eq!(feed.store.epoch(), epoch, "a smaller number is no restored backup");
}

#[test]
fn a_cache_that_is_being_emptied_never_reports_an_object_as_missing() {
    let feed = Arc::new(Feed::new(pods(), usize::MAX));
    let (key, there) = (pod(1, 1, 1).header.key.clone(), || list(vec![pod(1, 1, 1)], 1));
    feed.replace(there()).expect("no budget");
    let found = || {
        let mut found = 0;
        let is_complete = feed.store.scan_synced(StoreScope::All, None, |_| {
            found += 1;
            ControlFlow::Continue(())
        });
        (is_complete, found)
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..2_000 {
                feed.vanish();
                feed.replace(there()).expect("no budget");
            }
        });
        for _ in 0..20_000 {
            assert_ne!(feed.store.find(&key), Ok(None), "the object is there, or the store is not synced");
            assert_ne!(found(), (true, 0));
        }
    });
    feed.close();
    assert_eq!((feed.store.find(&key), found()), (Err(NotSynced), (false, 0)));
}

#[test]
fn an_older_state_changes_nothing_if_versions_compare() {
    let feed = Arc::new(Feed::new(pods(), usize::MAX));
    feed.replace(list(vec![pod(1, 1, 5)], 10)).expect("no budget");
    feed.delete(pod(1, 1, 11)).expect("no budget");
    feed.apply(&pod(1, 1, 12)).expect("no budget");
    let key = pod(1, 1, 12).header.key.clone();
    feed.delete(pod(1, 1, 11)).expect("no budget");
    feed.apply(&pod(1, 1, 11)).expect("no budget");
    feed.delete(pod(1, 2, 9)).expect("no budget");
    assert_eq!(feed.store.get(&key), Some(pod(1, 1, 12)), "it came back into the selector since");
}

#[test]
fn a_list_without_subscribers_gets_no_budget() {
    let feed = Arc::new(Feed::new(pods(), usize::MAX));
    let subscription = feed.subscribe();
    assert_eq!(feed.afford(1), Ok(()));
    drop(subscription);
    assert_eq!(feed.afford(2), Err(OverBudget));
}
