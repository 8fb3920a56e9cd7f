//! The layers around a plugin's ports, each a function, and their order in one place ([`layered`]).
//!
//! They hold for all who ask in a call's name: the plugin, and what the host does for one that composes, or around a call.
//! The sandbox gives the CPU permit up too, also for memory, and stops the clock of the deadline while the call waits to
//! get it back, of which nothing is known here.

use std::future::pending;
use std::panic::resume_unwind;
use std::sync::Arc;

use futures::FutureExt;
use tokio::runtime::Handle;
use tokio::time::Instant;
use windlass_core::fair::{CpuPermit, LEAVES_THREAD_AFTER, leave_thread};
use windlass_core::ports::{Answer, Ask, Port, Ports, port_fn};
use windlass_wasm::host_runtime::{NotDone, begin_here, run_on};

use crate::observe::metrics::{PortCounts, counted};

/// Calls that may have begun, for each that may be at work: what waits has an instance, and keeps its memory. They cost
/// address space; what they use of memory has a budget of its own.
const CALL_SLOTS_OF_PERMIT: u32 = 8;
/// The fewest calls that may have begun, however few processors there are.
const LEAST_CALL_SLOTS: u32 = 64;
/// The most, however many there are: each takes gigabytes of address space.
const MOST_CALL_SLOTS: u32 = 512;

/// How many calls may have begun where `cpu_permits` may be at work.
#[must_use]
pub fn call_slots(cpu_permits: u32) -> u32 {
    cpu_permits.saturating_mul(CALL_SLOTS_OF_PERMIT).clamp(LEAST_CALL_SLOTS, MOST_CALL_SLOTS).max(cpu_permits)
}

/// `ports` of a plugin with the layers that all its calls share. From the inside:
///
/// 1. [`counted`]: what was asked for, and how it ended.
/// 2. [`waited_for`]: without the CPU permit. What is counted has ended, so counting waits for nobody.
/// 3. [`traced`]: a span has the wait for the CPU permit in it, since the call waits for that too.
///
/// Around these, those who listen to a single call hear what the plugin itself asks, and nothing that the host asks for it:
/// first the notes for its shadow (`dispatch::shadow`), then its recording (`windlass_record`). See ADR 35.
pub(crate) fn layered(ports: Ports, counts: &PortCounts, host: &Handle, is_traced: bool) -> Ports {
    let ports = waited_for(counted(ports, counts), host);
    if is_traced { Ports { outside: traced(ports.outside), ..ports } } else { ports }
}

/// `ports`, whose asks are carried out on `host`, and cost a call its CPU permit while it waits for them.
pub(crate) fn waited_for(ports: Ports, host: &Handle) -> Ports {
    let (port, host) = (ports.outside, host.clone());
    let outside = port_fn(move |call, ask| {
        let (cpu_permit, host) = (call.cpu_permit.clone(), host.clone());
        let begins_in_place = ask.begins_in_place();
        let work = port.ask(call, ask);
        async move {
            if begins_in_place {
                cpu_permit.without(done(begin_here(&host, work))).await
            } else {
                cpu_permit.without(done(run_on(&host, work))).await
            }
        }
        .boxed()
    });
    Ports { outside, ..ports }
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

/// The result of `work`, whose panic is the caller's.
async fn done<T>(work: impl Future<Output = Result<T, NotDone>>) -> T {
    match work.await {
        Ok(done) => done,
        Err(NotDone::Panicked(panic)) => resume_unwind(panic),
        // Nobody will ever do it.
        Err(NotDone::Gone) => pending().await,
    }
}

/// The spans of what calls ask for: each is a part of the call that asks, and what is sent for it is a part of that span.
///
/// Fetches have their span where they are sent (`egress`). Reads from caches have none: they ask nobody.
fn traced(port: Arc<dyn Port>) -> Arc<dyn Port> {
    port_fn(move |call, ask| {
        if matches!(ask, Ask::Fetch(_)) {
            return port.ask(call, ask);
        }
        let mut span = call.trace.span(ask.import());
        if !span.is_collected() {
            return port.ask(call, ask);
        }
        let work = port.ask(call.within(&span), ask);
        async move {
            let answer = work.await;
            span.ends(|span| {
                if let Answer::Batch(written) = &answer {
                    span.set("windlass.batch.size", i64::try_from(written.len()).unwrap_or(i64::MAX));
                }
                if let Some(error) = answer.error() {
                    span.set("error.type", error.reason.as_str());
                    // The API server quotes what it refuses.
                    span.error = Some(call.config.redact(&error.to_string()).into_owned());
                }
            });
            answer
        }
        .boxed()
    })
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
    use windlass_core::write::{Operation, WriteOptions};

    use super::*;
    use crate::observe::metrics::HostMetrics;
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

    fn here() -> (runtime::Id, ThreadId) {
        (Handle::current().id(), thread::current().id())
    }

    /// Says on which runtime and thread it begins and ends.
    fn waiting(told: Sender<[(runtime::Id, ThreadId); 2]>) -> Ports {
        let outside = port_fn(move |_, _| {
            let told = told.clone();
            async move {
                let begun = here();
                tokio::task::yield_now().await;
                told.send([begun, here()]).expect("somebody listens");
                Answer::Write(Ok(None))
            }
            .boxed()
        });
        Ports { outside, ..Absent::ports() }
    }

    #[test]
    fn a_write_begins_where_it_is_asked_for_and_goes_on_on_the_host() {
        let host = runtime::Builder::new_multi_thread().worker_threads(1).build().expect("a runtime");
        let guests = runtime::Builder::new_current_thread().build().expect("a runtime");
        let operation = Operation::Apply { object: "{}".into(), options: WriteOptions::default() };
        let (told, heard) = channel();
        let ports = waited_for(waiting(told), host.handle());
        let written = guests.block_on(ports.ask(call(None).1, operation));
        assert_eq!(written.ok(), Some(None));
        let [begun, ended] = heard.recv().expect("it was written");
        assert_eq!(begun, (host.handle().id(), thread::current().id()), "what is done at once wakes nobody");
        assert_eq!(ended.0, host.handle().id());
        assert_ne!(ended.1, thread::current().id(), "a busy guest does not delay what waits");
    }

    #[tokio::test]
    async fn every_layer_answers_what_was_asked() {
        let counts = HostMetrics::new().of_ports("a", false);
        let ports = layered(Absent::ports(), &counts, &Handle::current(), true);
        for ask in Ask::one_of_each() {
            let (name, is_batch) = (ask.name(), matches!(ask, Ask::Batch(_)));
            let answer = ports.outside.ask(call(None).1, ask).await;
            assert_eq!((answer.name(), matches!(answer, Answer::Batch(all) if all.len() == 1)), (name, is_batch));
        }
    }
}
