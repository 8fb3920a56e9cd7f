//! Rules for all writes: defaults and validation.

pub(crate) mod defaults;
pub(crate) mod validation;
