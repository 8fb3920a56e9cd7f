//! The rules for every write, whatever its verb: defaults and validation.

pub(crate) mod defaults;
pub(crate) mod validation;
