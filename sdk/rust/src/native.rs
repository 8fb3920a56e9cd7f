//! The host's functions: the generated functions in a plugin, and those of the test double in a native build, so that a
//! plugin's logic can be tested. All calls of the SDK to the host go through this module.

#[cfg(target_arch = "wasm32")]
pub(crate) use crate::bindings::windlass::plugin::{
    cache, clock, config, events, http, live, log, metrics, owners, random, triggers, writes,
};

#[cfg(not(target_arch = "wasm32"))]
pub(crate) use crate::testing::functions::{
    cache, clock, config, events, http, live, log, metrics, owners, random, triggers, writes,
};
