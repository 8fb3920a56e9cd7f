//! Log lines for plugin authors: a short line for each call, write, log line and event, without the fields that only tell replicas or
//! generations apart.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::io::IsTerminal as _;
use std::time::{SystemTime, UNIX_EPOCH};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;
use windlass_core::deceptive;

use super::lines::{own_field, own_fields};

/// The default filter. It adds calls and events, which a host's log does not have by default.
pub(crate) const FILTER: &str = "info,windlass::dispatch=debug,windlass::events=debug";

/// Fields that an author who watches one plugin does not need.
const LEFT_OUT: [&str; 7] = ["plugin", "digest", "replica", "trace_id", "controller", "message", "source"];

/// The format.
pub(crate) struct Brief {
    colours: bool,
}

impl Brief {
    pub(crate) fn new() -> Self {
        Self { colours: std::io::stderr().is_terminal() }
    }
}

impl<S, N> FormatEvent<S, N> for Brief
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, ctx: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut fields = BriefFields::default();
        event.record(&mut fields);
        let spans = ctx.event_scope().into_iter().flatten();
        for span in spans {
            if let Some(key) = span.extensions().get::<FormattedFields<N>>().and_then(|text| value_in(text, "key")) {
                fields.0.entry("key").or_insert(key);
            }
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let line = line(event.metadata().target(), *event.metadata().level(), &fields.0);
        let (on, off) = if self.colours { (line.colour, "\x1b[0m") } else { ("", "") };
        let (hours, minutes, seconds) = (now / 3600 % 24, now / 60 % 60, now % 60);
        writeln!(writer, "{hours:02}:{minutes:02}:{seconds:02} {on}{:5}{off} {}", line.what, line.text)
    }
}

/// One line without the time.
#[derive(Debug, PartialEq, Eq)]
struct BriefLine {
    what: &'static str,
    colour: &'static str,
    text: String,
}

const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const BLUE: &str = "\x1b[34m";
const MAGENTA: &str = "\x1b[35m";
const CYAN: &str = "\x1b[36m";
const DIM: &str = "\x1b[2m";

fn line(target: &str, level: Level, fields: &BTreeMap<&'static str, String>) -> BriefLine {
    let field = |name| fields.get(name).map_or("", String::as_str);
    let message = field("message");
    let warned = match level {
        Level::ERROR => Some(("ERROR", RED)),
        Level::WARN => Some(("WARN", YELLOW)),
        _ => None,
    };
    let (what, colour, text) = match target {
        "windlass::audit" => {
            let colour = if field("outcome") == "committed" { GREEN } else { RED };
            ("write", colour, write(fields))
        }
        "windlass::plugin" => {
            let (what, colour) = warned.unwrap_or(("log", CYAN));
            (what, colour, spaced(&[field("key"), message, &own(field("fields"))]))
        }
        "windlass::events" => {
            let note = format!("{} {}: {}", field("kind"), field("reason"), field("note"));
            ("event", MAGENTA, spaced(&[field("regarding"), &note]))
        }
        "windlass::dispatch" if message == "called" => ("call", BLUE, call(fields)),
        "windlass::build" => {
            let (what, colour) = warned.unwrap_or(("build", BLUE));
            (what, colour, message.to_owned())
        }
        _ => {
            let (what, colour) = warned.unwrap_or(("host", DIM));
            (what, colour, spaced(&[field("key"), message, &rest(fields)]))
        }
    };
    BriefLine { what, colour, text: escaped(target, &text) }
}

/// `text` without what could forge a line: it quotes plugins, objects and their names. A tool's output has lines of its own.
fn escaped(target: &str, text: &str) -> String {
    let escaped = deceptive::escape(text);
    if target == "windlass::build" { escaped.into_owned() } else { escaped.replace('\n', "\\n") }
}

/// The fields that a plugin said itself.
fn own(fields: &str) -> String {
    let fields = if fields.is_empty() { vec![] } else { own_fields(fields) };
    fields.iter().map(own_field).collect::<Vec<_>>().join(" ")
}

