//! The limits of a plugin: one number each, with the label and the message of its overrun.
//!
//! Limits are values here; `meter` counts against them, and `call` and `loader` turn an overrun into a result.
//!
//! The bounds of texts and lists that cross between the host and a guest:
//!
//! | from | what | bounded by |
//! |---|---|---|
//! | guest | arguments of any import, the answer of any export | `transfer`: wasmtime stops the guest before it copies more |
//! | guest | what `describe` answers | `manifest`, as `transfer` of that call |
//! | guest | the body of a write; all bodies of a call | `write_bytes`; it fails with `too-large`; `written-bytes` |
//! | guest | a line of the log; all lines of a call; those of a plugin per second | `log_line_bytes`, cut; `log-lines` and `log-bytes`; `log-lines-per-second` and `log-bytes-per-second`, dropped |
//! | guest | names, selectors, tokens, pointers, failures | `convert` and `core::outcome`: refused or cut |
//! | host | objects that `cache`, `live` and `writes` return, all of one import call together | `response`; they fail with `too-large`, pages end sooner |
//! | host | a response of `http` and `wasi:http`, headers included | `response`, and before that the host's own limit of a fetch |
//! | host | names of claimed objects | `response` |
//! | host | the object of a `reconcile`; all objects of a `compose` | `response`: the plugin is not called (`request`) |
//! | host | random bytes | `random-bytes` |
//! | host | the configuration | the size of its file, and that of its Secrets |
//! | host | errors | their number by `host-calls`; their texts come from the API server and the host, and not from guests |

mod settings;

pub use self::settings::{SetLimitError, Setting, Unit};

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_core::queue::outcome;
use windlass_manifest::CALL_DEADLINE_DEFAULT;

use crate::machine;

/// If fuel is the limit, the clock stops a call whose processor time is this many times its limit.
const CLOCK_BEYOND_FUEL_FACTOR: u32 = 60;

