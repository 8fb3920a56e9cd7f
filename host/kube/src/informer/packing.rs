//! Packs texts that are not read.

use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

use windlass_core::object::text::Dictionary;
use windlass_core::object::{Object, ObjectKey};

use crate::informer::store::{Store, StoreScope};

/// Fewer objects are not worth packing.
pub(crate) const PACKED_OBJECTS_MIN: usize = 64;
/// A dictionary is made from this many objects. More would not fit into it.
const DICTIONARY_SAMPLES: usize = 16;
/// The maximum number of objects that are packed between two reads of a store.
const REPACKED_TOGETHER_MAX: usize = 256;

/// A dictionary made from a sample that is spread over all `count` objects.
pub(crate) fn learn<'a>(count: usize, objects: impl Iterator<Item = &'a Object>) -> Arc<Dictionary> {
    let samples: Vec<_> = objects.step_by((count / DICTIONARY_SAMPLES).max(1)).map(Object::glance).collect();
    Arc::new(Dictionary::new(samples.iter().map(|text| &**text)))
}

/// Packs and unpacks the texts of `store`, depending on whether they were read since the last time. `dictionary` is
/// made from the contents when packing is first worthwhile. Returns whether anything was changed.
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
