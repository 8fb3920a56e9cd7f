//! Everything that happened in one run, in order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use crate::request_line::RequestLine;

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The time since the run began.
    pub at: Duration,
    pub happened: Happening,
}

/// Something that happens in a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Happening {
    /// A step of the scenario begins.
    Step(String),
    /// The host has sent a request.
    Request(RequestNote),
    /// Another client acts.
    Stranger(String),
    /// A fault affects the next request.
    Fault,
    /// The host process has crashed, and another one begins.
    Crash,
    /// The host process that holds the lease has become unreachable.
    Silence,
    /// The standby has taken over the lease.
    TookOver,
    /// The unreachable process is connected again.
    Returned,
    /// Another generation of the plugin is delivered.
    Delivered,
    /// The new generation of the plugin has replaced the earlier generation.
    Swapped,
    /// The host was stopped gracefully and begins again.
    Restart,
    /// The plugin has logged a line.
    Line(String),
    /// A call of the plugin has ended.
    Call {
        /// The primary.
        key: String,
        /// Its result, for people.
        result: String,
        /// Whether the call ended without an answer of the plugin.
        trapped: bool,
        /// Whether the call failed, with or without an answer.
        failed: bool,
        /// The time after which the plugin asked to run again.
        again: Option<Duration>,
    },
    /// A call about this primary was not made, because it could have changed nothing.
    Saved(String),
    /// The plugin was asked about a change of a watched object.
    Asked {
        /// The function, the watch and the object.
        about: String,
        /// Its result, for people.
        result: String,
        /// Whether the call ended without an answer of the plugin.
        trapped: bool,
        /// Whether the call failed, with or without an answer.
        failed: bool,
    },
    Warning(String),
}

/// A request of the host.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestNote {
    #[serde(flatten)]
    pub line: RequestLine,
    /// The HTTP status of the answer. `None` if no answer came.
    pub code: Option<u16>,
    /// For a watch: the number of events that it delivered.
    pub events: usize,
    /// The object that the request has created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<CreatedObject>,
    /// The primary whose call sent the request. `None` if the host sent it by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// An object that the host has created.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CreatedObject {
    pub name: String,
    pub uid: String,
}

impl RequestNote {
    /// Whether the server committed the request and answered with success.
    pub(crate) fn is_carried_out(&self) -> bool {
        self.code.is_some_and(|code| code < 300)
    }
}

/// The entries of a run, in order. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Record(Arc<Mutex<Noted>>);

#[derive(Default)]
struct Noted {
    begun: Option<Instant>,
    /// Whether recording is suspended.
    muted: bool,
    /// The number of writes that are not compared: the writes of Kubernetes Events and of the host's leases.
    beside: u64,
    entries: Vec<Entry>,
    /// The imports that the plugin has called in all runs.
    imports: BTreeSet<String>,
}

impl Record {
    pub(crate) fn begin(&self) {
        let mut noted = self.noted();
        let imports = std::mem::take(&mut noted.imports);
        *noted = Noted { begun: Some(Instant::now()), imports, ..Noted::default() };
    }

    /// Adds an entry and returns its number. `None` if nothing is recorded now.
    pub(crate) fn note(&self, happened: Happening) -> Option<usize> {
        let mut noted = self.noted();
        // Between two runs, nothing is recorded.
        let begun = noted.begun.filter(|_| !noted.muted)?;
        if let Happening::Request(note) = &happened {
            noted.beside += u64::from(note.line.is_event() && note.line.writes() && note.is_carried_out());
        }
        noted.entries.push(Entry { at: begun.elapsed(), happened });
        Some(noted.entries.len() - 1)
    }

    /// Notes that the watch of this entry has delivered `events` more events.
    pub(crate) fn shown(&self, entry: usize, events: usize) {
        if let Some(Entry { happened: Happening::Request(note), .. }) = self.noted().entries.get_mut(entry) {
            note.events += events;
        }
    }

