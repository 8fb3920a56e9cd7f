//! Counts the resources of one call against its limits. Only this module decides that a limit is exceeded.

use std::sync::Arc;
use std::time::Duration;

use wasmtime::ResourceLimiterAsync;
use windlass_core::budget::fair::leave_thread;
use windlass_core::cache::overlay::Overlay;
use windlass_core::call::http::{HttpError, HttpReason, HttpResponse};

use crate::cpu::CpuTime;
use crate::limits::{Limit, Limits, Overrun};
use crate::memory::Account;
use crate::timing::CallTime;

/// The account of one call, and of the instance that serves it.
#[derive(Debug)]
pub(crate) struct Meter {
    limits: Arc<Limits>,
    time: CallTime,
    cpu: CpuTime,
    of_instance: OfInstance,
    used: Used,
}

/// The counters of an instance over all calls that it serves.
#[derive(Debug)]
struct OfInstance {
    memory: Account,
    table_elements: usize,
}

/// The resources that one call has used.
#[derive(Debug, Default)]
struct Used {
    host_calls: u32,
    writes: u32,
    written_bytes: usize,
    live_reads: u32,
    log_lines: u32,
    log_bytes: usize,
    dropped_log_lines: u64,
    metric_values: u32,
    /// The host's work for all imports, as an amount of fuel.
    import_fuel: u64,
}

/// The advice for an import call that would return too much.
pub(crate) const RAISE_RESPONSE: &str = "ask for less at a time, or raise it with `--limit response=SIZE`";

/// The fuel that each import call stands for. It is more than the cheapest import call needs, so that endless calls
/// reach their limit long before the clock stops them.
const IMPORT_FUEL: u64 = 10_000;
/// The fuel per byte that an import call moves. It is more than a host built without optimisation needs.
const BYTE_FUEL: u64 = 10;

impl Meter {
    /// An account for a new call in a new instance with `memory`.
    pub(crate) fn new(limits: Arc<Limits>, time: CallTime, cpu: CpuTime, memory: Account) -> Self {
        Self { limits, time, cpu, of_instance: OfInstance { memory, table_elements: 0 }, used: Used::default() }
    }

