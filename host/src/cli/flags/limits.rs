//! `--limit NAME=VALUE`: the limits of plugins, shared by all commands that load plugins.

use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use windlass_wasm::{Limits, SetLimitError, Setting, Unit};

use crate::cli::flags::duration::{DurationArg, time};
use crate::cli::flags::size::ByteSize;

/// Limits of plugins.
#[derive(Debug, Args)]
#[command(next_line_help = false)]
pub(crate) struct LimitArgs {
    #[arg(long = "limit", value_name = "NAME=VALUE", help = SHORT)]
    limits: Vec<LimitArg>,
}

const SHORT: &str = "Set a limit of plugins, such as memory=256Mi; repeatable. `windlass run --help` lists them";

/// One limit and its value.
#[derive(Clone, Debug)]
struct LimitArg {
    setting: &'static Setting,
    value: u64,
}

impl LimitArgs {
    /// The default limits, with the given ones replaced.
    pub(crate) fn limits(&self) -> anyhow::Result<Limits> {
        let mut limits = Limits::default();
        for LimitArg { setting, value } in &self.limits {
            setting.set(&mut limits, *value)?;
        }
        Ok(limits)
    }
}

impl FromStr for LimitArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let example = "a limit is set as NAME=VALUE, such as memory=256Mi or cpu=2s";
        let (name, value) = text.split_once('=').ok_or(example)?;
        let setting = Setting::named(name).ok_or_else(|| {
            let names: Vec<_> = Setting::ALL.iter().map(|setting| setting.name).collect();
            format!("there is no limit {name:?}; there are {}", names.join(", "))
        })?;
        let value = parse(setting.unit, value)?;
        setting.check(value).map_err(|SetLimitError::Range { least, most }| {
            format!("{name} must be at least {} and at most {}", shown(setting.unit, least), shown(setting.unit, most))
        })?;
        Ok(Self { setting, value })
    }
}

fn parse(unit: Unit, text: &str) -> Result<u64, String> {
    match unit {
        // Only a limit may have the size 0, which switches something off.
        Unit::Bytes if text == "0" => Ok(0),
        Unit::Bytes => text.parse().map(|ByteSize(bytes)| bytes as u64),
        Unit::Count => text.parse().map_err(|_| format!("{text:?} is not a whole number")),
        Unit::Time => time(text).map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
    }
}

/// The value as written on the command line.
pub(crate) fn shown(unit: Unit, value: u64) -> String {
    match unit {
        Unit::Bytes => ByteSize(usize::try_from(value).unwrap_or(usize::MAX)).to_string(),
        Unit::Count => value.to_string(),
        Unit::Time => DurationArg(Duration::from_millis(value)).to_string(),
    }
}

/// Help with all limits and their defaults, for one command only.
pub(crate) fn long_help() -> String {
    let limits = Limits::default();
    let line = |setting: &Setting| {
        let unset = || "half of the machine's memory".to_owned();
        let default = setting.value(&limits).map_or_else(unset, |value| shown(setting.unit, value));
        let most = shown(setting.unit, setting.most);
        format!("\n- {}={default}: {} (at most {most})", setting.name, setting.about)
    };
    let lines: String = Setting::ALL.iter().map(line).collect();
    format!(
        "Set a limit of plugins, such as memory=256Mi; repeatable. Unless the list says otherwise, a plugin that exceeds a \
         limit has its call stopped, or is not loaded, and the message names the limit. The limits and their defaults:\n{lines}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(set: &[&str]) -> Result<Limits, String> {
        let limits = set.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
        LimitArgs { limits }.limits().map_err(|error| error.to_string())
    }

    #[test]
    fn limits_are_set_by_name_and_the_last_counts() {
        let set = limits(&["memory=256Mi", "cpu=2s", "deadline=1m", "writes=5", "writes=7", "guest-memory=3Gi"]);
        let expected = Limits {
            memory_bytes: 256 << 20,
            cpu: Duration::from_secs(2),
            most_deadline: Duration::from_mins(1),
            writes: 7,
            guest_memory_bytes: Some(3 << 30),
            ..Limits::default()
        };
        assert_eq!(set, Ok(expected));
    }

    #[test]
    fn an_invalid_limit_is_refused_with_its_range() {
        for (text, words) in [
            ("memory", "memory=256Mi"),
            ("memmory=1Mi", "there are memory, cpu, "),
            ("memory=513Mi", "at least 1Mi and at most 512Mi"),
            ("memory=256MB", "512Mi or 1Gi"),
            ("cpu=2", "500ms"),
            ("cpu=1ms", "at least 10ms and at most 10m"),
            ("writes=many", "whole number"),
            ("writes=0", "at least 1 "),
        ] {
            let error = limits(&[text]).expect_err(text);
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn every_default_that_the_help_shows_can_be_given() {
        for setting in Setting::ALL {
            let Some(value) = setting.value(&Limits::default()) else { continue };
            let text = format!("{}={}", setting.name, shown(setting.unit, value));
            assert_eq!(limits(&[&text]), Ok(Limits::default()), "{text}");
            assert!(long_help().contains(&text), "{text}");
        }
    }

    #[test]
    fn the_page_for_operators_lists_the_limits_with_their_defaults() {
        let page = include_str!("../../../../docs/operating/policies.md");
        let table = page.split("\n| limit | default | what it bounds |\n").nth(1).expect("a table");
        let rows = table.lines().skip(1).take_while(|line| line.starts_with('|'));
        let mut listed = 0;
        for row in rows {
            let cells: Vec<_> = row.split('|').map(str::trim).collect();
            let (names, defaults) = (cells[1].split(", "), cells[2]);
            for (index, name) in names.enumerate() {
                let name = name.trim_matches('`');
                let setting = Setting::named(name).unwrap_or_else(|| panic!("there is no limit {name}"));
                listed += 1;
                let Some(value) = setting.value(&Limits::default()) else { continue };
                let said =
                    defaults.strip_suffix(" each").unwrap_or_else(|| defaults.split(", ").nth(index).unwrap_or(""));
                assert_eq!(said, shown(setting.unit, value), "{name}");
            }
        }
        assert!(listed > 20, "{listed} limits");
    }
}
