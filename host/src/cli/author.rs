//! The commands of a plugin's author: create, build and try out a plugin.

pub(crate) mod apiserver;
pub(crate) mod build;
pub(crate) mod check;
pub(crate) mod check_recorded;
pub(crate) mod check_report;
pub(crate) mod crd;
pub(crate) mod dev;
pub(crate) mod embedded;
pub(crate) mod import;
pub(crate) mod new;
pub(crate) mod replay;
pub(crate) mod replay_report;
pub(crate) mod types;
