//! `triggers`: why the call is made.

use serde_json::json;
use windlass_sdk::bindings::windlass::plugin::triggers;

use crate::wire::{self, Answer};

pub(crate) fn call(function: &str) -> Option<Answer> {
    let shown = |trigger: triggers::Trigger| {
        let object = trigger.object.as_ref().map(wire::object_ref);
        json!({"reason": trigger.reason, "watch": trigger.watch, "object": object})
    };
    (function == "list").then(|| Ok(triggers::list().into_iter().map(shown).collect()))
}
