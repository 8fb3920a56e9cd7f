//! Chosen histories of CPU permits and call slots. `model` tries random ones.

mod model;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::*;

const ONE: NonZeroU32 = NonZeroU32::MIN;

fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Ends a call that holds a CPU permit.
fn finish<W>(schedule: &mut Schedule<W>, id: AccountId, cpu: Option<Duration>) {
    schedule.pause(id);
    schedule.end(id, cpu, Duration::ZERO);
}

/// Begins calls that all wait, until the plugin may begin no more. Then queues another call. Returns the number of
/// calls begun.
fn has_all_that_it_may(schedule: &mut Schedule<()>, waits: AccountId) -> usize {
    for _ in 0..16 {
        schedule.begin(waits, ());
    }
    let mut held = 0;
    while let Some((id, ())) = schedule.grant() {
        schedule.pause(id);
        held += 1;
    }
    held
}

/// Makes one call after another while no other plugin may have one.
fn is_busy(schedule: &mut Schedule<()>, busy: AccountId) {
    for _ in 0..1_000 {
        schedule.begin(busy, ());
        assert_eq!(schedule.grant(), Some((busy, ())));
        finish(schedule, busy, Some(milliseconds(10)));
    }
}

/// How many of the next hundred calls go to `one` if both plugins always want more and their calls cost the same.
fn of_a_hundred(schedule: &mut Schedule<()>, one: AccountId, other: AccountId) -> usize {
    for _ in 0..100 {
        schedule.begin(one, ());
        schedule.begin(other, ());
    }
    let mut granted = 0;
    for _ in 0..100 {
        let (id, ()) = schedule.grant().expect("both want");
        granted += usize::from(id == one);
        finish(schedule, id, Some(milliseconds(10)));
    }
    granted
}

/// Runs plugins that always want more, for `time`, with one processor per permit. `calls` holds each plugin's
/// weight and the cost of one call. Returns the milliseconds that each plugin used.
fn feast(permits: u32, calls: &[(u32, u64)], time: u64) -> Vec<u64> {
    let mut schedule = Schedule::new(permits, 4 * permits, CpuOrder::LeastUsed);
    let ids: Vec<_> =
        calls.iter().map(|(weight, _)| schedule.join(NonZeroU32::new(*weight).expect("not zero"))).collect();
    let mut used = vec![0; calls.len()];
    let mut running = BinaryHeap::new();
    for (plugin, id) in ids.iter().enumerate() {
        for _ in 0..=permits {
            schedule.begin(*id, plugin);
        }
    }
    let mut now = 0;
    while now < time {
        while let Some((id, plugin)) = schedule.grant() {
            schedule.begin(id, plugin);
            running.push(Reverse((now + calls[plugin].1, plugin)));
        }
        let Reverse((end, plugin)) = running.pop().expect("a plugin is always hungry");
        now = end;
        used[plugin] += calls[plugin].1;
        finish(&mut schedule, ids[plugin], Some(milliseconds(calls[plugin].1)));
    }
    used
}

#[test]
fn first_come_order_ignores_what_each_plugin_used() {
    let mut schedule = Schedule::new(1, 4, CpuOrder::FirstCome);
    let (busy, idle) = (schedule.join(ONE), schedule.join(ONE));
    for permit in 0..4 {
        schedule.begin(busy, permit);
    }
    schedule.begin(idle, 4);
    for permit in 0..5 {
        let (id, served) = schedule.grant().expect("a plugin waits");
        assert_eq!(served, permit);
        assert!(schedule.grant().is_none(), "there is one permit");
        finish(&mut schedule, id, Some(milliseconds(1_000)));
    }
}

#[test]
fn plugins_share_cpu_equally_even_if_one_has_dearer_calls() {
    for permits in [1, 4, 16] {
        let used = feast(permits, &[(1, 1), (1, 100), (1, 7)], 100_000);
        let fair = used.iter().sum::<u64>() / 3;
        assert!(used.iter().all(|it| it.abs_diff(fair) < fair / 20), "{permits} permits: {used:?}");
    }
}

#[test]
fn a_plugin_of_twice_the_weight_uses_twice_the_cpu() {
    let used = feast(4, &[(2, 5), (1, 50)], 100_000);
    assert!(used[0].abs_diff(2 * used[1]) < used[0] / 20, "{used:?}");
}

