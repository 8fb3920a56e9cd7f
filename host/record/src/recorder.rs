//! Decides which calls are recorded, and passes their data to the thread that writes it.
//!
//! A call that is not recorded costs one random number. A recorded call costs copies of its imports and answers; the
//! writer thread redacts, compresses and writes them. No call waits for the writer: if its queue is full, the data is
//! dropped and counted.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::Instant;
use windlass_core::call::ports::{CallContext, Ports};
use windlass_core::life::instances::Instances;
use windlass_wasm::{CallLimits, Called, Composed, CompositionRequest, Plugin, Request};

use crate::capture::{Capture, microseconds};
use crate::counts::RecordingCounts;
use crate::document::{
    RecordedCall, RecordedComponent, RecordedRequest, RecordedSurroundings, RecordedTrigger, RecordedUse,
};
use crate::encode;
use crate::options::RecordOptions;
use crate::redact::Redactor;
use crate::writing::{self, WriteOrder};

/// The maximum number of calls that wait for the writer.
const RECORDED_CALLS_WAITING_MAX: usize = 1_024;
/// The maximum size of the calls that wait for the writer, in bytes.
const RECORDED_CALLS_WAITING_BYTES_MAX: usize = 64 << 20;
/// The time that the writer has for the remaining calls when the host ends.
const RECORDER_END_TIMEOUT: Duration = Duration::from_secs(5);

/// The recording of one host's calls. Clones share it.
#[derive(Clone)]
pub struct Recordings {
    shared: Arc<SharedRecordings>,
}

impl std::fmt::Debug for Recordings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recordings").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

struct SharedRecordings {
    options: RecordOptions,
    counts: Mutex<BTreeMap<Arc<str>, Arc<RecordingCounts>>>,
    queue: SyncSender<WriteOrder>,
    /// The bytes that wait for the writer.
    waiting: Arc<AtomicUsize>,
}

impl Recordings {
    /// Starts the writer thread. `host` is the version of this program.
    pub fn start(options: RecordOptions, host: &str) -> std::io::Result<Self> {
        let (queue, written) = sync_channel(RECORDED_CALLS_WAITING_MAX);
        let waiting = Arc::new(AtomicUsize::new(0));
        let redactor = Redactor::new(options.redact.clone());
        let process = windlass_world::random();
        let writer =
            writing::RecordingWriter::new(options.clone(), redactor, process, host.to_owned(), waiting.clone());
        std::thread::Builder::new().name("windlass-record".to_owned()).spawn(move || writer.run(&written))?;
        Ok(Self { shared: Arc::new(SharedRecordings { options, counts: Mutex::default(), queue, waiting }) })
    }

    /// The recorder of `plugin`'s calls.
    #[must_use]
    pub fn of(&self, plugin: &Plugin) -> PluginRecorder {
        let component = RecordedComponent {
            plugin: plugin.name().to_string(),
            digest: plugin.digest().to_string(),
            interface: plugin.abi().to_string(),
            // The file may be replayed from another working directory.
            file: std::path::absolute(plugin.path()).unwrap_or_else(|_| plugin.path().to_owned()).display().to_string(),
        };
        let mut counts = self.shared.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = counts.entry(plugin.name().clone()).or_default().clone();
        PluginRecorder { recordings: self.clone(), component: Arc::new(component), counts }
    }

    /// The counters of each plugin.
    #[must_use]
    pub fn counts(&self) -> Vec<(Arc<str>, Arc<RecordingCounts>)> {
        let counts = self.shared.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().map(|(plugin, counts)| (plugin.clone(), counts.clone())).collect()
    }

    /// Makes the writer finish its files, and waits a few seconds for that. Calls that end after this are dropped.
    pub async fn end(&self) {
        let (done, ended) = oneshot::channel();
        let deadline = Instant::now() + RECORDER_END_TIMEOUT;
        let mut end = WriteOrder::End(done);
        // The queue may be full.
        while let Err(TrySendError::Full(back)) = self.shared.queue.try_send(end) {
            if Instant::now() >= deadline {
                break;
            }
            end = back;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        if tokio::time::timeout_at(deadline, ended).await.is_err() {
            tracing::warn!(
                "the last recorded calls were not written within {RECORDER_END_TIMEOUT:?}: they are lost, and their file may have a torn end"
            );
        }
    }
}

/// Records the calls of one generation of a plugin.
#[derive(Clone)]
pub struct PluginRecorder {
    recordings: Recordings,
    component: Arc<RecordedComponent>,
    counts: Arc<RecordingCounts>,
}

impl PluginRecorder {
    /// Decides whether to record the call that begins now.
    fn samples(&self) -> bool {
        let sample = self.recordings.shared.options.sample;
        let is_chosen = sample >= 1.0 || (sample > 0.0 && windlass_world::random::<f64>() < sample);
        is_chosen && !self.counts.is_stopped()
    }

    /// Begins to record a reconciler's call. `None` if the call is not sampled.
    #[must_use]
    pub fn reconcile(&self, request: &Request, call: &Arc<CallContext>, limits: &CallLimits) -> Option<CallRecording> {
        self.samples().then(|| {
            let recorded = RecordedRequest { reused: limits.instances == Instances::Reuse, ..of(request, call) };
            self.begin("reconcile", recorded, call.clone())
        })
    }

