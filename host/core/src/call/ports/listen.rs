//! Listening to a call: a listener hears what the call asks of its ports and what they answer, in order.
//!
//! What a recording keeps, and what is noted for a shadow, are views of this one sequence. Cached reads are in it too, by
//! reference, so that a call to which nobody listens pays nothing for it.

use std::sync::Arc;

use futures::FutureExt;

use super::{
    Answer, Ask, CallContext, Event, Events, ListPage, ListQuery, MetricChange, Metrics, Ports, Reads, Written, port_fn,
};
use crate::error::ApiError;
use crate::object::ObjectRef;

/// One thing that a call asks of its ports.
#[derive(Clone, Copy, Debug)]
pub enum Asked<'a> {
    /// [`Reads::get`].
    Get {
        target: &'a ObjectRef,
        /// The parts of it.
        fields: Option<&'a [String]>,
    },
    /// [`Reads::list`].
    List(&'a ListQuery),
    /// Of the asynchronous port.
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

/// The answer to what was [`Asked`].
#[derive(Clone, Copy, Debug)]
pub enum Answered<'a> {
    /// To [`Asked::Get`].
    Get(&'a Written),
    /// To [`Asked::List`].
    List(&'a Result<ListPage, ApiError>),
    /// To [`Asked::Ask`].
    Ask(&'a Answer),
    /// An event or a value was taken.
    Taken,
}

/// Hears what one call asks and is answered.
pub trait Listener: Send + Sync {
    /// The call asks this, before anything is done about it. Returns the place of the question, for its answer; `None` if the
    /// listener does not want to hear the answer.
    fn asked(&self, call: &CallContext, asked: Asked<'_>) -> Option<usize>;

    /// The question at `place` is answered. A question whose call stopped waiting never is.
    fn answered(&self, place: usize, answered: Answered<'_>);
}

/// `ports`, to which `listener` listens.
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

/// The synchronous ports of a call to which somebody listens.
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

    /// The host's own events are no part of what the call asks.
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
}
