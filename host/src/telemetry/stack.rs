//! Plugins' stacks for people: each frame on a separate line. Frames of the language's runtime and the SDK are only
//! counted.
//!
//! A stack is part of a trap's message, which the host wrote, or the field `stack` of a line that an SDK logged, in the
//! format of its language.

use super::source_map::SourceMap;

/// The most lines of a stack that are shown.
const SHOWN_STACK_LINES: usize = 24;

/// A line of a stack.
#[derive(Debug, PartialEq, Eq)]
enum StackLine {
    /// A frame in the author's code.
    Own(String),
    /// A frame in other code.
    Other,
    /// Text around frames, such as the message of an exception that caused another.
    Text(String),
}

/// The prefixes of traps' messages; no other message has them.
const TRAPS: [&str; 2] = ["the plugin trapped: ", "the plugin was stopped: "];

/// The message of a trap, and the lines of its stack, if any.
pub(super) fn of_trap(error: &str) -> (&str, Vec<String>) {
    let is_trap = TRAPS.iter().any(|begin| error.starts_with(begin));
    match error.rsplit_once("; in ").filter(|_| is_trap) {
        None => (error, vec![]),
        Some((message, frames)) => {
            let (frames, others) = frames.split_once(" (and ").unwrap_or((frames, ""));
            let mut lines: Vec<_> = frames.split(" ← ").map(|frame| format!("in {frame}")).collect();
            if !others.is_empty() {
                lines.push(format!("and {}", others.trim_end_matches(')')));
            }
            (message, lines)
        }
    }
}

/// The lines of a stack that was logged with `message`. `map` maps places in a bundle to places in its sources.
pub(super) fn of_field(stack: &str, message: &str, map: Option<&SourceMap>) -> Vec<String> {
    // A guest's text is on one line, with control characters escaped.
    let stack = stack.replace("\\n", "\n").replace("\\t", "\t");
    let lines: Vec<&str> = stack.lines().collect();
    let (mut shown, mut others, mut at) = (Vec::new(), 0, 0);
    while let Some((line, taken)) = stack_line(&lines[at..], map) {
        at += taken;
        match line {
            StackLine::Own(frame) => shown.push(frame),
            StackLine::Other => others += 1,
            // Leave out text that the log line itself has.
            StackLine::Text(text) if text.is_empty() || text.ends_with(message) => {}
            StackLine::Text(text) => shown.push(text),
        }
    }
    if shown.len() > SHOWN_STACK_LINES {
        let left = shown.len() - SHOWN_STACK_LINES;
        shown.truncate(SHOWN_STACK_LINES);
        shown.push(format!("and {left} more"));
    }
    if others > 0 {
        shown.push(format!("and {others} of the SDK and the runtime"));
    }
    shown
}

/// The first entry of `lines`, and the number of lines that it takes. `None` at the end.
fn stack_line(lines: &[&str], map: Option<&SourceMap>) -> Option<(StackLine, usize)> {
    let (first, next) = (*lines.first()?, lines.get(1).copied().unwrap_or_default());
    let line = if let Some(frame) = first.trim_start().strip_prefix("at ") {
        (javascript(frame, map), 1)
    } else if let Some(frame) = first.strip_prefix("  File ") {
        let code = lines[1..].iter().take_while(|line| line.starts_with("    ")).count();
        (python(frame, if code > 0 { next.trim() } else { "" }), 1 + code)
    } else if next.starts_with('\t') {
        (go(first, next.trim()), 2)
    } else if first.starts_with("goroutine ") || first.starts_with("Traceback (") {
        (StackLine::Text(String::new()), 1)
    } else {
        (StackLine::Text(first.trim().to_owned()), 1)
    };
    Some(line)
}

/// `reconcile (plugin.js:12:3)`
fn javascript(frame: &str, map: Option<&SourceMap>) -> StackLine {
    let (name, place) = match frame.split_once(" (") {
        Some((name, place)) => (name, place.trim_end_matches(')')),
        None => ("", frame),
    };
    let place = map.and_then(|map| source_of(place, map)).unwrap_or_else(|| place.to_owned());
    let is_other = place == "native"
        || place.starts_with("sdk/")
        || ["node_modules/", "/sdk/"].iter().any(|of| place.contains(of));
    match name {
        _ if is_other => StackLine::Other,
        "" => StackLine::Own(format!("at {place}")),
        name => StackLine::Own(format!("at {name} ({place})")),
    }
}

/// The place `FILE:LINE:COLUMN` in the source for a place in a bundle.
fn source_of(place: &str, map: &SourceMap) -> Option<String> {
    let (rest, column) = place.rsplit_once(':')?;
    let (_, line) = rest.rsplit_once(':')?;
    let (file, line, column) = map.find(line.parse().ok()?, column.parse().ok()?)?;
    Some(format!("{file}:{line}:{column}"))
}

