//! Flags that several commands share.

pub(crate) mod admin_serving;
pub(crate) mod duration;
pub(crate) mod hooks;
pub(crate) mod instance;
pub(crate) mod leases;
pub(crate) mod limits;
pub(crate) mod listening;
pub(crate) mod log;
pub(crate) mod objects;
pub(crate) mod settings;
pub(crate) mod size;
pub(crate) mod traces;