/// The limits of one call, of all calls together, and of a file. The defaults suit plugins in any language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The linear memory of a call, in all memories of the component together.
    pub memory_bytes: usize,
    /// The number of elements in all tables of a call together.
    pub table_elements: usize,
    /// The number of core instances, and of tables, of a component.
    pub instances: u32,
    /// The number of memories of a component.
    pub memories: u32,
    /// The stack of the guest's own code.
    pub stack_bytes: usize,
    /// The wall time of a call, including host calls, unless the controller's options set it.
    pub deadline: Duration,
    /// The maximum wall time that the options of a controller may set.
    pub most_deadline: Duration,
    /// The processor time of a call: of the guest's code, and of the host's work on the guest's thread.
    pub cpu: Duration,
    /// How that time is measured.
    pub metering: Metering,
    /// The wall time of one `describe`.
    pub describe_deadline: Duration,
    /// The bytes that a guest may pass to the host in one import call or as its result, in all strings and lists
    /// together.
    pub transfer_bytes: usize,
    /// The bytes that the host returns to a guest from one import call.
    pub response_bytes: usize,
    /// The body of a write. The API server itself accepts no more.
    pub write_bytes: usize,
    /// The bodies of all writes of a call together, including failed ones, because the host parses each.
    pub written_bytes: usize,
    /// The number of import calls in one call that need work by the host. Logging, metrics, time and randomness do not
    /// count.
    pub host_calls: u32,
    /// The number of writes in one call. Each operation of a batch counts.
    pub writes: u32,
    /// The number of reads of the API server itself in one call; further reads are refused.
    pub live_reads: u32,
    /// The number of random bytes in one import call.
    pub random_bytes: u32,
    /// The log lines of a call; further lines are dropped and counted.
    pub log_lines: u32,
    /// The bytes of all log lines of a call; further lines are dropped and counted.
    pub log_bytes: usize,
    /// The sustained rate of log lines of one plugin per second, over all its calls; further lines are dropped and
    /// counted.
    pub log_lines_per_second: u32,
    /// The sustained rate of log bytes of one plugin per second.
    pub log_bytes_per_second: usize,
    /// The bytes of one log line; longer lines are truncated.
    pub log_line_bytes: usize,
    /// The metric values in one call; further values are dropped and counted.
    pub metric_values: u32,
    /// The linear memory of all running calls together, including parked instances. Calls wait until they get their
    /// part of this memory. It is never less than what one call may use. `None` for half of the machine's or the
    /// control group's memory.
    pub guest_memory_bytes: Option<usize>,
    /// The number of calls that one instance serves, if the operator has enabled reuse.
    pub calls_per_instance: u32,
    /// How long such an instance waits for its next call before it is dropped.
    pub idle_instance: Duration,
    /// The size of a plugin's file.
    pub file_bytes: u64,
    /// The wall time for compiling a plugin.
    pub compile_deadline: Duration,
    /// The address space for compiling a plugin, in addition to the compiler program's own.
    pub compile_memory_bytes: u64,
    /// The processor time for compiling a plugin, in all threads together; whole seconds.
    pub compile_cpu: Duration,
    /// The number of functions of a component, in all its modules together.
    pub functions: u32,
    /// The size of one function's code.
    pub function_bytes: u32,
    /// The number of types, imports, exports, instances and aliases of a component together.
    pub definitions: u32,
    /// The size of the answer of `describe`.
    pub manifest_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 128 << 20,
            table_elements: 200_000,
            instances: 40,
            memories: 6,
            stack_bytes: 512 << 10,
            deadline: CALL_DEADLINE_DEFAULT,
            most_deadline: Duration::from_mins(10),
            cpu: Duration::from_secs(1),
            metering: Metering::Clock,
            describe_deadline: Duration::from_secs(10),
            transfer_bytes: 8 << 20,
            response_bytes: 8 << 20,
            write_bytes: 3 << 20,
            written_bytes: 64 << 20,
            host_calls: 10_000,
            writes: 1_000,
            live_reads: 100,
            random_bytes: 64 << 10,
            log_lines: 1_000,
            log_bytes: 256 << 10,
            log_lines_per_second: 1_000,
            log_bytes_per_second: 512 << 10,
            log_line_bytes: 8 << 10,
            metric_values: 10_000,
            guest_memory_bytes: None,
            calls_per_instance: 10_000,
            idle_instance: Duration::from_mins(1),
            file_bytes: 64 << 20,
            compile_deadline: Duration::from_mins(2),
            compile_memory_bytes: 2 << 30,
            compile_cpu: Duration::from_mins(1),
            functions: 80_000,
            function_bytes: 2 << 20,
            definitions: 50_000,
            manifest_bytes: 1 << 20,
        }
    }
}

impl Limits {
    /// The memory of all guests, in bytes: half of the machine's or the container's, unless the operator has set it.
    pub(crate) fn guest_memory(&self) -> usize {
        self.guest_memory_bytes.unwrap_or_else(machine::half_of_memory)
    }

    /// The fuel of a call. `None` if fuel is not used.
    pub(crate) fn fuel(&self) -> Option<u64> {
        let nanoseconds = || u64::try_from(self.cpu.as_nanos()).unwrap_or(u64::MAX);
        (self.metering == Metering::Fuel).then(nanoseconds)
    }

    /// The processor time, measured by the clock, after which a call is stopped.
    pub(crate) fn most_cpu(&self) -> Duration {
        match self.metering {
            Metering::Clock => self.cpu,
            // Fuel normally runs out long before. This only stops work that fuel does not measure.
            Metering::Fuel => self.cpu.saturating_mul(CLOCK_BEYOND_FUEL_FACTOR),
        }
    }

    /// The limits of a `describe`.
    pub(crate) fn of_describe(&self) -> Self {
        Self { deadline: self.describe_deadline, transfer_bytes: self.manifest_bytes, ..self.clone() }
    }

