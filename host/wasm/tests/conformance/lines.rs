//! The log lines of plugins, by trace. Calls run on all threads of the runtime, so only a global subscriber receives
//! them.

use std::collections::HashMap;
use std::fmt;
use std::sync::{LazyLock, Mutex, Once};

use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

static LINES: LazyLock<Mutex<HashMap<String, Vec<Value>>>> = LazyLock::new(Mutex::default);

/// Starts to collect log lines, unless another test has started it.
pub(crate) fn listen() {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| tracing_subscriber::registry().with(Listener).init());
}

/// The lines of a trace since the last call of this function: `{level, message, fields}` each, with the fields as
/// `name=value`.
pub(crate) fn take(trace_id: &str) -> Vec<Value> {
    LINES.lock().expect("not poisoned").remove(trace_id).unwrap_or_default()
}

struct Listener;

impl<S: Subscriber> Layer<S> for Listener {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() != "windlass::plugin" {
            return;
        }
        let mut parts = Parts::default();
        event.record(&mut parts);
        let level = match *event.metadata().level() {
            Level::TRACE => "trace",
            Level::DEBUG => "debug",
            Level::INFO => "info",
            Level::WARN => "warn",
            Level::ERROR => "error",
        };
        let part = |name| parts.0.get(name).cloned().unwrap_or_default();
        let fields: Vec<(String, String)> = serde_json::from_str(&part("fields")).unwrap_or_default();
        let fields: Vec<_> = fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let line = json!({"level": level, "message": part("message"), "fields": fields.join(" ")});
        LINES.lock().expect("not poisoned").entry(part("trace_id")).or_default().push(line);
    }
}

#[derive(Default)]
struct Parts(HashMap<&'static str, String>);

impl Visit for Parts {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}
