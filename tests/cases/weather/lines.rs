//! Judges the replicas' WARN and ERROR lines. Each line must say what has happened, where, and what follows or what to
//! do, and repeated lines must be summed up.
//!
//! A program cannot judge the meaning of a line, but it can check the form. *What* is the message. *Where* is a field,
//! of the line or of its call, that names something that an operator can look at, or an address in the message. *What
//! follows* is a second clause of the message, as the host's messages are written: `cannot watch; it will be tried
//! again until it works`. People judge whether that clause helps: the figures show an example of each message. *Summed
//! up* means that a process logs a message about a place only a few times a minute, however many objects it concerns.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use super::fleet::Log;

/// The fields that name a place, the best first. A key is not a place: lines that repeat for each key must be summed
/// up.
const PLACES: [&str; 6] = ["lease", "watch", "controller", "plugin", "file", "server"];

/// The characters that end a message's first clause.
const CLAUSES: [&str; 3] = ["; ", ": ", ", so "];

/// How often a process may log one message about one place in a minute. This is twice the limit that is given to
/// [`windlass_core::repeats`], because the minutes of the two do not start together.
const REPEATS_A_MINUTE_MAX: usize = 20;

/// All lines of one message.
#[derive(Debug, Default)]
struct MessageLines {
    times: usize,
    /// The maximum number of lines by one process about one place in one minute.
    most: usize,
    example: String,
    faults: BTreeSet<String>,
}

/// The messages, by level and text.
#[derive(Debug, Default)]
pub(crate) struct Judgement(BTreeMap<(String, String), MessageLines>);

/// A line that an operator should see.
struct Line {
    level: String,
    message: String,
    minute: String,
    place: Option<String>,
}

impl Line {
    /// Reads a line of a log. `None` for a line of another level, and for a line that does not belong to the log.
    fn read(line: &str) -> Option<Self> {
        let parsed: Value = serde_json::from_str(line).ok()?;
        let text = |field: &str| parsed[field].as_str().unwrap_or_default().to_owned();
        let level = text("level");
        let minute = text("timestamp").chars().take("2026-11-23T15:40".len()).collect();
        let is_seen = matches!(level.as_str(), "WARN" | "ERROR");
        is_seen.then(|| Self { level, message: text("message"), minute, place: place(&parsed) })
    }

    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.place.is_none() {
            faults.push("it does not say where".to_owned());
        }
        let follows = CLAUSES.iter().filter_map(|end| self.message.split_once(end)).map(|(_, rest)| rest);
        if !follows.into_iter().any(|clause| clause.split_whitespace().count() > 1) {
            faults.push("it does not say what follows or what to do".to_owned());
        }
        faults
    }
}

/// The place that a line is about.
fn place(line: &Value) -> Option<String> {
    let of = |fields: &Value| {
        let named = |place: &&&str| fields[**place].as_str().is_some_and(|value| !value.is_empty());
        PLACES.iter().find(|place| named(place)).map(|place| format!("{place} {}", fields[*place]))
    };
    let address = || {
        let message = line["message"].as_str()?;
        message.split_whitespace().find(|word| word.starts_with("http")).map(str::to_owned)
    };
    of(line).or_else(address)
}

/// Reads the logs of all processes.
pub(crate) fn judge(logs: &[Log]) -> Judgement {
    let mut judgement = Judgement::default();
    for log in logs {
        let mut minutes = BTreeMap::new();
        for text in log.text.lines() {
            let Some(line) = Line::read(text) else { continue };
            let faults = line.faults();
            let lines_of_message = judgement.0.entry((line.level, line.message.clone())).or_default();
            let in_minute = minutes.entry((line.message, line.place, line.minute)).or_insert(0_usize);
            *in_minute += 1;
            lines_of_message.times += 1;
            lines_of_message.most = lines_of_message.most.max(*in_minute);
            lines_of_message.faults.extend(faults);
            if *in_minute > REPEATS_A_MINUTE_MAX {
                lines_of_message.faults.insert(format!(
                    "more than {REPEATS_A_MINUTE_MAX} in a minute about one place: it is not summed up"
                ));
            }
            if lines_of_message.example.is_empty() {
                text.clone_into(&mut lines_of_message.example);
            }
        }
    }
    judgement
}

impl Judgement {
    /// The faults. Each is shown with a line that has it.
    pub(crate) fn faults(&self) -> Vec<String> {
        let all = self.0.values().flat_map(|lines_of_message| {
            lines_of_message.faults.iter().map(|fault| format!("{fault}: {}", lines_of_message.example))
        });
        all.collect()
    }
}

/// A line for each message.
impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((level, message), MessageLines { times, most, .. }) in &self.0 {
            writeln!(f, "figures: {times} times, at most {most} a minute: {level} {message}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(lines: &[&str]) -> Vec<String> {
        judge(&[Log { of: "a".to_owned(), text: lines.join("\n") }]).faults()
    }

    fn line(level: &str, message: &str, more: &str) -> String {
        format!(r#"{{"timestamp":"2026-11-23T15:40:30.5Z","level":"{level}","message":"{message}"{more}}}"#)
    }

    #[test]
    fn a_line_names_what_happened_where_and_what_follows() {
        let good = [
            line("WARN", "cannot watch; it will be tried again", r#","watch":"v1 Pod""#),
            line("WARN", "the call failed; the key is tried again", r#","controller":"a","key":"b""#),
            line("WARN", "the API server http://a cannot be reached: refused; calls pause until it answers", ""),
            line("INFO", "done", ""),
            "no log line".to_owned(),
        ];
        assert_eq!(judged(&good.each_ref().map(String::as_str)), [""; 0]);
        let nowhere = line("ERROR", "failed; it is tried again", r#","key":"a/b""#);
        assert_eq!(judged(&[&nowhere]), [format!("it does not say where: {nowhere}")]);
        let silent = line("WARN", "failed", r#","plugin":"a""#);
        assert_eq!(judged(&[&silent]), [format!("it does not say what follows or what to do: {silent}")]);
    }

    #[test]
    fn repeated_lines_must_be_summed_up() {
        let of = |controller: &str| line("WARN", "failed; again", &format!(r#","controller":"{controller}""#));
        let (a, b) = (of("a"), of("b"));
        let each = [a.as_str(), b.as_str()].repeat(REPEATS_A_MINUTE_MAX);
        assert!(!judged(&each).iter().any(|fault| fault.contains("summed up")), "two places");
        let all = vec![a.as_str(); REPEATS_A_MINUTE_MAX + 1];
        assert!(judged(&all).iter().any(|fault| fault.contains("summed up")));
    }
}
