//! The memory that is available to this process, from which the defaults of budgets are derived.

use std::fs;
use std::path::{Path, PathBuf};

/// The memory that is assumed if the machine's memory cannot be determined.
const UNKNOWN_MEMORY_BYTES: usize = 4 << 30;

/// Half of the memory that this process may use, as far as it is known.
pub(crate) fn half_of_memory() -> usize {
    let physical = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_of(&text));
    let groups = fs::read_to_string("/proc/self/cgroup").ok();
    let limits = groups.iter().flat_map(|text| limit_files(text)).filter_map(|path| limit(&path));
    limits.chain(physical).min().unwrap_or(UNKNOWN_MEMORY_BYTES) / 2
}

/// `MemTotal` of `/proc/meminfo`.
fn total_of(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1 << 10)
}

/// The limit files of the groups in `/proc/self/cgroup` and their parents, for both versions of control groups.
fn limit_files(groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            "memory" => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => continue,
        };
        // In a container, this is the path outside of the container, where the container's own group is the root. So
        // every suffix of the path is tried.
        let group = Path::new(path.trim_start_matches('/'));
        files.extend(group.ancestors().map(|group| Path::new(root).join(group).join(file)));
    }
    files
}

/// `None` if the file does not exist or contains no limit.
fn limit(path: &Path) -> Option<usize> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_memory_is_read() {
        let meminfo = "MemTotal:       24684416 kB\nMemFree:        13464 kB\n";
        assert_eq!(total_of(meminfo), Some(24_684_416 << 10));
        assert_eq!(total_of("nothing of the kind"), None);
    }

    #[test]
    fn all_groups_around_the_process_count() {
        let files = limit_files("12:cpu:/a\n3:memory:/a\n0::/pods/b\n");
        let shown: Vec<_> = files.iter().map(|file| file.to_str().expect("plain")).collect();
        assert_eq!(
            shown,
            [
                "/sys/fs/cgroup/memory/a/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes",
                "/sys/fs/cgroup/pods/b/memory.max",
                "/sys/fs/cgroup/pods/memory.max",
                "/sys/fs/cgroup/memory.max",
            ],
        );
    }
}
