//! Captures log lines of the plugin, the results of its calls, and the host's warnings from `tracing`.

use std::fmt;
use std::time::Duration;

use jiff::SignedDuration;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Span, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::{LookupSpan, Registry};
use windlass_core::queue::ITEM_BACKOFF_MIN;

use crate::trace::{Happening, Record};

/// The target of log lines about calls.
const DISPATCH: &str = "windlass::dispatch";
/// The texts of the lines that report the end of a call: for a primary, and about a change of a watched object.
const CALLED: &str = "called";
const ASKED: &str = "asked about a change";
/// The texts of the lines that report a saved call: of a reconciler, and of a composer.
const SAVED: [&str; 2] = [
    "not called: nothing that the last call read has changed",
    "not called: the composer has answered the same request before",
];
/// The target of the plugin's own lines.
const PLUGIN: &str = "windlass::plugin";

/// The target of log lines about imports.
const IMPORTS: &str = "windlass::imports";
/// The target of log lines about swaps, and the text of the line that reports a completed swap.
const SWAP: &str = "windlass_runtime::plugins::swap";
const SWAPPED: &str = "a new generation has taken over";

/// A text in the results of calls that only waited. `windlass_core::queue::outcome::CallResult::is_wait` is true for
/// these results.
const WAITED: &str = "reason: \"waited\"";

/// The key of the call that this code runs for, taken from the current span.
pub(crate) fn current_key() -> Option<String> {
    let key = Span::current().with_subscriber(|(id, subscriber)| {
        let span = subscriber.downcast_ref::<Registry>()?.span(id)?;
        span.scope().find_map(|span| span.extensions().get::<SpanKey>().map(|key| key.0.clone()))
    });
    key.flatten()
}

/// A `tracing` layer that records log lines.
pub(crate) struct Notes(pub(crate) Record);

/// The span field that names the key of a call.
struct SpanKey(String);

#[derive(Default)]
struct LogFields {
    message: String,
    result: String,
    key: String,
    error: String,
    import: String,
    function: String,
    watch: String,
    kind: String,
}

impl Visit for LogFields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let into = match field.name() {
            "message" => &mut self.message,
            "result" => &mut self.result,
            "key" | "primary" => &mut self.key,
            "error" | "reason" => &mut self.error,
            "import" => &mut self.import,
            "function" => &mut self.function,
            "watch" => &mut self.watch,
            "kind" => &mut self.kind,
            _ => return,
        };
        *into = format!("{value:?}");
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Notes {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        let level = *metadata.level();
        match metadata.target() {
            PLUGIN => level <= Level::DEBUG,
            DISPATCH | IMPORTS => true,
            SWAP if metadata.is_event() => level <= Level::INFO,
            target => target.starts_with("windlass") && (level <= Level::WARN || metadata.is_span()),
        }
    }

    fn on_new_span(&self, attributes: &tracing::span::Attributes<'_>, id: &tracing::span::Id, context: Context<'_, S>) {
        let mut fields = LogFields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id).filter(|_| !fields.key.is_empty()) {
            span.extensions_mut().insert(SpanKey(fields.key));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = LogFields::default();
        event.record(&mut fields);
        if event.metadata().target() == IMPORTS {
            return self.0.import(fields.import);
        }
        if fields.key.is_empty() {
            let mut spans = context.event_scope(event).into_iter().flatten();
            let key = spans.find_map(|span| span.extensions().get::<SpanKey>().map(|key| key.0.clone()));
            fields.key = key.unwrap_or_default();
        }
        let level = *event.metadata().level();
        let happened = match event.metadata().target() {
            PLUGIN => Happening::Line(fields.message),
            DISPATCH if fields.message == CALLED => called(fields),
            DISPATCH if SAVED.contains(&&*fields.message) => Happening::Saved(fields.key),
            DISPATCH if fields.message == ASKED => asked(fields),
            SWAP if fields.message == SWAPPED => Happening::Swapped,
            // The result of the call is recorded as an entry of its own.
            _ if fields.message.starts_with("the call failed") => return,
            _ if level <= Level::WARN => Happening::Warning([fields.message, fields.error].join(" ").trim().to_owned()),
            _ => return,
        };
        self.0.note(happened);
    }
}

fn called(fields: LogFields) -> Happening {
    let again = requeue(&fields.result);
    let CallEnd { trapped, failed } = CallEnd::of(&fields.result);
    Happening::Call { key: fields.key, result: fields.result, trapped, failed, again }
}

fn asked(fields: LogFields) -> Happening {
    let CallEnd { trapped, failed } = CallEnd::of(&fields.result);
    let LogFields { function, watch, kind, key, result, .. } = fields;
    Happening::Asked { about: format!("{function} of the watch {watch} about {kind} {key}"), result, trapped, failed }
}

/// Whether a call ended without an answer of the plugin, and whether it failed at all.
struct CallEnd {
    trapped: bool,
    failed: bool,
}

impl CallEnd {
    fn of(result: &str) -> CallEnd {
        // A call that reaches its deadline while it waits for an answer is repeated, and is not the plugin's fault. The
        // same applies to calls of a process that has crashed.
        let trapped = result.starts_with("Trapped") && !result.contains(WAITED);
        CallEnd { trapped, failed: trapped || result.starts_with("Failed") }
    }
}

/// The time after which the plugin asked to run again at the earliest. The result is that of
/// `CallResult::RequeueAfter` or `CallResult::RequeueBackoff`.
fn requeue(result: &str) -> Option<Duration> {
    if result == "RequeueBackoff" {
        return Some(ITEM_BACKOFF_MIN);
    }
    let after: SignedDuration = result.strip_prefix("RequeueAfter(")?.strip_suffix(')')?.parse().ok()?;
    after.try_into().ok()
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt as _;
    use windlass_core::queue::outcome::CallResult;

    use super::*;

    #[test]
    fn the_key_of_a_call_is_known_within_its_spans() {
        let _logs = tracing::subscriber::set_default(tracing_subscriber::registry().with(Notes(Record::default())));
        assert_eq!(current_key(), None);
        let call = tracing::info_span!(target: "windlass_runtime", "reconcile", key = %"default/a").entered();
        let _write = tracing::info_span!(target: "windlass_kube", "write").entered();
        assert_eq!(current_key().as_deref(), Some("default/a"));
        drop(call);
    }

    #[test]
    fn the_time_of_a_requeue_is_read_from_the_result() {
        for after in [Duration::from_millis(1), Duration::from_millis(1_500), Duration::from_hours(30)] {
            assert_eq!(requeue(&format!("{:?}", CallResult::RequeueAfter(after))), Some(after));
        }
        assert_eq!(requeue(&format!("{:?}", CallResult::RequeueBackoff)), Some(ITEM_BACKOFF_MIN));
        assert_eq!(requeue(&format!("{:?}", CallResult::Done)), None);
    }
}
