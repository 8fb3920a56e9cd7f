//! Timestamps in two states that were written at nearly the same time.

use serde_json::Value;

/// The largest difference between timestamps that count as equal, in seconds.
const TIME_TOLERANCE_SECONDS: u64 = 60;

/// Replaces each timestamp in `other` by the corresponding timestamp in `one` if the two are close.
pub(super) fn align(one: &Value, other: &mut Value) {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            for (name, other) in other {
                if let Some(one) = one.get(name) {
                    align(one, other);
                }
            }
        }
        (Value::Array(one), Value::Array(other)) => {
            for (one, other) in one.iter().zip(other) {
                align(one, other);
            }
        }
        (Value::String(one), Value::String(other)) => {
            let times = seconds(one).zip(seconds(other));
            if times.is_some_and(|(one, other)| one.abs_diff(other) <= TIME_TOLERANCE_SECONDS) {
                other.clone_from(one);
            }
        }
        _ => {}
    }
}

/// A Kubernetes timestamp such as `2026-11-26T02:44:45Z`, with or without a fraction, as seconds since an arbitrary
/// day.
fn seconds(text: &str) -> Option<u64> {
    let text = text.strip_suffix('Z')?;
    let (date, time) = text.split_once('T')?;
    let time = time.split('.').next()?;
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
    if !(1..=12).contains(&month) {
        return None;
    }
    // In a year that begins in March, the months before the leap day always have the same lengths.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year.checked_sub(1)?, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

/// Three numbers with the given numbers of digits.
fn numbers(text: &str, separator: char, digits: [usize; 3]) -> Option<[u64; 3]> {
    let mut parts = text.split(separator);
    let mut found = [0; 3];
    for (number, digits) in found.iter_mut().zip(digits) {
        let part =
            parts.next().filter(|part| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit()))?;
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_times_that_are_close_count_as_equal() {
        for (one, other, is_same) in [
            ("2026-11-26T02:44:45Z", "2026-11-26T02:44:46Z", true),
            ("2026-12-31T23:59:59Z", "2027-01-01T00:00:30.5Z", true),
            ("2028-02-28T23:59:59Z", "2028-03-01T00:00:00Z", false),
            ("2028-02-29T23:59:59Z", "2028-03-01T00:00:00Z", true),
            ("2026-11-26T02:44:45Z", "2026-11-26T02:46:45Z", false),
            ("2026-13-26T02:44:45Z", "2026-13-26T02:44:46Z", false),
            ("1", "2", false),
        ] {
            let one = json!({"conditions": [{"time": one}]});
            let mut aligned = json!({"conditions": [{"time": other}], "more": 1});
            align(&one, &mut aligned);
            assert_eq!(one["conditions"] == aligned["conditions"], is_same, "{one} {other}");
        }
    }
}
