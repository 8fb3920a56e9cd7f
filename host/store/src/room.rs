//! Decides which plugins a store removes, without I/O.

use std::collections::HashMap;
use std::time::Duration;

use windlass_oci::ContentDigest;

use crate::limits::StoreLimits;
use crate::names::StoredName;

/// A plugin on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptPlugin {
    pub(crate) name: StoredName,
    /// The size of the manifest.
    pub(crate) manifest_bytes: u64,
    pub(crate) component: ContentDigest,
    /// The size of the component's file, which plugins may share. Zero if it is not there.
    pub(crate) component_bytes: u64,
    /// When it was last stored or in use, since 1970.
    pub(crate) used: Duration,
    /// Whether it must stay.
    pub(crate) is_protected: bool,
}

/// The size of plugins, with components counted once.
#[derive(Default)]
struct Counted {
    users: HashMap<ContentDigest, usize>,
    bytes: u64,
}

impl Counted {
    /// The bytes that `plugin` would add.
    fn more(&self, plugin: &KeptPlugin) -> u64 {
        let is_shared = self.users.contains_key(&plugin.component);
        plugin.manifest_bytes.saturating_add(if is_shared { 0 } else { plugin.component_bytes })
    }

    fn add(&mut self, plugin: &KeptPlugin) {
        self.bytes = self.bytes.saturating_add(self.more(plugin));
        *self.users.entry(plugin.component.clone()).or_default() += 1;
    }
}

/// The plugins to remove so that the rest is within `limits`, with room for `more` bytes, and whether there is this
/// room then. The plugins that were used last stay.
pub(crate) fn removed<'a>(kept: &'a [KeptPlugin], limits: &StoreLimits, more: u64) -> (Vec<&'a StoredName>, bool) {
    let mut counted = Counted::default();
    for plugin in kept.iter().filter(|plugin| plugin.is_protected) {
        counted.add(plugin);
    }
    let room = limits.bytes.checked_sub(counted.bytes.saturating_add(more));
    let unused_bytes = room.unwrap_or_default().min(limits.unused_bytes);
    let most = counted.bytes.saturating_add(unused_bytes);
    let mut unused: Vec<&KeptPlugin> = kept.iter().filter(|plugin| !plugin.is_protected).collect();
    unused.sort_by(|a, b| (b.used, &b.name).cmp(&(a.used, &a.name)));
    let (mut gone, mut staying) = (Vec::new(), 0);
    for plugin in unused {
        let fits = counted.bytes.saturating_add(counted.more(plugin)) <= most;
        if fits && staying < limits.unused_plugins {
            counted.add(plugin);
            staying += 1;
        } else {
            gone.push(&plugin.name);
        }
    }
    (gone, room.is_some())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Plugin `id`, used at that second, with a component of `bytes`.
    fn plugin(id: u64, component: u64, bytes: u64, is_protected: bool) -> KeptPlugin {
        let digest = |of: String| ContentDigest::of(of.as_bytes());
        KeptPlugin {
            name: StoredName { from: digest("from".to_owned()), digest: digest(format!("manifest {id}")) },
            manifest_bytes: 1,
            component: digest(format!("component {component}")),
            component_bytes: bytes,
            used: Duration::from_secs(id),
            is_protected,
        }
    }

    fn limits(bytes: u64, unused_bytes: u64, unused_plugins: usize) -> StoreLimits {
        StoreLimits { bytes, unused_bytes, unused_plugins, ..StoreLimits::default() }
    }

    fn gone(kept: &[KeptPlugin], limits: &StoreLimits, more: u64) -> (Vec<u64>, bool) {
        let (names, is_room) = removed(kept, limits, more);
        let id = |name: &&StoredName| kept.iter().find(|it| it.name == **name).map(|it| it.used.as_secs());
        (names.iter().filter_map(id).collect(), is_room)
    }

    #[test]
    fn the_plugins_that_were_used_last_stay() {
        let kept: Vec<_> = (1..=4).map(|id| plugin(id, id, 9, false)).collect();
        assert_eq!(gone(&kept, &limits(1000, 1000, 9), 0), (vec![], true));
        assert_eq!(gone(&kept, &limits(1000, 25, 9), 0), (vec![2, 1], true));
        assert_eq!(gone(&kept, &limits(1000, 1000, 3), 0), (vec![1], true));
        assert_eq!(gone(&kept, &limits(100, 1000, 9), 75), (vec![2, 1], true), "room for another");
        assert_eq!(gone(&kept, &limits(100, 1000, 9), 100), (vec![4, 3, 2, 1], true));
        assert_eq!(gone(&kept, &limits(100, 1000, 9), 101), (vec![4, 3, 2, 1], false));
    }

    #[test]
    fn a_plugin_in_use_stays_and_a_shared_component_is_counted_once() {
        let kept = [plugin(1, 7, 50, true), plugin(2, 7, 50, false), plugin(3, 8, 50, false)];
        assert_eq!(gone(&kept, &limits(1000, 1, 9), 0), (vec![3], true), "the other one adds its manifest alone");
        assert_eq!(gone(&kept, &limits(52, 1000, 9), 0), (vec![3], true));
        assert_eq!(gone(&kept, &limits(50, 1000, 9), 0), (vec![3, 2], false), "a plugin in use is never removed");
    }

    proptest! {
        #[test]
        fn what_stays_is_within_all_bounds_and_nothing_in_use_goes(
            plugins in proptest::collection::vec((0_u64..6, 0_u64..40, any::<bool>()), 0..12),
            bytes in 0_u64..200, unused_bytes in 0_u64..100, unused in 0_usize..5, more in 0_u64..50,
        ) {
            // Equal components have equal sizes.
            let size = |component: u64, _: u64| component * 7;
            let kept: Vec<_> = plugins.iter().zip(0..)
                .map(|((component, any, protected), id)| plugin(id, *component, size(*component, *any), *protected))
                .collect();
            let limits = limits(bytes, unused_bytes, unused);
            let size_of = |of: &dyn Fn(&KeptPlugin) -> bool| {
                let mut counted = Counted::default();
                kept.iter().filter(|it| of(it)).for_each(|it| counted.add(it));
                counted.bytes
            };
            let protected = size_of(&|it| it.is_protected);
            let (gone, is_room) = removed(&kept, &limits, more);
            let stays = |it: &KeptPlugin| !gone.contains(&&it.name);
            prop_assert!(kept.iter().all(|it| !it.is_protected || stays(it)));
            prop_assert_eq!(is_room, protected + more <= bytes);
            prop_assert!(!is_room || size_of(&stays) + more <= bytes);
            let most = if is_room { unused_bytes } else { 0 };
            prop_assert!(size_of(&stays) - protected <= most);
            prop_assert!(kept.iter().filter(|it| stays(it) && !it.is_protected).count() <= unused);
        }
    }
}
