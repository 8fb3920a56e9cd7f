//! What a plugin may use: one number each, and for each the label and the message of its overrun.
//!
//! Limits are values here; `meter` counts against them, and `call` and `loader` turn an overrun into a result.

use std::fmt;
use std::time::Duration;

/// What a call may use, and what a file may be. The defaults suit plugins in any language.
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
    /// Wall time of one `describe`.
    pub describe_deadline: Duration,
    /// What a guest may hand to the host in one import call or as its result, all strings and lists together.
    pub transfer_bytes: usize,
    /// What the host hands to a guest as the result of one import call.
    pub response_bytes: usize,
    /// The body of a write; the API server itself takes no more.
    pub write_bytes: usize,
    /// Import calls that the host works for, in one call. Logging, metrics, time and randomness do not count.
    pub host_calls: u32,
    /// Reads of the API server itself, in one call; more are refused.
    pub live_reads: u32,
    /// Random bytes in one import call.
    pub random_bytes: u32,
    /// Log lines of a call; more are dropped and counted.
    pub log_lines: u32,
    /// Bytes of all log lines of a call; more are dropped and counted.
    pub log_bytes: usize,
    /// Bytes of one log line; longer ones are cut.
    pub log_line_bytes: usize,
    /// Values of metrics in one call; more are dropped and counted.
    pub metric_values: u32,
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
    /// What `describe` answers.
    pub manifest_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 128 << 20,
            table_elements: 200_000,
            instances: 40,
            memories: 2,
            stack_bytes: 512 << 10,
            deadline: Duration::from_secs(30),
            describe_deadline: Duration::from_secs(10),
            transfer_bytes: 8 << 20,
            response_bytes: 8 << 20,
            write_bytes: 3 << 20,
            host_calls: 10_000,
            live_reads: 100,
            random_bytes: 64 << 10,
            log_lines: 1_000,
            log_bytes: 256 << 10,
            log_line_bytes: 8 << 10,
            metric_values: 10_000,
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
    /// What a `describe` may use.
    pub(crate) fn of_describe(&self) -> Self {
        Self { deadline: self.describe_deadline, transfer_bytes: self.manifest_bytes, ..self.clone() }
    }
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
    /// Wall time of a `reconcile`.
    Deadline,
    /// Wall time of a `describe`.
    DescribeDeadline,
    /// What it hands over in one go.
    Transfer,
    /// Import calls.
    HostCalls,
    /// Random bytes in one import call.
    RandomBytes,
    /// What a composer is given.
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
            Self::Deadline | Self::DescribeDeadline => "deadline",
            Self::Transfer => "transfer",
            Self::HostCalls => "host-calls",
            Self::RandomBytes => "random-bytes",
            Self::Request => "request",
        }
    }

    fn how_to_raise(self) -> &'static str {
        match self {
            Self::Deadline => "raise it with `options.deadlineMs` of the controller in the manifest",
            Self::DescribeDeadline => "`describe_deadline`, a limit of the host; it has only to answer with a constant",
            Self::Memory => "`memory_bytes`, a limit of the host for all plugins",
            Self::Table => "`table_elements`, a limit of the host for all plugins",
            Self::Stack => "`stack_bytes`, a limit of the host for all plugins; look for endless recursion first",
            Self::Transfer => "`transfer_bytes`, a limit of the host for all plugins; hand over less at a time",
            Self::HostCalls => "`host_calls`, a limit of the host for all plugins; list instead of single reads",
            Self::RandomBytes => "`random_bytes`, a limit of the host for all plugins; ask for less at a time",
            Self::Request => {
                "`response_bytes`, a limit of the host for all plugins; project its watches to fewer fields, or map fewer \
                 objects"
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
}

impl fmt::Display for Overrun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.value;
        match self.limit {
            Limit::Memory => write!(f, "it needs more than {value} of memory"),
            Limit::Table => write!(f, "its tables need more than {value} elements"),
            Limit::Stack => write!(f, "it needs more than {value} of stack"),
            Limit::Deadline | Limit::DescribeDeadline => write!(f, "it had not ended after {value}"),
            Limit::Transfer => write!(f, "it hands more than {value} to the host at once"),
            Limit::HostCalls => write!(f, "it makes more than {value} calls to the host"),
            Limit::RandomBytes => write!(f, "it asks for more than {value} of randomness at once"),
            Limit::Request => write!(f, "its parent, children and related objects are more than {value} together"),
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
            "it needs more than 128 MiB of memory (`memory_bytes`, a limit of the host for all plugins)",
        );
    }

    #[test]
    fn values_read_in_the_largest_whole_unit() {
        let shown = [1 << 20, 3 << 10, 1500].map(|bytes| Value::Bytes(bytes).to_string());
        assert_eq!(shown, ["1 MiB", "3 KiB", "1500 bytes"]);
    }
}
