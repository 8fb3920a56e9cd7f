//! Follows the installation's leases by one watch: tells each elector the state of its lease, keeps the list of
//! replicas that live and of what was rolled back, and clears away the leases of replicas that died long ago.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::sync::watch;
use windlass_core::clock::{Clock, Moment};
use windlass_core::lease::LeaseVersion;
use windlass_core::sharing::{Members, Membership, Offer};
use windlass_core::watch::WatchEvent;
use windlass_kube::{Leases, Subscription};

use super::LeaseSettings;
use super::offers::ReadOffers;
use super::rejected::{self, RejectedPlugins};
use super::slots::LeaseSlots;

/// How many lease durations after its death a replica's lease is cleared away.
const LONG_DEAD: u32 = 10;
/// How long one such deletion may take.
const CLEARING: Duration = Duration::from_secs(5);
/// Replicas that die within this time of each other are told of at once: those that were first seen in one list.
const TOGETHER: Duration = Duration::from_millis(200);
/// How many names of replicas a line has.
const MOST_NAMES: usize = 10;

/// Follows the leases.
pub(super) struct Replicas {
    pub(super) leases: Leases,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) settings: LeaseSettings,
    /// The plugins that this replica can serve.
    pub(super) offer: watch::Receiver<Option<Arc<Offer>>>,
    pub(super) offers: ReadOffers,
    pub(super) members: Members,
    pub(super) membership: watch::Sender<Membership>,
    /// Of each elector's lease.
    pub(super) slots: LeaseSlots,
    pub(super) rejected: watch::Sender<RejectedPlugins>,
    /// The last states of members' leases, for whoever clears them away.
    pub(super) versions: HashMap<Arc<str>, LeaseVersion>,
}

impl Replicas {
    /// Goes on until the informers end.
    pub(super) async fn follow(&mut self, subscription: &mut Subscription) {
        loop {
            let clock = self.clock.clone();
            let pause = clock.now() + self.settings.timing.duration();
            let wake = self.members.next_death().map_or(pause, |death| (death + TOGETHER).min(pause));
            tokio::select! {
                biased;
                event = subscription.next() => {
                    let Some(event) = event else { return };
                    let now = clock.now();
                    self.take(event, now);
                    // A list brings many at once, and they are one piece of news.
                    while let Some(Some(event)) = subscription.next().now_or_never() {
                        self.take(event, now);
                    }
                }
                Ok(()) = self.offer.changed() => {}
                () = clock.sleep_until(wake) => self.clear_away().await,
            }
            self.publish();
        }
    }

    fn take(&mut self, event: WatchEvent, now: Moment) {
        let (name, found) = match event {
            WatchEvent::Applied { new, .. } => (new.header.key.name.clone(), Leases::watched(&new.text())),
            WatchEvent::Deleted(tombstone) => (tombstone.last.header.key.name.clone(), None),
        };
        if let Some(slot) = self.slots.lock().get(&name) {
            slot.sightings.send_replace(found.clone());
        }
        if *name == *self.settings.rejected_lease() {
            self.rejected.send_replace(rejected::read(&found));
        }
        if let Some(member) = name.strip_prefix(&self.settings.member_prefix()) {
            let member = Arc::from(member);
            let offer = self.offers.of(&member, &found, &self.settings);
            self.members.observe(&member, found.clone(), offer, now);
            match found {
                Some((version, _)) => self.versions.insert(member, version),
                None => self.versions.remove(&member),
            };
        }
    }

    fn publish(&mut self) {
        self.members.offer(self.offer.borrow_and_update().clone());
        let now = self.members.at(self.clock.now()).clone();
        self.membership.send_if_modified(|membership| {
            if *membership == now {
                return false;
            }
            let joined = names(now.live.keys().filter(|name| !membership.live.contains_key(*name)));
            let left = names(membership.live.keys().filter(|name| !now.live.contains_key(*name)));
            if joined.is_some() || left.is_some() {
                tracing::info!(replicas = now.live.len(), joined, left, "the replicas that live have changed");
            }
            *membership = now;
            true
        });
    }

    async fn clear_away(&mut self) {
        for member in self.members.long_dead(self.settings.timing.duration() * LONG_DEAD, self.clock.now()) {
            let Some(version) = self.versions.get(&member) else { continue };
            let lease = format!("{}{member}", self.settings.member_prefix());
            match self.leases.delete(&lease, version, CLEARING).await {
                Ok(_) => tracing::info!(lease, "cleared away: its replica died long ago"),
                // It is tried again; nobody waits for it.
                Err(error) => tracing::debug!(%error, "the lease of a dead replica stays for now"),
            }
        }
    }
}

/// Some names, and how many more there are. None: there are none.
fn names<'a>(names: impl Iterator<Item = &'a Arc<str>>) -> Option<String> {
    let names: Vec<&str> = names.map(AsRef::as_ref).collect();
    let shown = names[..names.len().min(MOST_NAMES)].join(", ");
    match names.len() {
        0 => None,
        count if count > MOST_NAMES => Some(format!("{shown} and {} more", count - MOST_NAMES)),
        _ => Some(shown),
    }
}
