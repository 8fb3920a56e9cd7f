//! Decides which files of the cache to remove, by size and age.

use std::time::{Duration, Instant, SystemTime};

/// The bounds of the cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) bytes: u64,
    /// The maximum time since the last use.
    pub(super) age: Duration,
    /// The time between two clean-ups. The first clean-up also waits this long, because a host that has just started
    /// has not used its files yet.
    pub(super) interval: Duration,
}

/// The age of an unfinished file that a crashed host left behind.
const LEFTOVER_AGE_MIN: Duration = Duration::from_hours(1);

impl Default for Bounds {
    fn default() -> Self {
        Self { bytes: 1 << 30, age: Duration::from_hours(30 * 24), interval: Duration::from_mins(10) }
    }
}

/// A file of the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CachedFile {
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) used: SystemTime,
    /// Whether the file still has a temporary name.
    pub(super) unfinished: bool,
}

impl Bounds {
    /// The names of the files to remove: files that have not been used for long, and then the least recently used files
    /// until the rest fits the size limit.
    pub(super) fn surplus(
        self,
        mut entries: Vec<CachedFile>,
        now: SystemTime,
        in_use: impl Fn(&str) -> bool,
    ) -> Vec<String> {
        entries.sort_by(|a, b| b.used.cmp(&a.used).then_with(|| a.name.cmp(&b.name)));
        let mut bytes = 0_u64;
        let mut surplus = Vec::new();
        for CachedFile { name, bytes: its, used, unfinished } in entries {
            let age = now.duration_since(used).unwrap_or_default();
            let most = if unfinished { LEFTOVER_AGE_MIN } else { self.age };
            let fits = bytes.saturating_add(its) <= self.bytes;
            if in_use(&name) || (age <= most && (fits || unfinished)) {
                bytes = bytes.saturating_add(its);
            } else {
                surplus.push(name);
            }
        }
        surplus
    }
}

/// The schedule of clean-ups.
#[derive(Debug)]
pub(super) struct Cleaning {
    bounds: Bounds,
    next: Instant,
}

impl Cleaning {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self { bounds, next: Instant::now() + bounds.interval }
    }

    /// The bounds, if a clean-up is due now.
    pub(super) fn due(&mut self) -> Option<Bounds> {
        let now = Instant::now();
        if now < self.next {
            return None;
        }
        self.next = now + self.bounds.interval;
        Some(self.bounds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    fn entry(name: &str, bytes: u64, days: u32) -> CachedFile {
        CachedFile { name: name.to_owned(), bytes, used: now() - DAY * days, unfinished: false }
    }

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + DAY * 10_000
    }

    const BOUNDS: Bounds = Bounds { bytes: 100, age: Duration::from_hours(30 * 24), interval: Duration::ZERO };

    #[test]
    fn artefacts_unused_for_long_are_removed() {
        let entries = vec![entry("new", 1, 1), entry("old", 1, 31), entry("future", 1, 0)];
        assert_eq!(BOUNDS.surplus(entries, now(), |_| false), ["old"]);
    }

    #[test]
    fn the_least_recently_used_artefacts_are_removed_over_the_limit() {
        let entries = vec![entry("a", 60, 3), entry("b", 60, 1), entry("c", 30, 2)];
        assert_eq!(BOUNDS.surplus(entries, now(), |_| false), ["a"]);
    }

    #[test]
    fn artefacts_in_use_are_kept_and_count_towards_the_limit() {
        let entries = vec![entry("a", 90, 99), entry("b", 60, 1), entry("c", 60, 2)];
        assert_eq!(BOUNDS.surplus(entries.clone(), now(), |name| name == "a"), ["c"]);
        assert_eq!(BOUNDS.surplus(entries, now(), |_| true), [""; 0]);
    }

    #[test]
    fn an_unfinished_file_is_removed_after_an_hour() {
        let half = |name: &str, minutes: u64| CachedFile {
            used: now() - Duration::from_mins(minutes),
            unfinished: true,
            ..entry(name, 1000, 0)
        };
        assert_eq!(BOUNDS.surplus(vec![half("being-written", 5), half("left", 90)], now(), |_| false), ["left"]);
    }
}
