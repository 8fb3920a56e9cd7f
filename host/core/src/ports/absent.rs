//! Ports that lead nowhere, for hosts and tests that have nothing behind one.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};

use super::{
    CallContext, Claimed, Collections, Deleted, Event, Events, Http, ListPage, ListQuery, Live, LiveGet, LiveQuery,
    LogQuery, MetricChange, Metrics, Owners, Ports, Reads, ServedKind, Writes, Written,
};
use crate::error::{ApiError, ApiReason};
use crate::http::{HttpError, HttpReason, HttpRequest, HttpResponse};
use crate::object::{ObjectKind, ObjectRef};
use crate::write::{Collection, DeleteOptions, Operation};

/// Answers every question with an error that says that there is nothing to ask, and takes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Absent;

impl Absent {
    /// All ports lead nowhere.
    #[must_use]
    pub fn ports() -> Ports {
        let absent = Arc::new(Self);
        Ports {
            reads: absent.clone(),
            live: absent.clone(),
            writes: absent.clone(),
            collections: absent.clone(),
            owners: absent.clone(),
            events: absent.clone(),
            metrics: absent.clone(),
            http: absent,
            surroundings: None,
        }
    }
}

fn none(verb: &'static str, object: Option<ObjectRef>) -> ApiError {
    ApiError::refused(ApiReason::ServerError, verb, "", object, "this host has no way to do it")
}

impl Reads for Absent {
    fn get(&self, _: &CallContext, target: &ObjectRef, _: Option<&[String]>) -> Result<Option<Arc<str>>, ApiError> {
        Err(none("get", Some(target.clone())))
    }

    fn list(&self, _: &CallContext, _: &ListQuery) -> Result<ListPage, ApiError> {
        Err(none("list", None))
    }
}

impl Live for Absent {
    fn get(&self, _: Arc<CallContext>, asked: LiveGet) -> BoxFuture<'static, Written> {
        ready(Err(none("get", Some(asked.target)))).boxed()
    }

    fn list(&self, _: Arc<CallContext>, _: LiveQuery) -> BoxFuture<'static, Result<ListPage, ApiError>> {
        ready(Err(none("list", None))).boxed()
    }

    fn log(&self, _: Arc<CallContext>, query: LogQuery) -> BoxFuture<'static, Result<String, ApiError>> {
        ready(Err(none("get", Some(query.target)))).boxed()
    }

    fn served(&self, _: Arc<CallContext>, _: ObjectKind) -> BoxFuture<'static, Result<Option<ServedKind>, ApiError>> {
        ready(Err(none("served", None))).boxed()
    }
}

impl Collections for Absent {
    fn delete_collection(&self, _: Arc<CallContext>, _: Collection, _: DeleteOptions) -> BoxFuture<'static, Deleted> {
        ready(Err(none("deletecollection", None))).boxed()
    }
}

impl Writes for Absent {
    fn write(&self, _: Arc<CallContext>, operation: Operation) -> BoxFuture<'static, Written> {
        ready(Err(none(operation.verb(), None))).boxed()
    }

    fn batch(&self, _: Arc<CallContext>, operations: Vec<Operation>) -> BoxFuture<'static, Vec<Written>> {
        ready(operations.iter().map(|operation| Err(none(operation.verb(), None))).collect()).boxed()
    }
}

impl Owners for Absent {
    fn claim(
        &self,
        _: Arc<CallContext>,
        _: ObjectKind,
        _: String,
    ) -> BoxFuture<'static, Result<Claimed, Vec<ApiError>>> {
        ready(Err(vec![none("claim", None)])).boxed()
    }
}

impl Events for Absent {
    fn emit(&self, _: &CallContext, _: Event) {}
}

impl Metrics for Absent {
    fn record(&self, _: &CallContext, _: MetricChange, _: &str, _: f64, _: &[(String, String)]) {}
}

impl Http for Absent {
    fn fetch(&self, _: Arc<CallContext>, _: HttpRequest) -> BoxFuture<'static, Result<HttpResponse, HttpError>> {
        let message = "this host sends no HTTP requests".to_owned();
        ready(Err(HttpError { reason: HttpReason::Other, message })).boxed()
    }
}
