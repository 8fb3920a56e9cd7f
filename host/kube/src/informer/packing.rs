//! Packs what nobody reads.

use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

use windlass_core::object::text::Dictionary;
use windlass_core::object::{Object, ObjectKey};

use crate::informer::store::{Store, StoreScope};

/// Fewer objects are not worth packing.
pub(crate) const PACKED_OBJECTS_MIN: usize = 64;
/// Of so many objects a dictionary is made. More would not be used: it has an end.
const DICTIONARY_SAMPLES: usize = 16;
/// How many objects are packed between two looks at a store.
const REPACKED_TOGETHER_MAX: usize = 256;

/// A dictionary of objects from all over the `count` of them that there are.
pub(crate) fn learn<'a>(count: usize, objects: impl Iterator<Item = &'a Object>) -> Arc<Dictionary> {
    let samples: Vec<_> = objects.step_by((count / DICTIONARY_SAMPLES).max(1)).map(Object::glance).collect();
    Arc::new(Dictionary::new(samples.iter().map(|text| &**text)))
}

/// Packs and unpacks the texts of `store`, by who has read them since the last time. `dictionary` is made of what is
/// there when packing is first worth it. Returns whether anything was done.
pub(crate) fn sweep(store: &Store, dictionary: &OnceLock<Arc<Dictionary>>) -> bool {
    if store.len() < PACKED_OBJECTS_MIN {
        return false;
    }
    let dictionary = dictionary.get_or_init(|| {
        let objects = store.all();
        learn(objects.len(), objects.iter())
    });
    let mut after: Option<ObjectKey> = None;
    loop {
        let mut batch = Vec::with_capacity(REPACKED_TOGETHER_MAX);
        store.scan(StoreScope::All, after.as_ref(), |object| {
            batch.push(object.clone());
            if batch.len() < REPACKED_TOGETHER_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        let Some(last) = batch.last() else { return true };
        after = Some(last.header.key.clone());
        for object in &batch {
            object.cool(dictionary);
        }
    }
}
