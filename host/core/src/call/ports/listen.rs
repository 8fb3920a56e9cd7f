//! Listens to a call: a listener receives the questions of the call to its ports, and the answers, in order.
//!
//! Recordings and shadows are views of this one sequence. Cached reads are included, by reference, so that a call
//! without a listener pays nothing.

use std::sync::Arc;

use futures::FutureExt;

use super::{
    Answer, Ask, CallContext, Event, Events, ListPage, ListQuery, MetricChange, Metrics, Ports, Reads, Written, port_fn,
};
use crate::error::ApiError;
use crate::object::ObjectRef;

/// One question of a call to its ports.
#[derive(Clone, Copy, Debug)]
pub enum Asked<'a> {
    /// [`Reads::get`].
    Get {
        target: &'a ObjectRef,
        /// The fields to return.
        fields: Option<&'a [String]>,
    },
    /// [`Reads::list`].
    List(&'a ListQuery),
    /// A question to the asynchronous port.
    Ask(&'a Ask),
    /// [`Events::emit`].
    Event(&'a Event),
    /// [`Metrics::record`].
    Metric {
        /// The effect of the value.
        change: MetricChange,
        name: &'a str,
        value: f64,
        labels: &'a [(String, String)],
    },
}

/// The answer to an [`Asked`].
#[derive(Clone, Copy, Debug)]
pub enum Answered<'a> {
    /// To [`Asked::Get`].
    Get(&'a Written),
    /// To [`Asked::List`].
    List(&'a Result<ListPage, ApiError>),
    /// To [`Asked::Ask`].
    Ask(&'a Answer),
    /// An Event or a metric value was accepted.
    Taken,
}

/// Receives the questions of one call and their answers.
pub trait Listener: Send + Sync {
    /// Receives a question of the call before the host acts on it. Returns the question's place, which the host passes
    /// to [`Self::answered`] with the answer. Returns `None` if the listener does not want the answer.
    fn asked(&self, call: &CallContext, asked: Asked<'_>) -> Option<usize>;

    /// Receives the answer to the question at `place`. If the call stopped waiting for it, no answer comes.
    fn answered(&self, place: usize, answered: Answered<'_>);
}

/// Wraps `ports` so that `listener` receives everything.
#[must_use]
pub fn listened(ports: &Ports, listener: Arc<dyn Listener>) -> Ports {
    let (port, hears) = (ports.outside.clone(), listener.clone());
    let outside = port_fn(move |call, ask| {
        let Some(place) = hears.asked(&call, Asked::Ask(&ask)) else { return port.ask(call, ask) };
        let hears = hears.clone();
        port.ask(call, ask).inspect(move |answer| hears.answered(place, Answered::Ask(answer))).boxed()
    });
    let others = Arc::new(Listened { ports: ports.clone(), listener });
    let surroundings = ports.surroundings.clone();
    Ports { reads: others.clone(), outside, events: others.clone(), metrics: others, surroundings }
}

/// The synchronous ports of a call that has a listener.
struct Listened {
    ports: Ports,
    listener: Arc<dyn Listener>,
}

impl Listened {
    fn answered(&self, place: Option<usize>, answered: Answered<'_>) {
        if let Some(place) = place {
            self.listener.answered(place, answered);
        }
    }
}

impl Reads for Listened {
    fn get(&self, call: &CallContext, target: &ObjectRef, fields: Option<&[String]>) -> Written {
        let place = self.listener.asked(call, Asked::Get { target, fields });
        let object = self.ports.reads.get(call, target, fields);
        self.answered(place, Answered::Get(&object));
        object
    }

    fn list(&self, call: &CallContext, query: &ListQuery) -> Result<ListPage, ApiError> {
        let place = self.listener.asked(call, Asked::List(query));
        let page = self.ports.reads.list(call, query);
        self.answered(place, Answered::List(&page));
        page
    }
}

impl Events for Listened {
    fn emit(&self, call: &CallContext, event: Event) {
        let place = self.listener.asked(call, Asked::Event(&event));
        self.answered(place, Answered::Taken);
        self.ports.events.emit(call, event);
    }

    /// The host's own Events are not among the call's questions.
    fn emit_for_host(&self, call: &CallContext, event: Event) {
        self.ports.events.emit_for_host(call, event);
    }
}

impl Metrics for Listened {
    fn record(&self, call: &CallContext, change: MetricChange, name: &str, value: f64, labels: &[(String, String)]) {
        let place = self.listener.asked(call, Asked::Metric { change, name, value, labels });
        self.answered(place, Answered::Taken);
        self.ports.metrics.record(call, change, name, value, labels);
    }

    /// The host asks for this, and not the call.
    fn gauge(&self, call: &CallContext, name: &str, labels: &[(String, String)]) -> Option<f64> {
        self.ports.metrics.gauge(call, name, labels)
    }
}
