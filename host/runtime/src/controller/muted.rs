//! Records what must be known of the events that are discarded while no worker can handle them yet.
//!
//! All primaries run when the controller begins, so it suffices to know which were deleted. If the plugin's own code
//! decides which primaries count, the caches are rescanned instead, and the changes that a rescan misses are kept.

mod deleted_primaries;

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_core::cache::mapping::{Mapping, Primaries as _};
use windlass_core::cache::watch::{Tombstone, WatchEvent};
use windlass_core::object::ObjectKey;

use self::deleted_primaries::DeletedPrimaries;
use crate::dispatch::code_feeder::WaitingChanges;
use crate::dispatch::route::{Route, Stores};

/// The maximum number of keys of changes that found no room. If there are more, every primary runs instead.
const CHANGED_KEYS_MAX: usize = 16_384;

/// The discarded events' effects.
#[derive(Debug, Default)]
pub(super) struct MutedChanges {
    /// The deleted primaries.
    pub(super) gone: DeletedPrimaries,
    /// The changes that the feeders begin with, for each subscription.
    pub(super) waiting: Vec<WaitingChanges>,
    /// The keys of the changes for which `waiting` has no room.
    pub(super) keys: BTreeSet<ObjectKey>,
}

impl MutedChanges {
    /// Records an event of the subscription number `at`.
    pub(super) fn record(&mut self, at: usize, event: WatchEvent, route: &Route, primaries: &Stores) {
        if let (WatchEvent::Deleted(Tombstone { last, .. }), Mapping::Itself) = (&event, &route.mapping) {
            for key in route.keys(&event, primaries) {
                self.gone.add(key, last.header.uid.text());
            }
        } else if route.is_missed_by_rescan(&event, primaries) {
            if self.waiting.len() <= at {
                self.waiting.resize_with(at + 1, WaitingChanges::default);
            }
            let oldest = self.waiting[at].hold(event, route.runs_all_unmapped());
            let keys = oldest.iter().flat_map(|oldest| route.keys(oldest, primaries));
            // The object may name a primary that does not exist. A primary that is not in the cache yet may exist.
            self.keys.extend(keys.filter(|key| !primaries.lacks(key)));
            if self.keys.len() > CHANGED_KEYS_MAX {
                self.keys.clear();
                self.waiting[at].missed = true;
            }
        }
    }

    /// The keys of all these changes, with the UIDs of deleted primaries. `routes` are those of the subscriptions.
    pub(super) fn into_keys(mut self, routes: &[&Route], primaries: &Stores) -> Vec<(ObjectKey, Option<Arc<str>>)> {
        for (waiting, route) in self.waiting.iter_mut().zip(routes) {
            let events = waiting.take();
            if waiting.missed || (route.mapping == Mapping::Mapper && !events.is_empty()) {
                self.keys.extend(primaries.all());
            }
            let events = events.iter().take(route.enough_of(events.len()));
            self.keys.extend(events.flat_map(|event| route.keys(event, primaries)));
        }
        let gone = self.gone.into_iter().map(|(key, uid)| (key, Some(uid)));
        gone.chain(self.keys.into_iter().map(|key| (key, None))).collect()
    }
}

#[cfg(test)]
mod tests {
    use windlass_apiserver::{ApiServer, Config};
    use windlass_core::cache::mapping::PrimaryKind;
    use windlass_core::cache::watch::WatchSpec;
    use windlass_core::object::{Header, Object, ObjectKind};
    use windlass_kube::client::Connection;
    use windlass_kube::{Discovery, Informers};

    use super::*;
    use crate::dispatch::code_feeder::WAITING_EVENTS_MAX;
    use crate::dispatch::tests::filled::Filled;

    fn route(mapping: Mapping) -> Route {
        Route {
            kind: ObjectKind::new("example.com/v1", "Child"),
            watch: Some("children".into()),
            mapping,
            predicates: [].into(),
            code_predicate: None,
            deletions: true,
            primary: PrimaryKind { kind: ObjectKind::new("example.com/v1", "Parent"), namespaced: true },
        }
    }

