//! The built-in and custom resources: the properties of each, and the conversion between their versions.

pub(crate) mod api_approval;
pub(crate) mod autoscaler_convert;
pub(crate) mod builtin;
pub(crate) mod column;
pub(crate) mod convert;
pub(crate) mod converter;
pub(crate) mod crd;
mod events_convert;
pub(crate) mod naming;
pub(crate) mod registry;
pub(crate) mod resource;
