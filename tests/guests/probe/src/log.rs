//! `log`: log lines of the script.

use serde::Deserialize;
use serde_json::Value;
use windlass_sdk::bindings::windlass::plugin::log;

use crate::script::read;
use crate::wire::Answer;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    level: Level,
    message: String,
    #[serde(default)]
    fields: Vec<(String, String)>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Level {
    Trace,
    Debug,
    Info,
    Warn,
    Error,
}

pub(crate) fn call(function: &str, arguments: Value) -> Option<Answer> {
    if function != "log" {
        return None;
    }
    let Line { level, message, fields } = read("log.log", arguments);
    let level = match level {
        Level::Trace => log::Level::Trace,
        Level::Debug => log::Level::Debug,
        Level::Info => log::Level::Info,
        Level::Warn => log::Level::Warn,
        Level::Error => log::Level::Error,
    };
    log::log(level, &message, &fields);
    Some(Ok(Value::Null))
}
