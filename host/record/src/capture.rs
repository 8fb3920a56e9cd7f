//! The ports of a call that is recorded: each passes everything on, and notes what was asked and answered.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};
use windlass_core::error::ApiError;
use windlass_core::http::{HttpError, HttpRequest, HttpResponse};
use windlass_core::object::{ObjectKind, ObjectRef};
use windlass_core::ports::{
    CallContext, Claimed, Collections, Deleted, Event, Events, Http, ListPage, ListQuery, Live, LiveGet, LiveQuery,
    LogQuery, MetricChange, Metrics, Owners, Ports, Reads, ServedKind, Surroundings, Writes, Written,
};
use windlass_core::write::{Collection, DeleteOptions, Operation};

use crate::document::{RecordedImport, RecordedSurroundings};
use crate::encode;

/// Imports, and readings of clocks, of one call that are noted. A call with more is not recorded.
const MOST_IMPORTS: usize = 20_000;
const MOST_READINGS: usize = 20_000;
/// The bytes of one call that are noted.
const MOST_BYTES: usize = 32 << 20;

/// All that a call asks and is told, while it runs.
pub(crate) struct Capture {
    ports: Ports,
    seed: [u8; 32],
    noted: Mutex<CapturedCall>,
}

/// The notes of a call.
pub(crate) struct CapturedCall {
    pub(crate) imports: Vec<RecordedImport>,
    pub(crate) surroundings: RecordedSurroundings,
    /// How much that is, by and large.
    pub(crate) bytes: usize,
    /// It is more than is recorded of a call.
    pub(crate) is_too_large: bool,
    random: StdRng,
    cpu: Duration,
}

impl Capture {
    /// Notes what goes through `ports`.
    pub(crate) fn of(ports: Ports) -> Arc<Self> {
        let mut seed = [0; 32];
        windlass_world::fill(&mut seed);
        let noted = CapturedCall {
            imports: Vec::new(),
            surroundings: RecordedSurroundings::default(),
            bytes: 0,
            is_too_large: false,
            random: StdRng::from_seed(seed),
            cpu: Duration::ZERO,
        };
        Arc::new(Self { ports, seed, noted: Mutex::new(noted) })
    }

    /// The ports to call the plugin with.
    pub(crate) fn ports(self: &Arc<Self>) -> Ports {
        let later = Arc::new(Later(self.clone()));
        Ports {
            reads: self.clone(),
            live: later.clone(),
            writes: later.clone(),
            collections: later.clone(),
            owners: later.clone(),
            events: self.clone(),
            metrics: self.clone(),
            http: later,
            surroundings: Some(self.clone()),
        }
    }

    /// The notes, as the call has ended, with their seed.
    pub(crate) fn take(&self) -> CapturedCall {
        let mut noted = self.noted();
        let seed = self.seed.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
        let surroundings = RecordedSurroundings { seed: Some(seed), ..std::mem::take(&mut noted.surroundings) };
        let random = StdRng::from_seed(self.seed);
        let CapturedCall { bytes, is_too_large, cpu, .. } = *noted;
        CapturedCall { imports: std::mem::take(&mut noted.imports), surroundings, bytes, is_too_large, random, cpu }
    }

    fn noted(&self) -> MutexGuard<'_, CapturedCall> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what is asked, in its place. Returns that. None: no more is noted.
    fn asks(&self, import: &str, args: impl FnOnce() -> Value) -> Option<usize> {
        let mut noted = self.noted();
        noted.is_too_large |= noted.imports.len() >= MOST_IMPORTS || noted.bytes > MOST_BYTES;
        if noted.is_too_large {
            return None;
        }
        let args = args();
        noted.bytes += size(&args) + import.len();
        let cpu_us = microseconds(noted.cpu);
        noted.imports.push(RecordedImport { import: import.to_owned(), args, answer: None, cpu_us });
        Some(noted.imports.len() - 1)
    }

    /// Notes the answer to what was asked at `place`.
    fn answers(&self, place: Option<usize>, answer: impl FnOnce() -> Value) {
        let Some(place) = place else { return };
        let mut noted = self.noted();
        let answer = answer();
        noted.bytes += size(&answer);
        // It has been taken, if the call has ended before the answer came.
        if let Some(import) = noted.imports.get_mut(place) {
            import.answer = Some(answer);
        }
    }

    /// Notes the answer when it comes.
    fn later<T: 'static>(
        self: &Arc<Self>,
        place: Option<usize>,
        work: BoxFuture<'static, T>,
        answer: impl FnOnce(&T) -> Value + Send + 'static,
    ) -> BoxFuture<'static, T> {
        let capture = self.clone();
        work.inspect(move |result| capture.answers(place, || answer(result))).boxed()
    }
}

/// About how many bytes of text it is.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + 4 + size(value)).sum(),
        _ => 8,
    }
}

/// In whole microseconds.
pub(crate) fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn written(answer: &Written) -> Value {
    encode::answer(answer, encode::object, encode::api_error)
}

impl Surroundings for Capture {
    fn now(&self, really: Duration) -> Duration {
        let mut noted = self.noted();
        noted.is_too_large |= noted.surroundings.now.len() >= MOST_READINGS;
        if !noted.is_too_large {
            noted.surroundings.now.push(nanoseconds(really));
        }
        really
    }

    fn monotonic(&self, really: Duration) -> Duration {
        let mut noted = self.noted();
        noted.is_too_large |= noted.surroundings.monotonic.len() >= MOST_READINGS;
        if !noted.is_too_large {
            noted.surroundings.monotonic.push(nanoseconds(really));
        }
        really
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        self.noted().random.fill_bytes(bytes);
    }

