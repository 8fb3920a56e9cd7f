//! A call that waits for what it has asked for gives its CPU permit up meanwhile (`core::fair`): for the API server,
//! for a server of somebody's, for its own budget of writes.
//!
//! It is carried out on the host's runtime, which has the I/O; workers run there, too, unless the sandbox has threads of its
//! own.
//!
//! Around the ports, so that it holds for all who use them in a call's name: the plugin, and what the host does for one
//! that composes, or around a call. The sandbox gives the CPU permit up too, also for memory, and stops the clock of
//! the deadline while the call waits to get it back, of which nothing is known here.

use std::future::pending;
use std::panic::resume_unwind;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::time::Instant;
use windlass_core::error::ApiError;
use windlass_core::fair::{CpuPermit, LEAVES_THREAD_AFTER, leave_thread};
use windlass_core::http::{HttpError, HttpRequest, HttpResponse};
use windlass_core::object::ObjectKind;
use windlass_core::ports::{
    CallContext, Claimed, Collections, Deleted, Http, ListPage, Live, LiveGet, LiveQuery, LogQuery, Owners, Ports,
    ServedKind, Writes, Written,
};
use windlass_core::write::{Collection, DeleteOptions, Operation};
use windlass_wasm::host_runtime::{NotDone, begin_here, run_on};

/// Calls that may have begun, for each that may be at work: what waits has an instance, and keeps its memory. They cost
/// address space; what they use of memory has a budget of its own.
const CALL_SLOTS_OF_PERMIT: u32 = 8;
const LEAST_CALL_SLOTS: u32 = 64;
const MOST_CALL_SLOTS: u32 = 512;

/// How many calls may have begun where `cpu_permits` may be at work.
#[must_use]
pub fn call_slots(cpu_permits: u32) -> u32 {
    cpu_permits.saturating_mul(CALL_SLOTS_OF_PERMIT).clamp(LEAST_CALL_SLOTS, MOST_CALL_SLOTS).max(cpu_permits)
}

/// `ports`, whose work is done on `host`, and which cost a call its CPU permit while it waits for them.
pub(crate) fn waited_for(ports: Ports, host: &Handle) -> Ports {
    Ports {
        live: WaitedFor::of(ports.live, host),
        writes: WaitedFor::of(ports.writes, host),
        collections: WaitedFor::of(ports.collections, host),
        owners: WaitedFor::of(ports.owners, host),
        http: WaitedFor::of(ports.http, host),
        ..ports
    }
}

/// Work of the host's own in a call's name, on the guests' threads, where nothing interrupts it.
pub(crate) struct LongWork {
    cpu_permit: CpuPermit,
    since: Instant,
}

impl LongWork {
    /// Work that begins now, for the call that has this `cpu_permit`.
    pub(crate) fn of(cpu_permit: &CpuPermit) -> Self {
        Self { cpu_permit: cpu_permit.clone(), since: Instant::now() }
    }

    /// Between two steps: leaves the thread and the CPU permit to others, if it has gone on for a while.
    pub(crate) async fn pause(&mut self) {
        if self.since.elapsed() >= LEAVES_THREAD_AFTER {
            self.cpu_permit.without(leave_thread()).await;
            self.since = Instant::now();
        }
    }
}

/// A port that calls wait for.
struct WaitedFor<P: ?Sized> {
    port: Arc<P>,
    host: Handle,
}

impl<P: ?Sized> WaitedFor<P> {
    fn of(port: Arc<P>, host: &Handle) -> Arc<Self> {
        Arc::new(Self { port, host: host.clone() })
    }

    /// `work`, without the CPU permit of the call if it is not done at once.
    fn without<T: Send + 'static>(&self, call: &CallContext, work: BoxFuture<'static, T>) -> BoxFuture<'static, T> {
        let (cpu_permit, host) = (call.cpu_permit.clone(), self.host.clone());
        async move { cpu_permit.without(done(run_on(&host, work))).await }.boxed()
    }

    /// The same for work that ends at once or waits at once.
    fn begun_here<T: Send + 'static>(&self, call: &CallContext, work: BoxFuture<'static, T>) -> BoxFuture<'static, T> {
        let (cpu_permit, host) = (call.cpu_permit.clone(), self.host.clone());
        async move { cpu_permit.without(done(begin_here(&host, work))).await }.boxed()
    }
}

/// The result of `work`, whose panic is the caller's.
async fn done<T>(work: impl Future<Output = Result<T, NotDone>>) -> T {
    match work.await {
        Ok(done) => done,
        Err(NotDone::Panicked(panic)) => resume_unwind(panic),
        // Nobody will ever do it.
        Err(NotDone::Gone) => pending().await,
    }
}

