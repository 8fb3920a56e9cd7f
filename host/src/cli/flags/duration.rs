//! Times on the command line: a whole number and its unit.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A time: `500ms`, `15s`, `2m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DurationArg(pub(crate) Duration);

impl FromStr for DurationArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "a time is a whole number and its unit: 500ms, 15s, 2m".to_owned();
        let digits = text.find(|character: char| !character.is_ascii_digit()).ok_or_else(wrong)?;
        let (number, unit) = text.split_at(digits);
        let number: u32 = number.parse().map_err(|_| wrong())?;
        let time = match unit {
            "ms" => Duration::from_millis(number.into()),
            "s" => Duration::from_secs(number.into()),
            "m" => Duration::from_secs(u64::from(number) * 60),
            _ => return Err(wrong()),
        };
        Ok(Self(time))
    }
}

impl fmt::Display for DurationArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.subsec_millis(), self.0.as_secs()) {
            (0, seconds) if seconds > 60 && seconds.is_multiple_of(60) => write!(f, "{}m", seconds / 60),
            (0, seconds) => write!(f, "{seconds}s"),
            _ => write!(f, "{}ms", self.0.as_millis()),
        }
    }
}

/// Parses the value of a flag that is a time.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    text.parse().map(|DurationArg(time)| time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit() {
        assert_eq!(time("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(time("15s"), Ok(Duration::from_secs(15)));
        assert_eq!(time("2m"), Ok(Duration::from_mins(2)));
        for bad in ["", "15", "s", "-1s", "1.5s", "1h30m", "99999999999s"] {
            assert!(time(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_time_is_shown_as_it_is_written() {
        for text in ["500ms", "1500ms", "15s", "60s", "2m"] {
            assert_eq!(text.parse::<DurationArg>().map(|time| time.to_string()).as_deref(), Ok(text));
        }
    }
}