/// `default/hello patch configmaps default/hello: committed, 201, in 4 ms`
fn write(fields: &BTreeMap<&'static str, String>) -> String {
    let field = |name| fields.get(name).map_or("", String::as_str);
    if field("outcome") == "withheld" {
        return withheld(fields);
    }
    let dry = if field("dry_run") == "true" { "(dry run)" } else { "" };
    let ended = [field("outcome"), field("code"), field("settled")];
    let ended: Vec<_> = ended.into_iter().filter(|part| !part.is_empty()).collect();
    let ended = format!("{}, in {} ms", ended.join(", "), field("took_ms"));
    let object = format!("{}:", field("object"));
    spaced(&[field("primary"), field("verb"), field("resource"), dry, object.as_str(), &ended])
}

/// `default/hello patch configmaps default/hello: withheld, would change: data.a: 1 → 2`
fn withheld(fields: &BTreeMap<&'static str, String>) -> String {
    let field = |name| fields.get(name).map_or("", String::as_str);
    let object = format!("{}:", field("object"));
    let colon = if field("difference").is_empty() { "" } else { ":" };
    let would = format!("withheld, would {}{colon}", field("would"));
    let unjudged = field("unjudged");
    let untried = if unjudged.is_empty() { String::new() } else { format!("(not tried: {unjudged})") };
    spaced(&[field("primary"), field("verb"), field("resource"), &object, &would, field("difference"), &untried])
}

/// `default/hello done in 3.1 ms, again after 10s`
fn call(fields: &BTreeMap<&'static str, String>) -> String {
    let field = |name| fields.get(name).map_or("", String::as_str);
    let result = field("result");
    let (variant, rest) = result.split_once([' ', '(']).unwrap_or((result, ""));
    let took = rounded(field("elapsed"));
    let ended = match variant {
        "Done" => format!("done in {took}"),
        "RequeueAfter" => format!("done in {took}, again after {}", rest.trim_end_matches(')')),
        // A line with the reason follows.
        "Failed" => format!("failed after {took}"),
        "Trapped" => format!("was ended after {took}"),
        "NotCalled" => "was not called".to_owned(),
        _ => result.to_owned(),
    };
    spaced(&[field("key"), &ended])
}

/// `8.534657ms` as `8.5 ms`: nobody compares further digits here.
fn rounded(elapsed: &str) -> String {
    let (number, unit) = elapsed.split_at(elapsed.find(|letter: char| letter.is_alphabetic()).unwrap_or(elapsed.len()));
    number.parse::<f64>().map_or_else(|_| elapsed.to_owned(), |number| format!("{number:.1} {unit}"))
}

