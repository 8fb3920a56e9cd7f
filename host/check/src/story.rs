//! The story of a run, for people: one line for each thing that happened.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use crate::report::Finding;
use crate::trace::{Entry, Happening};

/// The maximum number of lines. Earlier lines are cut off.
const STORY_LINES_MAX: usize = 60;
/// The maximum number of equal lines that are shown.
const REPEATED_LINES_SHOWN_MAX: usize = 3;

/// The story of the run that showed a finding.
#[must_use]
pub fn story_of(finding: &Finding) -> String {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut lines: Vec<String> = Vec::new();
    let mut left_out = 0;
    for entry in &finding.story {
        let Some(line) = line(entry) else { continue };
        let times = seen.entry(line.clone()).or_default();
        *times += 1;
        // Always show steps: there are few of them, and each marks a place in the story.
        if *times > REPEATED_LINES_SHOWN_MAX && !matches!(entry.happened, Happening::Step(_)) {
            left_out += 1;
            continue;
        }
        again(&mut lines, &mut left_out);
        lines.push(format!("  {:>10}  {line}", time(entry.at)));
    }
    again(&mut lines, &mut left_out);
    let cut = lines.len().saturating_sub(STORY_LINES_MAX);
    let mut text = if cut > 0 { format!("  … {cut} earlier lines\n") } else { String::new() };
    lines[cut..].iter().for_each(|line| {
        let _ = writeln!(text, "{line}");
    });
    text
}

/// Adds a line with the number of lines that were left out.
fn again(lines: &mut Vec<String>, left_out: &mut usize) {
    if *left_out > 0 {
        lines.push(format!("              … and {} more lines like this", std::mem::take(left_out)));
    }
}

/// The line of an entry. `None` for a request without information, such as a successful read.
fn line(entry: &Entry) -> Option<String> {
    let text = match &entry.happened {
        Happening::Step(step) => format!("user     {step}"),
        // The plugin does not cause the host's own requests, such as reviews.
        Happening::Request(note) if note.line.is_event() || note.line.resource.starts_with("apiservices.") => {
            return None;
        }
        Happening::Request(note) => {
            let answer = match note.code {
                None => "no answer".to_owned(),
                // Successful reads are normal.
                Some(code) if code < 300 && !note.line.writes() => return None,
                Some(code) => code.to_string(),
            };
            format!("request  {} → {answer}", note.line)
        }
        Happening::Stranger(does) => format!("fault    {does}"),
        Happening::Fault => "fault    strikes".to_owned(),
        Happening::Crash => "host     crashes".to_owned(),
        Happening::Silence => "host     becomes unreachable, and its lease expires".to_owned(),
        Happening::Returned => "host     is reachable again, and has lost its lease".to_owned(),
        Happening::TookOver => "standby  has won the lease, and takes over".to_owned(),
        Happening::Delivered => "fault    the plugin's file is replaced while the call waits: a hot swap".to_owned(),
        Happening::Swapped => "host     the new generation has taken over, and gets all calls from now on".to_owned(),
        Happening::Restart => "host     is stopped gracefully and started again".to_owned(),
        Happening::Line(text) => format!("log      {text}"),
        Happening::Call { key, result, .. } => format!("call     {key} → {}", short(result)),
        Happening::Saved(key) => format!("host     saves the call {key}: nothing that it would read has changed"),
        Happening::Asked { failed: false, .. } => return None,
        Happening::Asked { about, result, .. } => format!("call     {about} → {}", short(result)),
        Happening::Warning(text) => format!("warning  {text}"),
    };
    Some(text.replace('\n', " "))
}

fn time(at: Duration) -> String {
    format!("{:.3} s", at.as_secs_f64())
}

fn short(text: &str) -> String {
    const SHOWN_CHARACTERS_MAX: usize = 160;
    match text.char_indices().nth(SHOWN_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
