//! Quantities (`resource.Quantity`) and their canonical form: a number without a fraction, with the largest possible
//! suffix, and without a loss of precision.

use std::cmp::Ordering;

use serde_json::Value;

/// The error for a text that is not a quantity, in a real server's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QuantityError {
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    #[error("unable to parse quantity's suffix")]
    Suffix,
    #[error("unable to parse numeric part of quantity")]
    Number,
}

/// The kind of suffix of a quantity. The canonical form keeps it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Decimal,
    Exponent,
    Binary,
}

/// The largest quantity.
const QUANTITY_MAX: i128 = i64::MAX as i128;
/// The smallest unit is a billionth, the power -9 of ten.
const QUANTITY_EXPONENT_MIN: i32 = -9;

const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// The canonical form of a quantity.
pub(crate) fn canonical(text: &str) -> Result<String, QuantityError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(QuantityError::Format);
    }
    let (nanos, style) = nanos(text)?;
    Ok(print(nanos, style))
}

/// Compares two quantities in JSON. A value that is not a quantity counts as zero.
pub(crate) fn compare(left: &Value, right: &Value) -> Ordering {
    let size = |value: &Value| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        nanos(&text).map_or(0, |(nanos, _)| nanos)
    };
    size(left).cmp(&size(right))
}

/// The value in billionths, rounded up, and the kind of suffix.
fn nanos(text: &str) -> Result<(i128, Style), QuantityError> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let split = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(split);
    if number.is_empty() || !suffix.chars().all(|c| "eEinumkKMGTP+-".contains(c) || c.is_ascii_digit()) {
        return Err(QuantityError::Format);
    }
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return Err(QuantityError::Number);
    }
    let (base, power, style) = scale(suffix)?;
    // Further digits would not change the result.
    let fraction: String = fraction.chars().take(18).collect();
    let digits: i128 = format!("{whole}{fraction}")
        .trim_start_matches('0')
        .get(..)
        .map_or(Ok(0), |digits| if digits.is_empty() { Ok(0) } else { digits.get(..30).unwrap_or(digits).parse() })
        .map_err(|_| QuantityError::Number)?;
    let places = i32::try_from(fraction.len()).unwrap_or(i32::MAX);
    let (tens, binary) = if base == 10 { (power, 1) } else { (0, 1_i128 << (10 * power)) };
    let size =
        shift(digits.saturating_mul(binary), tens - places - QUANTITY_EXPONENT_MIN).min(QUANTITY_MAX * 1_000_000_000);
    Ok((if text.starts_with('-') { -size } else { size }, style))
}

/// Multiplies by a power of ten, and rounds up.
fn shift(value: i128, tens: i32) -> i128 {
    let factor = 10_i128.checked_pow(tens.unsigned_abs());
    match factor {
        Some(factor) if tens >= 0 => value.saturating_mul(factor),
        Some(factor) => value / factor + i128::from(value % factor != 0),
        None if tens < 0 => i128::from(value != 0),
        None if value == 0 => 0,
        None => i128::MAX,
    }
}

fn scale(suffix: &str) -> Result<(u32, i32, Style), QuantityError> {
    if let Some((_, power)) = DECIMAL.iter().find(|(known, _)| *known == suffix) {
        return Ok((10, *power, Style::Decimal));
    }
    if let Some(power) = BINARY.iter().position(|known| *known == suffix) {
        return Ok((1024, i32::try_from(power).unwrap_or_default(), Style::Binary));
    }
    let exponent = suffix.strip_prefix(['e', 'E']).and_then(|exponent| exponent.parse().ok());
    exponent.map(|exponent| (10, exponent, Style::Exponent)).ok_or(QuantityError::Suffix)
}

fn print(nanos: i128, style: Style) -> String {
    const UNIT: i128 = 1_000_000_000;
    let is_binary = style == Style::Binary && nanos.abs() >= 1024 * UNIT && nanos % UNIT == 0;
    if is_binary {
        let (mut value, mut power) = (nanos / UNIT, 0);
        while value % 1024 == 0 && power + 1 < BINARY.len() {
            (value, power) = (value / 1024, power + 1);
        }
        return format!("{value}{}", BINARY[power]);
    }
    let (mut value, mut power) = (nanos, QUANTITY_EXPONENT_MIN);
    let most = if style == Style::Exponent { i32::MAX } else { 18 };
    while value != 0 && value % 1000 == 0 && power < most {
        (value, power) = (value / 1000, power + 3);
    }
    let suffix = DECIMAL.iter().find(|(_, known)| *known == power).map_or("", |(suffix, _)| suffix);
    match style {
        _ if value == 0 => "0".to_owned(),
        Style::Exponent if power == 0 => value.to_string(),
        Style::Exponent => format!("{value}e{power}"),
        Style::Decimal | Style::Binary => format!("{value}{suffix}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantity_is_written_in_its_canonical_form() {
        for (given, canonical_form) in [
            ("1", "1"),
            ("0.5", "500m"),
            ("1.5", "1500m"),
            ("1000m", "1"),
            ("1000", "1k"),
            ("1500Mi", "1500Mi"),
            ("1.5Gi", "1536Mi"),
            ("1024Ki", "1Mi"),
            ("0.5Ki", "512"),
            ("0.1Gi", "107374182400m"),
            ("1e3", "1e3"),
            ("12e2", "1200"),
            ("0", "0"),
            ("0Gi", "0"),
            ("-1", "-1"),
            ("+1", "1"),
            (".5", "500m"),
            ("1.", "1"),
            ("100M", "100M"),
            ("0.0000000001", "1n"),
            ("10E", "9223372036854775807"),
        ] {
            assert_eq!(canonical(given).as_deref(), Ok(canonical_form), "{given}");
        }
    }

    #[test]
    fn an_invalid_quantity_is_refused() {
        for (given, error) in [
            ("", QuantityError::Format),
            ("abc", QuantityError::Format),
            ("1 Gi", QuantityError::Format),
            ("1GB", QuantityError::Format),
            ("1mm", QuantityError::Suffix),
            ("1.2.3", QuantityError::Number),
        ] {
            assert_eq!(canonical(given), Err(error), "{given}");
        }
    }
}
