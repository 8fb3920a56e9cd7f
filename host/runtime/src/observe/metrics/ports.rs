//! The ports of a plugin, with everything counted that goes through them.
//!
//! Counted here and not at the other end: what a plugin asked for and what it was told is the same wherever it is carried
//! out, and this is the one place that sees all of it.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use prometheus_client::metrics::counter::Counter;
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::object::{ObjectKind, ObjectRef};
use windlass_core::ports::{
    CallContext, Claimed, Collections, Deleted, Event, Events, ListPage, ListQuery, Live, LiveGet, LiveQuery, LogQuery,
    Owners, Ports, Reads, ServedKind, Writes, Written,
};
use windlass_core::write::{Collection, DeleteOptions, Operation};

use super::{Counters, HostMetrics, MetricLabels};

/// The outcome of a write that the API server has carried out.
pub(super) const COMMITTED: &str = "committed";

/// `ports` of `plugin`, counted in `metrics`. The plugin's own metrics and HTTP are counted where they are kept. A host that
/// is `read_only` has no writes carried out.
pub(crate) fn counted(ports: Ports, metrics: &HostMetrics, plugin: &str, read_only: bool) -> Ports {
    let plugin: Arc<str> = plugin.into();
    let written = if read_only { "withheld" } else { COMMITTED };
    let totals = |counters: &Counters| Totals { counters: counters.clone(), plugin: plugin.clone(), written };
    let events = metrics.events.of(vec![("plugin", plugin.to_string())]);
    Ports {
        reads: Arc::new(CountedReads {
            reads: ports.reads,
            got: totals(&metrics.reads).counter("get", "ok"),
            listed: totals(&metrics.reads).counter("list", "ok"),
            totals: totals(&metrics.reads),
        }),
        live: Arc::new(CountedPort { port: ports.live, totals: totals(&metrics.live) }),
        writes: Arc::new(CountedPort { port: ports.writes, totals: totals(&metrics.writes) }),
        collections: Arc::new(CountedPort { port: ports.collections, totals: totals(&metrics.writes) }),
        owners: Arc::new(CountedPort { port: ports.owners, totals: totals(&metrics.claims) }),
        events: Arc::new(CountedEvents { events: ports.events, emitted: events }),
        ..ports
    }
}

/// The counters of one plugin.
#[derive(Clone)]
struct Totals {
    counters: Counters,
    plugin: Arc<str>,
    /// The outcome of a write that has ended well.
    written: &'static str,
}

impl Totals {
    fn labels(&self, verb: &'static str) -> MetricLabels {
        vec![("plugin", self.plugin.to_string()), ("verb", verb.to_owned())]
    }

    fn counter(&self, verb: &'static str, result: &'static str) -> Counter {
        let mut labels = self.labels(verb);
        labels.push(("result", result.to_owned()));
        self.counters.of(labels)
    }

    fn count<T>(&self, verb: &'static str, result: &Result<T, ApiError>) {
        self.counter(verb, result.as_ref().err().map_or("ok", |error| error.reason.as_str())).inc();
    }

    fn count_write<T>(&self, verb: &'static str, written: &Result<T, ApiError>) {
        let (code, outcome) = ended(written, self.written);
        let mut labels = self.labels(verb);
        labels.push(("code", code.map_or_else(String::new, |code| code.to_string())));
        labels.push(("outcome", outcome.to_owned()));
        self.counters.of(labels).inc();
    }
}

/// How a write ended: *committed*, *refused* or *unknown* (ADR 5), or the host did not send it.
fn ended<T>(written: &Result<T, ApiError>, well: &'static str) -> (Option<u16>, &'static str) {
    match written {
        Ok(_) => (None, well),
        Err(error) => match error.reason {
            ApiReason::UnknownOutcome => (Some(error.code), "unknown"),
            ApiReason::NotGranted | ApiReason::LeaseLost | ApiReason::ReadOnly => (Some(error.code), "denied"),
            _ => (Some(error.code), "refused"),
        },
    }
}

struct CountedReads {
    reads: Arc<dyn Reads>,
    /// The two that matter are ready: reads are the most frequent thing that a guest does.
    got: Counter,
    listed: Counter,
    totals: Totals,
}

