//! Log lines for plugin authors: a short line for each call, write, log line and event, without the fields that only
//! distinguish replicas or generations.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::{self, Write as _};
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;
use windlass_core::clock::Moment;
use windlass_core::deceptive;
use windlass_core::repeats::Repeats;
use windlass_files::read_text;

use super::lines::{own_field, own_fields};
use super::source_map::SourceMap;
use super::stack;

/// The default filter. It adds calls and events, which a host does not log by default.
pub(crate) const FILTER: &str = "info,windlass::audit=debug,windlass::dispatch=debug,windlass::events=debug";

/// Fields that an author who watches one plugin does not need.
const LEFT_OUT: [&str; 7] = ["plugin", "digest", "replica", "trace_id", "controller", "message", "source"];

/// How often a call that fails repeatedly in the same way is logged.
const CALL_REPORT_INTERVAL: Duration = Duration::from_secs(10);
/// How often a repeated exception that an SDK logs is shown. It is less often than a failed call, because a failed call
/// usually follows it.
const EXCEPTION_REPORT_INTERVAL: Duration = Duration::from_mins(1);
/// The interval for lines that are shown only once, because another line reports the same failure.
const NO_SECOND_REPORT: Duration = Duration::MAX;
/// The maximum number of different failures that are remembered.
const REMEMBERED_FAILURES_MAX: usize = 512;

/// The maximum number of controllers that are remembered. All plugins together have fewer.
const REMEMBERED_CONTROLLERS_MAX: usize = 512;

/// The largest source map, in bytes. It may contain the text of all files of a program.
const SOURCE_MAP_BYTES_MAX: u64 = 256 << 20;

/// The indent of a stack, which puts it below the text of its log line, after the time.
const INDENT: &str = "                 ";

/// How much of the log to show.
#[derive(Debug, Default)]
pub(crate) struct BriefOptions {
    /// Also show each repetition of a failure, and skipped writes.
    pub(crate) verbose: bool,
    /// The source map of the running plugin, which may appear and change.
    pub(crate) source_map: Option<PathBuf>,
}

/// The format.
pub(crate) struct Brief {
    colours: bool,
    options: BriefOptions,
    failures: Mutex<LoggedFailures>,
    /// The plugins and controllers that have appeared in the log.
    controllers: Mutex<BTreeSet<(String, String)>>,
}

/// The failures in the log so far, by their text. The first occurrence of a failure is logged in full, further ones are
/// counted.
#[derive(Debug, Default)]
struct LoggedFailures(HashMap<String, LoggedFailure>);

#[derive(Debug)]
struct LoggedFailure {
    /// The time of the first occurrence, in seconds.
    first: u64,
    times: u64,
    lines: Repeats,
}

impl LoggedFailures {
    /// Counts the failure `text` at `now`. Returns how often it has occurred and when it first did, in seconds, or
    /// `None` if the last line about it is more recent than `interval`.
    fn count(&mut self, text: String, now: u64, interval: Duration) -> Option<(u64, u64)> {
        if self.0.len() == REMEMBERED_FAILURES_MAX && !self.0.contains_key(&text) {
            self.0.clear();
        }
        let new = || LoggedFailure { first: now, times: 0, lines: Repeats::each(interval, 1) };
        let failure = self.0.entry(text).or_insert_with(new);
        failure.times += 1 + failure.lines.line(Moment(Duration::from_secs(now)))?;
        Some((failure.times, failure.first))
    }
}

impl Brief {
    pub(crate) fn new(options: BriefOptions) -> Self {
        let (failures, controllers) = (Mutex::default(), Mutex::default());
        Self { colours: std::io::stderr().is_terminal(), options, failures, controllers }
    }

