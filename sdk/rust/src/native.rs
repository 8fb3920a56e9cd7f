//! The host's functions. A plugin has the generated ones. A native build has the test double's, so that the logic of
//! plugins can be tested. All calls of the SDK to the host go through here.

#[cfg(target_arch = "wasm32")]
pub(crate) use crate::bindings::windlass::plugin::{
    cache, clock, config, events, http, live, log, metrics, owners, random, triggers, writes,
};

#[cfg(not(target_arch = "wasm32"))]
pub(crate) use crate::testing::functions::{
    cache, clock, config, events, http, live, log, metrics, owners, random, triggers, writes,
};
