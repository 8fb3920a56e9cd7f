//! Log lines, as text and as JSON, without repetitions: first the fields of the event, then those that its spans add.
//!
//! A plugin's own fields are separate from the host's, so that no plugin can claim another name or object.

use std::collections::BTreeMap;
use std::fmt;

use tracing::field::{Field, FieldSet, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;
use windlass_core::deceptive::{self, is_deceptive};

/// The format of lines.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lines {
    Text,
    Json,
}

impl<S> FormatEvent<S, SpanFields> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn format_event(&self, ctx: &FmtContext<'_, S, SpanFields>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let metadata = event.metadata();
        let mut line = Line { target: metadata.target().to_owned(), ..Line::default() };
        event.record(&mut line);
        for span in ctx.event_scope().into_iter().flatten() {
            if let Some(span_fields) = span.extensions().get::<FormattedFields<SpanFields>>() {
                line.add_span(span_fields, span.metadata().fields());
            }
        }
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        match self {
            Self::Text => line.write_text(&mut out, &time, *metadata.level()),
            Self::Json => line.write_json(&mut out, &time, *metadata.level()),
        }
    }
}

/// A span's fields, stored until a line needs them: one `name=JSON` on each line.
pub(crate) struct SpanFields;

impl<'a> FormatFields<'a> for SpanFields {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'a>, fields: R) -> fmt::Result {
        let mut span_fields = JsonFields::default();
        fields.record(&mut span_fields);
        span_fields.0.iter().try_for_each(|(name, value)| writeln!(writer, "{name}={value}"))
    }
}

