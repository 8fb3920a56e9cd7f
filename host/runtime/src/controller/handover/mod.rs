//! How the controller of one generation comes to the next: what it keeps, and how the next one gets ready.

pub(super) mod former;
pub(crate) mod lasting;
pub(super) mod successor;
