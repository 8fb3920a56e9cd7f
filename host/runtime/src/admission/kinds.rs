//! Follows the cluster's `CustomResourceDefinition`s, so that a controller learns at once when a kind that it waits for
//! may have appeared, and when one that it watches was removed or replaced.
//!
//! This is only a hint. Where the host may not watch definitions, controllers look for their kinds periodically, and
//! informers find out by themselves that a kind has gone.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use tokio::sync::watch;
use windlass_core::cache::watch::{Projection, WatchEvent, WatchSpec};
use windlass_core::object::ObjectKind;
use windlass_core::object::compact::Uid;
use windlass_kube::Resource;

use crate::dispatch::feeder::EventSource;
use crate::policies::custom::is_custom;

/// The known definitions of the cluster. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kinds {
    state: Arc<watch::Sender<KnownDefinitions>>,
}

#[derive(Debug, Default)]
struct KnownDefinitions {
    definitions: Definitions,
    /// For each group, the number of its last change.
    groups: HashMap<Arc<str>, u64>,
    changes: u64,
    /// True if a controller needs a kind that a definition may bring.
    wanted: bool,
}

/// The UID of each definition by its name, such as `webapps.apps.kubedojo.io`.
pub(crate) type Definitions = HashMap<Arc<str>, Uid>;