    /// The line for an event at `now`. `None` if it has nothing new.
    fn new_line(
        &self,
        target: &str,
        level: Level,
        fields: &mut BTreeMap<&'static str, String>,
        now: u64,
    ) -> Option<BriefLine> {
        self.name_controller(fields);
        let fields = &*fields;
        let read_map = || {
            let text = read_text(self.options.source_map.as_ref()?, SOURCE_MAP_BYTES_MAX).ok()?;
            SourceMap::read(&text)
        };
        if self.options.verbose {
            return Some(line(target, level, fields, &read_map));
        }
        if target == "windlass::audit" && text_of(fields, "outcome") == "skipped" {
            return None;
        }
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if target == "windlass::build" {
            // Failures after this are new.
            failures.0.clear();
        }
        let Some((failure, interval)) = failure(target, fields) else {
            return Some(line(target, level, fields, &read_map));
        };
        Some(match failures.count(failure, now, interval)? {
            (1, _) => line(target, level, fields, &read_map),
            (times, first) => again(level, fields, times, first),
        })
    }
}

impl Brief {
    /// Puts the controller before the key, as in `shops default/hello`, if its plugin has several controllers, whose
    /// keys are separate.
    fn name_controller(&self, fields: &mut BTreeMap<&'static str, String>) {
        let (plugin, controller) = (text_of(fields, "plugin"), text_of(fields, "controller"));
        if plugin.is_empty() || controller.is_empty() {
            return;
        }
        let (plugin, controller) = (plugin.to_owned(), controller.to_owned());
        let mut known = self.controllers.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < REMEMBERED_CONTROLLERS_MAX {
            known.insert((plugin.clone(), controller.clone()));
        }
        if known.iter().any(|(of, other)| *of == plugin && *other != controller) {
            for name in ["key", "primary"] {
                fields.entry(name).and_modify(|key| *key = format!("{controller} {key}"));
            }
        }
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
            let extensions = span.extensions();
            let Some(text) = extensions.get::<FormattedFields<N>>() else { continue };
            for name in ["key", "plugin", "controller"] {
                if let Some(value) = value_in(text, name) {
                    fields.0.entry(name).or_insert(value);
                }
            }
        }
        let now = windlass_world::now().as_secs();
        let Some(line) = self.new_line(event.metadata().target(), *event.metadata().level(), &mut fields.0, now) else {
            return Ok(());
        };
        let (on, off) = if self.colours { (line.colour, "\x1b[0m") } else { ("", "") };
        writeln!(writer, "{} {on}{:5}{off} {}", time_of_day(now), line.what, line.text)?;
        line.stack.iter().try_for_each(|frame| writeln!(writer, "{INDENT}{frame}"))
    }
}

fn time_of_day(seconds: u64) -> String {
    format!("{:02}:{:02}:{:02}", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60)
}

/// The failure that an event reports, without the parts that differ each time, and how often it may be logged. `None`
/// for other events.
fn failure(target: &str, fields: &BTreeMap<&'static str, String>) -> Option<(String, Duration)> {
    let field = |name| text_of(fields, name);
    let (what, interval) = match (target, field("message")) {
        // Never repeat this line: the line that follows has the reason, and is repeated.
        ("windlass::dispatch", "called") if is_failed(field("result")) => (field("result"), NO_SECOND_REPORT),
        (_, CALL_FAILED) => (field("error"), CALL_REPORT_INTERVAL),
        ("windlass::plugin", message) if has_exception(field("fields")) => (message, EXCEPTION_REPORT_INTERVAL),
        _ => return None,
    };
    Some((format!("{interval:?} {} {what}", field("plugin")), interval))
}

/// The message of dispatch for each failed call that will be retried.
const CALL_FAILED: &str = "the call failed; the key is tried again";

fn is_failed(result: &str) -> bool {
    result.starts_with("Failed") || result.starts_with("Trapped")
}

/// Whether an SDK wrote this line about a panic or an uncaught exception.
fn has_exception(fields: &str) -> bool {
    !fields.is_empty() && own_fields(fields).iter().any(|(name, _)| name == "stack" || name == "panic")
}

/// `default/hello the same failure, 12 times since 09:12:31: index out of bounds`
fn again(level: Level, fields: &BTreeMap<&'static str, String>, times: u64, first: u64) -> BriefLine {
    let (what, colour) = warned(level).unwrap_or(("host", DIM));
    let repeats = format!("the same failure, {times} times since {}:", time_of_day(first));
    let error = Some(text_of(fields, "error")).filter(|error| !error.is_empty()).unwrap_or(text_of(fields, "message"));
    let (error, _) = stack::of_trap(error);
    let text = spaced(&[text_of(fields, "key"), &repeats, error]);
    BriefLine { what, colour, text: escaped("", &text), stack: vec![] }
}

