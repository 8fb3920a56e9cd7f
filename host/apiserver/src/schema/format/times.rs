//! Checks the formats of dates, times and durations.

use std::sync::LazyLock;

use jiff::civil::Date;
use regex::Regex;

use super::pattern;

/// Like `IsDate` in `strfmt/date.go`.
pub(super) fn is_date(text: &str) -> bool {
    static SHAPE: LazyLock<Regex> = LazyLock::new(|| pattern("^[0-9]{4}-[0-9]{2}-[0-9]{2}$"));
    SHAPE.is_match(text) && text.parse::<Date>().is_ok()
}

/// Like `IsDateTime` in `strfmt/time.go`: an offset may be any number, any character may come before the fraction, and
/// everything after a second `t` is ignored.
pub(super) fn is_date_time(text: &str) -> bool {
    static TIME: LazyLock<Regex> =
        LazyLock::new(|| pattern("^([0-9]{2}):([0-9]{2}):([0-9]{2})(?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})$"));
    let text = text.to_lowercase();
    let mut parts = text.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    is_date(date) && TIME.captures(time).is_some_and(|at| &at[1] <= "23" && &at[2] <= "59" && &at[3] <= "59")
}

/// Whether a text is a duration.
pub(super) fn is_duration(text: &str) -> bool {
    duration(text).is_some()
}

/// The nanoseconds of a duration, like `ParseDuration` of `strfmt/duration.go`. The text is a Go duration, or words
/// with numbers and units.
pub(super) fn duration(text: &str) -> Option<i64> {
    go_duration(text).or_else(|| duration_in_words(text))
}

/// Parses a duration such as `1h30m`, `1.5s`, `-2m` or `0`, like Go's `time.ParseDuration`.
fn go_duration(text: &str) -> Option<i64> {
    const UNITS: [(&str, u64); 8] = [
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("μs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ];
    let (is_negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len()));
        let (unit, after) = after.split_at(after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len()));
        rest = after;
        let (_, size) = UNITS.iter().find(|(name, _)| *name == unit)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return None;
        }
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        total += i128::from(whole) * i128::from(*size) + part_of(fraction, *size);
        if total > i128::from(i64::MAX) + 1 {
            return None;
        }
    }
    i64::try_from(if is_negative { -total } else { total }).ok()
}

/// The decimal fraction of a unit, rounded down.
fn part_of(fraction: &str, size: u64) -> i128 {
    let digits = fraction.bytes().take(18);
    let (value, scale) =
        digits.fold((0, 1), |(value, scale): (i128, i128), digit| (value * 10 + i128::from(digit - b'0'), scale * 10));
    value * i128::from(size) / scale
}

/// Parses a duration such as `22 ns`, `1 day` or `in 3 Hours`. Each number must be valid, and at least one unit must be
/// known. As in Go, a sum that is too large wraps around.
fn duration_in_words(text: &str) -> Option<i64> {
    static PART: LazyLock<Regex> = LazyLock::new(|| pattern(r"([0-9]+)[\t\n\f\r ]*([A-Za-zµ]+)"));
    const HOUR_NANOS: i64 = 3_600_000_000_000;
    // The names of each unit. A word that begins with the last name of a unit also means the unit.
    const UNITS: [(&[&str], i64); 8] = [
        (&["ns", "nano"], 1),
        (&["us", "µs", "micro"], 1_000),
        (&["ms", "milli"], 1_000_000),
        (&["s", "sec"], 1_000_000_000),
        (&["m", "min"], 60_000_000_000),
        (&["h", "hr", "hour"], HOUR_NANOS),
        (&["d", "day"], 24 * HOUR_NANOS),
        (&["w", "wk", "week"], 7 * 24 * HOUR_NANOS),
    ];
    let mut total = None;
    for part in PART.captures_iter(text) {
        let count: i64 = part[1].parse().ok()?;
        let word = part[2].to_lowercase();
        let is_named =
            |names: &[&str]| names.contains(&word.as_str()) || names.last().is_some_and(|last| word.starts_with(last));
        for (_, size) in UNITS.iter().filter(|(names, _)| is_named(names)) {
            total = Some(total.unwrap_or(0_i64).wrapping_add(count.wrapping_mul(*size)));
        }
    }
    total
}