fn rest(fields: &BTreeMap<&'static str, String>) -> String {
    let shown = fields.iter().filter(|(name, _)| !LEFT_OUT.contains(name) && **name != "key");
    shown.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

fn spaced(parts: &[&str]) -> String {
    parts.iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join(" ")
}

/// The value of a field in a span's text, such as `plugin=shop key=default/hello`.
fn value_in(text: &str, name: &str) -> Option<String> {
    text.split(' ').find_map(|part| part.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned)
}

#[derive(Default)]
struct BriefFields(BTreeMap<&'static str, String>);

impl Visit for BriefFields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = String::new();
        // Writing into a text cannot fail.
        let _ = write!(text, "{value:?}");
        self.0.insert(field.name(), text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(target: &str, level: Level, fields: &[(&'static str, &str)]) -> String {
        let fields = fields.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let line = line(target, level, &fields);
        format!("{} {}", line.what, line.text)
    }

    #[test]
    fn no_text_of_a_stranger_forges_a_line() {
        let forged = "no\n12:00:00 write default/x: committed\u{1b}[2J\u{202e}";
        let escaped = "no\\n12:00:00 write default/x: committed\\u{1b}[2J\\u{202e}";
        for (target, field) in [
            ("windlass::audit", "difference"),
            ("windlass::audit", "outcome"),
            ("windlass::plugin", "message"),
            ("windlass::events", "note"),
            ("windlass::dispatch", "error"),
            ("windlass", "message"),
        ] {
            let outcome = ("outcome", if field == "difference" { "withheld" } else { "committed" });
            let told = told(target, Level::INFO, &[outcome, (field, forged)]);
            assert!(told.contains(escaped), "{target} {field}: {told}");
        }
        let built = told("windlass::build", Level::WARN, &[("message", "error:\n  here\u{1b}[2J")]);
        assert_eq!(built, "WARN error:\n  here\\u{1b}[2J", "a compiler's lines stay lines");
    }

    #[test]
    fn calls_writes_logs_and_events_read_as_a_story() {
        let shop = ("plugin", "shop");
        for (target, level, fields, reads) in [
            (
                "windlass::dispatch",
                Level::DEBUG,
                &[("message", "called"), ("key", "default/hello"), ("result", "Done"), ("elapsed", "3.0812ms")][..],
                "call default/hello done in 3.1 ms",
            ),
            (
                "windlass::dispatch",
                Level::DEBUG,
                &[("message", "called"), ("key", "default/hello"), ("result", "RequeueAfter(10s)"), ("elapsed", "3ms")],
                "call default/hello done in 3.0 ms, again after 10s",
            ),
            (
                "windlass::audit",
                Level::INFO,
                &[
                    shop,
                    ("message", "mutation"),
                    ("primary", "default/hello"),
                    ("verb", "patch"),
                    ("resource", "configmaps"),
                    ("object", "default/hello"),
                    ("dry_run", "false"),
                    ("code", "201"),
                    ("outcome", "committed"),
                    ("took_ms", "4"),
                    ("trace_id", "0123"),
                    ("digest", "abc"),
                ],
                "write default/hello patch configmaps default/hello: committed, 201, in 4 ms",
            ),
            (
                "windlass::plugin",
                Level::WARN,
                &[
                    shop,
                    ("key", "default/hello"),
                    ("message", "odd"),
                    ("fields", r#"[["a","1"],["b","2 c=3"]]"#),
                    ("trace_id", "0123"),
                ],
                "WARN default/hello odd a=1 b=\"2 c=3\"",
            ),
            (
                "windlass::events",
                Level::DEBUG,
                &[("regarding", "default/hello"), ("kind", "Normal"), ("reason", "Applied"), ("note", "it is there")],
                "event default/hello Normal Applied: it is there",
            ),
            (
                "windlass::build",
                Level::INFO,
                &[("message", "built shop 0.1.0 in 1.2 s")],
                "build built shop 0.1.0 in 1.2 s",
            ),
            (
                "windlass::manager::tell",
                Level::INFO,
                &[shop, ("message", "plugin loaded"), ("version", "0.1.0"), ("bytes", "12"), ("digest", "abc")],
                "host plugin loaded bytes=12 version=0.1.0",
            ),
        ] {
            assert_eq!(told(target, level, fields), reads);
        }
    }

    #[test]
    fn a_withheld_write_reads_as_what_it_would_do() {
        let fields = [
            ("message", "mutation withheld"),
            ("primary", "default/hello"),
            ("verb", "patch"),
            ("resource", "configmaps"),
            ("object", "default/hello"),
            ("dry_run", "true"),
            ("code", "200"),
            ("outcome", "withheld"),
            ("would", "change"),
            ("difference", "data.a: 1 → 2"),
            ("took_ms", "4"),
        ];
        let reads = "write default/hello patch configmaps default/hello: withheld, would change: data.a: 1 → 2";
        assert_eq!(told("windlass::audit", Level::INFO, &fields), reads);
    }

    #[test]
    fn the_key_is_found_in_the_span_of_a_call() {
        assert_eq!(
            value_in("plugin=shop controller=shop key=default/hello trace_id=\"1\"", "key"),
            Some("default/hello".into())
        );
        assert_eq!(value_in("plugin=shop", "key"), None);
    }
}
