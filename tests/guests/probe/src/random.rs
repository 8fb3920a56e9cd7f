//! `random`: the host's randomness.

use serde::Deserialize;
use serde_json::Value;
use windlass_sdk::bindings::windlass::plugin::random;

use crate::script::read;
use crate::wire::Answer;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Bytes {
    length: u32,
}

pub(crate) fn call(function: &str, arguments: Value) -> Option<Answer> {
    Some(Ok(match function {
        "get-u32" => random::get_u32().into(),
        "get-bytes" => random::get_bytes(read::<Bytes>("random.get-bytes", arguments).length).into(),
        _ => return None,
    }))
}
