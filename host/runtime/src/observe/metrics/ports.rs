//! Counts everything that goes through a plugin's ports.
//!
//! This is the only place that sees all requests of a plugin and their results, however they are carried out.

use std::sync::Arc;

use futures::FutureExt;
use prometheus_client::metrics::counter::Counter;
use windlass_core::call::ports::{Answer, CallContext, Event, Events, ListPage, ListQuery, Ports, Reads, port_fn};
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::object::ObjectRef;
use windlass_core::write::Operation;

use super::{Counters, HostMetrics, MetricLabels};

/// The outcome of a write that the API server has carried out.
pub(super) const COMMITTED: &str = "committed";

/// The counters of one plugin's requests.
pub(crate) struct PortCounts {
    reads: Totals,
    asks: Arc<AskTotals>,
    events: Counter,
}

impl HostMetrics {
    /// The counters of `plugin`. A `read_only` host carries out no writes.
    pub(crate) fn of_ports(&self, plugin: &str, read_only: bool) -> PortCounts {
        let written = if read_only { "withheld" } else { COMMITTED };
        let plugin: Arc<str> = plugin.into();
        let totals = |counters: &Counters| Totals { counters: counters.clone(), plugin: plugin.clone() };
        let (live, writes, claims) = (totals(&self.live), totals(&self.writes), totals(&self.claims));
        PortCounts {
            reads: totals(&self.reads),
            asks: Arc::new(AskTotals { live, writes, written, claims }),
            events: self.events.of(vec![("plugin", plugin.to_string())]),
        }
    }
}

/// `ports` with counters. The plugin's own metrics and its HTTP requests are counted elsewhere.
pub(crate) fn counted(ports: Ports, counts: &PortCounts) -> Ports {
    let (port, asks) = (ports.outside, counts.asks.clone());
    let outside = port_fn(move |call, ask| {
        let asks = asks.clone();
        let verbs: Vec<_> = ask.operations().iter().map(Operation::verb).collect();
        port.ask(call, ask).inspect(move |answer| asks.count(&verbs, answer)).boxed()
    });
    Ports {
        reads: Arc::new(CountedReads {
            reads: ports.reads,
            got: counts.reads.counter("get", "ok"),
            listed: counts.reads.counter("list", "ok"),
            totals: counts.reads.clone(),
        }),
        outside,
        events: Arc::new(CountedEvents { events: ports.events, emitted: counts.events.clone() }),
        ..ports
    }
}

/// The counters for the asynchronous port.
struct AskTotals {
    live: Totals,
    writes: Totals,
    /// The outcome label of a successful write.
    written: &'static str,
    claims: Totals,
}

impl AskTotals {
    /// Counts an answer; for a batch, by the verb of each operation.
    fn count(&self, verbs: &[&'static str], answer: &Answer) {
        match answer {
            Answer::Get(_) => self.live.count("get", answer.error()),
            Answer::List(_) => self.live.count("list", answer.error()),
            Answer::Log(_) => self.live.count("log", answer.error()),
            Answer::Served(_) => self.live.count("served", answer.error()),
            Answer::Kinds(_) => self.live.count("kinds", answer.error()),
            Answer::Claim(_) => self.claims.count("claim", answer.error()),
            Answer::DeleteCollection(_) => self.count_write("deletecollection", answer.error()),
            Answer::Write(_) | Answer::Batch(_) => {
                for (verb, written) in verbs.iter().zip(answer.written()) {
                    self.count_write(verb, written.as_ref().err());
                }
            }
            // A fetch is counted where its request is sent.
            Answer::Fetch(_) => {}
        }
    }

    fn count_write(&self, verb: &'static str, error: Option<&ApiError>) {
        let code = error.map_or_else(String::new, |error| error.code.to_string());
        let mut labels = self.writes.labels(verb);
        labels.push(("code", code));
        labels.push(("outcome", outcome(error, self.written).to_owned()));
        self.writes.counters.of(labels).inc();
    }
}

/// The counters of one plugin.
#[derive(Clone)]
struct Totals {
    counters: Counters,
    plugin: Arc<str>,
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

    fn count(&self, verb: &'static str, error: Option<&ApiError>) {
        self.counter(verb, error.map_or("ok", |error| error.reason.as_str())).inc();
    }
}

/// How a write ended: *committed*, *refused* or *unknown* (ADR 5), or the host did not send it.
fn outcome(error: Option<&ApiError>, well: &'static str) -> &'static str {
    match error.map(|error| error.reason) {
        None => well,
        Some(ApiReason::UnknownOutcome) => "unknown",
        Some(ApiReason::NotGranted | ApiReason::LeaseLost | ApiReason::ReadOnly) => "denied",
        Some(_) => "refused",
    }
}

struct CountedReads {
    reads: Arc<dyn Reads>,
    /// The counters of reads are looked up in advance, because reads are a guest's most frequent requests.
    got: Counter,
    listed: Counter,
    totals: Totals,
}

impl CountedReads {
    fn count<T>(&self, verb: &'static str, ready: &Counter, result: &Result<T, ApiError>) {
        if result.is_ok() {
            ready.inc();
        } else {
            self.totals.count(verb, result.as_ref().err());
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
