//! Ports without anything behind them, for hosts and tests that need none.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::{BoxFuture, ready};

use super::{Answer, Ask, CallContext, Event, Events, ListPage, ListQuery, MetricChange, Metrics, Port, Ports, Reads};
use crate::error::{ApiError, ApiReason};
use crate::object::ObjectRef;

const UNSUPPORTED: &str = "this host does not support this request";

/// Answers every question with an error and discards Events and metrics.
#[derive(Clone, Copy, Debug, Default)]
pub struct Absent;

impl Absent {
    /// Ports that are all absent.
    #[must_use]
    pub fn ports() -> Ports {
        let absent = Arc::new(Self);
        Ports {
            reads: absent.clone(),
            outside: absent.clone(),
            events: absent.clone(),
            metrics: absent,
            surroundings: None,
        }
    }
}

fn none(verb: &'static str, object: Option<ObjectRef>) -> ApiError {
    ApiError::refused(ApiReason::ServerError, verb, "", object, UNSUPPORTED)
}

impl Reads for Absent {
    fn get(&self, _: &CallContext, target: &ObjectRef, _: Option<&[String]>) -> Result<Option<Arc<str>>, ApiError> {
        Err(none("get", Some(target.clone())))
    }

    fn list(&self, _: &CallContext, _: &ListQuery) -> Result<ListPage, ApiError> {
        Err(none("list", None))
    }
}

impl Port for Absent {
    fn ask(&self, _: Arc<CallContext>, ask: Ask) -> BoxFuture<'static, Answer> {
        ready(ask.refused(ApiReason::ServerError, UNSUPPORTED)).boxed()
    }
}

impl Events for Absent {
    fn emit(&self, _: &CallContext, _: Event) {}
}

impl Metrics for Absent {
    fn record(&self, _: &CallContext, _: MetricChange, _: &str, _: f64, _: &[(String, String)]) {}
}
