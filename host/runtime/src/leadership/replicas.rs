//! Follows the installation's leases by one watch: tells each elector the state of its lease, keeps the list of
//! replicas that live and of what was rolled back, and clears away the leases of replicas that died long ago.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use windlass_core::clock::Clock;
use windlass_core::lease::LeaseVersion;
use windlass_core::sharing::{Members, Membership};
use windlass_core::watch::WatchEvent;
use windlass_kube::{Leases, Subscription};

use super::rejected::{self, RejectedPlugins};
use super::slots::LeaseSlots;

/// How many lease durations after its death a replica's lease is cleared away.
const LONG_DEAD: u32 = 10;
/// How long one such deletion may take.
const CLEARING: Duration = Duration::from_secs(5);

/// Follows the leases.
pub(super) struct Replicas {
    pub(super) leases: Leases,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) prefix: String,
    pub(super) duration: Duration,
    pub(super) members: Members,
    pub(super) membership: watch::Sender<Membership>,
    /// Of each elector's lease.
    pub(super) slots: LeaseSlots,
    /// Which says what was rolled back.
    pub(super) rejected_lease: String,
    pub(super) rejected: watch::Sender<RejectedPlugins>,
    /// The last states of members' leases, for whoever clears them away.
    pub(super) versions: HashMap<Arc<str>, LeaseVersion>,
}

impl Replicas {
    /// Goes on until the informers end.
    pub(super) async fn follow(&mut self, subscription: &mut Subscription) {
        loop {
            let clock = self.clock.clone();
            let pause = clock.now() + self.duration;
            let wake = self.members.next_death().map_or(pause, |death| death.min(pause));
            tokio::select! {
                event = subscription.next() => match event {
                    Some(event) => self.take(event),
                    None => return,
                },
                () = clock.sleep_until(wake) => self.clear_away().await,
            }
            self.publish();
        }
    }

    fn take(&mut self, event: WatchEvent) {
        let (name, found) = match event {
            WatchEvent::Applied { new, .. } => (new.header.key.name.clone(), Leases::watched(&new.text())),
            WatchEvent::Deleted(tombstone) => (tombstone.last.header.key.name.clone(), None),
        };
        if let Some(slot) = self.slots.lock().get(&name) {
            slot.sightings.send_replace(found.clone());
        }
        if *name == *self.rejected_lease {
            self.rejected.send_replace(rejected::read(&found));
        }
        if let Some(member) = name.strip_prefix(&self.prefix) {
            let member = Arc::from(member);
            self.members.observe(&member, found.clone(), self.clock.now());
            match found {
                Some((version, _)) => self.versions.insert(member, version),
                None => self.versions.remove(&member),
            };
        }
    }

    fn publish(&mut self) {
        let now = self.members.at(self.clock.now()).clone();
        self.membership.send_if_modified(|membership| {
            if *membership == now {
                return false;
            }
            let names: Vec<&str> = now.live.iter().map(AsRef::as_ref).collect();
            tracing::info!(replicas = names.join(", "), "the replicas that live have changed");
            *membership = now;
            true
        });
    }

    async fn clear_away(&mut self) {
        for member in self.members.long_dead(self.duration * LONG_DEAD, self.clock.now()) {
            let Some(version) = self.versions.get(&member) else { continue };
            let lease = format!("{}{member}", self.prefix);
            match self.leases.delete(&lease, version, CLEARING).await {
                Ok(_) => tracing::info!(lease, "cleared away: its replica died long ago"),
                // It is tried again; nobody waits for it.
                Err(error) => tracing::debug!(%error, "the lease of a dead replica stays for now"),
            }
        }
    }
}