/// An event without its time.
#[derive(Debug, PartialEq, Eq)]
struct BriefLine {
    what: &'static str,
    colour: &'static str,
    text: String,
    /// The lines below it.
    stack: Vec<String>,
}

const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const BLUE: &str = "\x1b[34m";
const MAGENTA: &str = "\x1b[35m";
const CYAN: &str = "\x1b[36m";
const DIM: &str = "\x1b[2m";

fn warned(level: Level) -> Option<(&'static str, &'static str)> {
    match level {
        Level::ERROR => Some(("ERROR", RED)),
        Level::WARN => Some(("WARN", YELLOW)),
        _ => None,
    }
}

fn text_of<'a>(fields: &'a BTreeMap<&'static str, String>, name: &str) -> &'a str {
    fields.get(name).map_or("", String::as_str)
}

fn line(
    target: &str,
    level: Level,
    fields: &BTreeMap<&'static str, String>,
    read_map: &dyn Fn() -> Option<SourceMap>,
) -> BriefLine {
    let field = |name| text_of(fields, name);
    let message = field("message");
    let warned = warned(level);
    let mut stack = Vec::new();
    let (what, colour, text) = match target {
        "windlass::audit" => {
            let colour = if field("outcome") == "committed" { GREEN } else { RED };
            ("write", colour, write(fields))
        }
        "windlass::plugin" => {
            let (what, colour) = warned.unwrap_or(("log", CYAN));
            let own = own(field("fields"), |text| stack = stack::of_field(text, message, read_map().as_ref()));
            (what, colour, spaced(&[field("key"), message, &own]))
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
            (what, colour, spaced(&[field("key"), message, &rest(fields, &mut stack)]))
        }
    };
    let stack = stack.iter().map(|frame| escaped("", frame)).collect();
    BriefLine { what, colour, text: escaped(target, &text), stack }
}

/// `text` without characters that could forge a line, because it quotes plugins, objects and their names. A tool's
/// output keeps its line breaks.
fn escaped(target: &str, text: &str) -> String {
    let escaped = deceptive::escape(text);
    if target == "windlass::build" { escaped.into_owned() } else { escaped.replace('\n', "\\n") }
}

/// The plugin's own fields. A stack of several lines is passed to `stack` instead.
fn own(fields: &str, mut stack: impl FnMut(&str)) -> String {
    let mut shown = Vec::new();
    for field in if fields.is_empty() { vec![] } else { own_fields(fields) } {
        if field.0 == "stack" && field.1.contains("\\n") {
            stack(&field.1);
        } else {
            shown.push(own_field(&field));
        }
    }
    shown.join(" ")
}

/// `default/hello patch configmaps default/hello: committed, 201, in 4 ms`
fn write(fields: &BTreeMap<&'static str, String>) -> String {
    let field = |name| text_of(fields, name);
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
    let field = |name| text_of(fields, name);
    let object = format!("{}:", field("object"));
    let colon = if field("difference").is_empty() { "" } else { ":" };
    let would = format!("withheld, would {}{colon}", field("would"));
    let unjudged = field("unjudged");
    let untried = if unjudged.is_empty() { String::new() } else { format!("(not tried: {unjudged})") };
    spaced(&[field("primary"), field("verb"), field("resource"), &object, &would, field("difference"), &untried])
}

/// `default/hello done in 3.1 ms, again after 10s`
fn call(fields: &BTreeMap<&'static str, String>) -> String {
    let field = |name| text_of(fields, name);
    let result = field("result");
    let (variant, rest) = result.split_once([' ', '(']).unwrap_or((result, ""));
    let took = rounded(field("elapsed"));
    let ended = match variant {
        "Done" => format!("done in {took}"),
        "RequeueAfter" => format!("done in {took}, again after {}", rest.trim_end_matches(')')),
        "RequeueBackoff" => format!("done in {took}, again after its backoff"),
        // A line with the reason follows.
        "Failed" => format!("failed after {took}"),
        "Trapped" => format!("was ended after {took}"),
        "NotCalled" => "was not called".to_owned(),
        _ => result.to_owned(),
    };
    spaced(&[field("key"), &ended])
}

