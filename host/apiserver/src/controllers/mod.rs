//! Does the work of a cluster's controllers: garbage collection, and stand-ins for the other controllers. They follow
//! all changes, and write through the same verbs as clients. `bootstrap` creates the objects that every cluster has
//! from the start.
//!
//! A single task makes one step after the other, each under the lock, in the order of the changes. So the result
//! depends only on the state, not on thread scheduling.

pub(crate) mod bootstrap;
mod cluster_roles;
mod collector;
mod stand_ins;

use std::sync::Arc;

use tokio::time::{Instant, sleep_until};

use crate::storage::agenda::Errand;
use crate::storage::state::{Shared, State};
pub use stand_ins::{StandIns, UnknownStandIn};

/// Reacts to changes until the server stops.
pub(crate) async fn run(shared: Arc<Shared>, stand_ins: StandIns) {
    loop {
        let (progressed, due) = {
            let mut state = shared.lock();
            (step(&mut state, stand_ins), state.store.agenda.due())
        };
        if progressed {
            // Lets requests run between two steps, even if there is only one thread.
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

/// Reacts to one change, or runs one scheduled task. False if there is nothing to do.
fn step(state: &mut State, stand_ins: StandIns) -> bool {
    if let Some((resource, change)) = state.store.agenda.next_change() {
        collector::react(state, &resource, &change);
        stand_ins::react(state, stand_ins, &resource, &change);
        return true;
    }
    match state.store.agenda.next_errand() {
        Some(Errand::ReviewOwners(key)) => collector::review(state, &key),
        Some(Errand::MakeReady(key)) => stand_ins::make_ready(state, stand_ins, &key),
        Some(Errand::MovePod(key)) => stand_ins::move_pod(state, &key),
        Some(Errand::LookAgain(key)) => stand_ins::look(state, stand_ins, &key),
        None => return false,
    }
    true
}
