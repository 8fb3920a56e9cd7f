//! The report of a replay, for people and for programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};
use windlass_record::{
    CallVerdict, RecordedCall, RecordedImport, ReplayedCall, WriteChange, WriteDifference, is_redacted, story,
};
use windlass_wasm::Plugin;

/// The most calls that are shown as text. The JSON has all.
const SHOWN_CALLS_MAX: usize = 20;

/// The report of a replay, as it grows.
pub(crate) struct ReplayReport {
    with_trace: bool,
    notes: Vec<String>,
    left_out: BTreeMap<String, usize>,
    calls: Vec<ReportedCall>,
}

struct ReportedCall {
    heading: String,
    /// The call's imports and its end, if the report shows them.
    trace: Option<String>,
    verdict: CallVerdict,
    document: Value,
    /// True if the plugin received redacted values.
    has_redacted: bool,
}

impl ReplayReport {
    pub(crate) fn new(with_trace: bool) -> Self {
        Self { with_trace, notes: vec![], left_out: BTreeMap::new(), calls: vec![] }
    }

    /// Adds a note about the recordings themselves.
    pub(crate) fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    pub(crate) fn notes(&self) -> String {
        self.notes.join("\n")
    }

    /// Counts calls of `plugin` that are not replayed.
    pub(crate) fn leave_out(&mut self, plugin: &str, calls: usize) {
        *self.left_out.entry(plugin.to_owned()).or_default() += calls;
    }

    pub(crate) fn add(&mut self, plugin: &Plugin, call: &RecordedCall, replayed: &ReplayedCall, verdict: CallVerdict) {
        let ReplayedCall { imports, result, cpu_us, .. } = replayed;
        let trace = self.with_trace.then(|| story::text_of_call(call, imports, result.as_ref(), *cpu_us));
        let mut document = json!({
            "plugin": call.component.plugin, "recordedDigest": call.component.digest, "replayedDigest": **plugin.digest(),
            "controller": call.request.controller, "key": call.request.key(), "export": call.export,
            "began": call.began, "traceId": call.request.trace_id, "cpuUs": {"recorded": call.used.cpu_us, "replayed": cpu_us},
        });
        if let (Some(document), Ok(Value::Object(verdict))) = (document.as_object_mut(), serde_json::to_value(&verdict))
        {
            document.extend(verdict);
        }
        if self.with_trace {
            document["story"] = json!({"imports": imports, "result": result});
        }
        let has_redacted = serde_json::to_string(call).is_ok_and(|text| is_redacted_beyond_annotations(&text));
        self.calls.push(ReportedCall { heading: story::heading(call), trace, verdict, document, has_redacted });
    }

    pub(crate) fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    /// True if all calls are the same.
    pub(crate) fn is_same(&self) -> bool {
        self.calls.iter().all(|call| call.verdict == CallVerdict::Same)
    }

    fn count(&self, is: impl Fn(&CallVerdict) -> bool) -> usize {
        self.calls.iter().filter(|call| is(&call.verdict)).count()
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "calls": self.calls.iter().map(|call| &call.document).collect::<Vec<_>>(),
            "same": self.count(|it| *it == CallVerdict::Same),
            "notSame": self.count(|it| *it != CallVerdict::Same),
            "leftOut": self.left_out,
            "notes": self.notes,
        })
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for note in &self.notes {
            let _ = writeln!(text, "{note}");
        }
        let shown = self.calls.iter().filter(|call| self.with_trace || call.verdict != CallVerdict::Same);
        let most = if self.with_trace { usize::MAX } else { SHOWN_CALLS_MAX };
        let count = shown.clone().count();
        for call in shown.take(most) {
            let _ = writeln!(text, "{}", call.heading);
            text.push_str(call.trace.as_deref().unwrap_or_default());
            text.push_str(&verdict(&call.verdict));
            if call.has_redacted && call.verdict != CallVerdict::Same {
                text.push_str("    The recording has redacted values: what the plugin computes from them differs.\n");
            }
        }
        if count > most {
            let _ = writeln!(text, "… and {} more calls that differ: --output json shows all", count - most);
        }
        self.summary(&mut text);
        text
    }

    fn summary(&self, text: &mut String) {
        let parts = [
            (self.count(|it| *it == CallVerdict::Same), "the same"),
            (self.count(|it| matches!(it, CallVerdict::Diverged { .. })), "diverged"),
            (self.count(|it| matches!(it, CallVerdict::Differs { .. })), "different"),
            (self.count(|it| matches!(it, CallVerdict::NotRecorded { .. })), "with imports that were not recorded"),
        ];
        let parts = parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
        let _ = writeln!(text, "{} calls replayed: {}.", self.calls.len(), parts.collect::<Vec<_>>().join(", "));
        for (plugin, calls) in &self.left_out {
            let _ =
                writeln!(text, "{calls} calls of {plugin} were left out: --plugin FILE replays them with that file.");
        }
    }
}