/// `8.534657ms` as `8.5 ms`: further digits are not useful here.
fn rounded(elapsed: &str) -> String {
    let (number, unit) = elapsed.split_at(elapsed.find(|letter: char| letter.is_alphabetic()).unwrap_or(elapsed.len()));
    number.parse::<f64>().map_or_else(|_| elapsed.to_owned(), |number| format!("{number:.1} {unit}"))
}

/// The other fields; the frames of a trap go to `stack`.
fn rest(fields: &BTreeMap<&'static str, String>, stack: &mut Vec<String>) -> String {
    let mut shown = Vec::new();
    for (name, value) in fields.iter().filter(|(name, _)| !LEFT_OUT.contains(name) && **name != "key") {
        let mut value = value.as_str();
        if *name == "error" {
            (value, *stack) = stack::of_trap(value);
        }
        shown.push(format!("{name}={value}"));
    }
    shown.join(" ")
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

    fn logged(target: &str, level: Level, fields: &[(&'static str, &str)]) -> String {
        let fields = fields.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let line = line(target, level, &fields, &|| None);
        [format!("{} {}", line.what, line.text)].into_iter().chain(line.stack).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn untrusted_text_cannot_forge_a_line() {
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
            let line = logged(target, Level::INFO, &[outcome, (field, forged)]);
            assert!(line.contains(escaped), "{target} {field}: {line}");
        }
        let built = logged("windlass::build", Level::WARN, &[("message", "error:\n  here\u{1b}[2J")]);
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
            assert_eq!(logged(target, level, fields), reads);
        }
    }

    #[test]
    fn a_withheld_write_is_shown_as_the_write_it_would_be() {
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
        assert_eq!(logged("windlass::audit", Level::INFO, &fields), reads);
    }

    /// An event's time in seconds, target, level and fields.
    type TimedEvent<'a> = (u64, &'a str, Level, &'a [(&'static str, &'a str)]);

    /// The log lines for these events.
    fn lines_of(brief: &Brief, events: &[TimedEvent<'_>]) -> Vec<String> {
        let line = |(now, target, level, fields): &TimedEvent<'_>| {
            let mut fields = fields.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
            brief.new_line(target, *level, &mut fields, *now).map(|line| format!("{} {}", line.what, line.text))
        };
        events.iter().filter_map(line).collect()
    }

    /// The log lines for three failed calls of a panicking plugin, at these seconds.
    fn panics(brief: &Brief, seconds: [u64; 3]) -> Vec<String> {
        let of = |second| {
            lines_of(
                brief,
                &[
                    (
                        second,
                        "windlass::plugin",
                        Level::ERROR,
                        &[("key", "a/b"), ("message", "boom"), ("fields", r#"[["panic","true"]]"#)],
                    ),
                    (
                        second,
                        "windlass::dispatch",
                        Level::DEBUG,
                        &[("key", "a/b"), ("message", "called"), ("result", "Trapped { }"), ("elapsed", "1ms")],
                    ),
                    (
                        second,
                        "windlass_runtime::dispatch",
                        Level::WARN,
                        &[
                            ("key", "a/b"),
                            ("message", CALL_FAILED),
                            ("attempt", "0"),
                            ("error", "the plugin trapped: x; in f"),
                        ],
                    ),
                ],
            )
        };
        seconds.into_iter().flat_map(of).collect()
    }

    #[test]
    fn a_repeated_panic_is_shown_once_and_counted() {
        let brief = Brief::new(BriefOptions::default());
        let first = [
            "ERROR a/b boom panic=true".to_owned(),
            "call a/b was ended after 1.0 ms".to_owned(),
            format!("WARN a/b {CALL_FAILED} attempt=0 error=the plugin trapped: x"),
        ];
        let counted = "WARN a/b the same failure, 3 times since 00:01:40: the plugin trapped: x".to_owned();
        assert_eq!(panics(&brief, [100, 101, 110]), [&first[..], &[counted]].concat());
        let built = lines_of(&brief, &[(111, "windlass::build", Level::INFO, &[("message", "built")])]);
        assert_eq!(built, ["build built"]);
        assert_eq!(panics(&brief, [112, 112, 112]), first, "another build may fail differently, or not at all");
        let verbose = Brief::new(BriefOptions { verbose: true, source_map: None });
        assert_eq!(panics(&verbose, [1, 1, 1]).len(), 9);
    }

    #[test]
    fn different_failures_take_bounded_memory_and_each_is_logged() {
        let mut failures = LoggedFailures::default();
        for number in 0..3 * REMEMBERED_FAILURES_MAX {
            assert_eq!(failures.count(number.to_string(), 7, CALL_REPORT_INTERVAL), Some((1, 7)));
        }
        assert!(failures.0.len() <= REMEMBERED_FAILURES_MAX);
    }

    #[test]
    fn a_repeated_failure_is_counted_each_interval() {
        let mut failures = LoggedFailures::default();
        let counts =
            [100, 100, 109, 110, 119, 300].map(|now| failures.count("a".to_owned(), now, CALL_REPORT_INTERVAL));
        assert_eq!(counts, [Some((1, 100)), None, None, Some((4, 100)), None, Some((6, 100))]);
    }

    #[test]
    fn skipped_writes_are_shown_only_if_verbose() {
        let skipped = [(1, "windlass::audit", Level::INFO, &[("outcome", "skipped"), ("primary", "a/b")][..])];
        assert_eq!(lines_of(&Brief::new(BriefOptions::default()), &skipped), Vec::<String>::new());
        let verbose = Brief::new(BriefOptions { verbose: true, source_map: None });
        assert_eq!(lines_of(&verbose, &skipped).len(), 1);
    }

    #[test]
    fn an_authors_log_lines_are_always_shown() {
        let event = (1, "windlass::plugin", Level::ERROR, &[("message", "cannot reach it")][..]);
        assert_eq!(lines_of(&Brief::new(BriefOptions::default()), &[event, event]).len(), 2);
    }

    #[test]
    fn a_plugin_with_several_controllers_has_them_named() {
        let called = |controller, plugin| {
            let fields = vec![
                ("plugin", plugin),
                ("controller", controller),
                ("key", "a/b"),
                ("message", "called"),
                ("result", "Done"),
                ("elapsed", "3ms"),
            ];
            (1, "windlass::dispatch", Level::DEBUG, fields)
        };
        let calls =
            [called("shops", "shop"), called("users", "other"), called("carts", "shop"), called("shops", "shop")];
        let calls: Vec<TimedEvent<'_>> =
            calls.iter().map(|(now, target, level, fields)| (*now, *target, *level, &fields[..])).collect();
        let read = ["call a/b done in 3.0 ms", "call a/b done in 3.0 ms"].into_iter();
        let named = ["call carts a/b done in 3.0 ms", "call shops a/b done in 3.0 ms"];
        assert_eq!(lines_of(&Brief::new(BriefOptions::default()), &calls), read.chain(named).collect::<Vec<_>>());
        let write = [
            ("plugin", "shop"),
            ("controller", "shops"),
            ("primary", "a/b"),
            ("verb", "patch"),
            ("resource", "pods"),
            ("object", "a/c"),
            ("outcome", "committed"),
            ("took_ms", "1"),
        ];
        let brief = Brief::new(BriefOptions::default());
        let events = [calls[2], (1, "windlass::audit", Level::INFO, &write[..])];
        assert_eq!(lines_of(&brief, &events)[1], "write shops a/b patch pods a/c: committed, in 1 ms");
    }

    #[test]
    fn the_frames_of_a_stack_cannot_forge_log_lines() {
        let fields = r#"[["stack","Error: no\\n    at f (plugin.js:1:2)\\n12:00:00 write default/x"],["a","1"]]"#;
        let line = logged("windlass::plugin", Level::ERROR, &[("message", "no"), ("fields", fields)]);
        assert_eq!(line, "ERROR no a=1\nat f (plugin.js:1:2)\n12:00:00 write default/x", "they are written further in");
        assert!(INDENT.starts_with("        "));
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