    fn is_told(&self) -> bool {
        false
    }

    fn enters(&self, cpu: Duration) {
        self.noted().cpu = cpu;
    }
}

impl Reads for Capture {
    fn get(
        &self,
        call: &CallContext,
        target: &ObjectRef,
        fields: Option<&[String]>,
    ) -> Result<Option<Arc<str>>, ApiError> {
        let place = self.asks("cache.get", || encode::get(target, fields));
        let answer = self.ports.reads.get(call, target, fields);
        self.answers(place, || written(&answer));
        answer
    }

    fn list(&self, call: &CallContext, query: &ListQuery) -> Result<ListPage, ApiError> {
        let place = self.asks("cache.list", || encode::list(query));
        let answer = self.ports.reads.list(call, query);
        self.answers(place, || encode::answer(&answer, encode::page, encode::api_error));
        answer
    }
}

/// A port's method knows its port by reference, and an answer that comes later needs the capture itself.
#[derive(Clone)]
struct Later(Arc<Capture>);

impl Live for Later {
    fn get(&self, call: Arc<CallContext>, asked: LiveGet) -> BoxFuture<'static, Written> {
        let place = self.0.asks("live.get", || encode::live_get(&asked));
        self.0.later(place, self.0.ports.live.get(call, asked), written)
    }

    fn list(&self, call: Arc<CallContext>, query: LiveQuery) -> BoxFuture<'static, Result<ListPage, ApiError>> {
        let place = self.0.asks("live.list", || encode::live_list(&query));
        let answer = |page: &_| encode::answer(page, encode::page, encode::api_error);
        self.0.later(place, self.0.ports.live.list(call, query), answer)
    }

    fn log(&self, call: Arc<CallContext>, query: LogQuery) -> BoxFuture<'static, Result<String, ApiError>> {
        let place = self.0.asks("live.log", || encode::log(&query));
        let answer = |log: &Result<String, _>| encode::answer(log, |text| json!(text), encode::api_error);
        self.0.later(place, self.0.ports.live.log(call, query), answer)
    }

    fn served(
        &self,
        call: Arc<CallContext>,
        kind: ObjectKind,
    ) -> BoxFuture<'static, Result<Option<ServedKind>, ApiError>> {
        let place = self.0.asks("live.served", || encode::served(&kind));
        let answer = |served: &_| encode::answer(served, encode::served_kind, encode::api_error);
        self.0.later(place, self.0.ports.live.served(call, kind), answer)
    }
}

impl Writes for Later {
    fn write(&self, call: Arc<CallContext>, operation: Operation) -> BoxFuture<'static, Written> {
        let (import, args) = encode::operation(&operation);
        let place = self.0.asks(import, || args);
        self.0.later(place, self.0.ports.writes.write(call, operation), written)
    }

    fn batch(&self, call: Arc<CallContext>, operations: Vec<Operation>) -> BoxFuture<'static, Vec<Written>> {
        let place = self.0.asks("writes.batch", || encode::batch(&operations));
        let answer = |all: &Vec<Written>| json!({"ok": all.iter().map(written).collect::<Vec<_>>()});
        self.0.later(place, self.0.ports.writes.batch(call, operations), answer)
    }
}

impl Collections for Later {
    fn delete_collection(
        &self,
        call: Arc<CallContext>,
        collection: Collection,
        options: DeleteOptions,
    ) -> BoxFuture<'static, Deleted> {
        let args = || encode::delete_collection(&collection, &options);
        let place = self.0.asks("writes.delete-collection", args);
        let answer = |deleted: &Deleted| encode::answer(deleted, encode::deleted, encode::api_error);
        self.0.later(place, self.0.ports.collections.delete_collection(call, collection, options), answer)
    }
}

impl Owners for Later {
    fn claim(
        &self,
        call: Arc<CallContext>,
        kind: ObjectKind,
        label_selector: String,
    ) -> BoxFuture<'static, Result<Claimed, Vec<ApiError>>> {
        let place = self.0.asks("owners.claim", || encode::claim(&kind, &label_selector));
        let answer = |claimed: &_| encode::answer(claimed, encode::claimed, encode::api_errors);
        self.0.later(place, self.0.ports.owners.claim(call, kind, label_selector), answer)
    }
}

impl Http for Later {
    fn fetch(
        &self,
        call: Arc<CallContext>,
        request: HttpRequest,
    ) -> BoxFuture<'static, Result<HttpResponse, HttpError>> {
        let place = self.0.asks("http.fetch", || encode::fetch(&request));
        let answer = |response: &_| encode::answer(response, encode::response, encode::http_error);
        self.0.later(place, self.0.ports.http.fetch(call, request), answer)
    }
}

impl Events for Capture {
    fn emit(&self, call: &CallContext, event: Event) {
        let place = self.asks("events.emit", || encode::event(&event));
        self.answers(place, || json!({"ok": null}));
        self.ports.events.emit(call, event);
    }

    fn emit_for_host(&self, call: &CallContext, event: Event) {
        self.ports.events.emit_for_host(call, event);
    }
}

impl Metrics for Capture {
    fn record(&self, call: &CallContext, change: MetricChange, name: &str, value: f64, labels: &[(String, String)]) {
        let place = self.asks("metrics.record", || encode::metric(change, name, value, labels));
        self.answers(place, || json!({"ok": null}));
        self.ports.metrics.record(call, change, name, value, labels);
    }
}
