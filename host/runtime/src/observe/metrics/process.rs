//! Metrics of the process itself, under the names of the Prometheus client libraries. They are read from `/proc` at
//! each scrape; without `/proc`, only the CPU time and the limit on files are shown.

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::collect::Owned;
use super::gauges;

/// The unit of times in `/proc/self/stat`, which is a fixed part of Linux' interface: `USER_HZ`.
const TICKS_A_SECOND: u32 = 100;

/// Reads the metrics of the process.
#[derive(Debug)]
pub(super) struct ProcessMetrics;

impl Collector for ProcessMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Processor time that the process has used";
        let mut cpu = encoder.encode_descriptor("process_cpu_seconds", help, None, MetricType::Counter)?;
        cpu.encode_family(&Owned::new())?.encode_counter::<Owned, _, f64>(&cpu_seconds(), None)?;
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let all = [
            ("process_resident_memory_bytes", bytes(&status, "VmRSS:"), "Memory of the machine that the process has"),
            ("process_virtual_memory_bytes", bytes(&status, "VmSize:"), "Address space that the process has"),
            ("process_open_fds", open_files(), "Files that the process has open"),
            ("process_max_fds", getrlimit(Resource::Nofile).current, "Files that the process may have open"),
        ];
        for (name, value, help) in all {
            let lines = value.map(|value| (vec![], i64::try_from(value).unwrap_or(i64::MAX)));
            gauges(&mut encoder, name, help, lines)?;
        }
        let started = started(
            &fs::read_to_string("/proc/stat").unwrap_or_default(),
            &fs::read_to_string("/proc/self/stat").unwrap_or_default(),
        );
        let help = "When the process began, in seconds since 1970";
        gauges(&mut encoder, "process_start_time_seconds", help, started.map(|started| (vec![], started)))
    }
}

fn cpu_seconds() -> f64 {
    std::time::Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default().as_secs_f64()
}

/// The value of a line such as `VmRSS:   1234 kB`.
fn bytes(status: &str, name: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(value.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

fn open_files() -> Option<u64> {
    // One of the open files is the directory that is being read.
    Some(fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1) as u64)
}

/// The machine's boot time, from `/proc/stat`, plus the start of the process after it, from `/proc/self/stat`.
fn started(machine: &str, process: &str) -> Option<f64> {
    let booted: u32 = machine.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    // The name of the program is in parentheses, and may itself contain blanks and parentheses.
    let behind_name = process.rsplit_once(") ")?.1;
    let ticks: f64 = behind_name.split(' ').nth(19)?.parse().ok()?;
    Some(f64::from(booted) + ticks / f64::from(TICKS_A_SECOND))
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn the_process_is_shown_under_the_usual_names() {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(ProcessMetrics));
        let mut text = String::new();
        encode(&mut text, &registry).expect("it is encoded");
        let value = |name: &str| -> f64 {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}{{}} ")));
            line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name} is missing in {text}"))
        };
        assert!(value("process_cpu_seconds_total") > 0.0);
        assert!(value("process_max_fds") > 2.0);
        if cfg!(target_os = "linux") {
            assert!(value("process_virtual_memory_bytes") > value("process_resident_memory_bytes"));
            assert!(value("process_resident_memory_bytes") > f64::from(1 << 20));
            assert!(value("process_open_fds") >= 3.0);
            assert!(value("process_start_time_seconds") > 1.6e9, "it began in this century");
        }
    }

    #[test]
    fn memory_and_start_time_are_read_from_the_kernels_files() {
        assert_eq!(bytes("VmPeak:\t 9 kB\nVmRSS:\t  12 kB\n", "VmRSS:"), Some(12 << 10));
        assert_eq!(bytes("VmRSS: none", "VmRSS:"), None);
        let fields: Vec<_> = (3..30).map(|field| field.to_string()).collect();
        let process = format!("42 (a) b) {}", fields.join(" "));
        assert_eq!(started("cpu 1\nbtime 1000\n", &process), Some(1000.22));
    }
}
