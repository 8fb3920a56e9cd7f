//! The layers around a plugin's ports: each is a function, and [`layered`] defines their order.
//!
//! They apply to everything that is asked in a call's name: by the plugin, and by the host around a call or for a
//! composer. Giving up the CPU permit is not a layer. The code that waits in a call's name does that once around
//! everything it waits for, because it knows the clock that stops while the call waits to get the permit back (ADR 36).

use std::sync::Arc;

use futures::FutureExt;
use tokio::time::Instant;
use windlass_core::budget::fair::{CpuPermit, LEAVES_THREAD_AFTER, leave_thread};
use windlass_core::call::ports::{Answer, Ask, Port, Ports, port_fn};

use crate::observe::metrics::{PortCounts, counted};

/// The number of calls in progress for each call that may use a processor. A waiting call has an instance and keeps its
/// memory. The slots cost address space; the memory that is used has its own budget.
const CALL_SLOTS_OF_PERMIT: u32 = 8;
/// The fewest call slots, however few processors there are.
const CALL_SLOTS_MIN: u32 = 64;
/// The most call slots, however many processors there are, as each takes gigabytes of address space.
const CALL_SLOTS_MAX: u32 = 512;

/// The default number of call slots for this many CPU permits.
#[must_use]
pub fn call_slots(cpu_permits: u32) -> u32 {
    cpu_permits.saturating_mul(CALL_SLOTS_OF_PERMIT).clamp(CALL_SLOTS_MIN, CALL_SLOTS_MAX).max(cpu_permits)
}

/// Puts the layers around `ports` that all calls of a plugin share. From the inside:
///
/// 1. [`counted`]: counts requests and their results.
/// 2. [`traced`]: measures how long they took. A request is counted before its span ends, so the span covers nothing
///    else.
///
/// Listeners of a single call are further outside. They see what the plugin itself asks for, and nothing that the host
/// asks for it: first the notes for its shadow (`dispatch::shadow`), then its recording (`windlass_record`). See ADR
/// 35.
pub(crate) fn layered(ports: Ports, counts: &PortCounts, is_traced: bool) -> Ports {
    let ports = counted(ports, counts);
    if is_traced { Ports { outside: traced(ports.outside), ..ports } } else { ports }
}

/// Uninterruptible work of the host in a call's name.
pub(crate) struct LongWork {
    cpu_permit: CpuPermit,
    since: Instant,
}

impl LongWork {
    /// Work that begins now, for the call with this `cpu_permit`.
    pub(crate) fn of(cpu_permit: &CpuPermit) -> Self {
        Self { cpu_permit: cpu_permit.clone(), since: Instant::now() }
    }

    /// Called between two steps. If the work has run for a while, yields the thread and the CPU permit to other work.
    pub(crate) async fn pause(&mut self) {
        if self.since.elapsed() >= LEAVES_THREAD_AFTER {
            self.cpu_permit.without(leave_thread()).await;
            self.since = Instant::now();
        }
    }
}

/// Traces what calls ask for. Each request is a span within its call. The requests to servers that it causes are part
/// of that span.
///
/// Fetches get their span where they are sent (`egress`). Reads from caches have none, as they do not wait.
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
                    // The API server's error may quote the refused object.
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
    use std::time::Duration;

    use windlass_core::budget::fair::Fair;
    use windlass_core::call::ports::Absent;

    use super::*;
    use crate::observe::metrics::HostMetrics;
    use crate::tests::played::call;

    #[tokio::test]
    async fn long_work_yields_the_thread_and_the_only_permit() {
        let fair = Fair::new(1, 8);
        let [works, waits] = [(); 2].map(|()| fair.share(NonZeroU32::MIN));
        let permit = works.acquire().await;
        let neighbour = tokio::spawn(async move { waits.acquire().await.finish(Duration::ZERO) });
        let mut work = LongWork::of(&permit.cpu_permit());
        work.pause().await;
        assert!(!neighbour.is_finished(), "it has only begun");
        // This stands for work that blocks the thread for a while.
        std::thread::sleep(2 * LEAVES_THREAD_AFTER);
        work.pause().await;
        assert!(neighbour.is_finished());
    }

    #[tokio::test]
    async fn every_layer_passes_every_request_on() {
        let counts = HostMetrics::new().of_ports("a", false);
        let ports = layered(Absent::ports(), &counts, true);
        for ask in Ask::one_of_each() {
            let (name, is_batch) = (ask.name(), matches!(ask, Ask::Batch(_)));
            let answer = ports.outside.ask(call(None).1, ask).await;
            assert_eq!((answer.name(), matches!(answer, Answer::Batch(all) if all.len() == 1)), (name, is_batch));
        }
    }
}
