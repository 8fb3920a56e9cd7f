//! Which calls are saved. `random` compares random plugins in random histories, with and without.

mod random;
mod world;

use std::time::Duration;

use proptest::test_runner::TestCaseError;
use windlass_core::defect::Defect;
use windlass_core::life::probation;
use windlass_core::queue::breaker::{BreakerState, TRAPPED_KEYS_MIN};

use self::world::{Op, Plugin, World};

/// A world with one plugin, whose calls are saved unless `audits` says otherwise, after its first call.
fn called_once(plugin: Plugin, audits: fn() -> bool) -> World {
    let mut world = World::new(plugin, Some(audits));
    world.change_primary(1);
    world.run(true);
    assert_eq!(world.made(), 1);
    world
}

fn never() -> bool {
    false
}

/// Reads the first child and the list of children, and applies the second child.
fn reads_and_applies() -> Plugin {
    Plugin::new(vec![
        Op::Primary,
        Op::Get { child: 0, part: true },
        Op::List,
        Op::Apply { child: 1, values: 1, part: true },
    ])
}

#[tokio::test(start_paused = true)]
async fn a_call_that_would_read_and_write_nothing_new_is_saved() {
    let mut world = called_once(reads_and_applies(), never);
    world.run(false);
    assert_eq!(world.made(), 2, "the first call has written");
    for _ in 0..3 {
        world.run(false);
    }
    assert_eq!((world.made(), world.saved()), (2, 3));
    world.change_child(0, Some(7));
    world.run(false);
    assert_eq!(world.made(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_change_that_the_plugin_does_not_read_makes_no_call() {
    let parts = Plugin::new(vec![Op::Primary, Op::Get { child: 0, part: true }]);
    let mut world = called_once(parts, never);
    world.change_child(0, Some(3));
    world.run(false);
    world.run(false);
    assert_eq!(world.made(), 2, "the child has come");
    world.touch_child(0);
    world.touch_primary();
    world.run(false);
    assert_eq!((world.made(), world.saved()), (2, 2), "only what it does not read has changed");
    world.change_child(2, Some(1));
    world.run(false);
    assert_eq!(world.made(), 2, "it does not read this child");
    world.change_primary(9);
    world.run(false);
    assert_eq!(world.made(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_part_of_the_object_stays_is_skipped_without_a_call() {
    for (part, made) in [(true, 2), (false, 3)] {
        let mut world = called_once(Plugin::new(vec![Op::Apply { child: 0, values: 1, part }]), never);
        world.run(false);
        world.touch_child(0);
        world.run(false);
        assert_eq!(world.made(), made, "asks for {}", if part { "a part" } else { "the whole object" });
        world.change_child(0, Some(7));
        world.run(false);
        assert_eq!(world.made(), made + 1, "the value that it applies has changed");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_is_made_if_something_else_than_a_change_asks_for_it() {
    let mut world = called_once(Plugin::new(vec![Op::Primary]), never);
    world.run(true);
    assert_eq!(world.made(), 2);
    for _ in 0..2 {
        world.run(false);
    }
    assert_eq!((world.made(), world.saved()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn calls_that_cannot_be_repeated_or_that_report_are_always_made() {
    for op in [Op::Clock, Op::Event, Op::Count, Op::Live, Op::Fail] {
        let mut world = called_once(Plugin::new(vec![Op::Primary, op.clone()]), never);
        world.run(false);
        assert_eq!((world.made(), world.saved()), (2, 0), "{op:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_gauge_that_another_call_has_set_since_is_set_again() {
    let mut world = called_once(Plugin::new(vec![Op::Primary, Op::Gauge]), never);
    let set = world.measured();
    world.run(false);
    assert_eq!((world.made(), world.saved()), (1, 1), "it has its value already");
    world.measure_for_another(9);
    world.run(false);
    assert_eq!((world.made(), world.saved(), world.measured()), (2, 1, set));
    world.run(false);
    assert_eq!((world.made(), world.saved()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_gauge_that_the_host_drops_keeps_no_call_from_being_saved() {
    let mut world = World::new(Plugin::new(vec![Op::Primary, Op::Gauge]), Some(never));
    world.drop_gauges();
    world.change_primary(1);
    world.run(true);
    world.run(false);
    assert_eq!((world.made(), world.saved(), world.measured()), (1, 1, None));
}

#[tokio::test(start_paused = true)]
async fn a_recorded_call_that_gets_other_seeds_blames_no_plugin() {
    let mut world = called_once(may_report_by_its_seed(), || true);
    for _ in 0..10 {
        for records in [false, true] {
            world.record_calls(records);
            for _ in 0..if records { 1 } else { 8 } {
                world.run(false);
            }
        }
    }
    assert_eq!((world.made(), world.mispredicted()), (91, 0));
}

#[tokio::test(start_paused = true)]
async fn each_call_is_made_while_another_part_of_the_host_needs_it() {
    let mut world = called_once(Plugin::new(vec![Op::Primary]), never);
    world.record().begin_probation(probation::CallCounts { calls: 9, failures: 0 });
    world.run(false);
    assert_eq!((world.made(), world.saved()), (2, 0), "on probation");
    let mut world = called_once(Plugin::new(vec![Op::Primary]), never);
    world.delete_primary(true);
    world.run(false);
    assert_eq!((world.made(), world.saved()), (2, 0), "it is being deleted");
    world.delete_primary(false);
    world.run(false);
    assert_eq!((world.made(), world.saved()), (3, 0), "it is gone");
    let mut world = called_once(Plugin::new(vec![Op::Primary]), never);
    world.attempt = 1;
    world.run(false);
    assert_eq!((world.made(), world.saved()), (2, 0), "it has failed before");
}

#[tokio::test(start_paused = true)]
async fn an_audited_call_that_does_something_ends_the_saving() {
    let mut world = called_once(Plugin::new(vec![Op::Primary, Op::Hidden]), || true);
    for _ in 0..3 {
        world.run(false);
    }
    assert_eq!((world.made(), world.saved(), world.mispredicted()), (4, 0, 0), "audited, and as expected");
    world.hidden(1);
    world.run(false);
    assert_eq!((world.made(), world.mispredicted()), (5, 1));
    assert!(!world.record().may_keep());
    world.hidden(0);
    for _ in 0..2 {
        world.run(false);
    }
    assert_eq!((world.made(), world.saved(), world.mispredicted()), (7, 0, 1), "until the next generation");
}

/// Emits an Event in about half of all calls. These are not kept, so they are not audited.
fn may_report_by_its_seed() -> Plugin {
    let may_report = Op::If { modulus: 2, then: vec![Op::Event], otherwise: vec![] };
    Plugin::new(vec![Op::Map, may_report])
}

#[tokio::test(start_paused = true)]
async fn an_audit_gets_the_seeds_of_the_call_that_it_audits() {
    let mut world = called_once(may_report_by_its_seed(), || true);
    for _ in 0..40 {
        world.run(false);
    }
    assert_eq!((world.made(), world.mispredicted()), (41, 0));
    for _ in 0..40 {
        world.run(true);
    }
    let reports = world.seen().matches("Reported").count();
    assert!((1..80).contains(&reports), "all other calls have seeds of their own: {reports} reports");
}

#[tokio::test(start_paused = true)]
async fn what_changes_during_an_audit_blames_no_plugin() {
    let mut world = called_once(reads_and_applies(), || true);
    for _ in 0..2 {
        world.run(false);
    }
    world.change_child_within_call(0, 8);
    world.run(false);
    world.change_child_within_call(1, 8);
    world.run(false);
    assert_eq!(world.mispredicted(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_is_replaced_during_an_audit_blames_no_plugin() {
    let mut world = called_once(Plugin::new(vec![Op::Primary, Op::Hidden]), || true);
    world.replace_policy_within_call();
    world.hidden(1);
    world.run(false);
    assert_eq!((world.made(), world.mispredicted()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_saved_call_counts_as_an_answer_of_the_plugin() {
    let mut world = called_once(Plugin::new(vec![Op::Primary]), never);
    for _ in 0..3 {
        world.others_trap(TRAPPED_KEYS_MIN - 1);
        world.run(false);
    }
    assert_eq!((world.saved(), world.circuit()), (3, BreakerState::Closed));
    assert_eq!(world.record().record(), probation::CallCounts { calls: 3, failures: 0 });
    world.others_trap(TRAPPED_KEYS_MIN);
    assert_ne!(world.circuit(), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_saved_call_leaves_the_requested_time_as_it_was() {
    let again = Plugin { again: Some(Duration::from_mins(1)), ..Plugin::new(vec![Op::Primary]) };
    let mut world = called_once(again, never);
    assert_eq!(world.due(), Some(Duration::from_mins(1)));
    tokio::time::advance(Duration::from_secs(10)).await;
    world.run(false);
    assert_eq!((world.saved(), world.due()), (1, Some(Duration::from_secs(50))));
    tokio::time::advance(Duration::from_secs(51)).await;
    world.run_due();
    assert_eq!((world.made(), world.saved()), (2, 1), "its time has come");
}

#[test]
fn the_comparison_finds_each_seeded_defect() {
    for defect in [
        Defect::DigestIsIgnored,
        Defect::DueTimerMayBeSaved,
        Defect::OldGrantsAreKept,
        Defect::ClockIsNotNoted,
        Defect::RemovalIsNotCounted,
        Defect::SkipIgnoresValues,
    ] {
        let _seeded = defect.seed();
        let found = (0..400).find(|seed| random::compare(*seed).is_err());
        assert!(found.is_some(), "{defect:?} stays unnoticed");
    }
}

#[test]
fn random_plugins_do_the_same_with_and_without_saved_calls() -> Result<(), TestCaseError> {
    let mut saved = 0;
    for seed in 0..300 {
        saved += random::compare(seed).map_err(TestCaseError::fail)?;
    }
    assert!(saved > 300, "only {saved} calls were saved");
    Ok(())
}