#[test]
fn an_idle_plugin_saves_up_no_claim() {
    let mut schedule = Schedule::new(1, 4, CpuOrder::LeastUsed);
    let [busy, idle] = [schedule.join(ONE), schedule.join(ONE)];
    is_busy(&mut schedule, busy);
    let of_the_idle = of_a_hundred(&mut schedule, idle, busy);
    assert!((45..=55).contains(&of_the_idle), "{of_the_idle} of 100");
}

#[test]
fn a_plugin_pays_for_its_calls_while_they_run() {
    let mut schedule = Schedule::new(5, 16, CpuOrder::LeastUsed);
    let [many, other] = [schedule.join(ONE), schedule.join(ONE)];
    for _ in 0..4 {
        schedule.begin(many, ());
        schedule.begin(other, ());
    }
    let granted: Vec<_> = std::iter::from_fn(|| schedule.grant()).map(|(id, ())| id).collect();
    assert_eq!(granted, [many, other, many, other]);
}

#[test]
fn a_permit_returned_without_a_figure_costs_the_estimate() {
    let mut schedule = Schedule::new(1, 4, CpuOrder::LeastUsed);
    let [silent, honest] = [schedule.join(ONE), schedule.join(ONE)];
    for _ in 0..3 {
        schedule.begin(silent, ());
        schedule.begin(honest, ());
    }
    assert_eq!(schedule.grant(), Some((silent, ())));
    finish(&mut schedule, silent, None);
    assert_eq!(schedule.grant(), Some((honest, ())));
    finish(&mut schedule, honest, Some(Duration::ZERO));
    assert_eq!(schedule.grant(), Some((honest, ())), "what was free is not charged");
}

#[test]
fn three_greedy_plugins_leave_an_eighth_of_the_slots() {
    for (permits, call_slots) in [(1, 64), (4, 64), (64, 512)] {
        let mut schedule = Schedule::new(permits, call_slots, CpuOrder::LeastUsed);
        for _ in 0..3 {
            let greedy = schedule.join(ONE);
            for _ in 0..1_000 {
                schedule.begin(greedy, ());
            }
            while let Some((id, ())) = schedule.grant() {
                schedule.pause(id);
            }
        }
        assert_eq!(schedule.free.call_slots, call_slots / 8);
        assert_eq!(schedule.free.permits, permits);
    }
}

#[test]
fn a_newcomer_has_no_claim_on_time_when_other_calls_waited() {
    let mut schedule = Schedule::new(4, 16, CpuOrder::LeastUsed);
    let [waits, busy, comes] = [schedule.join(ONE), schedule.join(ONE), schedule.join(ONE)];
    has_all_that_it_may(&mut schedule, waits);
    is_busy(&mut schedule, busy);
    let of_the_busy = of_a_hundred(&mut schedule, busy, comes);
    assert!((45..=55).contains(&of_the_busy), "{of_the_busy} of 100");
}

#[test]
fn a_plugin_at_its_limit_gains_no_claim_from_it() {
    let mut schedule = Schedule::new(4, 16, CpuOrder::LeastUsed);
    let [waits, busy, comes] = [schedule.join(ONE), schedule.join(ONE), schedule.join(ONE)];
    let held = has_all_that_it_may(&mut schedule, waits);
    is_busy(&mut schedule, busy);
    for _ in 0..held {
        schedule.end(waits, Some(milliseconds(10)), Duration::ZERO);
    }
    let of_the_waiting = of_a_hundred(&mut schedule, waits, comes);
    assert!((45..=55).contains(&of_the_waiting), "{of_the_waiting} of 100");
}

