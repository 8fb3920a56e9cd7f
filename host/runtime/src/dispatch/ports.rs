//! The layers around a plugin's ports, each a function, and their order in one place ([`layered`]).
//!
//! They hold for all who ask in a call's name: the plugin, and what the host does for one that composes, or around a
//! call. Giving the CPU permit up is no layer: code that asks in a call's name does so once, around all that it waits
//! for, because it knows the clock that stands still while the call waits to get the permit back (ADR 36).

use std::sync::Arc;

use futures::FutureExt;
use tokio::time::Instant;
use windlass_core::budget::fair::{CpuPermit, LEAVES_THREAD_AFTER, leave_thread};
use windlass_core::call::ports::{Answer, Ask, Port, Ports, port_fn};

use crate::observe::metrics::{PortCounts, counted};

/// Calls that may have begun, for each that may be at work: what waits has an instance, and keeps its memory. They cost
/// address space; what they use of memory has a budget of its own.
const CALL_SLOTS_OF_PERMIT: u32 = 8;
/// The fewest calls that may have begun, however few processors there are.
const CALL_SLOTS_MIN: u32 = 64;
/// The most, however many there are: each takes gigabytes of address space.
const CALL_SLOTS_MAX: u32 = 512;

/// How many calls may have begun where `cpu_permits` may be at work.
#[must_use]
pub fn call_slots(cpu_permits: u32) -> u32 {
    cpu_permits.saturating_mul(CALL_SLOTS_OF_PERMIT).clamp(CALL_SLOTS_MIN, CALL_SLOTS_MAX).max(cpu_permits)
}

/// `ports` of a plugin with the layers that all its calls share. From the inside:
///
/// 1. [`counted`]: what was asked for, and how it ended.
/// 2. [`traced`]: how long that took. What has ended is counted, so a span has nothing in it that comes after.
///
/// Around these, those who listen to a single call hear what the plugin itself asks, and nothing that the host asks for
/// it: first the notes for its shadow (`dispatch::shadow`), then its recording (`windlass_record`). See ADR 35.
pub(crate) fn layered(ports: Ports, counts: &PortCounts, is_traced: bool) -> Ports {
    let ports = counted(ports, counts);
    if is_traced { Ports { outside: traced(ports.outside), ..ports } } else { ports }
}

/// Work of the host's own in a call's name, which nothing interrupts.
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

/// The spans of what calls ask for: each is a part of the call that asks, and what is sent for it is a part of that
/// span.
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
        // As work that takes its time, on the thread.
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
