//! The texts that many kept reads have in common. Each is kept once, so that a kept call needs little memory (ADR 46).

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use crate::object::{ObjectKey, ObjectKind};
use crate::write::no_op::SkipView;

/// The most texts of a sort that are shared. A plugin whose questions differ more keeps further ones for each read.
const SHARED_TEXTS_MAX: usize = 64;
/// The longest text that is shared, in bytes. Nobody is charged for what is shared.
const SHARED_TEXT_BYTES_MAX: usize = 4 << 10;
/// The memory of an `Arc` in addition to its value, in bytes.
const ARC_BYTES: usize = 2 * size_of::<usize>();

/// The shared texts of one controller.
#[derive(Debug, Default)]
pub struct SharedTexts {
    kinds: HashSet<ObjectKind>,
    fields: HashSet<Arc<[String]>>,
    views: HashSet<Arc<SkipView>>,
}

/// Each method replaces a text by the shared one, and returns the approximate memory that the text still needs for
/// itself, in bytes.
impl SharedTexts {
    pub(crate) fn kind(&mut self, kind: &mut ObjectKind) -> usize {
        shared(&mut self.kinds, kind, |kind| 2 * ARC_BYTES + kind.api_version.len() + kind.kind.len())
    }

    pub(crate) fn fields(&mut self, fields: &mut Arc<[String]>) -> usize {
        shared(&mut self.fields, fields, |fields| ARC_BYTES + texts_bytes(fields))
    }

    pub(crate) fn view(&mut self, view: &mut Arc<SkipView>) -> usize {
        shared(&mut self.views, view, |view| ARC_BYTES + view.bytes())
    }
}

/// The approximate memory of `texts`, in bytes.
pub(crate) fn texts_bytes(texts: &[String]) -> usize {
    texts.iter().map(|text| size_of::<String>() + text.len()).sum()
}

/// Replaces `value` by the equal one of `known`, or adds it. Returns its own memory if it is not shared.
fn shared<T: Clone + Eq + Hash>(known: &mut HashSet<T>, value: &mut T, bytes: impl Fn(&T) -> usize) -> usize {
    if let Some(shared) = known.get(value) {
        *value = shared.clone();
        return 0;
    }
    let needed = bytes(value);
    if known.len() < SHARED_TEXTS_MAX && needed <= SHARED_TEXT_BYTES_MAX {
        known.insert(value.clone());
        return 0;
    }
    needed
}

/// Shares the texts of `key` with the key of the primary, which has the same namespace and often the same name. Returns
/// the approximate memory that `key` still needs for itself, in bytes.
pub(crate) fn share_key(key: &mut ObjectKey, primary: &ObjectKey) -> usize {
    key.namespace.as_mut().map_or(0, |namespace| share_text(namespace, primary)) + share_text(&mut key.name, primary)
}

/// As [`share_key`], for one text.
pub(crate) fn share_text(text: &mut Arc<str>, primary: &ObjectKey) -> usize {
    match [primary.namespace.as_ref(), Some(&primary.name)].into_iter().flatten().find(|known| *known == text) {
        Some(known) => {
            *text = known.clone();
            0
        }
        None => ARC_BYTES + text.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_kept_once() {
        let mut shared = SharedTexts::default();
        let [mut one, mut two] = [(); 2].map(|()| ObjectKind::new("apps/v1", "Deployment"));
        assert_eq!((shared.kind(&mut one), shared.kind(&mut two)), (0, 0));
        assert!(Arc::ptr_eq(&one.kind, &two.kind));
        let [mut one, mut two]: [Arc<[String]>; 2] = [(); 2].map(|()| ["/spec".to_owned()].into());
        assert_eq!((shared.fields(&mut one), shared.fields(&mut two)), (0, 0));
        assert!(Arc::ptr_eq(&one, &two));
        let (primary, mut key) = (ObjectKey::namespaced("prod", "shop"), ObjectKey::namespaced("prod", "shop"));
        assert_eq!(share_key(&mut key, &primary), 0);
        assert!(Arc::ptr_eq(&key.name, &primary.name));
    }

    #[test]
    fn texts_that_differ_count() {
        let (mut shared, primary) = (SharedTexts::default(), ObjectKey::namespaced("prod", "shop"));
        let mut other = ObjectKey::namespaced("prod", "x".repeat(200));
        assert_eq!(share_key(&mut other, &primary), ARC_BYTES + 200);
        let mut own = |at: usize| shared.fields(&mut [format!("/spec/{at:03}")].into());
        let bytes: Vec<_> = (0..100).map(&mut own).collect();
        let mut long = SharedTexts::default();
        let needed = long.fields(&mut [format!("/spec/{}", "x".repeat(5000))].into());
        assert_eq!(needed, ARC_BYTES + size_of::<String>() + 5006, "a long text is not shared");
        assert_eq!((bytes[0], bytes[99]), (0, ARC_BYTES + size_of::<String>() + 9), "only so many are shared");
    }
}
