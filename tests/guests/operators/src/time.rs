//! Times as numbers.

use std::time::Duration;

use windlass_sdk::{Outcome, clock};

/// The time now, in seconds since 1970.
pub(crate) fn now() -> u64 {
    u64::from(clock::now().seconds)
}

/// The time of a text such as `2026-11-21T10:48:45Z`, in seconds since 1970.
pub(crate) fn seconds(text: &str) -> u64 {
    let part = |range: std::ops::Range<usize>| text.get(range).and_then(|part| part.parse::<u64>().ok()).unwrap_or(0);
    let (year, month, day) = (part(0..4), part(5..7), part(8..10));
    // The year starts in March, so that a leap day is its last day.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year.saturating_sub(1), month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day;
    let until_1970 = 719_469;
    days.saturating_sub(until_1970) * 86_400 + part(11..13) * 3_600 + part(14..16) * 60 + part(17..19)
}

/// The outcome that asks to run again at this time.
pub(crate) fn again_at(time: u64) -> Outcome {
    Outcome::requeue_after(Duration::from_secs(time.saturating_sub(now()).max(1)))
}
