//! `config`: the operator's configuration.

use windlass_sdk::bindings::windlass::plugin::config;

use crate::wire::{self, Answer};

pub(crate) fn call(function: &str) -> Option<Answer> {
    (function == "get").then(|| Ok(wire::document(&config::get())))
}
