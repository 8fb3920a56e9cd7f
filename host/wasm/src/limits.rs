//! The limits of a plugin: one number each, with the label and the message of its overrun.
//!
//! Limits are values here; `meter` counts against them, and `call` and `loader` turn an overrun into a result.
//!
//! What bounds the texts and lists that cross between the host and a guest:
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
//! | host | the object of a `reconcile`; all that a `compose` is given | `response`: the plugin is not called (`request`) |
//! | host | random bytes | `random-bytes` |
//! | host | the configuration | the size of its file, and that of its Secrets |
//! | host | errors | their number by `host-calls`, each by what the API server and the host say, which are not guests |

mod settings;

pub use self::settings::{SetLimitError, Setting, Unit};

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_core::queue::outcome;
use windlass_manifest::CALL_DEADLINE_DEFAULT;

use crate::machine;

/// How many times the processor time of a call its clock may show where fuel is what stops it.
const CLOCK_BEYOND_FUEL_FACTOR: u32 = 60;

/// The limits of one call, of all calls together, and of a file. The defaults suit plugins in any language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Linear memory of a call, all memories of the component together.
    pub memory_bytes: usize,
    /// Elements of all tables of a call together.
    pub table_elements: usize,
    /// Core instances, and tables, that a component may be made of.
    pub instances: u32,
    /// Memories that a component may have.
    pub memories: u32,
    /// Stack of the guest's own code.
    pub stack_bytes: usize,
    /// Wall time of a call, host calls included, unless the controller's options say otherwise.
    pub deadline: Duration,
    /// The most wall time that the options of a controller may give its calls.
    pub most_deadline: Duration,
    /// Processor time of a call: of the guest's code, and of what the host does for it on the guest's thread.
    pub cpu: Duration,
    /// By what that time is told.
    pub metering: Metering,
    /// Wall time of one `describe`.
    pub describe_deadline: Duration,
    /// The bytes that a guest may hand to the host in one import call or as its result, all strings and lists together.
    pub transfer_bytes: usize,
    /// The bytes that the host hands to a guest as the result of one import call.
    pub response_bytes: usize,
    /// The body of a write; the API server itself takes no more.
    pub write_bytes: usize,
    /// The bodies of all writes of a call together, also of those that come to nothing: the host reads each.
    pub written_bytes: usize,
    /// Import calls that the host works for, in one call. Logging, metrics, time and randomness do not count.
    pub host_calls: u32,
    /// Writes in one call, each operation of a batch by itself.
    pub writes: u32,
    /// Reads of the API server itself, in one call; more are refused.
    pub live_reads: u32,
    /// Random bytes in one import call.
    pub random_bytes: u32,
    /// Log lines of a call; more are dropped and counted.
    pub log_lines: u32,
    /// Bytes of all log lines of a call; more are dropped and counted.
    pub log_bytes: usize,
    /// Log lines of one plugin per second, over all its calls and in the long run; more are dropped and counted.
    pub log_lines_per_second: u32,
    /// The same, in bytes.
    pub log_bytes_per_second: usize,
    /// Bytes of one log line; longer ones are cut.
    pub log_line_bytes: usize,
    /// Values of metrics in one call; more are dropped and counted.
    pub metric_values: u32,
    /// Linear memory of all running calls together, with instances that wait for their next call; calls wait for it.
    /// Never less than what one call may have. None: half of the machine's, or of the control group's.
    pub guest_memory_bytes: Option<usize>,
    /// Calls that one instance serves, where the operator has instances used again.
    pub calls_per_instance: u32,
    /// How long such an instance waits for its next call before it is given up.
    pub idle_instance: Duration,
    /// The file of a plugin.
    pub file_bytes: u64,
    /// Wall time of compiling one.
    pub compile_deadline: Duration,
    /// Address space that compiling one may use, beside the program that compiles it.
    pub compile_memory_bytes: u64,
    /// Processor time of compiling one, all threads together; whole seconds.
    pub compile_cpu: Duration,
    /// Functions that a component may have, all its modules together.
    pub functions: u32,
    /// Code of one function.
    pub function_bytes: u32,
    /// Types, imports, exports, instances and aliases of a component together.
    pub definitions: u32,
    /// The bytes that `describe` may answer.
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
    /// The memory of all guests, in bytes: half of the machine's or the container's, unless the operator has said.
    pub(crate) fn guest_memory(&self) -> usize {
        self.guest_memory_bytes.unwrap_or_else(machine::half_of_memory)
    }

    /// The fuel of a call. None: it needs none.
    pub(crate) fn fuel(&self) -> Option<u64> {
        let nanoseconds = || u64::try_from(self.cpu.as_nanos()).unwrap_or(u64::MAX);
        (self.metering == Metering::Fuel).then(nanoseconds)
    }

    /// The processor time, by the clock, after which a call is stopped.
    pub(crate) fn most_cpu(&self) -> Duration {
        match self.metering {
            Metering::Clock => self.cpu,
            // Where fuel runs out long before, this only keeps what it does not tell from going on for ever.
            Metering::Fuel => self.cpu.saturating_mul(CLOCK_BEYOND_FUEL_FACTOR),
        }
    }

    /// The limits of a `describe`.
    pub(crate) fn of_describe(&self) -> Self {
        Self { deadline: self.describe_deadline, transfer_bytes: self.manifest_bytes, ..self.clone() }
    }

    /// The wall time of a call whose controller wants `asked`, and the limit that it comes from.
    pub(crate) fn deadline(&self, asked: Option<Duration>) -> (Limit, Duration) {
        match asked.unwrap_or(self.deadline) {
            asked if asked > self.most_deadline => (Limit::MostDeadline, self.most_deadline),
            asked => (Limit::Deadline, asked),
        }
    }
}