    fn deleted(name: &str) -> WatchEvent {
        let last = Object::new(Header::bare(ObjectKey::namespaced("prod", name), "u-1", "1"), "{}");
        WatchEvent::Deleted(Tombstone { last, final_state_unknown: false })
    }

    #[test]
    fn deleted_primaries_keep_their_uids_and_deleted_children_wait() {
        let mut muted = MutedChanges::default();
        muted.record(0, deleted("primary"), &route(Mapping::Itself), &Stores::default());
        muted.record(2, deleted("child"), &route(Mapping::SameName), &Stores::default());
        assert!(muted.keys.is_empty());
        let gone: Vec<_> = muted.gone.into_iter().collect();
        assert_eq!(gone, [(ObjectKey::namespaced("prod", "primary"), Arc::from("u-1"))]);
        let waiting: Vec<_> = muted.waiting.iter().map(WaitingChanges::len).collect();
        assert_eq!(waiting, [0, 0, 1], "the third subscription's feeder begins with it");
    }

    #[test]
    fn changes_that_no_round_has_handled_become_keys() {
        let cache = Filled::with(&["parent", "other"]);
        let (primaries, parents) = (cache.primaries(), route(Mapping::SameName));
        let (itself, mapper) = (route(Mapping::Itself), route(Mapping::Mapper));
        let keys = |muted: MutedChanges| {
            let keys = muted.into_keys(&[&itself, &parents, &mapper], &primaries).into_iter();
            keys.map(|(key, uid)| (key.name.to_string(), uid.is_some())).collect::<Vec<_>>()
        };
        let key = |name: &str, is_gone| (name.to_owned(), is_gone);
        let mut muted = MutedChanges::default();
        muted.record(0, deleted("primary"), &itself, &primaries);
        muted.record(1, deleted("parent"), &parents, &primaries);
        assert_eq!(keys(muted), [key("primary", true), key("parent", false)]);
        let mut muted = MutedChanges::default();
        muted.record(2, deleted("child"), &mapper, &primaries);
        assert_eq!(keys(muted), [key("other", false), key("parent", false)], "only the code knows the primaries");
    }

    #[tokio::test]
    async fn too_many_changed_keys_run_every_primary() {
        let server = ApiServer::in_process(&Config::default());
        let connection = Connection::in_process(server.service(), &"http://localhost".parse().expect("a URL"));
        let informers = Informers::new(connection.client.clone(), Discovery::new(connection.client));
        let subscription = informers.subscribe(WatchSpec::all(ObjectKind::new("v1", "ConfigMap")));
        // The store is not synced, so it may have any primary.
        let (primaries, mut muted) = (Stores::new([subscription.store().clone()]), MutedChanges::default());
        for at in 0..WAITING_EVENTS_MAX + CHANGED_KEYS_MAX {
            muted.record(0, deleted(&format!("{at:05}")), &route(Mapping::SameName), &primaries);
        }
        assert_eq!((muted.keys.len(), muted.waiting[0].missed), (CHANGED_KEYS_MAX, false));
        muted.record(0, deleted("one more"), &route(Mapping::SameName), &primaries);
        assert!(muted.keys.is_empty() && muted.waiting[0].missed);
    }

    #[test]
    fn in_a_flood_old_changes_leave_their_keys_or_every_primary_runs() {
        let cache = Filled::with(&["0000", "0001"]);
        let [mut declared, mut by_code, mut of_all] = [(); 3].map(|()| MutedChanges::default());
        for at in 0..WAITING_EVENTS_MAX + 5 {
            let event = || deleted(&format!("{at:04}"));
            declared.record(0, event(), &route(Mapping::SameName), &cache.primaries());
            by_code.record(0, event(), &route(Mapping::Mapper), &cache.primaries());
            of_all.record(0, event(), &route(Mapping::All), &cache.primaries());
        }
        let keys: Vec<_> = declared.keys.iter().map(ToString::to_string).collect();
        assert_eq!(
            (keys, declared.waiting[0].len()),
            (vec!["prod/0000".into(), "prod/0001".into()], WAITING_EVENTS_MAX),
            "no other primary exists"
        );
        assert!(of_all.waiting[0].missed && of_all.keys.is_empty());
        assert!(by_code.waiting[0].missed && by_code.keys.is_empty());
    }
}