    /// An account for a new call in an instance that has served other calls.
    pub(crate) fn begin_another(&mut self, limits: Arc<Limits>, time: CallTime, cpu: CpuTime) {
        (self.limits, self.time, self.cpu, self.used) = (limits, time, cpu, Used::default());
        self.of_instance.memory.keep_nothing();
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn time(&self) -> &CallTime {
        &self.time
    }

    /// `response` of `size` bytes, if the host may return that much to a guest at once.
    pub(crate) fn response(&self, response: HttpResponse, size: usize) -> Result<HttpResponse, HttpError> {
        let most = self.limits.response_bytes;
        if size <= most {
            return Ok(response);
        }
        let message =
            format!("the response has {size} bytes, but a guest gets at most {most} at once ({RAISE_RESPONSE})");
        Err(HttpError { reason: HttpReason::TooLarge, message })
    }

    /// The memory of the instance.
    pub(crate) fn memory(&self) -> &Account {
        &self.of_instance.memory
    }

    /// The time until the deadline.
    pub(crate) fn time_left(&self) -> Duration {
        self.time.left()
    }

    /// The processor time so far. Call it on the thread that runs the call.
    pub(crate) fn cpu(&self) -> Duration {
        self.cpu.used_within_poll()
    }

    /// Checks whether the wall time and the processor time allow the call to go on. Call it on the thread that runs the
    /// call. Returns the processor time so far.
    pub(crate) fn check_time(&self) -> Result<Duration, Overrun> {
        if self.time.left().is_zero() {
            return Err(self.time.overrun());
        }
        if self.is_out_of_import_fuel() {
            return Err(Overrun::imports(Limit::Cpu, self.limits.cpu));
        }
        let (used, most) = (self.cpu.used_within_poll(), self.limits.most_cpu());
        if used < most { Ok(used) } else { Err(Overrun::time(Limit::Cpu, most)) }
    }

    /// Lets other tasks use the thread. Call this on the thread that runs the call, and await the result there. The
    /// result yields to a waiting plugin that has used less processor time, or else to other tasks of the thread. Fails
    /// if the call may not go on.
    pub(crate) fn give_way(&self) -> Result<impl Future<Output = ()> + Send + use<>, Overrun> {
        let used = self.check_time()?;
        let time = self.time.is_wanted(used).then(|| self.time.clone());
        Ok(async {
            match time {
                Some(time) => time.let_others().await,
                None => leave_thread().await,
            }
        })
    }

    /// Counts an import call of any kind. Returns whether the call is now out of fuel for imports, if fuel measures the
    /// processor time.
    pub(crate) fn import_call(&mut self) -> bool {
        self.used.import_fuel = self.used.import_fuel.saturating_add(IMPORT_FUEL);
        self.is_out_of_import_fuel()
    }

    /// Counts bytes that the host reads or produces for an import that has no limit of its own.
    pub(crate) fn import_bytes(&mut self, bytes: usize) {
        let fuel = (bytes as u64).saturating_mul(BYTE_FUEL);
        self.used.import_fuel = self.used.import_fuel.saturating_add(fuel);
    }

    /// Whether imports have used up their fuel. The host's work does not use the guest's fuel, so it has a budget of
    /// the same size.
    pub(crate) fn is_out_of_import_fuel(&self) -> bool {
        self.limits.fuel().is_some_and(|most| self.used.import_fuel > most)
    }

    /// Counts an import call that needs work by the host.
    pub(crate) fn host_call(&mut self) -> Result<(), Overrun> {
        if self.used.host_calls >= self.limits.host_calls {
            return Err(Overrun::count(Limit::HostCalls, self.limits.host_calls as usize));
        }
        self.used.host_calls += 1;
        Ok(())
    }

    /// Counts `more` writes.
    pub(crate) fn writes(&mut self, more: usize) -> Result<(), Overrun> {
        let writes = (self.used.writes as usize).saturating_add(more);
        match u32::try_from(writes) {
            Ok(writes) if writes <= self.limits.writes => self.used.writes = writes,
            _ => return Err(Overrun::count(Limit::Writes, self.limits.writes as usize)),
        }
        Ok(())
    }

    /// Counts `more` bytes of writes, including those of writes that turn out to be unnecessary or refused.
    pub(crate) fn written(&mut self, more: usize) -> Result<(), Overrun> {
        let (written, most) = (self.used.written_bytes.saturating_add(more), self.limits.written_bytes);
        if written > most {
            return Err(Overrun::bytes(Limit::WrittenBytes, most));
        }
        self.used.written_bytes = written;
        Ok(())
    }

    /// Reserves memory of all guests for `bytes` that the host will hold for the call, and waits for it.
    pub(crate) async fn have_beside(&mut self, bytes: usize) {
        self.of_instance.memory.have_beside(bytes, &self.time).await;
    }

    /// Reserves memory of all guests for the `bytes` that the host holds for handles of the guest, and waits for it.
    pub(crate) async fn have_behind_handles(&mut self, bytes: usize) {
        self.of_instance.memory.have_behind_handles(bytes, &self.time).await;
    }

    /// Waits for memory of all guests for what `overlay` has kept on credit.
    pub(crate) async fn pay_for(&mut self, overlay: &Overlay) {
        let owed = overlay.owed();
        if owed > 0 {
            self.of_instance.memory.keep(owed, &self.time).await;
            overlay.paid(owed);
        }
    }

    /// Whether the call may make another live read.
    pub(crate) fn live_read(&mut self) -> bool {
        let is_allowed = self.used.live_reads < self.limits.live_reads;
        self.used.live_reads += u32::from(is_allowed);
        is_allowed
    }

    /// Whether there may be room for another log line.
    pub(crate) fn has_log_budget(&self) -> bool {
        self.used.log_lines < self.limits.log_lines && self.used.log_bytes < self.limits.log_bytes
    }

    /// Whether a log line of `bytes` is within the limits. If not, counts it as dropped.
    pub(crate) fn log_line(&mut self, bytes: usize) -> bool {
        let bytes = self.used.log_bytes.saturating_add(bytes);
        if self.used.log_lines >= self.limits.log_lines || bytes > self.limits.log_bytes {
            self.used.dropped_log_lines += 1;
            return false;
        }
        self.used.log_lines += 1;
        self.used.log_bytes = bytes;
        true
    }

    /// Counts a line that was dropped for another reason.
    pub(crate) fn drop_log_line(&mut self) {
        self.used.dropped_log_lines += 1;
    }

    /// Whether another metric value is within the limits.
    pub(crate) fn metric_value(&mut self) -> bool {
        let is_within = self.used.metric_values < self.limits.metric_values;
        self.used.metric_values += u32::from(is_within);
        is_within
    }

    pub(crate) fn dropped_log_lines(&self) -> u64 {
        self.used.dropped_log_lines
    }
}

/// Growth beyond the limit stops the guest at once, with a backtrace that shows which function needed more memory. If
/// the growth were only refused, programs in most languages would abort later without a reason. If other guests use the
/// memory, the call waits.
#[async_trait::async_trait]
impl ResourceLimiterAsync for Meter {
    async fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let account = &mut self.of_instance.memory;
        let memory = account.used().saturating_add(desired.saturating_sub(current));
        if memory > self.limits.memory_bytes {
            return Err(Overrun::bytes(Limit::Memory, self.limits.memory_bytes).into());
        }
        account.grow_to(memory, &self.time).await;
        Ok(true)
    }

