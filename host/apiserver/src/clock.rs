//! The time in the two forms that Kubernetes writes. The one place of the crate that reads the wall clock.

use jiff::Timestamp;

/// `metav1.Time`: whole seconds.
pub(crate) fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The age of a moment as kubectl prints it (`5s`, `3m20s`, `4h`, `12d`); `<unknown>` for what is no time.
pub(crate) fn age(moment: &str) -> String {
    let Ok(then) = moment.parse::<Timestamp>() else { return "<unknown>".to_owned() };
    human_duration(Timestamp::now().as_second() - then.as_second())
}

/// Two units while the first is small, then one: the rule of `duration.HumanDuration`.
pub(crate) fn human_duration(seconds: i64) -> String {
    let pair = |big: i64, big_unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{big}{big_unit}"),
        small => format!("{big}{big_unit}{small}{small_unit}"),
    };
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1..=0 => "0s".to_owned(),
        1..120 => format!("{seconds}s"),
        120..600 => pair(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => pair(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => pair(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => pair(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_printed_as_kubectl_prints_them() {
        let cases = [(0, "0s"), (119, "119s"), (120, "2m"), (200, "3m20s"), (3600, "60m"), (10_860, "3h1m")];
        for (seconds, expected) in cases {
            assert_eq!(human_duration(seconds), expected);
        }
        assert_eq!(human_duration(86_400 * 3), "3d");
        assert_eq!(human_duration(86_400 * 30), "30d");
    }
}