#[test]
fn greedy_plugins_leave_a_permit_for_a_neighbour_each_time() {
    let mut schedule = Schedule::new(4, 16, CpuOrder::LeastUsed);
    let [one, other, neighbour] = [schedule.join(ONE), schedule.join(ONE), schedule.join(ONE)];
    for _ in 0..16 {
        schedule.begin(one, ());
        schedule.begin(other, ());
    }
    let mut held: Vec<_> = std::iter::from_fn(|| schedule.grant()).map(|(id, ())| id).collect();
    for _ in 0..50 {
        finish(&mut schedule, held.remove(0), Some(milliseconds(1_000)));
        held.extend(std::iter::from_fn(|| schedule.grant()).map(|(id, ())| id));
        schedule.begin(neighbour, ());
        assert_eq!(schedule.grant(), Some((neighbour, ())), "at once");
        finish(&mut schedule, neighbour, Some(milliseconds(1)));
        schedule.begin(one, ());
        schedule.begin(other, ());
        held.extend(std::iter::from_fn(|| schedule.grant()).map(|(id, ())| id));
    }
}

#[test]
fn a_running_call_yields_to_a_plugin_that_used_less_and_may_run() {
    let mut schedule = Schedule::new(1, 8, CpuOrder::LeastUsed);
    let [spins, comes] = [schedule.join(ONE), schedule.join(ONE)];
    schedule.begin(spins, ());
    assert_eq!(schedule.grant(), Some((spins, ())));
    schedule.pay(spins, milliseconds(100));
    assert!(!schedule.is_wanted(spins), "no plugin waits");
    schedule.begin(spins, ());
    assert!(!schedule.is_wanted(spins), "no other plugin waits");
    schedule.begin(comes, ());
    assert!(schedule.is_wanted(spins));
    schedule.pause(spins);
    assert_eq!(schedule.grant(), Some((comes, ())));
    schedule.go_on(spins, ());
    assert!(!schedule.is_wanted(comes), "it has used less");
    finish(&mut schedule, comes, Some(milliseconds(1)));
    assert_eq!(schedule.grant(), Some((spins, ())), "the call goes on before another begins");
}

#[test]
fn first_come_order_never_interrupts_a_call() {
    let mut schedule = Schedule::new(1, 8, CpuOrder::FirstCome);
    let [spins, comes] = [schedule.join(ONE), schedule.join(ONE)];
    schedule.begin(spins, ());
    assert_eq!(schedule.grant(), Some((spins, ())));
    schedule.pay(spins, milliseconds(100));
    schedule.begin(comes, ());
    assert!(!schedule.is_wanted(spins));
}

#[test]
fn cpu_charged_during_a_call_is_not_charged_again() {
    let used = |paid: u64, cpu: Option<u64>| {
        let mut schedule = Schedule::new(1, 8, CpuOrder::LeastUsed);
        let plugin = schedule.join(ONE);
        for _ in 0..3 {
            schedule.begin(plugin, ());
            assert_eq!(schedule.grant(), Some((plugin, ())));
            schedule.pay(plugin, milliseconds(paid));
            schedule.pause(plugin);
            schedule.end(plugin, cpu.map(milliseconds), milliseconds(paid));
        }
        schedule.account(plugin).used
    };
    assert_eq!(used(70, Some(100)), used(0, Some(100)));
    assert_eq!(used(1, None), used(0, None));
    assert_eq!(used(20, None), 60_000_000, "more than such calls use was used already");
}

/// Two plugins run calls of one second each with one CPU permit, and are checked every two milliseconds.
#[test]
fn equal_plugins_do_not_swap_the_permit_for_nothing() {
    let mut schedule = Schedule::new(1, 8, CpuOrder::LeastUsed);
    let plugins = [schedule.join(ONE), schedule.join(ONE)];
    for plugin in plugins {
        schedule.begin(plugin, ());
    }
    let (mut running, ()) = schedule.grant().expect("both want");
    let mut changes = 0;
    let mut left = [500; 2];
    while left != [0; 2] {
        let at = plugins.iter().position(|plugin| *plugin == running).expect("one of them");
        left[at] -= 1;
        schedule.pay(running, milliseconds(2));
        let next = if left[at] == 0 {
            schedule.pause(running);
            schedule.end(running, Some(milliseconds(1_000)), milliseconds(1_000));
            schedule.grant()
        } else if schedule.is_wanted(running) {
            changes += 1;
            schedule.pause(running);
            let next = schedule.grant();
            schedule.go_on(running, ());
            next
        } else {
            continue;
        };
        if let Some((next, ())) = next {
            running = next;
        }
    }
    assert!((100..=400).contains(&changes), "{changes} changes in two seconds");
}
