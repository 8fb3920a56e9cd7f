//! Merges objects: server-side apply with managed fields, the kinds of patches, and the rules for merging each list.
//! These are pure functions over JSON.

pub(crate) mod apply;
pub(crate) mod fields;
pub(crate) mod json_patch;
pub(crate) mod lists;
pub(crate) mod merge_patch;
pub(crate) mod strategic;