/// Fields, with their values in JSON.
#[derive(Default)]
struct JsonFields(Vec<(&'static str, String)>);

impl Visit for JsonFields {
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.push((field.name(), value.to_string()));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.push((field.name(), value.to_string()));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.push((field.name(), value.to_string()));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.push((field.name(), serde_json::Value::from(value).to_string()));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.push((field.name(), json(value)));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push((field.name(), json(&format!("{value:?}"))));
    }
}

/// The target of plugins' own log lines.
const PLUGIN: &str = "windlass::plugin";

/// Everything in a line besides its time and level.
#[derive(Default)]
struct Line {
    target: String,
    host_fields: JsonFields,
    /// The plugin's own fields.
    own: Vec<(String, String)>,
}

/// The event's fields.
impl Visit for Line {
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.host_fields.record_bool(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.host_fields.record_i64(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.host_fields.record_u64(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.host_fields.record_f64(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "fields" if self.target == PLUGIN => self.own = own_fields(value),
            // Set on lines that come from the crate `log`.
            "log.target" => value.clone_into(&mut self.target),
            name if name.starts_with("log.") => {}
            _ => self.host_fields.record_str(field, value),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.host_fields.record_debug(field, value);
    }
}

impl Line {
    /// Adds the fields of a span that the line does not have yet. Inner spans come first.
    fn add_span(&mut self, span_fields: &str, names: &FieldSet) {
        let inner = self.host_fields.0.len();
        for (name, value) in span_fields.lines().filter_map(|field| field.trim_start().split_once('=')) {
            let Some(name) = names.field(name).map(|field| field.name()) else { continue };
            // The audit log calls the key `primary`.
            let is_primary = name == "key" && self.host_fields.0.iter().any(|it| it.0 == "primary" && it.1 == value);
            match self.host_fields.0.iter().position(|it| it.0 == name) {
                Some(at) if at >= inner => value.clone_into(&mut self.host_fields.0[at].1),
                None if !is_primary => self.host_fields.0.push((name, value.to_owned())),
                _ => {}
            }
        }
    }

    fn write_json(&self, out: &mut Writer<'_>, time: &str, level: Level) -> fmt::Result {
        write!(out, r#"{{"timestamp":{},"level":"{level}","target":{}"#, json(time), json(&self.target))?;
        for (name, value) in &self.host_fields.0 {
            write!(out, ",{}:{value}", json(host_name(name)))?;
        }
        if !self.own.is_empty() {
            // If two fields have the same name, the last one counts, because a JSON object can have only one.
            let own: BTreeMap<_, _> = self.own.iter().map(|(name, value)| (name, value)).collect();
            for (at, (name, value)) in own.into_iter().enumerate() {
                write!(out, "{}{}:{}", if at == 0 { r#","fields":{"# } else { "," }, json(name), json(value))?;
            }
            out.write_char('}')?;
        }
        writeln!(out, "}}")
    }

    fn write_text(&self, out: &mut Writer<'_>, time: &str, level: Level) -> fmt::Result {
        let is_coloured = out.has_ansi_escapes();
        let (dim, on, off) = if is_coloured { ("\x1b[2m", colour(level), "\x1b[0m") } else { ("", "", "") };
        write!(out, "{dim}{time}{off} {on}{level:>5}{off}")?;
        for (_, value) in self.host_fields.0.iter().filter(|(name, _)| *name == "message") {
            // Quoted, as a plugin's message could look like the fields that follow.
            if self.target == PLUGIN {
                write!(out, " {value}")?;
                continue;
            }
            // The message is for people and comes first, so it needs no quotes.
            let message: String = serde_json::from_str(value).unwrap_or_else(|_| value.clone());
            write!(out, " {}", deceptive::escape(&message).replace('\n', "\\n"))?;
        }
        for (name, value) in self.host_fields.0.iter().filter(|(name, _)| *name != "message") {
            // A plain text in JSON is the text in quotes.
            let bare = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).filter(|it| is_word(it));
            write!(out, " {}={}", host_name(name), bare.unwrap_or(value))?;
        }
        for field in &self.own {
            write!(out, " fields.{}", own_field(field))?;
        }
        writeln!(out)
    }
}

/// The fields of a plugin's line, which arrive as a JSON list of pairs.
pub(crate) fn own_fields(list: &str) -> Vec<(String, String)> {
    serde_json::from_str(list).unwrap_or_else(|_| vec![("unreadable".to_owned(), list.to_owned())])
}

/// A plugin's field as text.
pub(crate) fn own_field((name, value): &(String, String)) -> String {
    let name = if is_word(name) && !name.contains('=') { name.clone() } else { json(name) };
    if is_word(value) { format!("{name}={value}") } else { format!("{name}={}", json(value)) }
}

/// Whether no character of `text` needs escaping in quotes. This is a quick check that nearly all values pass, and each
/// line has a dozen values.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\'))
}

/// Whether `text` needs no quotes as a value.
fn is_word(text: &str) -> bool {
    if is_plain(text) {
        return !text.is_empty() && !text.contains(' ');
    }
    let breaks = |it: char| it.is_whitespace() || is_deceptive(it) || matches!(it, '"' | '\\');
    !text.is_empty() && !text.contains(breaks)
}

/// `text` as JSON, with deceptive characters escaped.
fn json(text: &str) -> String {
    if is_plain(text) {
        return ["\"", text, "\""].concat();
    }
    deceptive::escape_json(&serde_json::Value::from(text).to_string()).into_owned()
}

/// The name of a field of an event or a span, changed if the line itself has such a field.
fn host_name(name: &'static str) -> &'static str {
    match name {
        "timestamp" => "event.timestamp",
        "level" => "event.level",
        "target" => "event.target",
        "fields" => "event.fields",
        _ => name.strip_prefix("r#").unwrap_or(name),
    }
}

fn colour(level: Level) -> &'static str {
    match level {
        Level::ERROR => "\x1b[31m",
        Level::WARN => "\x1b[33m",
        Level::INFO => "\x1b[32m",
        Level::DEBUG => "\x1b[34m",
        Level::TRACE => "\x1b[35m",
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use serde_json::{Value, json};

    use super::*;

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("not poisoned").write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The lines that `logs` writes, without times.
    fn logged(format: Lines, logs: impl FnOnce()) -> String {
        let log = Log::default();
        let writer = log.clone();
        let builder = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
        let subscriber = builder.fmt_fields(SpanFields).event_format(format).finish();
        tracing::subscriber::with_default(subscriber, logs);
        let log = String::from_utf8(log.0.lock().expect("not poisoned").clone()).expect("UTF-8");
        log.lines().map(|line| line.split_once('Z').expect("a time").1.to_owned() + "\n").collect()
    }

    fn parsed(logs: impl FnOnce()) -> Value {
        let log = logged(Lines::Json, logs);
        serde_json::from_str(&format!("{{\"timestamp\":\"{log}")).unwrap_or_else(|error| panic!("{error}: {log}"))
    }

    fn without_time(mut line: Value) -> Value {
        line.as_object_mut().expect("an object").remove("timestamp");
        line
    }

    fn a_call_within_a_call() {
        let outer = tracing::info_span!("reconcile", plugin = "shop", key = %"a/b", trace_id = "1");
        let inner = tracing::info_span!(parent: &outer, "write", key = "c/d", attempt = 2);
        let _inner = inner.enter();
        tracing::warn!(plugin = "host", is_new = true, "cannot \"do\" it");
    }

    #[test]
    fn a_log_line_lists_each_field_once_event_first_then_inner_spans() {
        let line = parsed(a_call_within_a_call);
        let expected = json!({
            "level": "WARN", "target": "windlass::telemetry::lines::tests", "message": "cannot \"do\" it", "plugin": "host",
            "is_new": true, "key": "c/d", "attempt": 2, "trace_id": "1"
        });
        assert_eq!(without_time(line), expected);
        let reads = "  WARN cannot \"do\" it plugin=host is_new=true key=c/d attempt=2 trace_id=1\n";
        assert_eq!(logged(Lines::Text, a_call_within_a_call), reads);
    }

    #[test]
    fn a_plain_value_is_its_own_json_and_no_other_is_taken_for_one() {
        for text in
            ["", "a", "a b", "~", "a=b", "\u{7f}", "\t", "\n", "a\"b", "a\\b", "ä", "\u{202e}", "\u{9b}", "\u{0}"]
        {
            let slow = deceptive::escape_json(&Value::from(text).to_string()).into_owned();
            assert_eq!(super::json(text), slow, "{text:?}");
            let breaks = |it: char| it.is_whitespace() || is_deceptive(it) || matches!(it, '"' | '\\');
            assert_eq!(is_word(text), !text.is_empty() && !text.contains(breaks), "{text:?}");
        }
    }

    #[test]
    fn a_span_field_set_later_is_shown_with_its_last_value() {
        let learn = || {
            let span = tracing::info_span!("reconcile", state = "new", key = tracing::field::Empty);
            let _span = span.enter();
            tracing::Span::current().record("key", "a b").record("state", "old");
            tracing::info!("learnt");
        };
        assert_eq!(logged(Lines::Text, learn), "  INFO learnt state=old key=\"a b\"\n");
    }

    #[test]
    fn an_audit_line_does_not_repeat_its_primary_as_the_key() {
        for (primary, key) in [("a/b", Value::Null), ("c/d", json!("a/b"))] {
            let line = parsed(|| {
                let _span = tracing::info_span!("reconcile", key = %"a/b").entered();
                tracing::info!(target: "windlass::audit", %primary, "mutation");
            });
            assert_eq!((&line["primary"], &line["key"]), (&json!(primary), &key));
        }
    }

    #[test]
    fn a_plugins_field_cannot_forge_a_field_of_the_host() {
        let forge = || {
            let fields =
                r#"[["level","ERROR"],["plugin","other"],["x key","1 key=c/d"],["y=z","1=2"],["plugin","third"]]"#;
            tracing::info!(target: "windlass::plugin", parent: None, plugin = "shop", key = "a/b", fields, "done");
        };
        let expected = json!({
            "level": "INFO", "target": "windlass::plugin", "message": "done", "plugin": "shop", "key": "a/b",
            "fields": {"level": "ERROR", "plugin": "third", "x key": "1 key=c/d", "y=z": "1=2"}
        });
        assert_eq!(without_time(parsed(forge)), expected);
        let reads = "  INFO \"done\" plugin=shop key=a/b fields.level=ERROR fields.plugin=other \
                     fields.\"x key\"=\"1 key=c/d\" fields.\"y=z\"=1=2 fields.plugin=third\n";
        assert_eq!(logged(Lines::Text, forge), reads);
    }

    #[test]
    fn an_events_field_does_not_pass_for_the_lines_own() {
        let line = parsed(|| tracing::info!(level = "ERROR", target = "x", fields = "y", r#type = 1, "said"));
        assert_eq!((&line["level"], &line["event.level"], &line["type"]), (&json!("INFO"), &json!("ERROR"), &json!(1)));
        assert_eq!((&line["event.target"], &line["event.fields"]), (&json!("x"), &json!("y")));
    }

    #[test]
    fn a_plugins_message_cannot_pass_for_the_hosts_fields() {
        let forged = "mutation plugin=other primary=prod/db outcome=committed";
        let log = logged(Lines::Text, || tracing::info!(target: PLUGIN, plugin = "shop", "{forged}"));
        assert_eq!(log, format!("  INFO \"{forged}\" plugin=shop\n"));
    }

    #[test]
    fn deceptive_characters_in_a_log_line_are_escaped() {
        let text = "two\nlines \u{1b}[2J\u{9b}31m \u{202e}\u{2028}\u{7f}é";
        for format in [Lines::Text, Lines::Json] {
            let log = logged(format, || tracing::error!(error = text, plugin = %"a\nb", "{text}"));
            assert!(log.ends_with('\n') && !log.trim_end_matches('\n').contains(is_deceptive), "{log}");
        }
        assert_eq!(parsed(|| tracing::error!(error = text, "bad"))["error"], text, "a program reads what it was");
    }
}
