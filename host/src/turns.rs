//! A call that waits for what it has asked for gives its turn up meanwhile (`core::fair`): for the API server, for a server of
//! somebody's, for its own budget of writes.
//!
//! Around the ports, so that it holds for all who use them in a call's name: the plugin, and what the host does for one that
//! composes, or around a call. The sandbox gives the turn up too, also for memory, and stops the clock of the deadline while the
//! call waits to get it back, of which nothing is known here.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use windlass_core::error::ApiError;
use windlass_core::http::{HttpError, HttpRequest, HttpResponse};
use windlass_core::object::{ObjectKind, ObjectRef};
use windlass_core::ports::{CallContext, Claimed, Http, Live, LiveQuery, Owners, Page, Ports, Writes, Written};
use windlass_core::write::Operation;

/// Calls that may have begun, for each that may be at work: what waits has an instance, and keeps its memory. They cost address
/// space; what they use of memory has a budget of its own.
const PLACES_OF_TURN: u32 = 8;
const LEAST_PLACES: u32 = 64;
const MOST_PLACES: u32 = 512;

/// How many calls may have begun where `turns` may be at work.
pub(crate) fn places(turns: u32) -> u32 {
    turns.saturating_mul(PLACES_OF_TURN).clamp(LEAST_PLACES, MOST_PLACES).max(turns)
}

/// `ports`, which cost a call its turn while it waits for them.
pub(crate) fn waited_for(ports: Ports) -> Ports {
    Ports {
        live: Arc::new(WaitedFor(ports.live)),
        writes: Arc::new(WaitedFor(ports.writes)),
        owners: Arc::new(WaitedFor(ports.owners)),
        http: Arc::new(WaitedFor(ports.http)),
        ..ports
    }
}

/// A port that calls wait for.
struct WaitedFor<P: ?Sized>(Arc<P>);

/// `work`, without the turn of the call if it is not done at once.
fn without<T: Send + 'static>(call: &CallContext, work: BoxFuture<'static, T>) -> BoxFuture<'static, T> {
    let turn = call.turn.clone();
    async move { turn.without(work).await }.boxed()
}

impl Live for WaitedFor<dyn Live> {
    fn get(&self, call: Arc<CallContext>, target: ObjectRef) -> BoxFuture<'static, Written> {
        without(&call.clone(), self.0.get(call, target))
    }

    fn list(&self, call: Arc<CallContext>, query: LiveQuery) -> BoxFuture<'static, Result<Page, ApiError>> {
        without(&call.clone(), self.0.list(call, query))
    }
}

impl Writes for WaitedFor<dyn Writes> {
    fn write(&self, call: Arc<CallContext>, operation: Operation) -> BoxFuture<'static, Written> {
        without(&call.clone(), self.0.write(call, operation))
    }

    fn batch(&self, call: Arc<CallContext>, operations: Vec<Operation>) -> BoxFuture<'static, Vec<Written>> {
        without(&call.clone(), self.0.batch(call, operations))
    }
}

impl Owners for WaitedFor<dyn Owners> {
    fn claim(
        &self,
        call: Arc<CallContext>,
        kind: ObjectKind,
        label_selector: String,
    ) -> BoxFuture<'static, Result<Claimed, Vec<ApiError>>> {
        without(&call.clone(), self.0.claim(call, kind, label_selector))
    }
}

impl Http for WaitedFor<dyn Http> {
    fn fetch(
        &self,
        call: Arc<CallContext>,
        request: HttpRequest,
    ) -> BoxFuture<'static, Result<HttpResponse, HttpError>> {
        without(&call.clone(), self.0.fetch(call, request))
    }
}
