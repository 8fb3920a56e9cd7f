//! Watches and their caches: one list+watch per watch specification, shared by all its subscribers (invariant 5).

pub(crate) mod budget;
mod collector;
pub(crate) mod conditions;
mod error;
pub(crate) mod feed;
mod follow;
mod freshness;
pub(crate) mod index;
mod informers;
mod intern;
pub(crate) mod listing;
mod notice;
mod outages;
mod packing;
pub(crate) mod parse;
pub(crate) mod projector;
mod status;
pub(crate) mod store;
pub(crate) mod trust;

pub use self::error::{InformerError, OverBudget};
pub use self::informers::Informers;
pub use self::status::{CACHE_BYTES_DEFAULT, InformerFigures, InformerOptions, InformerStatus, ListReason};