    /// The wall time of a call whose controller wants `asked`, and the limit that determines it.
    pub(crate) fn deadline(&self, asked: Option<Duration>) -> (Limit, Duration) {
        match asked.unwrap_or(self.deadline) {
            asked if asked > self.most_deadline => (Limit::MostDeadline, self.most_deadline),
            asked => (Limit::Deadline, asked),
        }
    }
}

/// How a guest's processor time is measured. Compiled code depends on this, so code for one way of measuring cannot be
/// used for the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Metering {
    /// By the clock of the guest's thread.
    Clock,
    /// By fuel. Each instruction of the guest uses some fuel, so the same call is stopped at the same instruction,
    /// however busy the machine is. One unit stands for a nanosecond. The host's work for imports has a separate budget
    /// of the same size, of which each import call uses a part.
    Fuel,
}

/// A limit at which a guest is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    Memory,
    Table,
    Stack,
    /// Wall time of a `reconcile` or `compose`, set by its controller.
    Deadline,
    /// Wall time of a `reconcile` or `compose`, set by the host.
    MostDeadline,
    /// Wall time of a call that has mostly waited for answers to its own requests.
    Waited,
    Cpu,
    /// Wall time of a `describe`.
    DescribeDeadline,
    /// The bytes passed to the host at once.
    Transfer,
    /// The bytes returned by `describe`.
    Manifest,
    HostCalls,
    Writes,
    WrittenBytes,
    /// Random bytes in one import call.
    RandomBytes,
    /// The size of the call's arguments.
    Request,
}

impl Limit {
    /// The label in metrics and in `CallResult::Trapped`.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Table => "table",
            Self::Stack => "stack",
            Self::Deadline | Self::MostDeadline | Self::DescribeDeadline => "deadline",
            Self::Waited => outcome::WAITED,
            Self::Cpu => "cpu",
            Self::Transfer | Self::Manifest => "transfer",
            Self::HostCalls => "host-calls",
            Self::Writes => "writes",
            Self::WrittenBytes => "written-bytes",
            Self::RandomBytes => "random-bytes",
            Self::Request => "request",
        }
    }

    fn how_to_raise(self) -> &'static str {
        match self {
            Self::Deadline => "raise it with `options.deadlineMs` of the controller in the manifest",
            Self::MostDeadline => "its manifest asks for more; raise it with `--limit deadline=TIME`",
            Self::DescribeDeadline => {
                "it only has to return a constant; raise it with `--limit describe-deadline=TIME`"
            }
            Self::Waited => {
                "most of that time it waited for answers to its own requests: check whether the API server and other servers \
                 answer, or raise it with `options.deadlineMs` of the controller in the manifest"
            }
            Self::Cpu => "look for work that grows with the number of objects, or raise it with `--limit cpu=TIME`",
            Self::Memory => "raise it with `--limit memory=SIZE`",
            Self::Table => "raise it with `--limit table=N`",
            Self::Stack => "look for endless recursion, or raise it with `--limit stack=SIZE`",
            Self::Transfer => "pass less at a time, or raise it with `--limit transfer=SIZE`",
            Self::Manifest => "raise it with `--limit manifest=SIZE`",
            Self::HostCalls => "list instead of single reads, or raise it with `--limit host-calls=N`",
            Self::Writes => "go on in the next call, or raise it with `--limit writes=N`",
            Self::WrittenBytes => "go on in the next call, or raise it with `--limit written-bytes=SIZE`",
            Self::RandomBytes => "ask for less at a time, or raise it with `--limit random-bytes=SIZE`",
            Self::Request => {
                "project its watches to fewer fields, map fewer objects, or raise it with `--limit response=SIZE`"
            }
        }
    }
}

/// A guest was stopped at a limit. The value travels through wasmtime as the cause of the trap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Overrun {
    pub(crate) limit: Limit,
    pub(crate) value: Value,
}

/// The value of a limit in its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Bytes(usize),
    Count(usize),
    Time(Duration),
    /// Processor time as measured by fuel.
    Fuel(Duration),
    /// Processor time that the host's work for imports stands for.
    Imports(Duration),
}

