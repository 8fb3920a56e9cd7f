use proptest::prelude::*;

use super::*;
use crate::life::lease::LeaseRecord;

const SHARING_PERIOD: Duration = Duration::from_secs(2);
const STABILITY: Duration = Duration::from_mins(1);

fn named(names: impl IntoIterator<Item = u32>) -> BTreeSet<Arc<str>> {
    names.into_iter().map(|name| format!("windlass-{name}").into()).collect()
}

fn leases() -> Vec<Arc<str>> {
    (0..SHARDS).map(|shard| format!("windlass-shard-{shard:02}").into()).collect()
}

/// The target of each lease.
fn targets(members: &BTreeSet<Arc<str>>) -> Vec<Arc<str>> {
    let target = |lease: &Arc<str>| members.iter().find(|me| rank(lease, me, members) == 0).cloned();
    leases().iter().map(|lease| target(lease).expect("there is one")).collect()
}

#[test]
fn the_shard_of_a_plugin_is_the_same_in_every_version() {
    // Replicas of two versions share plugins during an upgrade, so these figures must never change.
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
    fn each_lease_has_one_target_and_a_leaver_moves_only_its_own(
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
    fn a_member_that_joins_takes_about_its_share(names in prop::collection::btree_set(0..1000_u32, 2..6)) {
        let members = named(names.iter().copied());
        let before = targets(&members);
        let joined: BTreeSet<_> = members.iter().cloned().chain(["newcomer".into()]).collect();
        let moved = before.iter().zip(targets(&joined)).filter(|(before, after)| *before != after).count();
        let share = 32 / joined.len();
        prop_assert!(moved <= 3 * share && moved >= 1, "{moved} of 32 for one of {}", joined.len());
    }
}

/// The name of a plugin begins with the name of its lease.
fn lease_of(plugin: &str) -> Option<String> {
    plugin.split_once('/').map(|(lease, _)| lease.to_owned())
}

fn offer(plugins: &[&str]) -> Arc<Offer> {
    Arc::new(Offer::of(plugins.iter().map(|it| ((*it).into(), "d".into())), lease_of))
}

/// Replicas that publish no offer.
fn silent(names: impl IntoIterator<Item = Arc<str>>, since: Moment) -> Membership {
    Membership { live: names.into_iter().map(|name| (name, None)).collect(), since }
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
    members.observe(&b, Some(("0".into(), record("b"))), None, at(3));
    members.observe(&b, Some(("1".into(), record("b"))), None, at(5));
    assert_eq!(members.at(at(5)).live.len(), 2);
    // The same state again is no sign of life.
    members.observe(&b, Some(("1".into(), record("b"))), None, at(19));
    assert_eq!((members.at(at(19)).live.len(), members.next_death()), (2, Some(at(20))));
    assert_eq!(*members.at(at(20)), silent(["a".into()], at(20)));
    members.observe(&b, Some(("2".into(), record("b"))), None, at(21));
    assert_eq!(members.at(at(21)).live.len(), 2);
    members.observe(&b, None, None, at(22));
    assert_eq!(members.at(at(22)).live.len(), 1);
}

#[test]
fn a_replica_counts_itself_as_live_when_its_lease_has_run_out() {
    let me: Arc<str> = "a".into();
    let mut members = Members::new(me.clone(), at(0));
    members.observe(&me, Some(("0".into(), record("a"))), None, at(0));
    members.observe(&me, Some(("1".into(), record("a"))), None, at(2));
    for now in [at(2), at(60)] {
        assert_eq!((members.at(now).live.len(), members.next_death()), (1, None));
    }
}

#[test]
fn a_lease_at_first_sight_counts_for_less_time_than_a_renewed_one() {
    let mut members = Members::new("a".into(), at(0));
    for name in ["b", "c"].map(Arc::from) {
        members.observe(&name, Some(("1".into(), record(&name))), None, at(0));
    }
    assert_eq!((members.at(at(4)).live.len(), members.next_death()), (3, Some(at(5))));
    members.observe(&"b".into(), Some(("2".into(), record("b"))), None, at(4));
    assert_eq!(*members.at(at(5)), silent(["a".into(), "b".into()], at(5)));
    assert_eq!(members.at(at(18)).live.len(), 2);
}

#[test]
fn a_new_offer_is_a_change_but_no_new_set_of_replicas() {
    let (mut members, b) = (Members::new("a".into(), at(0)), Arc::from("b"));
    members.observe(&b, Some(("1".into(), record("b"))), Some(offer(&["l/x"])), at(0));
    let before = members.at(at(1)).clone();
    members.observe(&b, Some(("2".into(), record("b"))), Some(offer(&["l/x", "l/y"])), at(2));
    members.offer(Some(offer(&["l/x"])));
    let now = members.at(at(2)).clone();
    assert_eq!((before.since, now.since), (at(1), at(1)));
    assert_eq!(now.lacks("l"), BTreeMap::from([("a".into(), 1), (b, 0)]));
}

#[test]
fn the_first_live_member_deletes_the_leases_of_long_dead_members() {
    let mut members = Members::new("b".into(), at(0));
    for name in ["a", "c"].map(Arc::from) {
        members.observe(&name, Some(("1".into(), record(&name))), None, at(0));
    }
    let long = Duration::from_mins(2);
    members.at(at(4));
    assert!(members.long_dead(long, at(1000)).is_empty(), "it is on a");
    members.at(at(20));
    assert!(members.long_dead(long, at(20)).is_empty(), "not long");
    assert_eq!(members.long_dead(long, at(200)), ["a".into(), "c".into()]);
}

/// A lease whose target is `b` rather than `a`.
fn lease_of_b() -> (Arc<str>, BTreeSet<Arc<str>>) {
    let members: BTreeSet<Arc<str>> = ["a".into(), "b".into()].into();
    let lease = leases().into_iter().find(|lease| rank(lease, "a", &members) == 1).expect("half of them");
    (lease, members)
}

#[test]
fn a_lease_moves_to_its_target_once_the_members_are_stable() {
    let (lease, live) = lease_of_b();
    let mut part = Part::new(lease, "a".into(), STABILITY, SHARING_PERIOD);
    let alone = silent(["a".into()], at(0));
    assert_eq!(part.stance(true, &alone, at(900)), Stance::Keep { until: None });
    let both = silent(live, at(1000));
    assert_eq!(part.stance(true, &both, at(1059)), Stance::Keep { until: Some(at(1060)) });
    assert_eq!(part.stance(true, &both, at(1060)), Stance::HandOver);
    assert_eq!(part.stance(false, &both, at(1061)), Stance::Take { after: SHARING_PERIOD });
}

#[test]
fn a_lease_its_target_did_not_take_stays_until_members_change() {
    let (lease, live) = lease_of_b();
    let mut part = Part::new(lease, "a".into(), STABILITY, SHARING_PERIOD);
    let both = silent(live.clone(), at(0));
    assert_eq!(part.stance(true, &both, at(60)), Stance::HandOver);
    for later in [70, 1000, 100_000] {
        assert_eq!(part.stance(true, &both, at(later)), Stance::Keep { until: None }, "it came back");
    }
    let more = silent(live.into_iter().chain(["c".into()]), at(100_000));
    assert!(matches!(part.stance(true, &more, at(100_001)), Stance::Keep { until: Some(_) }));
}

#[test]
fn the_wait_for_a_free_lease_is_bounded_for_any_number_of_members() {
    let live = named(0..100);
    for me in &live {
        let mut part = Part::new("windlass-shard-07".into(), me.clone(), STABILITY, SHARING_PERIOD);
        let members = silent(live.clone(), at(0));
        let Stance::Take { after } = part.stance(false, &members, at(0)) else { panic!("it is free") };
        assert!(after <= SHARING_PERIOD * 4);
    }
}

/// A lease with the plugins x and y, the decisions of `a` about it, and the members `a` and `b`, of which `b` is the
/// target.
fn parts() -> (Arc<str>, Part) {
    let (lease, _) = lease_of_b();
    (lease.clone(), Part::new(lease, "a".into(), STABILITY, SHARING_PERIOD))
}

fn pair(lease: &str, a: Option<&[&str]>, b: Option<&[&str]>) -> Membership {
    let of = |plugins: Option<&[&str]>| {
        let named: Vec<_> = plugins?.iter().map(|it| format!("{lease}/{it}")).collect();
        Some(offer(&named.iter().map(String::as_str).collect::<Vec<_>>()))
    };
    Membership { live: [("a".into(), of(a)), ("b".into(), of(b))].into(), since: at(0) }
}

#[test]
fn no_lease_is_handed_to_a_replica_that_cannot_serve_it() {
    let (lease, mut part) = parts();
    let lacking = pair(&lease, Some(&["x", "y"]), Some(&["x"]));
    assert_eq!(part.stance(true, &lacking, at(1000)), Stance::Keep { until: None });
    assert_eq!(part.stance(false, &lacking, at(1000)), Stance::Take { after: Duration::ZERO });
    // The lease is handed over once that replica can serve both plugins.
    let able = pair(&lease, Some(&["x", "y"]), Some(&["x", "y"]));
    assert_eq!(part.stance(true, &able, at(1001)), Stance::Keep { until: Some(at(1061)) });
    assert_eq!(part.stance(true, &able, at(1061)), Stance::HandOver);
}

#[test]
fn a_replica_that_cannot_serve_a_plugin_hands_its_lease_over() {
    let (lease, _) = parts();
    for sticky in [false, true] {
        let part = Part::new(lease.clone(), "b".into(), STABILITY, SHARING_PERIOD);
        let mut b = if sticky { part.sticky() } else { part };
        let both = pair(&lease, Some(&["x", "y"]), Some(&["x", "y"]));
        assert_eq!(b.stance(true, &both, at(900)), Stance::Keep { until: None });
        // `b` can no longer serve y, because the policy of y is gone there.
        let lacking = pair(&lease, Some(&["x", "y"]), Some(&["x"]));
        assert_eq!(b.stance(true, &lacking, at(1000)), Stance::Keep { until: Some(at(1060)) });
        assert_eq!(b.stance(true, &lacking, at(1060)), Stance::HandOver);
        assert_eq!(b.stance(false, &lacking, at(1061)), Stance::Take { after: SHARING_PERIOD * 5 }, "the other first");
        assert_eq!(b.stance(true, &lacking, at(2000)), Stance::Keep { until: None }, "no replica has taken it");
    }
}

#[test]
fn a_holder_that_serves_no_plugin_hands_over_at_once() {
    let (lease, _) = parts();
    let mut b = Part::new(lease.clone(), "b".into(), STABILITY, SHARING_PERIOD);
    let both = pair(&lease, Some(&["x"]), Some(&["x"]));
    assert_eq!(b.stance(true, &both, at(900)), Stance::Keep { until: None });
    let nothing = pair(&lease, Some(&["x"]), Some(&[]));
    let soon = at(1000) + SHARING_PERIOD;
    assert_eq!(b.stance(true, &nothing, at(1000)), Stance::Keep { until: Some(soon) }, "a file may be replaced");
    assert_eq!(b.stance(true, &nothing, soon), Stance::HandOver);
    let mut a = Part::new(lease.clone(), "a".into(), STABILITY, SHARING_PERIOD);
    assert_eq!(a.stance(false, &nothing, soon), Stance::Take { after: Duration::ZERO });
    let neither = pair(&lease, Some(&[]), Some(&[]));
    let mut a = Part::new(lease, "a".into(), STABILITY, SHARING_PERIOD);
    assert_eq!(
        a.stance(true, &neither, at(2)),
        Stance::Keep { until: Some(at(60)) },
        "the other could not serve it either"
    );
}

#[test]
fn a_replica_without_an_offer_counts_as_able_to_serve_all() {
    let (lease, mut a) = parts();
    let mut b = Part::new(lease.clone(), "b".into(), STABILITY, SHARING_PERIOD);
    let old = pair(&lease, Some(&["x"]), None);
    assert_eq!(a.stance(true, &old, at(60)), Stance::HandOver);
    assert_eq!(b.stance(true, &old, at(60)), Stance::Keep { until: None });
    let (mut a, old) =
        (Part::new(lease.clone(), "a".into(), STABILITY, SHARING_PERIOD), pair(&lease, None, Some(&["x"])));
    assert_eq!(a.stance(true, &old, at(60)), Stance::HandOver, "b can serve all that is known of");
}

#[test]
fn a_sticky_lease_stays_among_replicas_that_serve_as_much() {
    let (lease, part) = parts();
    let mut part = part.sticky();
    let both = pair(&lease, Some(&["x"]), Some(&["x"]));
    assert_eq!(part.stance(true, &both, at(1000)), Stance::Keep { until: None });
    assert_eq!(part.stance(false, &both, at(1000)), Stance::Take { after: Duration::ZERO });
}

#[test]
fn a_plugin_is_unserved_if_its_lease_holder_cannot_serve_it() {
    let members = pair("l", Some(&["x", "y"]), Some(&["x"]));
    let unserved = |plugin: &str, holder: Option<&str>| members.unserved(plugin, "l", holder.map(Arc::from).as_ref());
    assert_eq!(unserved("l/y", Some("a")), None);
    assert_eq!(unserved("l/y", None), None, "who holds it is not known");
    assert_eq!(unserved("l/y", Some("gone")), None, "nothing is known about that holder");
    let by_b = Unserved::ByHolder { holder: "b".into(), other: Some("a".into()) };
    assert_eq!(unserved("l/y", Some("b")), Some(by_b));
    assert_eq!(unserved("l/z", Some("b")), Some(Unserved::ByAll));
    let old = pair("l", Some(&["x"]), None);
    assert_eq!(old.unserved("l/z", "l", Some(&"b".into())), None, "it may");
    assert_eq!(members.serving("l/y", "l").collect::<Vec<_>>(), [(&"a".into(), &"d".into())]);
}

proptest! {
    #[test]
    fn a_lease_has_one_target_and_no_member_can_serve_more(
        offers in prop::collection::btree_map(0..1000_u32, prop::option::of(0..16_u8), 1..8), holder in any::<prop::sample::Index>()
    ) {
        let lease: Arc<str> = "l".into();
        let plugins = |bits: u8| (0..4).filter(move |bit| bits & (1 << bit) != 0).map(|bit| format!("l/{bit}"));
        let of = |bits: u8| offer(&plugins(bits).collect::<Vec<_>>().iter().map(String::as_str).collect::<Vec<_>>());
        let named = offers.iter().map(|(name, bits)| (format!("windlass-{name}").into(), bits.map(of)));
        let members = Membership { live: named.collect(), since: at(0) };
        let part = |me: &Arc<str>| Part::new(lease.clone(), me.clone(), STABILITY, SHARING_PERIOD);
        let live: Vec<_> = members.live.keys().cloned().collect();
        // The first holder of the lease hands it over at most once, and then it stays.
        let now = Stance::Take { after: Duration::ZERO };
        let targets: Vec<_> = live.iter().filter(|me| part(me).stance(false, &members, at(60)) == now).collect();
        prop_assert_eq!(targets.len(), 1, "{:?}", members);
        let lacks = members.lacks(&lease);
        prop_assert_eq!(lacks.get(targets[0]), lacks.values().min());
        let holder = holder.get(&live);
        let expected = if holder == targets[0] { Stance::Keep { until: None } } else { Stance::HandOver };
        prop_assert_eq!(part(holder).stance(true, &members, at(60)), expected);
    }
}