/// The watch of the definitions. It covers only their metadata, as their schemas may be large.
pub(crate) fn definitions() -> WatchSpec {
    let kind = ObjectKind::new("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    WatchSpec { projection: Projection::Metadata, ..WatchSpec::all(kind) }
}

/// The name of the definition that would bring `resource`. `None` for kinds without a definition, such as those of an
/// aggregated API. Kinds without a definition never count as changed.
pub(crate) fn definition_of(resource: &Resource) -> Option<Arc<str>> {
    let group = resource.group();
    is_custom(group).then(|| format!("{}.{group}", resource.plural).into())
}

impl Kinds {
    /// Asks for the definitions to be followed from now on.
    pub(crate) fn want(&self) {
        self.state.send_if_modified(|state| !std::mem::replace(&mut state.wanted, true));
    }

    /// Completes when [`Kinds::want`] has been called.
    pub(crate) async fn wanted(&self) {
        // This cannot fail: `self` holds the sender.
        let _ = self.state.subscribe().wait_for(|state| state.wanted).await;
    }

    /// Follows the definitions that `source` delivers until `source` ends. When a group has changed, `forget` first
    /// drops discovery's answers about the group. Then the waiting controllers are woken, and ask discovery again.
    pub(crate) async fn follow(&self, source: &mut impl EventSource, forget: impl Fn(&str)) {
        while let Some(event) = source.next().await {
            self.take(&event, &forget);
        }
    }

    fn take(&self, event: &WatchEvent, forget: impl Fn(&str)) {
        let object = match event {
            WatchEvent::Applied { new, .. } => new,
            WatchEvent::Deleted(tombstone) => &tombstone.last,
        };
        let name = &object.header.key.name;
        let Some((_, group)) = name.split_once('.') else { return };
        forget(group);
        self.state.send_modify(|state| {
            match event {
                WatchEvent::Applied { .. } => state.definitions.insert(name.clone(), object.header.uid.clone()),
                WatchEvent::Deleted(_) => state.definitions.remove(name),
            };
            state.changes += 1;
            state.groups.insert(group.into(), state.changes);
        });
    }

    /// The number of the last change.
    pub(crate) fn mark(&self) -> u64 {
        self.state.borrow().changes
    }

    /// Completes when a definition of `group` has changed after `mark`.
    pub(crate) async fn changed(&self, group: &str, mark: u64) {
        let mut state = self.state.subscribe();
        // This cannot fail: `self` holds the sender.
        let _ = state.wait_for(|state| state.groups.get(group).is_some_and(|change| *change > mark)).await;
    }

    /// True if any definition of `group` is known.
    pub(crate) fn defines(&self, group: &str) -> bool {
        let state = self.state.borrow();
        state.definitions.keys().any(|name| name.split_once('.').is_some_and(|(_, its)| its == group))
    }

    /// The current definitions.
    pub(crate) fn snapshot(&self) -> Definitions {
        self.state.borrow().definitions.clone()
    }

    /// Completes when the definition `name` differs from its state in `before`. If `before` does not have it, the first
    /// state seen takes that place.
    pub(crate) fn replaced(&self, name: &Arc<str>, before: &Definitions) -> impl Future<Output = ()> + Send + use<> {
        let (name, mut known, state) = (name.clone(), before.get(name).cloned(), self.clone());
        async move {
            let mut changes = state.state.subscribe();
            let differs = |state: &KnownDefinitions| {
                let now = state.definitions.get(&name);
                known = known.take().or_else(|| now.cloned());
                now != known.as_ref()
            };
            let _ = changes.wait_for(differs).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::pin::pin;

    use futures::FutureExt;
    use tokio_util::sync::CancellationToken;
    use windlass_core::cache::watch::Tombstone;
    use windlass_core::object::{Header, Object, ObjectKey};

    use super::*;
    use crate::supervise::{Panics, supervise};

    fn definition(name: &str, uid: &str) -> Object {
        Object::new(Header::bare(ObjectKey::cluster(name), uid, "1"), "{}")
    }

    fn applied(name: &str, uid: &str) -> WatchEvent {
        WatchEvent::Applied { old: None, new: definition(name, uid), initial: false }
    }

    fn deleted(name: &str) -> WatchEvent {
        WatchEvent::Deleted(Tombstone { last: definition(name, "1"), final_state_unknown: false })
    }

    fn deliver(kinds: &Kinds, event: &WatchEvent) {
        kinds.take(event, |_| {});
    }

    #[test]
    fn a_waiter_hears_only_of_definitions_in_its_group() {
        let kinds = Kinds::default();
        deliver(&kinds, &applied("as.example.com", "1"));
        let mut changed = pin!(kinds.changed("example.com", kinds.mark()));
        assert_eq!(changed.as_mut().now_or_never(), None, "that was before");
        deliver(&kinds, &applied("bs.other.com", "1"));
        assert_eq!(changed.as_mut().now_or_never(), None);
        deliver(&kinds, &applied("cs.example.com", "1"));
        assert_eq!(changed.now_or_never(), Some(()));
        assert!(kinds.defines("example.com") && !kinds.defines("com"));
    }

    #[test]
    fn a_definition_that_is_deleted_or_recreated_wakes_its_waiters() {
        let (kinds, name) = (Kinds::default(), Arc::from("as.example.com"));
        deliver(&kinds, &applied(&name, "1"));
        let mut watching = [(); 2].map(|()| Box::pin(kinds.replaced(&name, &kinds.snapshot())));
        deliver(&kinds, &applied(&name, "1"));
        assert_eq!(watching[0].as_mut().now_or_never(), None, "it is still the same");
        deliver(&kinds, &deleted(&name));
        assert_eq!(watching[0].as_mut().now_or_never(), Some(()));
        deliver(&kinds, &applied(&name, "2"));
        assert_eq!(watching[1].as_mut().now_or_never(), Some(()), "it missed the deletion and sees another UID");
    }

    #[test]
    fn a_definition_that_is_seen_for_the_first_time_is_no_change() {
        let (kinds, name) = (Kinds::default(), Arc::from("as.example.com"));
        let mut watching = pin!(kinds.replaced(&name, &kinds.snapshot()));
        assert_eq!(watching.as_mut().now_or_never(), None);
        deliver(&kinds, &applied(&name, "1"));
        assert_eq!(watching.as_mut().now_or_never(), None);
        deliver(&kinds, &applied(&name, "2"));
        assert_eq!(watching.now_or_never(), Some(()));
    }

    /// Returns these events in order; panics where the script has `None`.
    struct Scripted(std::vec::IntoIter<Option<WatchEvent>>);

    impl EventSource for Scripted {
        async fn next(&mut self) -> Option<WatchEvent> {
            self.0.next().map(|event| event.expect("an event"))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn definitions_are_followed_again_after_a_panic() {
        let (kinds, panics) = (Kinds::default(), Panics::default());
        let events = vec![Some(applied("as.example.com", "1")), None, Some(deleted("as.example.com"))];
        let source = tokio::sync::Mutex::new(Scripted(events.into_iter()));
        let forgotten = RefCell::new(Vec::new());
        let follow = async || {
            let forget = |group: &str| forgotten.borrow_mut().push(group.to_owned());
            kinds.follow(&mut *source.lock().await, forget).await;
        };
        supervise("kinds", &panics, &CancellationToken::new(), follow).await;
        assert_eq!((forgotten.into_inner(), panics.of("kinds")), (vec!["example.com".to_owned(); 2], 1));
        assert!(!kinds.defines("example.com"));
    }

    #[test]
    fn kubernetes_own_groups_come_without_definitions() {
        for group in ["", "apps", "events.k8s.io", "rbac.authorization.k8s.io"] {
            assert!(!is_custom(group), "{group:?}");
        }
        for group in ["apps.kubedojo.io", "gateway.networking.k8s.io", "snapshot.storage.k8s.io"] {
            assert!(is_custom(group), "{group:?}");
        }
    }
}