    async fn table_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let elements = self.of_instance.table_elements.saturating_add(desired.saturating_sub(current));
        if elements > self.limits.table_elements {
            return Err(Overrun::count(Limit::Table, self.limits.table_elements).into());
        }
        self.of_instance.table_elements = elements;
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
pub(crate) mod tests {
    use futures::FutureExt as _;
    use windlass_core::budget::fair::CpuPermit;

    use super::*;
    use crate::limits::Metering;
    use crate::memory::GuestMemory;
    use crate::memory::tests::NoIdleMemory;

    /// An account of a call that has one minute and its own memory.
    pub(crate) fn meter(limits: Limits) -> Meter {
        let memory = GuestMemory::new(1 << 30, limits.memory_bytes, Arc::new(NoIdleMemory));
        let account = memory.reserve(&memory.share(), 0).now_or_never().expect("all of it is free");
        let time = CallTime::of(Limit::Deadline, Duration::from_mins(1), CpuPermit::default());
        Meter::new(Arc::new(limits), time, CpuTime::default(), account)
    }

    #[tokio::test]
    async fn the_memories_of_a_component_share_one_limit() {
        let mut meter = meter(Limits { memory_bytes: 100, ..Limits::default() });
        assert!(meter.memory_growing(0, 60, None).await.is_ok_and(|allowed| allowed));
        assert!(meter.memory_growing(0, 40, None).await.is_ok_and(|allowed| allowed));
        let overrun = meter.memory_growing(60, 61, None).await.expect_err("one byte too many");
        assert_eq!(overrun.downcast_ref::<Overrun>().map(|overrun| overrun.limit), Some(Limit::Memory));
    }

    #[test]
    fn writes_are_counted_before_they_are_sent() {
        let mut meter = meter(Limits { writes: 3, ..Limits::default() });
        assert_eq!(meter.writes(2), Ok(()));
        assert_eq!(meter.writes(2), Err(Overrun::count(Limit::Writes, 3)));
        assert_eq!((meter.writes(1), meter.writes(usize::MAX).is_err()), (Ok(()), true));
    }

    #[test]
    fn written_bytes_add_up_and_the_error_names_the_limit() {
        let mut meter = meter(Limits { written_bytes: 3 << 20, ..Limits::default() });
        assert!(meter.written(2 << 20).is_ok() && meter.written(1 << 20).is_ok());
        let overrun = meter.written(1).expect_err("too much");
        assert_eq!(overrun.limit.reason(), "written-bytes");
        assert_eq!(
            overrun.to_string(),
            "its writes have more than 3 MiB together (go on in the next call, or raise it with `--limit written-bytes=SIZE`)"
        );
        assert!(meter.written(usize::MAX).is_err());
    }

    #[tokio::test]
    async fn the_next_call_of_an_instance_has_fresh_limits_except_for_memory() {
        let mut meter = meter(Limits { memory_bytes: 100, host_calls: 1, ..Limits::default() });
        assert!(meter.memory_growing(0, 60, None).await.is_ok() && meter.host_call().is_ok());
        let limits = meter.limits.clone();
        meter.begin_another(
            limits,
            CallTime::of(Limit::Deadline, Duration::from_mins(1), CpuPermit::default()),
            CpuTime::default(),
        );
        assert!(meter.host_call().is_ok());
        assert!(meter.memory_growing(60, 101, None).await.is_err());
    }

    #[test]
    fn log_lines_beyond_the_limits_are_counted() {
        let mut meter = meter(Limits { log_lines: 2, log_bytes: 10, ..Limits::default() });
        assert_eq!([8, 3].map(|bytes| meter.log_line(bytes)), [true, false]);
        assert!(meter.has_log_budget(), "a shorter one fits");
        assert_eq!([2, 0].map(|bytes| meter.log_line(bytes)), [true, false]);
        assert!(!meter.has_log_budget());
        assert_eq!(meter.dropped_log_lines(), 2);
    }

    #[test]
    fn imports_have_separate_fuel() {
        let of = |metering| meter(Limits { cpu: Duration::from_micros(25), metering, ..Limits::default() });
        let mut by_fuel = of(Metering::Fuel);
        assert_eq!([by_fuel.import_call(), by_fuel.import_call()], [false, false]);
        by_fuel.import_bytes(501);
        let overrun = by_fuel.check_time().expect_err("too much").to_string();
        assert!(overrun.contains("the imports that stand for 25µs of processor time"), "{overrun}");
        assert!(by_fuel.import_call());
        let mut by_clock = of(Metering::Clock);
        assert!((0..100).all(|_| !by_clock.import_call()));
    }

    #[test]
    fn the_last_allowed_host_call_is_the_limit_itself() {
        let mut meter = meter(Limits { host_calls: 1, ..Limits::default() });
        assert!(meter.host_call().is_ok());
        assert_eq!(meter.host_call(), Err(Overrun::count(Limit::HostCalls, 1)));
    }
}