impl Overrun {
    pub(crate) fn bytes(limit: Limit, value: usize) -> Self {
        Self { limit, value: Value::Bytes(value) }
    }

    pub(crate) fn count(limit: Limit, value: usize) -> Self {
        Self { limit, value: Value::Count(value) }
    }

    pub(crate) fn time(limit: Limit, value: Duration) -> Self {
        Self { limit, value: Value::Time(value) }
    }

    pub(crate) fn fuel(limit: Limit, value: Duration) -> Self {
        Self { limit, value: Value::Fuel(value) }
    }

    pub(crate) fn imports(limit: Limit, value: Duration) -> Self {
        Self { limit, value: Value::Imports(value) }
    }
}

impl fmt::Display for Overrun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.value;
        match self.limit {
            Limit::Memory => write!(f, "it needs more than {value} of memory"),
            Limit::Table => write!(f, "its tables need more than {value} elements"),
            Limit::Stack => write!(f, "it needs more than {value} of stack"),
            Limit::Deadline | Limit::MostDeadline | Limit::DescribeDeadline | Limit::Waited => {
                write!(f, "it had not ended after {value}")
            }
            Limit::Cpu => write!(f, "it used more than {value} of processor time"),
            Limit::Transfer => write!(f, "it passes more than {value} to the host at once"),
            Limit::Manifest => write!(f, "its answer has more than {value}"),
            Limit::HostCalls => write!(f, "it makes more than {value} calls to the host"),
            Limit::Writes => write!(f, "it makes more than {value} writes"),
            Limit::WrittenBytes => write!(f, "its writes have more than {value} together"),
            Limit::RandomBytes => write!(f, "it asks for more than {value} of randomness at once"),
            Limit::Request => write!(f, "the arguments of the call have more than {value}"),
        }?;
        write!(f, " ({})", self.limit.how_to_raise())
    }
}

impl std::error::Error for Overrun {}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Bytes(bytes) if bytes >= 1 << 20 && bytes % (1 << 20) == 0 => write!(f, "{} MiB", bytes >> 20),
            Self::Bytes(bytes) if bytes >= 1 << 10 && bytes % (1 << 10) == 0 => write!(f, "{} KiB", bytes >> 10),
            Self::Bytes(bytes) => write!(f, "{bytes} bytes"),
            Self::Count(count) => write!(f, "{count}"),
            Self::Time(time) => write!(f, "{time:?}"),
            Self::Fuel(time) => write!(f, "the instructions that stand for {time:?}"),
            Self::Imports(time) => write!(f, "the imports that stand for {time:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_the_limit_its_value_and_how_to_raise_it() {
        assert_eq!(
            Overrun::time(Limit::Deadline, Duration::from_secs(30)).to_string(),
            "it had not ended after 30s (raise it with `options.deadlineMs` of the controller in the manifest)",
        );
        assert_eq!(
            Overrun::bytes(Limit::Memory, 128 << 20).to_string(),
            "it needs more than 128 MiB of memory (raise it with `--limit memory=SIZE`)",
        );
    }

    #[test]
    fn a_controllers_deadline_is_bounded_by_the_hosts_maximum() {
        let limits = Limits { most_deadline: Duration::from_mins(1), ..Limits::default() };
        let time = |seconds| limits.deadline(Some(Duration::from_secs(seconds)));
        assert_eq!(time(60), (Limit::Deadline, Duration::from_mins(1)));
        assert_eq!(time(61), (Limit::MostDeadline, Duration::from_mins(1)));
        assert_eq!(limits.deadline(None), (Limit::Deadline, Duration::from_secs(30)));
    }

    #[test]
    fn byte_counts_are_shown_in_the_largest_whole_unit() {
        let shown = [1 << 20, 3 << 10, 1500].map(|bytes| Value::Bytes(bytes).to_string());
        assert_eq!(shown, ["1 MiB", "3 KiB", "1500 bytes"]);
    }
}
