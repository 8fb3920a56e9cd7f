//! Follows the installation's leases by one watch: passes each elector the state of its lease, keeps the list of live
//! replicas and of rejections, and deletes the member leases of replicas that died long ago.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::sync::watch;
use windlass_core::cache::watch::WatchEvent;
use windlass_core::clock::{Clock, Moment};
use windlass_core::life::lease::{ElectionAnswer, LeaseVersion};
use windlass_core::life::sharing::{Members, Membership, Offer};
use windlass_kube::{Informers, Leases, Subscription};

use super::LeaseSettings;
use super::offers::ReadOffers;
use super::rejected::{self, RejectedPlugins};
use super::slots::LeaseSlots;

/// The member lease of a dead replica is deleted after this many lease durations.
const CLEARED_AFTER_LEASE_DURATIONS: u32 = 10;
/// The timeout of one such deletion.
const CLEAR_TIMEOUT: Duration = Duration::from_secs(5);
/// Deaths within this time are logged in one line. Replicas that were first seen in the same list are found dead at
/// almost the same time.
const DEATHS_LOGGED_TOGETHER: Duration = Duration::from_millis(200);
/// The most replicas that a log line names.
const NAMED_REPLICAS_MAX: usize = 10;

/// Follows the leases.
pub(super) struct Replicas {
    pub(super) leases: Leases,
    /// The informers that relist the leases when their watch is behind.
    pub(super) informers: Informers,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) settings: LeaseSettings,
    /// The plugins that this replica can serve.
    pub(super) offer: watch::Receiver<Option<Arc<Offer>>>,
    pub(super) offers: ReadOffers,
    pub(super) members: Members,
    pub(super) membership: watch::Sender<Membership>,
    /// The slots of the leases that have electors.
    pub(super) slots: LeaseSlots,
    pub(super) rejected: watch::Sender<RejectedPlugins>,
    /// The last known versions of members' leases, as preconditions of their deletion.
    pub(super) versions: HashMap<Arc<str>, LeaseVersion>,
}

impl Replicas {
    /// Runs until the informers end.
    pub(super) async fn follow(&mut self, subscription: &mut Subscription) {
        loop {
            let clock = self.clock.clone();
            let pause = clock.now() + self.settings.timing.duration();
            let wake = self.members.next_death().map_or(pause, |death| (death + DEATHS_LOGGED_TOGETHER).min(pause));
            tokio::select! {
                biased;
                event = subscription.next() => {
                    let Some(event) = event else { return };
                    let now = clock.now();
                    self.take(event, now);
                    // A list brings many leases at once, which are handled as one change.
                    while let Some(Some(event)) = tokio::task::unconstrained(subscription.next()).now_or_never() {
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
                tracing::info!(replicas = now.live.len(), joined, left, "the set of live replicas has changed");
            }
            *membership = now;
            true
        });
    }

    async fn clear_away(&mut self) {
        for member in
            self.members.long_dead(self.settings.timing.duration() * CLEARED_AFTER_LEASE_DURATIONS, self.clock.now())
        {
            let Some(version) = self.versions.get(&member) else { continue };
            let lease = format!("{}{member}", self.settings.member_prefix());
            match self.leases.delete(&lease, version, CLEAR_TIMEOUT).await {
                Ok(ElectionAnswer::Found(_) | ElectionAnswer::Written { .. }) => {
                    tracing::info!(lease, "deleted the lease of a replica that died long ago");
                }
                // Only the replica itself writes its member lease, so it lives, and the watch has not shown its
                // renewals.
                Ok(ElectionAnswer::Conflict | ElectionAnswer::Failed) => {
                    let relisted = self.informers.relist(&self.leases.watch());
                    tracing::info!(
                        lease,
                        relisted,
                        "the watch of the leases is behind: a replica that seemed dead is alive"
                    );
                }
                // The deletion is tried again later, and nothing waits for it.
                Err(error) => tracing::debug!(%error, "the lease of a dead replica stays for now"),
            }
        }
    }
}

/// Some names, and the number of further ones. `None` if there are none.
fn names<'a>(names: impl Iterator<Item = &'a Arc<str>>) -> Option<String> {
    let names: Vec<&str> = names.map(AsRef::as_ref).collect();
    let shown = names[..names.len().min(NAMED_REPLICAS_MAX)].join(", ");
    match names.len() {
        0 => None,
        count if count > NAMED_REPLICAS_MAX => Some(format!("{shown} and {} more", count - NAMED_REPLICAS_MAX)),
        _ => Some(shown),
    }
}

