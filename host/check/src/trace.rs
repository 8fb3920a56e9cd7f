//! All that happened in one run, in its order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use crate::request_line::RequestLine;

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Since the run began, by its clock.
    pub at: Duration,
    pub happened: Happening,
}

/// A thing that may happen in a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Happening {
    /// A step of the scenario begins.
    Step(String),
    /// The host has sent a request, and this became of it.
    Request(RequestNote),
    /// Somebody else does something.
    Stranger(String),
    /// A fault strikes the request that follows.
    Fault,
    /// The process of the host has ended without a word, and another one begins.
    Crash,
    /// The process of the host that holds the lease is heard no more, and hears nothing.
    Silence,
    /// The standby has taken over the lease.
    TookOver,
    /// The process that had fallen silent is heard again.
    Returned,
    /// Another generation of the plugin is delivered.
    Delivered,
    /// It has taken the place of the one before.
    Swapped,
    /// The host was stopped in order and begins again.
    Restart,
    /// The plugin has written a line of its log.
    Line(String),
    /// A call of the plugin has ended.
    Call {
        /// The object that it was about.
        key: String,
        /// Its result, for people.
        result: String,
        /// Whether it ended without an answer of the plugin.
        trapped: bool,
        /// Whether it failed, with an answer or without.
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
    /// The HTTP status of the answer. None: no answer came.
    pub code: Option<u16>,
    /// Of a watch: how many events it has shown.
    pub events: usize,
}

impl RequestNote {
    /// Whether the server has carried it out, and said so.
    pub(crate) fn is_carried_out(&self) -> bool {
        self.code.is_some_and(|code| code < 300)
    }
}

/// Notes of a run, in their order. Clones are one record.
#[derive(Clone, Default)]
pub(crate) struct Record(Arc<Mutex<Noted>>);

#[derive(Default)]
struct Noted {
    begun: Option<Instant>,
    /// Nothing is noted for now.
    muted: bool,
    /// Writes that are no part of the outcome: of Kubernetes Events, and of the host's leases.
    beside: u64,
    entries: Vec<Entry>,
    /// The imports that the plugin has called, in all runs.
    imports: BTreeSet<String>,
}

impl Record {
    pub(crate) fn begin(&self) {
        let mut noted = self.noted();
        let imports = std::mem::take(&mut noted.imports);
        *noted = Noted { begun: Some(Instant::now()), imports, ..Noted::default() };
    }

    /// Answers the number of the entry. None: nothing is noted now.
    pub(crate) fn note(&self, happened: Happening) -> Option<usize> {
        let mut noted = self.noted();
        // Between two runs there is nobody whom it belongs to.
        let begun = noted.begun.filter(|_| !noted.muted)?;
        if let Happening::Request(note) = &happened {
            noted.beside += u64::from(note.line.is_event() && note.line.writes() && note.is_carried_out());
        }
        noted.entries.push(Entry { at: begun.elapsed(), happened });
        Some(noted.entries.len() - 1)
    }

    /// The watch that this entry is about has shown so many events more.
    pub(crate) fn shown(&self, entry: usize, events: usize) {
        if let Some(Entry { happened: Happening::Request(note), .. }) = self.noted().entries.get_mut(entry) {
            note.events += events;
        }
    }

    /// The plugin has called this import.
    pub(crate) fn import(&self, import: String) {
        let mut noted = self.noted();
        if noted.begun.is_some() {
            noted.imports.insert(import);
        }
    }

    /// The imports that it has called in the runs so far.
    pub(crate) fn imports(&self) -> BTreeSet<String> {
        self.noted().imports.clone()
    }

    /// Notes nothing for a while, or notes again.
    pub(crate) fn mute(&self, muted: bool) {
        self.noted().muted = muted;
    }

    /// Whether nothing is noted for now.
    pub(crate) fn is_muted(&self) -> bool {
        self.noted().muted
    }

    /// The server has taken a lease of the host's, which is told to nobody.
    pub(crate) fn lease_written(&self) {
        self.noted().beside += 1;
    }

    /// How many writes the server has taken that are no part of the outcome: of Kubernetes Events, and of the host's leases.
    pub(crate) fn beside(&self) -> u64 {
        self.noted().beside
    }

    /// How many things have happened that `counts`.
    pub(crate) fn count(&self, counts: impl Fn(&Happening) -> bool) -> usize {
        self.noted().entries.iter().filter(|entry| counts(&entry.happened)).count()
    }

    /// Objects whose last call has failed, each with its result.
    pub(crate) fn failing(&self) -> Vec<String> {
        let mut last: BTreeMap<&str, Option<&str>> = BTreeMap::new();
        let noted = self.noted();
        for entry in &noted.entries {
            if let Happening::Call { key, result, failed, .. } = &entry.happened {
                last.insert(key, failed.then_some(result));
            }
        }
        last.into_iter().filter_map(|(key, result)| Some(format!("{key}: {}", result?))).collect()
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.noted().entries.clone()
    }

    /// The run is over.
    pub(crate) fn end(&self) -> Vec<Entry> {
        let mut noted = self.noted();
        noted.begun = None;
        std::mem::take(&mut noted.entries)
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
