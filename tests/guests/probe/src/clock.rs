//! `clock`: the host's time.

use serde_json::json;
use windlass_sdk::bindings::windlass::plugin::clock;

use crate::wire::Answer;

pub(crate) fn call(function: &str) -> Option<Answer> {
    (function == "now").then(|| {
        let now = clock::now();
        Ok(json!({"seconds": now.seconds, "nanoseconds": now.nanoseconds}))
    })
}
