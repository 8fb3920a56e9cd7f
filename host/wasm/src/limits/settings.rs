//! The limits that an operator may set, with their names and ranges.
//!
//! The parser of a command line converts a text to the number; the meaning of the number is defined here.

use std::time::Duration;

use super::Limits;

/// The unit of a setting's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Bytes,
    Count,
    /// Milliseconds.
    Time,
}

/// A limit that can be set.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The setting's name. In most cases, it is the label of the limit's overrun.
    pub name: &'static str,
    /// The unit of its number.
    pub unit: Unit,
    pub least: u64,
    pub most: u64,
    /// A description of the limit, for help texts.
    pub about: &'static str,
    field: fn(&mut Limits) -> Field<'_>,
}

enum Field<'a> {
    Bytes(&'a mut usize),
    Maybe(&'a mut Option<usize>),
    Wide(&'a mut u64),
    Count(&'a mut u32),
    Time(&'a mut Duration),
}

/// A number that a limit cannot have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetLimitError {
    /// Lower than makes sense, or higher than this host allows.
    #[error("it is outside the range of this limit")]
    Range {
        /// `Setting::least`
        least: u64,
        /// `Setting::most`
        most: u64,
    },
}

const KI: u64 = 1 << 10;
const MI: u64 = 1 << 20;
const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;

impl Setting {
    pub const ALL: [Self; 29] = [
        bytes("memory", (MI, 512 * MI), "linear memory of a call", |it| Field::Bytes(&mut it.memory_bytes)),
        time("cpu", (10, 10 * MINUTE), "processor time of a call", |it| Field::Time(&mut it.cpu)),
        time("deadline", (10, 60 * MINUTE), "the most wall time that a manifest may give a call", |it| {
            Field::Time(&mut it.most_deadline)
        }),
        time("describe-deadline", (10, 10 * MINUTE), "wall time of a `describe`", |it| {
            Field::Time(&mut it.describe_deadline)
        }),
        count("table", (1_000, 1_000_000), "elements of all tables of a call", |it| {
            Field::Bytes(&mut it.table_elements)
        }),
        bytes("stack", (64 * KI, 4 * MI), "stack of a call", |it| Field::Bytes(&mut it.stack_bytes)),
        bytes("transfer", (64 * KI, 64 * MI), "data that a call passes to the host at once", |it| {
            Field::Bytes(&mut it.transfer_bytes)
        }),
        bytes("response", (64 * KI, 64 * MI), "data that a call gets from the host at once", |it| {
            Field::Bytes(&mut it.response_bytes)
        }),
        count(
            "host-calls",
            (1, 1_000_000),
            "calls to the host in a call, without logging, time and randomness",
            |it| Field::Count(&mut it.host_calls),
        ),
        count("writes", (1, 100_000), "writes in a call", |it| Field::Count(&mut it.writes)),
        bytes("written-bytes", (MI, 4096 * MI), "bodies of all writes of a call together", |it| {
            Field::Bytes(&mut it.written_bytes)
        }),
        count("live-reads", (1, 10_000), "reads of the API server itself in a call; more are refused", |it| {
            Field::Count(&mut it.live_reads)
        }),
        bytes("random-bytes", (KI, MI), "random bytes at a time", |it| Field::Count(&mut it.random_bytes)),
        count("log-lines", (0, 100_000), "log lines of a call; more are dropped", |it| Field::Count(&mut it.log_lines)),
        bytes("log-bytes", (0, 16 * MI), "bytes of all log lines of a call; more are dropped", |it| {
            Field::Bytes(&mut it.log_bytes)
        }),
        count(
            "log-lines-per-second",
            (1, 100_000),
            "log lines of a plugin, over all its calls; more are dropped",
            |it| Field::Count(&mut it.log_lines_per_second),
        ),
        bytes(
            "log-bytes-per-second",
            (KI, 64 * MI),
            "log bytes of a plugin, over all its calls; more are dropped",
            |it| Field::Bytes(&mut it.log_bytes_per_second),
        ),
        count("metric-values", (0, 1_000_000), "values of metrics in a call; more are dropped", |it| {
            Field::Count(&mut it.metric_values)
        }),
        bytes("file", (MI, 512 * MI), "the file of a plugin", |it| Field::Wide(&mut it.file_bytes)),
        bytes("manifest", (KI, 16 * MI), "the answer of `describe`", |it| Field::Bytes(&mut it.manifest_bytes)),
        bytes("compile-memory", (64 * MI, 64 * 1024 * MI), "memory for compiling a plugin", |it| {
            Field::Wide(&mut it.compile_memory_bytes)
        }),
        time("compile-cpu", (SECOND, 60 * MINUTE), "processor time for compiling a plugin, in whole seconds", |it| {
            Field::Time(&mut it.compile_cpu)
        }),
        time("compile-deadline", (SECOND, 60 * MINUTE), "wall time for compiling a plugin", |it| {
            Field::Time(&mut it.compile_deadline)
        }),
        count("functions", (1, 1_000_000), "functions of a plugin", |it| Field::Count(&mut it.functions)),
        bytes("function", (KI, 8 * MI), "the code of one function", |it| Field::Count(&mut it.function_bytes)),
        count("definitions", (1_000, 1_000_000), "types, imports, exports and the like of a plugin", |it| {
            Field::Count(&mut it.definitions)
        }),
        count("instances", (1, 200), "core instances, and tables, that a plugin is made of", |it| {
            Field::Count(&mut it.instances)
        }),
        count("memories", (1, 8), "memories that a plugin has", |it| Field::Count(&mut it.memories)),
        bytes("guest-memory", (MI, 1 << 42), "linear memory of all running calls; more calls wait", |it| {
            Field::Maybe(&mut it.guest_memory_bytes)
        }),
    ];

    /// The setting with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        const ALL: &[Setting] = &Setting::ALL;
        ALL.iter().find(|setting| setting.name == name)
    }

    /// The setting's number in `limits`. `None` if the number depends on the machine.
    #[must_use]
    pub fn value(&self, limits: &Limits) -> Option<u64> {
        let mut limits = limits.clone();
        Some(match (self.field)(&mut limits) {
            Field::Bytes(bytes) => *bytes as u64,
            Field::Maybe(bytes) => (*bytes)? as u64,
            Field::Wide(bytes) => *bytes,
            Field::Count(count) => u64::from(*count),
            Field::Time(time) => u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
        })
    }

    /// Checks whether the limit may be set to `value`.
    pub fn check(&self, value: u64) -> Result<(), SetLimitError> {
        if (self.least..=self.most).contains(&value) {
            Ok(())
        } else {
            Err(SetLimitError::Range { least: self.least, most: self.most })
        }
    }

    /// Sets this limit in `limits`.
    pub fn set(&self, limits: &mut Limits, value: u64) -> Result<(), SetLimitError> {
        self.check(value)?;
        let bytes = usize::try_from(value).unwrap_or(usize::MAX);
        match (self.field)(limits) {
            Field::Bytes(field) => *field = bytes,
            Field::Maybe(field) => *field = Some(bytes),
            Field::Wide(field) => *field = value,
            Field::Count(field) => *field = u32::try_from(value).unwrap_or(u32::MAX),
            Field::Time(field) => *field = Duration::from_millis(value),
        }
        Ok(())
    }
}

type Choose = fn(&mut Limits) -> Field<'_>;

const fn bytes(name: &'static str, range: (u64, u64), about: &'static str, field: Choose) -> Setting {
    Setting { name, unit: Unit::Bytes, least: range.0, most: range.1, about, field }
}

const fn count(name: &'static str, range: (u64, u64), about: &'static str, field: Choose) -> Setting {
    Setting { name, unit: Unit::Count, least: range.0, most: range.1, about, field }
}

const fn time(name: &'static str, range: (u64, u64), about: &'static str, field: Choose) -> Setting {
    Setting { name, unit: Unit::Time, least: range.0, most: range.1, about, field }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limit;

    #[test]
    fn every_default_is_within_its_range_and_every_setting_is_stored() {
        for setting in Setting::ALL {
            let mut limits = Limits::default();
            if let Some(value) = setting.value(&limits) {
                assert_eq!(setting.check(value), Ok(()), "{}", setting.name);
            }
            for value in [setting.least, setting.most] {
                assert_eq!(setting.set(&mut limits, value), Ok(()), "{}", setting.name);
                assert_eq!(setting.value(&limits), Some(value), "{}", setting.name);
            }
            assert!(setting.set(&mut limits, setting.most + 1).is_err(), "{}", setting.name);
            assert_eq!(setting.value(&limits), Some(setting.most), "{}", setting.name);
        }
    }

    #[test]
    fn a_message_on_raising_a_limit_names_an_existing_one() {
        let limits = [
            Limit::Memory,
            Limit::Table,
            Limit::Stack,
            Limit::MostDeadline,
            Limit::DescribeDeadline,
            Limit::Cpu,
            Limit::Transfer,
            Limit::Manifest,
            Limit::HostCalls,
            Limit::Writes,
            Limit::WrittenBytes,
            Limit::RandomBytes,
            Limit::Request,
        ];
        for limit in limits {
            let (_, flag) = limit.how_to_raise().split_once("`--limit ").expect("it names the flag");
            let (name, _) = flag.split_once('=').expect("and a value");
            assert!(Setting::named(name).is_some(), "{name}");
        }
    }
}
