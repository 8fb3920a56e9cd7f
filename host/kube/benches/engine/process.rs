//! The resource usage of this process, as reported by Linux.

use std::fs;
use std::time::Duration;

/// Sizes in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) resident: u64,
    pub(crate) anonymous: u64,
    /// The maximum resident size.
    pub(crate) peak: u64,
}

/// The current memory. The sizes in `smaps_rollup` are exact; those in `statm` are estimates.
pub(crate) fn memory() -> Memory {
    let rollup = fs::read_to_string("/proc/self/smaps_rollup").expect("Linux");
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    Memory {
        resident: kilobytes(&rollup, "Rss:"),
        anonymous: kilobytes(&rollup, "Anonymous:"),
        peak: kilobytes(&status, "VmHWM:"),
    }
}

fn kilobytes(text: &str, field: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(field)).expect("the field");
    let number = line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number");
    number * 1024
}

/// The memory once it has not changed for a second.
pub(crate) fn settled() -> Memory {
    let mut last = memory();
    let mut same = 0;
    while same < 10 {
        std::thread::sleep(Duration::from_millis(100));
        let now = memory();
        same = if now.resident.abs_diff(last.resident) < 64 * 1024 { same + 1 } else { 0 };
        last = now;
    }
    last
}

/// The CPU time of all threads, in user space and in the kernel. Linux counts in hundredths of a second.
pub(crate) fn cpu() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").expect("Linux");
    let (_, fields) = stat.rsplit_once(')').expect("a name in parentheses");
    let ticks = |at| fields.split_whitespace().nth(at).and_then(|ticks| ticks.parse::<u64>().ok()).expect("a number");
    Duration::from_millis(10 * (ticks(11) + ticks(12)))
}