/// By what a guest's processor time is told. It is a part of the code: what is compiled for one is none for the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Metering {
    /// By the clock of the guest's thread.
    Clock,
    /// By fuel: each instruction of the guest takes some, and the same call is stopped at the same instruction, however
    /// busy the machine is. One unit stands for a nanosecond. What the host does for the guest takes none of it:
    /// imports have as much again, of which each call takes its part.
    Fuel,
}

/// A limit at which a guest is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// Linear memory.
    Memory,
    /// Table elements.
    Table,
    /// The guest's stack.
    Stack,
    /// Wall time of a `reconcile` or `compose`, as its controller has it.
    Deadline,
    /// The same, as the host has it.
    MostDeadline,
    /// The same, where the call has mostly waited for what it had asked for.
    Waited,
    /// Processor time.
    Cpu,
    /// Wall time of a `describe`.
    DescribeDeadline,
    /// The bytes that it hands over in one go.
    Transfer,
    /// The same of a `describe`.
    Manifest,
    /// Import calls.
    HostCalls,
    /// Mutations.
    Writes,
    /// Their bodies.
    WrittenBytes,
    /// Random bytes in one import call.
    RandomBytes,
    /// The bytes that it is called with.
    Request,
}

impl Limit {
    /// The label of metrics, and of `CallResult::Trapped`.
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
                "it has only to answer with a constant; raise it with `--limit describe-deadline=TIME`"
            }
            Self::Waited => {
                "most of that it waited for what it had asked for: see whether the API server and other servers answer, or raise it \
                 with `options.deadlineMs` of the controller in the manifest"
            }
            Self::Cpu => "look for work that grows with the number of objects, or raise it with `--limit cpu=TIME`",
            Self::Memory => "raise it with `--limit memory=SIZE`",
            Self::Table => "raise it with `--limit table=N`",
            Self::Stack => "look for endless recursion, or raise it with `--limit stack=SIZE`",
            Self::Transfer => "hand over less at a time, or raise it with `--limit transfer=SIZE`",
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

/// A guest was stopped at a limit. It travels through wasmtime as the cause of the trap.
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
    /// As much of it as is told by fuel.
    Fuel(Duration),
    /// As much of it as the host's work for imports stands for.
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
            Limit::Transfer => write!(f, "it hands more than {value} to the host at once"),
            Limit::Manifest => write!(f, "it answers with more than {value}"),
            Limit::HostCalls => write!(f, "it makes more than {value} calls to the host"),
            Limit::Writes => write!(f, "it makes more than {value} writes"),
            Limit::WrittenBytes => write!(f, "its writes have more than {value} together"),
            Limit::RandomBytes => write!(f, "it asks for more than {value} of randomness at once"),
            Limit::Request => write!(f, "what it is called with has more than {value}"),
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
    fn values_read_in_the_largest_whole_unit() {
        let shown = [1 << 20, 3 << 10, 1500].map(|bytes| Value::Bytes(bytes).to_string());
        assert_eq!(shown, ["1 MiB", "3 KiB", "1500 bytes"]);
    }
}
