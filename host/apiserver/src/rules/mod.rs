//! The rules that a write obeys whatever its verb: the defaults that it gets, and what makes it invalid.

pub(crate) mod defaults;
pub(crate) mod validation;
