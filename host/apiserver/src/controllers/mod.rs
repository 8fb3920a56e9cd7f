//! The work of a cluster's controllers: garbage collection, and stand-ins for the workload controllers. They follow the
//! changes and write by the same verbs as clients. `bootstrap` creates what every cluster has from the start.
//!
//! One task takes one step after the other, each under the lock, in the order of the changes: what happens follows from
//! the state, and not from how threads are scheduled.

pub(crate) mod bootstrap;
mod cluster_roles;
mod collector;
mod stand_ins;

use std::sync::Arc;

use tokio::time::{Instant, sleep_until};

use crate::storage::agenda::Errand;
use crate::storage::state::{Shared, State};

/// Reacts to changes until the server stops.
pub(crate) async fn run(shared: Arc<Shared>, with_stand_ins: bool) {
    loop {
        let (progressed, due) = {
            let mut state = shared.lock();
            (step(&mut state, with_stand_ins), state.store.agenda.due())
        };
        if progressed {
            // Lets requests in between, also on one thread.
            tokio::task::consume_budget().await;
            continue;
        }
        tokio::select! {
            biased;
            () = shared.stop.cancelled() => return,
            () = shared.changed.notified() => {}
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
        }
    }
}

/// Reacts to one change, or does one errand. False if there is nothing to do.
fn step(state: &mut State, with_stand_ins: bool) -> bool {
    if let Some((resource, change)) = state.store.agenda.next_change() {
        collector::react(state, &resource, &change);
        if with_stand_ins {
            stand_ins::react(state, &resource, &change);
        }
        return true;
    }
    match state.store.agenda.next_errand() {
        Some(Errand::ReviewOwners(key)) => collector::review(state, &key),
        Some(Errand::MakeReady(key)) => stand_ins::make_ready(state, &key),
        None => return false,
    }
    true
}