/// Parses `"/0/app.py", line 12, in reconcile`, and the source line if Python had it.
fn python(frame: &str, code: &str) -> StackLine {
    let mut parts = frame.splitn(3, ", ");
    let file = parts.next().unwrap_or_default().trim_matches('"');
    let line = parts.next().unwrap_or_default().trim_start_matches("line ");
    let function = parts.next().unwrap_or_default();
    let is_other = ["windlass/", "python3", "lib/python", "<frozen"].iter().any(|of| file.contains(of));
    if is_other {
        return StackLine::Other;
    }
    let short = file.rsplit('/').next().unwrap_or(file);
    let code = if code.is_empty() { String::new() } else { format!(": {code}") };
    StackLine::Own(format!("{function} ({short}:{line}){code}").trim_start_matches("in ").to_owned())
}

/// Parses `main.applyConfigMap(0xc000)` and, on the next line, `example.com/shop/main.go:71 +0x1d`.
fn go(function: &str, place: &str) -> StackLine {
    let function = function.trim_start_matches("created by ");
    let name = function.rsplit_once('(').map_or(function, |(name, _)| name);
    let first = name.split('/').next().unwrap_or(name);
    // The paths of Go's own packages do not contain a host.
    let is_own = name.starts_with("main.") || (name.contains('/') && first.contains('.'));
    if !is_own || name.starts_with("windlass.dev/sdk") {
        return StackLine::Other;
    }
    let place = place.split(" +0x").next().unwrap_or(place);
    let file = place.rsplit('/').next().unwrap_or(place);
    StackLine::Own(format!("{name} ({file})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traps_stack_has_a_line_for_each_frame() {
        let error = "the plugin trapped: wasm `unreachable` instruction executed; in shop::scale ← shop::reconcile \
                     (and 9 of the SDK and the runtime)";
        let (message, lines) = of_trap(error);
        assert_eq!(message, "the plugin trapped: wasm `unreachable` instruction executed");
        assert_eq!(lines, ["in shop::scale", "in shop::reconcile", "and 9 of the SDK and the runtime"]);
        let other = "it waits; in vain";
        assert_eq!(of_trap(other), (other, vec![]), "no trap");
    }

    #[test]
    fn each_languages_stack_shows_the_authors_frames() {
        for (message, stack, reads) in [
            (
                "TypeError: cannot read property 'x' of undefined",
                "TypeError: cannot read property 'x' of undefined\\n    at scale (plugin.js:12:3)\\n    at map (native)\\n    \
                 at reconcile (plugin.js:31:9)\\n    at run (sdk/src/plugin.js:5:1)",
                &["at scale (plugin.js:12:3)", "at reconcile (plugin.js:31:9)", "and 2 of the SDK and the runtime"][..],
            ),
            (
                "KeyError: 'message'",
                "Traceback (most recent call last):\\n  File \"/0/app.py\", line 31, in reconcile\\n    wanted = config_map(obj)\\n  \
                 File \"/0/app.py\", line 9, in config_map\\n  File \"/1/windlass/_calls.py\", line 1, in x\\nKeyError: 'message'",
                &[
                    "reconcile (app.py:31): wanted = config_map(obj)",
                    "config_map (app.py:9)",
                    "and 1 of the SDK and the runtime",
                ],
            ),
            (
                "the plugin panicked: index out of range",
                "goroutine 1 [running]:\\nruntime/debug.Stack()\\n\\truntime/debug/stack.go:26 +0x5e\\npanic({0x1, 0x2})\\n\\t\
                 runtime/panic.go:785 +0x132\\nmain.applyConfigMap(0xc000)\\n\\texample.com/my-shop/main.go:71 +0x1d\\n\
                 windlass.dev/sdk/internal/entry.Run(0x1)\\n\\twindlass.dev/sdk/internal/entry/entry.go:50 +0x1",
                &["main.applyConfigMap (main.go:71)", "and 3 of the SDK and the runtime"],
            ),
        ] {
            assert_eq!(of_field(stack, message, None), reads);
        }
    }

    #[test]
    fn places_in_a_bundle_are_shown_as_places_in_its_sources() {
        // Line 2 of the bundle, column 1, is line 1, column 1, of the source; column 5 is line 3, column 3, of another
        // source.
        let map = r#"{"version":3,"sources":["../../plugin.ts","../../node_modules/x/y.js"],"names":[],"mappings":";AAAA,ICEE"}"#;
        let map = SourceMap::read(map).expect("a map");
        let stack = "Error: boom\\n    at reconcile (plugin.js:2:2)\\n    at other (plugin.js:2:6)";
        let reads = ["at reconcile (plugin.ts:1:1)", "and 1 of the SDK and the runtime"];
        assert_eq!(of_field(stack, "boom", Some(&map)), reads);
    }
}