impl Live for WaitedFor<dyn Live> {
    fn get(&self, call: Arc<CallContext>, asked: LiveGet) -> BoxFuture<'static, Written> {
        self.without(&call.clone(), self.port.get(call, asked))
    }

    fn list(&self, call: Arc<CallContext>, query: LiveQuery) -> BoxFuture<'static, Result<ListPage, ApiError>> {
        self.without(&call.clone(), self.port.list(call, query))
    }

    fn log(&self, call: Arc<CallContext>, query: LogQuery) -> BoxFuture<'static, Result<String, ApiError>> {
        self.without(&call.clone(), self.port.log(call, query))
    }

    fn served(
        &self,
        call: Arc<CallContext>,
        kind: ObjectKind,
    ) -> BoxFuture<'static, Result<Option<ServedKind>, ApiError>> {
        self.without(&call.clone(), self.port.served(call, kind))
    }
}

impl Collections for WaitedFor<dyn Collections> {
    fn delete_collection(
        &self,
        call: Arc<CallContext>,
        collection: Collection,
        options: DeleteOptions,
    ) -> BoxFuture<'static, Deleted> {
        self.without(&call.clone(), self.port.delete_collection(call, collection, options))
    }
}

impl Writes for WaitedFor<dyn Writes> {
    fn write(&self, call: Arc<CallContext>, operation: Operation) -> BoxFuture<'static, Written> {
        self.begun_here(&call.clone(), self.port.write(call, operation))
    }

    fn batch(&self, call: Arc<CallContext>, operations: Vec<Operation>) -> BoxFuture<'static, Vec<Written>> {
        self.begun_here(&call.clone(), self.port.batch(call, operations))
    }
}

impl Owners for WaitedFor<dyn Owners> {
    fn claim(
        &self,
        call: Arc<CallContext>,
        kind: ObjectKind,
        label_selector: String,
    ) -> BoxFuture<'static, Result<Claimed, Vec<ApiError>>> {
        self.without(&call.clone(), self.port.claim(call, kind, label_selector))
    }
}

impl Http for WaitedFor<dyn Http> {
    fn fetch(
        &self,
        call: Arc<CallContext>,
        request: HttpRequest,
    ) -> BoxFuture<'static, Result<HttpResponse, HttpError>> {
        self.without(&call.clone(), self.port.fetch(call, request))
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::sync::mpsc::{Sender, channel};
    use std::thread::{self, ThreadId};
    use std::time::Duration;

    use tokio::runtime;
    use windlass_core::fair::Fair;
    use windlass_core::ports::Absent;
    use windlass_core::write::WriteOptions;

    use super::*;
    use crate::tests::played::call;

    #[tokio::test]
    async fn long_work_leaves_the_thread_and_the_only_turn_to_who_waits() {
        let fair = Fair::new(1, 8);
        let [works, waits] = [(); 2].map(|()| fair.share(NonZeroU32::MIN));
        let permit = works.acquire().await;
        let neighbour = tokio::spawn(async move { waits.acquire().await.finish(Duration::ZERO) });
        let mut work = LongWork::of(&permit.cpu_permit());
        work.pause().await;
        assert!(!neighbour.is_finished(), "it has only begun");
        // As work that takes its time, on the thread.
        std::thread::sleep(2 * LEAVES_THREAD_AFTER);
        work.pause().await;
        assert!(neighbour.is_finished());
    }

    /// Says on which runtime and thread it begins and ends.
    #[derive(Debug)]
    struct Waiting(Sender<[(runtime::Id, ThreadId); 2]>);

    fn here() -> (runtime::Id, ThreadId) {
        (Handle::current().id(), thread::current().id())
    }

    impl Writes for Waiting {
        fn write(&self, _: Arc<CallContext>, _: Operation) -> BoxFuture<'static, Written> {
            let told = self.0.clone();
            async move {
                let begun = here();
                tokio::task::yield_now().await;
                told.send([begun, here()]).expect("somebody listens");
                Ok(None)
            }
            .boxed()
        }

        fn batch(&self, _: Arc<CallContext>, _: Vec<Operation>) -> BoxFuture<'static, Vec<Written>> {
            unreachable!("one is written")
        }
    }

    #[test]
    fn a_write_begins_where_it_is_asked_for_and_goes_on_on_the_host() {
        let host = runtime::Builder::new_multi_thread().worker_threads(1).build().expect("a runtime");
        let guests = runtime::Builder::new_current_thread().build().expect("a runtime");
        let operation = Operation::Apply { object: "{}".into(), options: WriteOptions::default() };
        let (told, heard) = channel();
        let ports = waited_for(Ports { writes: Arc::new(Waiting(told)), ..Absent::ports() }, host.handle());
        let written = guests.block_on(ports.writes.write(call(None).1, operation));
        assert_eq!(written.ok(), Some(None));
        let [begun, ended] = heard.recv().expect("it was written");
        assert_eq!(begun, (host.handle().id(), thread::current().id()), "what is done at once wakes nobody");
        assert_eq!(ended.0, host.handle().id());
        assert_ne!(ended.1, thread::current().id(), "a busy guest does not delay what waits");
    }
}