impl CountedReads {
    fn count<T>(&self, verb: &'static str, ready: &Counter, result: &Result<T, ApiError>) {
        if result.is_ok() {
            ready.inc();
        } else {
            self.totals.count(verb, result);
        }
    }
}

impl Reads for CountedReads {
    fn get(
        &self,
        call: &CallContext,
        target: &ObjectRef,
        fields: Option<&[String]>,
    ) -> Result<Option<Arc<str>>, ApiError> {
        let result = self.reads.get(call, target, fields);
        self.count("get", &self.got, &result);
        result
    }

    fn list(&self, call: &CallContext, query: &ListQuery) -> Result<ListPage, ApiError> {
        let result = self.reads.list(call, query);
        self.count("list", &self.listed, &result);
        result
    }
}

/// A port whose results are counted as they come.
struct CountedPort<P: ?Sized> {
    port: Arc<P>,
    totals: Totals,
}

impl Live for CountedPort<dyn Live> {
    fn get(&self, call: Arc<CallContext>, asked: LiveGet) -> BoxFuture<'static, Written> {
        let totals = self.totals.clone();
        self.port.get(call, asked).inspect(move |result| totals.count("get", result)).boxed()
    }

    fn list(&self, call: Arc<CallContext>, query: LiveQuery) -> BoxFuture<'static, Result<ListPage, ApiError>> {
        let totals = self.totals.clone();
        self.port.list(call, query).inspect(move |result| totals.count("list", result)).boxed()
    }

    fn log(&self, call: Arc<CallContext>, query: LogQuery) -> BoxFuture<'static, Result<String, ApiError>> {
        let totals = self.totals.clone();
        self.port.log(call, query).inspect(move |result| totals.count("log", result)).boxed()
    }

    fn served(
        &self,
        call: Arc<CallContext>,
        kind: ObjectKind,
    ) -> BoxFuture<'static, Result<Option<ServedKind>, ApiError>> {
        let totals = self.totals.clone();
        self.port.served(call, kind).inspect(move |result| totals.count("served", result)).boxed()
    }
}

impl Collections for CountedPort<dyn Collections> {
    fn delete_collection(
        &self,
        call: Arc<CallContext>,
        collection: Collection,
        options: DeleteOptions,
    ) -> BoxFuture<'static, Deleted> {
        let totals = self.totals.clone();
        let count = move |deleted: &Deleted| totals.count_write("deletecollection", deleted);
        self.port.delete_collection(call, collection, options).inspect(count).boxed()
    }
}

impl Writes for CountedPort<dyn Writes> {
    fn write(&self, call: Arc<CallContext>, operation: Operation) -> BoxFuture<'static, Written> {
        let (totals, verb) = (self.totals.clone(), operation.verb());
        self.port.write(call, operation).inspect(move |written| totals.count_write(verb, written)).boxed()
    }

    fn batch(&self, call: Arc<CallContext>, operations: Vec<Operation>) -> BoxFuture<'static, Vec<Written>> {
        let verbs: Vec<_> = operations.iter().map(Operation::verb).collect();
        let totals = self.totals.clone();
        let count = move |written: &Vec<Written>| {
            for (verb, written) in verbs.iter().zip(written) {
                totals.count_write(verb, written);
            }
        };
        self.port.batch(call, operations).inspect(count).boxed()
    }
}

impl Owners for CountedPort<dyn Owners> {
    fn claim(
        &self,
        call: Arc<CallContext>,
        kind: ObjectKind,
        label_selector: String,
    ) -> BoxFuture<'static, Result<Claimed, Vec<ApiError>>> {
        let totals = self.totals.clone();
        let count = move |result: &Result<Claimed, Vec<ApiError>>| {
            let first = result.as_ref().err().and_then(|errors| errors.first());
            totals.counter("claim", first.map_or("ok", |error| error.reason.as_str())).inc();
        };
        self.port.claim(call, kind, label_selector).inspect(count).boxed()
    }
}

struct CountedEvents {
    events: Arc<dyn Events>,
    emitted: Counter,
}

impl Events for CountedEvents {
    fn emit(&self, call: &CallContext, event: Event) {
        self.emitted.inc();
        self.events.emit(call, event);
    }

    fn emit_for_host(&self, call: &CallContext, event: Event) {
        self.emitted.inc();
        self.events.emit_for_host(call, event);
    }
}