    /// Begins to record a composer's call, which has no imports. `None` if the call is not sampled.
    #[must_use]
    pub fn compose(&self, request: &CompositionRequest, call: &Arc<CallContext>) -> Option<CallRecording> {
        self.samples().then(|| {
            let texts = |texts: &[Arc<str>]| texts.iter().map(ToString::to_string).collect();
            let recorded = RecordedRequest {
                object: Some(request.parent.to_string()),
                children: texts(&request.children),
                related: texts(&request.related),
                config: request.config.to_string(),
                ..of(&request.request, call)
            };
            self.begin("compose", recorded, call.clone())
        })
    }

    fn begin(&self, export: &'static str, request: RecordedRequest, call: Arc<CallContext>) -> CallRecording {
        let now = windlass_world::now();
        let capture = Capture::new();
        CallRecording { recorder: self.clone(), export, request, call, now, since: Instant::now(), capture }
    }
}

/// A call that is being recorded. If this is dropped, the call is not recorded.
pub struct CallRecording {
    recorder: PluginRecorder,
    export: &'static str,
    request: RecordedRequest,
    call: Arc<CallContext>,
    now: Duration,
    since: Instant,
    capture: Arc<Capture>,
}

impl CallRecording {
    /// Wraps `ports` for the call, so that its imports and their answers are recorded.
    #[must_use]
    pub fn ports(&self, ports: &Ports) -> Ports {
        self.capture.ports(ports)
    }

    /// The time that a composer sees. It does not advance during the call.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.now
    }

    /// Records the end of the call.
    pub fn reconciled(self, called: &Called) {
        let result = encode::result(&called.result);
        self.end(result, called.cpu);
    }

    /// Records the end of a composer's call.
    pub fn composed(self, composed: &Composed) {
        let result = match &composed.answer {
            Ok(answer) => encode::composition(answer),
            Err(failed) => encode::result(failed),
        };
        self.end(result, composed.cpu);
    }

    fn end(self, result: Value, cpu: Duration) {
        let noted = self.capture.take();
        let counts = &self.recorder.counts;
        if noted.is_too_large {
            counts.count_too_large();
            return;
        }
        let mut surroundings = noted.surroundings;
        if self.export == "compose" {
            let now = u64::try_from(self.now.as_nanos()).unwrap_or(u64::MAX);
            surroundings = RecordedSurroundings { now: vec![now], ..RecordedSurroundings::default() };
        }
        let bytes = noted.bytes + request_bytes(&self.request);
        let call = RecordedCall {
            component: (*self.recorder.component).clone(),
            export: self.export.to_owned(),
            began: timestamp(self.now).to_string(),
            request: self.request,
            surroundings,
            imports: noted.imports,
            result,
            used: RecordedUse { cpu_us: microseconds(cpu), wall_us: microseconds(self.since.elapsed()) },
        };
        let shared = &self.recorder.recordings.shared;
        let secrets = self.call.config.secrets().to_vec();
        let at = timestamp(self.now);
        let written = WriteOrder::Call { call: Box::new(call), secrets, at, bytes, counts: counts.clone() };
        let is_full = shared.waiting.fetch_add(bytes, Ordering::Relaxed) > RECORDED_CALLS_WAITING_BYTES_MAX;
        if is_full || shared.queue.try_send(written).is_err() {
            shared.waiting.fetch_sub(bytes, Ordering::Relaxed);
            counts.count_dropped();
        }
    }
}

fn request_bytes(request: &RecordedRequest) -> usize {
    let texts = request.children.iter().chain(&request.related).chain(&request.object);
    texts.map(String::len).sum::<usize>() + request.config.len()
}

/// Converts a time since 1970 to a timestamp.
pub(crate) fn timestamp(now: Duration) -> Timestamp {
    let microseconds = i64::try_from(now.as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_microsecond(microseconds).unwrap_or(Timestamp::MAX)
}

/// The request of `call`.
fn of(request: &Request, call: &CallContext) -> RecordedRequest {
    let trigger = |trigger: &windlass_core::queue::trigger::Trigger| RecordedTrigger {
        reason: trigger.reason.as_str().to_owned(),
        watch: trigger.watch.as_ref().map(ToString::to_string),
        object: trigger.object.as_ref().map_or(Value::Null, encode::reference),
    };
    RecordedRequest {
        controller: request.controller.to_string(),
        api_version: call.primary_kind.api_version.to_string(),
        kind: call.primary_kind.kind.to_string(),
        namespace: request.key.namespace.as_ref().map(ToString::to_string),
        name: request.key.name.to_string(),
        uid: request.uid.as_ref().map(ToString::to_string),
        object: request.object.as_ref().map(ToString::to_string),
        deleting: request.deleting,
        attempt: request.attempt,
        trace_id: request.trace_id.to_string(),
        triggers: call.triggers.iter().map(trigger).collect(),
        config: call.config.to_string(),
        ..RecordedRequest::default()
    }
}