    /// Notes that the plugin has called this import.
    pub(crate) fn import(&self, import: String) {
        let mut noted = self.noted();
        if noted.begun.is_some() {
            noted.imports.insert(import);
        }
    }

    /// The imports that the plugin has called so far, in all runs.
    pub(crate) fn imports(&self) -> BTreeSet<String> {
        self.noted().imports.clone()
    }

    /// Suspends or resumes recording.
    pub(crate) fn mute(&self, muted: bool) {
        self.noted().muted = muted;
    }

    /// Whether recording is suspended.
    pub(crate) fn is_muted(&self) -> bool {
        self.noted().muted
    }

    /// Notes that the server has committed a write of the host's lease. Such a write is not an entry.
    pub(crate) fn lease_written(&self) {
        self.noted().beside += 1;
    }

    /// The number of committed writes that are not compared: the writes of Kubernetes Events and of the host's leases.
    pub(crate) fn beside(&self) -> u64 {
        self.noted().beside
    }

    /// The number of entries for which `counts` is true.
    pub(crate) fn count(&self, counts: impl Fn(&Happening) -> bool) -> usize {
        self.noted().entries.iter().filter(|entry| counts(&entry.happened)).count()
    }

    /// The objects whose last call has failed, each with its result.
    pub(crate) fn failing(&self) -> Vec<String> {
        failing(&self.noted().entries)
    }

    /// The UIDs of the objects that the host has created, each with the primary whose call created it.
    pub(crate) fn created(&self) -> BTreeMap<String, Option<String>> {
        let noted = self.noted();
        let created = noted.entries.iter().filter_map(|entry| match &entry.happened {
            Happening::Request(note) => Some((note.created.as_ref()?.uid.clone(), note.key.clone())),
            _ => None,
        });
        created.collect()
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.noted().entries.clone()
    }

    /// Ends the run and returns its entries.
    pub(crate) fn end(&self) -> Vec<Entry> {
        let mut noted = self.noted();
        noted.begun = None;
        std::mem::take(&mut noted.entries)
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The objects whose last call has failed, each with its result. The calls about changes of an object count apart from
/// the calls for it. Failures before the start of a new process do not count: that process makes a call for each object
/// that still exists.
fn failing(entries: &[Entry]) -> Vec<String> {
    let mut last: BTreeMap<&str, Option<&str>> = BTreeMap::new();
    for entry in entries {
        match &entry.happened {
            Happening::Call { key: about, result, failed, .. } | Happening::Asked { about, result, failed, .. } => {
                last.insert(about, failed.then_some(result));
            }
            Happening::Crash | Happening::TookOver | Happening::Restart => last.clear(),
            _ => {}
        }
    }
    last.into_iter().filter_map(|(key, result)| Some(format!("{key}: {}", result?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_call_of_an_earlier_process_does_not_count() {
        let entry = |happened| Entry { at: Duration::ZERO, happened };
        let call = |key: &str, failed| {
            let result = if failed { "Failed" } else { "Done" }.to_owned();
            entry(Happening::Call { key: key.to_owned(), result, trapped: false, failed, again: None })
        };
        assert_eq!(failing(&[call("a", true), call("b", true), call("b", false)]), ["a: Failed"]);
        for end in [Happening::Crash, Happening::TookOver, Happening::Restart] {
            let entries = [call("a", true), call("b", true), entry(end), call("b", true)];
            assert_eq!(failing(&entries), ["b: Failed"]);
        }
    }

    #[test]
    fn only_the_last_call_about_changes_of_an_object_counts() {
        let asked = |about: &str, failed| {
            let happened =
                Happening::Asked { about: about.to_owned(), result: "Failed".to_owned(), trapped: false, failed };
            Entry { at: Duration::ZERO, happened }
        };
        let entries = [asked("map about a", true), asked("map about b", true), asked("map about b", false)];
        assert_eq!(failing(&entries), ["map about a: Failed"]);
    }
}
