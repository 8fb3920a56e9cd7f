//! `metrics`: values of declared and undeclared metrics.

use serde::Deserialize;
use serde_json::Value;
use windlass_sdk::bindings::windlass::plugin::metrics;

use crate::script::read;
use crate::wire::Answer;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sample {
    name: String,
    value: f64,
    #[serde(default)]
    labels: Vec<(String, String)>,
}

pub(crate) fn call(function: &str, arguments: Value) -> Option<Answer> {
    let give = match function {
        "add" => metrics::add,
        "set" => metrics::set,
        "observe" => metrics::observe,
        _ => return None,
    };
    let Sample { name, value, labels } = read("metrics", arguments);
    give(&name, value, &labels);
    Some(Ok(Value::Null))
}