#[cfg(test)]
mod tests {
    use futures::future::BoxFuture;
    use http::Uri;
    use windlass_apiserver::{ApiServer, Config};
    use windlass_core::life::lease::LeaseRecord;
    use windlass_core::rights::principal::{Principal, Role};
    use windlass_kube::client::Connection;
    use windlass_kube::{Discovery, LeaseKind, ListReason};

    use super::*;
    use crate::leadership::LeaseMode;

    /// A clock that is an hour ahead of all other clocks.
    struct Later;

    impl Clock for Later {
        fn now(&self) -> Moment {
            Moment(Duration::from_hours(1))
        }

        fn sleep_until(&self, _: Moment) -> BoxFuture<'static, ()> {
            std::future::pending().boxed()
        }
    }

    const TEST_TIMEOUT: Duration = Duration::from_secs(5);

    async fn replicas(connection: &Connection, informers: &Informers) -> (Replicas, Subscription) {
        let role = Principal::of_host(Role::Lease, "one".into());
        let leases = Leases::new(connection.client.clone(), role, "default", "main").expect("names that can be");
        let second = Duration::from_secs(1);
        let settings = LeaseSettings { mode: LeaseMode::Single, stability: second, ..LeaseSettings::default() };
        let subscription = informers.subscribe(leases.watch());
        assert!(subscription.synced().await);
        let mut members = Members::new("one".into(), Moment::default());
        let membership = watch::Sender::new(members.at(Moment::default()).clone());
        let replicas = Replicas {
            leases,
            informers: informers.clone(),
            clock: Arc::new(Later),
            settings,
            offer: watch::channel(None).1,
            offers: ReadOffers::default(),
            members,
            membership,
            slots: LeaseSlots::default(),
            rejected: watch::Sender::default(),
            versions: HashMap::new(),
        };
        (replicas, subscription)
    }

    #[tokio::test(start_paused = true)]
    async fn a_member_lease_renewed_unseen_is_kept_and_the_leases_are_relisted() {
        let server = ApiServer::in_process(&Config { seed: Some(1), ..Config::default() });
        let connection = Connection::in_process(server.service(), &Uri::from_static("http://server"));
        let informers = Informers::new(connection.client.clone(), Discovery::new(connection.client.clone()));
        let (mut replicas, mut subscription) = replicas(&connection, &informers).await;
        let record = LeaseRecord { holder: "x".into(), duration: TEST_TIMEOUT, transitions: 0, acquired: None };
        let leases = replicas.leases.clone();
        let write = |name: &'static str, over: Option<LeaseVersion>| {
            let (leases, record) = (leases.clone(), record.clone());
            async move {
                match leases.write(name, LeaseKind::Member, over.as_ref(), &record, None, TEST_TIMEOUT).await {
                    Ok(ElectionAnswer::Written { version, .. }) => version,
                    other => panic!("{other:?}"),
                }
            }
        };
        let (lives, dead) = ("windlass-main-member-lives", "windlass-main-member-zdead");
        let version = write(lives, None).await;
        write(dead, None).await;
        for _ in 0..2 {
            let event = subscription.next().await.expect("the watch goes on");
            replicas.take(event, Moment::default());
        }
        write(lives, Some(version)).await;

        replicas.clear_away().await;
        let found = async |name| leases.get(name, TEST_TIMEOUT).await.expect("the server answers");
        assert_eq!(found(dead).await, ElectionAnswer::Found(None));
        assert_ne!(found(lives).await, ElectionAnswer::Found(None));
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!(subscription.status().lists_by_reason[ListReason::Asked as usize], 1);
    }
}
