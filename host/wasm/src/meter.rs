//! What one call has used so far, counted against its limits. The only place that says no.

use std::sync::Arc;
use std::time::{Duration, Instant};

use wasmtime::ResourceLimiter;

use crate::limits::{Limit, Limits, Overrun};

/// The account of one call.
#[derive(Debug)]
pub(crate) struct Meter {
    limits: Arc<Limits>,
    /// How long the call may take, under the limit's own name.
    time: (Limit, Duration),
    deadline: Instant,
    memory: usize,
    table_elements: usize,
    host_calls: u32,
    live_reads: u32,
    log_lines: u32,
    log_bytes: usize,
    dropped_log_lines: u64,
    metric_values: u32,
}

impl Meter {
    /// An account of a call that begins now and may take `time`, the value of a limit.
    pub(crate) fn new(limits: Arc<Limits>, time: (Limit, Duration)) -> Self {
        let deadline = Instant::now() + time.1;
        Self {
            limits,
            time,
            deadline,
            memory: 0,
            table_elements: 0,
            host_calls: 0,
            live_reads: 0,
            log_lines: 0,
            log_bytes: 0,
            dropped_log_lines: 0,
            metric_values: 0,
        }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Until the deadline.
    pub(crate) fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    pub(crate) fn deadline_overrun(&self) -> Overrun {
        Overrun::time(self.time.0, self.time.1)
    }

    pub(crate) fn check_deadline(&self) -> Result<(), Overrun> {
        if Instant::now() < self.deadline { Ok(()) } else { Err(self.deadline_overrun()) }
    }

    /// One more import call that the host works for.
    pub(crate) fn host_call(&mut self) -> Result<(), Overrun> {
        if self.host_calls >= self.limits.host_calls {
            return Err(Overrun::count(Limit::HostCalls, self.limits.host_calls as usize));
        }
        self.host_calls += 1;
        Ok(())
    }

    /// Whether the call may read the API server itself once more.
    pub(crate) fn live_read(&mut self) -> bool {
        let is_allowed = self.live_reads < self.limits.live_reads;
        self.live_reads += u32::from(is_allowed);
        is_allowed
    }

    /// Whether a log line of `bytes` is still within the limits. If not, it is counted as dropped.
    pub(crate) fn log_line(&mut self, bytes: usize) -> bool {
        let bytes = self.log_bytes.saturating_add(bytes);
        if self.log_lines >= self.limits.log_lines || bytes > self.limits.log_bytes {
            self.dropped_log_lines += 1;
            return false;
        }
        self.log_lines += 1;
        self.log_bytes = bytes;
        true
    }

    /// Whether one more value of a metric is still within the limits.
    pub(crate) fn metric_value(&mut self) -> bool {
        let is_within = self.metric_values < self.limits.metric_values;
        self.metric_values += u32::from(is_within);
        is_within
    }

    pub(crate) fn dropped_log_lines(&self) -> u64 {
        self.dropped_log_lines
    }
}

/// An error stops the guest at once, with a backtrace that shows who wanted more; refusing the growth would have most
/// languages abort later and without a reason.
impl ResourceLimiter for Meter {
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let memory = self.memory.saturating_add(desired.saturating_sub(current));
        if memory > self.limits.memory_bytes {
            return Err(Overrun::bytes(Limit::Memory, self.limits.memory_bytes).into());
        }
        self.memory = memory;
        Ok(true)
    }

    fn table_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let elements = self.table_elements.saturating_add(desired.saturating_sub(current));
        if elements > self.limits.table_elements {
            return Err(Overrun::count(Limit::Table, self.limits.table_elements).into());
        }
        self.table_elements = elements;
        Ok(true)
    }

    fn instances(&self) -> usize {
        self.limits.instances as usize
    }

    fn tables(&self) -> usize {
        self.limits.instances as usize
    }

    fn memories(&self) -> usize {
        self.limits.memories as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(limits: Limits) -> Meter {
        Meter::new(Arc::new(limits), (Limit::Deadline, Duration::from_secs(1)))
    }

    #[test]
    fn the_memories_of_a_component_share_one_limit() {
        let mut meter = meter(Limits { memory_bytes: 100, ..Limits::default() });
        assert!(meter.memory_growing(0, 60, None).is_ok_and(|allowed| allowed));
        assert!(meter.memory_growing(0, 40, None).is_ok_and(|allowed| allowed));
        let overrun = meter.memory_growing(60, 61, None).expect_err("one byte too many");
        assert_eq!(overrun.downcast_ref::<Overrun>().map(|overrun| overrun.limit), Some(Limit::Memory));
    }

    #[test]
    fn log_lines_beyond_the_limits_are_counted() {
        let mut meter = meter(Limits { log_lines: 2, log_bytes: 10, ..Limits::default() });
        assert_eq!([8, 3, 2, 0].map(|bytes| meter.log_line(bytes)), [true, false, true, false]);
        assert_eq!(meter.dropped_log_lines(), 2);
    }

    #[test]
    fn the_last_allowed_host_call_is_the_limit_itself() {
        let mut meter = meter(Limits { host_calls: 1, ..Limits::default() });
        assert!(meter.host_call().is_ok());
        assert_eq!(meter.host_call(), Err(Overrun::count(Limit::HostCalls, 1)));
    }
}
