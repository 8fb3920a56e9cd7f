//! The host's clock, so that a call can be replayed.

use std::fmt;

/// A point in time. It displays as Kubernetes writes times: `2026-11-21T10:48:45Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Seconds since 1970-01-01T00:00:00Z.
    pub seconds: u32,
    /// Nanoseconds within the second.
    pub nanoseconds: u32,
}

/// The current time. It never goes back within a call. In a native test it is the test double's time, or the system's
/// if there is no double.
#[must_use]
pub fn now() -> Timestamp {
    let now = crate::native::clock::now();
    Timestamp { seconds: now.seconds, nanoseconds: now.nanoseconds }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, time) = (self.seconds / 86_400, self.seconds % 86_400);
        let (year, month, day) = date(days);
        let (hour, minute, second) = (time / 3_600, time / 60 % 60, time % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

/// Year, month and day of a day counted from 1970-01-01. Until 2106 the loop takes at most 136 years and 12 months.
fn date(mut days: u32) -> (u32, u32, u32) {
    let is_leap = |year: u32| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u32::from(is_leap(year)) {
        days -= 365 + u32::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u32::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_reads_as_kubernetes_writes_it() {
        let at = |seconds| Timestamp { seconds, nanoseconds: 0 }.to_string();
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(at(951_868_800), "2000-03-01T00:00:00Z");
        assert_eq!(at(1_795_258_125), "2026-11-21T10:48:45Z");
        assert_eq!(at(4_107_542_399), "2100-02-28T23:59:59Z");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00Z");
        assert_eq!(at(1_798_761_599), "2026-12-31T23:59:59Z");
        assert_eq!(at(u32::MAX), "2106-02-07T06:28:15Z");
    }
}
