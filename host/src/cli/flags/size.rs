//! Sizes on the command line, as Kubernetes writes quantities of memory.

use std::fmt;
use std::str::FromStr;

/// A number of bytes: `1073741824`, `1Gi`, `512Mi`, `64Ki`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteSize(pub(crate) usize);

const UNITS: [(&str, usize); 4] = [("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10), ("", 1)];

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a size in bytes, such as 512Mi or 1Gi");
        let unit = UNITS.iter().find_map(|(suffix, unit)| Some((text.strip_suffix(suffix)?, unit)));
        let (number, unit) = unit.ok_or_else(wrong)?;
        let number: usize = number.parse().map_err(|_| wrong())?;
        number.checked_mul(*unit).filter(|size| *size > 0).map(Self).ok_or_else(wrong)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |unit: &usize| self.0.is_multiple_of(*unit);
        let (suffix, unit) = UNITS.iter().find(|(_, unit)| fits(unit)).unwrap_or(&("", 1));
        write!(f, "{}{suffix}", self.0 / unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_they_are_written() {
        for (text, size) in [("1Gi", 1 << 30), ("512Mi", 512 << 20), ("3Ki", 3072), ("1000", 1000)] {
            assert_eq!(text.parse(), Ok(ByteSize(size)));
            assert_eq!(ByteSize(size).to_string(), text);
        }
    }

    #[test]
    fn an_invalid_size_is_refused_with_an_example() {
        for text in ["", "0", "Mi", "-1Mi", "1.5Gi", "1GB", "99999999999Gi"] {
            assert!(text.parse::<ByteSize>().is_err_and(|error| error.contains("512Mi")), "{text}");
        }
    }
}
