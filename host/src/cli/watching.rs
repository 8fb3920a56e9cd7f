//! The commands that show the state of a running host, and act on it.

pub(crate) mod admin;
pub(crate) mod admin_client;
pub(crate) mod change;
pub(crate) mod children;
pub(crate) mod finalizers;
pub(crate) mod hook_rows;
pub(crate) mod keys;
pub(crate) mod marked;
pub(crate) mod pod_proxy;
pub(crate) mod pods;
pub(crate) mod replica_views;
pub(crate) mod resume;
pub(crate) mod rollout;
pub(crate) mod running;
pub(crate) mod status;
pub(crate) mod top;
