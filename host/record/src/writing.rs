//! The thread that redacts and writes recorded calls.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};

use jiff::Timestamp;
use tokio::sync::oneshot;

use crate::counts::RecordingCounts;
use crate::document::{FORMAT, RecordedCall, RecordingHeader};
use crate::options::RecordOptions;
use crate::read::RecordingBounds;
use crate::redact::Redactor;
use crate::segments::Segments;

/// A command to the writer.
pub(crate) enum WriteOrder {
    /// Write this unredacted call.
    Call {
        call: Box<RecordedCall>,
        /// The values that the plugin's configuration takes from Secrets.
        secrets: Vec<Arc<str>>,
        at: Timestamp,
        bytes: usize,
        counts: Arc<RecordingCounts>,
    },
    /// Finish all files, and then reply.
    End(oneshot::Sender<()>),
}

/// The files of all plugins.
pub(crate) struct RecordingWriter {
    options: RecordOptions,
    redactor: Redactor,
    process: u32,
    host: String,
    /// The bytes that wait for the writer.
    waiting: Arc<AtomicUsize>,
    plugins: BTreeMap<String, (Segments, Arc<RecordingCounts>)>,
}

impl RecordingWriter {
    pub(crate) fn new(
        options: RecordOptions,
        redactor: Redactor,
        process: u32,
        host: String,
        waiting: Arc<AtomicUsize>,
    ) -> Self {
        Self { options, redactor, process, host, waiting, plugins: BTreeMap::new() }
    }

    /// Runs until it receives [`WriteOrder::End`], or until all recorders are dropped.
    pub(crate) fn run(mut self, orders: &Receiver<WriteOrder>) {
        loop {
            let order = match orders.try_recv() {
                Ok(order) => Ok(order),
                Err(TryRecvError::Empty) => {
                    // No order waits, so flush: a host that is killed afterwards loses only later calls.
                    self.for_each(Segments::flush);
                    orders.recv()
                }
                Err(TryRecvError::Disconnected) => return self.for_each(Segments::close),
            };
            match order {
                Ok(WriteOrder::Call { call, secrets, at, bytes, counts }) => {
                    self.write(&call, &secrets, at, &counts);
                    self.waiting.fetch_sub(bytes, Ordering::Relaxed);
                }
                Ok(WriteOrder::End(done)) => {
                    self.for_each(Segments::close);
                    // The caller may have given up.
                    let _ = done.send(());
                    return;
                }
                Err(_) => return self.for_each(Segments::close),
            }
        }
    }

    fn write(&mut self, call: &RecordedCall, secrets: &[Arc<str>], at: Timestamp, counts: &Arc<RecordingCounts>) {
        let plugin = &call.component.plugin;
        if counts.is_stopped() {
            return;
        }
        let line = serde_json::to_value(call)
            .map(|mut call| self.redactor.redact(&mut call, secrets).then(|| call.to_string()))
            .map(|line| line.filter(|line| RecordingBounds::OF_HOSTS.allow(line)));
        if matches!(line, Ok(None)) {
            return counts.count_too_large();
        }
        if !self.plugins.contains_key(plugin) {
            let segments = self.segments(plugin);
            self.plugins.insert(plugin.clone(), (segments, counts.clone()));
        }
        let Some((segments, _)) = self.plugins.get_mut(plugin) else { unreachable!("it was inserted above") };
        let written = line.map_err(io::Error::other).and_then(|line| segments.add(&line.unwrap_or_default(), at));
        match written {
            Ok(()) => counts.count_recorded(),
            Err(error) => give_up(plugin, counts, &error),
        }
    }

    fn segments(&self, plugin: &str) -> Segments {
        let header = RecordingHeader {
            format: FORMAT.to_owned(),
            plugin: plugin.to_owned(),
            host: self.host.clone(),
            redacted: self.options.redact.clone(),
        };
        let header = serde_json::to_string(&header).unwrap_or_default();
        Segments::new(self.options.directory.join(plugin), self.options.limit, self.process, header)
    }

    fn for_each(&mut self, work: impl Fn(&mut Segments) -> io::Result<()>) {
        for (plugin, (segments, counts)) in &mut self.plugins {
            if !counts.is_stopped()
                && let Err(error) = work(segments)
            {
                give_up(plugin, counts, &error);
            }
        }
    }
}

/// Stops recording the calls of `plugin`; the host goes on.
fn give_up(plugin: &str, counts: &RecordingCounts, error: &io::Error) {
    if counts.stop() {
        tracing::warn!(
            plugin, %error,
            "stopped recording the plugin's calls because the recording cannot be written. Restart the host to record again"
        );
    }
}