/// Whether a value is redacted that a plugin may have read. The copy in `kubectl apply`'s annotation does not count,
/// because plugins hardly ever read it.
fn is_redacted_beyond_annotations(call: &str) -> bool {
    let mut values = call.split_inclusive("last-applied-configuration");
    let first = values.next().is_some_and(is_redacted);
    // The first redacted text after the annotation's name is the value of the annotation.
    let behind = |part: &str| part.split_once('>').is_some_and(|(_, rest)| is_redacted(rest));
    first || values.any(behind)
}

fn verdict(verdict: &CallVerdict) -> String {
    let mut text = String::new();
    match verdict {
        CallVerdict::Same => text.push_str("    The same.\n"),
        CallVerdict::Diverged { import: Some(place), recorded, replayed } => {
            let _ = writeln!(text, "    It diverges at import {place}:");
            for (when, import) in [("recorded", recorded), ("replayed", replayed)] {
                let import = import.as_ref().and_then(|it| serde_json::from_value::<RecordedImport>(it.clone()).ok());
                let shown = import.as_ref().map_or_else(|| "nothing more".to_owned(), story::asked);
                let _ = writeln!(text, "      {when}: {shown}");
            }
            let name = |import: &Option<Value>| import.as_ref().map(|import| import["import"].clone());
            let is_alike = name(recorded) == name(replayed);
            let args =
                |import: &Option<Value>| import.as_ref().filter(|_| is_alike).map(|import| import["args"].clone());
            if let (Some(recorded), Some(replayed)) = (args(recorded), args(replayed)) {
                for field in story::different_fields(&recorded, &replayed) {
                    let _ = writeln!(text, "        {field}");
                }
            }
        }
        CallVerdict::Diverged { import: None, recorded, replayed } => {
            text.push_str("    It makes the same imports and ends differently:\n");
            let ended = |result: &Option<Value>| result.as_ref().map_or_else(|| "not at all".to_owned(), story::ended);
            let _ = writeln!(text, "      recorded: {}\n      replayed: {}", ended(recorded), ended(replayed));
        }
        CallVerdict::Differs { writes, result } => {
            text.push_str(&of_writes(writes));
            if let Some((recorded, replayed)) = result {
                let _ = writeln!(text, "    ends: {} → {}", story::ended(recorded), story::ended(replayed));
            }
        }
        CallVerdict::NotRecorded { asks, writes } => {
            text.push_str(&of_writes(writes));
            let _ = writeln!(text, "    It makes an import that was not recorded: {}", story::asked(asks));
        }
    }
    text
}

fn of_writes(writes: &[WriteDifference]) -> String {
    let mut text = String::new();
    for WriteDifference { verb, object, change, fields } in writes {
        let sign = match change {
            WriteChange::Added => '+',
            WriteChange::Removed => '-',
            WriteChange::Changed => '~',
        };
        let _ = writeln!(text, "    {sign} {verb} {object}");
        for field in fields {
            let _ = writeln!(text, "        {field}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_repeated_only_by_kubectls_annotation_does_not_count() {
        let annotation = r#"{"kubectl.kubernetes.io/last-applied-configuration":"<redacted:0123456789ab>","a":"b"}"#;
        let secret = r#"{"data":"<redacted:0123456789ab>"}"#;
        let found = [annotation, secret, &format!("{annotation}{secret}"), &format!("{secret}{annotation}"), "{}"]
            .map(is_redacted_beyond_annotations);
        assert_eq!(found, [false, true, true, true, false]);
    }
}
