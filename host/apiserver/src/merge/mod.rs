//! How objects are merged: server-side apply with its managed fields, strategic merge patches, and the table of how
//! each list merges. Pure functions over JSON.

pub(crate) mod apply;
pub(crate) mod fields;
pub(crate) mod json_patch;
pub(crate) mod lists;
pub(crate) mod merge_patch;
pub(crate) mod strategic;
