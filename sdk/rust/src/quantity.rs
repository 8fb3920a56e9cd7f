//! Quantities of resources, such as `500m` and `1.5Gi`. (apimachinery: `pkg/api/resource`.)

use std::fmt;
use std::ops::{Add, AddAssign, Neg, Sub, SubAssign};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The number of billionths in one. A billionth is the smallest amount of Kubernetes, which rounds smaller parts away
/// from zero.
const NANO: i128 = 1_000_000_000;
/// The suffixes for the powers of 1,000 from a billionth up, and for the powers of 1,024 from one up.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// The most bytes of a quantity.
const QUANTITY_BYTES_MAX: usize = 64;

/// An amount of a resource, as in `resources.requests`, exact to a billionth.
///
/// Its text is in the canonical form, as the API server returns it. But a power of ten, as in `1e3`, gets a suffix. Two
/// quantities are equal if their amounts are:
///
/// ```
/// use windlass_sdk::Quantity;
///
/// let limit: Quantity = "1.5Gi".parse()?;
/// assert_eq!(limit.to_string(), "1536Mi");
/// assert!(limit > "1500M".parse()?);
/// let cpus: Quantity = "250m".parse()?;
/// assert_eq!((cpus + "0.5".parse()?).to_string(), "750m");
/// # Ok::<_, windlass_sdk::QuantityError>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Quantity {
    nanos: i128,
    /// Whether the quantity is written in powers of 1,024.
    is_binary: bool,
}

/// The error for a text that is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuantityError(String);

impl fmt::Display for QuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a quantity, which is like `500m`, `2` or `1.5Gi`", self.0)
    }
}

impl std::error::Error for QuantityError {}

impl Quantity {
    /// A whole number.
    #[must_use]
    pub fn new(amount: i64) -> Self {
        Self { nanos: i128::from(amount) * NANO, is_binary: false }
    }

    /// A number of bytes, written in powers of 1,024.
    #[must_use]
    pub fn bytes(amount: i64) -> Self {
        Self { is_binary: true, ..Self::new(amount) }
    }

    /// The amount, rounded away from zero to a whole number and limited to the range of `i64`.
    #[must_use]
    pub fn value(self) -> i64 {
        saturated(divided(self.nanos, NANO))
    }

    /// The amount in thousandths, rounded away from zero and limited to the range of `i64`.
    #[must_use]
    pub fn milli_value(self) -> i64 {
        saturated(divided(self.nanos, NANO / 1_000))
    }

    /// The closest `f64` to the amount.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "the documentation says so")]
    pub fn as_f64(self) -> f64 {
        self.nanos as f64 / NANO as f64
    }

    /// Whether the amount is zero.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    fn read(text: &str) -> Option<Self> {
        let (is_negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let end = rest.find(|it: char| !it.is_ascii_digit() && it != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let digits: i128 = [whole, fraction].concat().parse().ok()?;
        let (times, over, is_binary) = scale(suffix)?;
        let over = over.checked_mul(power(10, u32::try_from(fraction.len()).ok()?)?)?;
        let nanos = digits.checked_mul(times)?.checked_mul(NANO)?;
        let nanos = divided(nanos, over);
        Some(Self { nanos: if is_negative { -nanos } else { nanos }, is_binary })
    }
}

/// A suffix as a factor and a divisor, and whether it is a power of 1,024.
fn scale(suffix: &str) -> Option<(i128, i128, bool)> {
    if let Some(at) = BINARY.iter().skip(1).position(|it| *it == suffix) {
        return Some((power(1_024, u32::try_from(at).ok()? + 1)?, 1, true));
    }
    let exponent = match DECIMAL.iter().position(|it| *it == suffix) {
        Some(at) => 3 * (i32::try_from(at).ok()? - 3),
        None => suffix.strip_prefix(['e', 'E'])?.parse().ok()?,
    };
    let power = power(10, exponent.unsigned_abs())?;
    Some(if exponent < 0 { (1, power, false) } else { (power, 1, false) })
}

fn power(base: i128, exponent: u32) -> Option<i128> {
    base.checked_pow(exponent)
}

/// Divides, and rounds away from zero.
fn divided(amount: i128, by: i128) -> i128 {
    amount / by + amount.signum() * i128::from(amount % by != 0)
}

fn saturated(amount: i128) -> i64 {
    i64::try_from(amount).unwrap_or(if amount < 0 { i64::MIN } else { i64::MAX })
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let is_short = text.len() <= QUANTITY_BYTES_MAX;
        Self::read(text)
            .filter(|_| is_short)
            .ok_or_else(|| QuantityError(text.chars().take(QUANTITY_BYTES_MAX).collect()))
    }
}

/// The canonical form: a whole number with the largest suffix that leaves it whole.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut amount, mut at) = (self.nanos, 0);
        // Powers of 1,024 have no suffix for amounts below 1,024, nor for fractions.
        if self.is_binary && amount.abs() >= 1_024 * NANO && amount % NANO == 0 {
            amount /= NANO;
            while at + 1 < BINARY.len() && amount % 1_024 == 0 {
                (amount, at) = (amount / 1_024, at + 1);
            }
            return write!(f, "{amount}{}", BINARY[at]);
        }
        if amount == 0 {
            return f.write_str("0");
        }
        while at + 1 < DECIMAL.len() && amount % 1_000 == 0 {
            (amount, at) = (amount / 1_000, at + 1);
        }
        write!(f, "{amount}{}", DECIMAL[at])
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl std::hash::Hash for Quantity {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.nanos.hash(state);
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

/// The result has the form of the first operand, unless that is zero. It is limited to the range of a quantity.
impl Add for Quantity {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let is_binary = if self.is_zero() { other.is_binary } else { self.is_binary };
        Self { nanos: self.nanos.saturating_add(other.nanos), is_binary }
    }
}

impl AddAssign for Quantity {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Neg for Quantity {
    type Output = Self;

    fn neg(self) -> Self {
        Self { nanos: self.nanos.saturating_neg(), ..self }
    }
}

/// As [`Add`].
impl Sub for Quantity {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl SubAssign for Quantity {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl std::iter::Sum for Quantity {
    fn sum<I: Iterator<Item = Self>>(quantities: I) -> Self {
        quantities.fold(Self::default(), Self::add)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Reads a text, or a number as in `cpu: 2`.
impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Text(String),
            Number(serde_json::Number),
        }
        let text = match Form::deserialize(deserializer)? {
            Form::Text(text) => text,
            Form::Number(number) => number.to_string(),
        };
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Quantity {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn a_quantity_is_written_in_the_servers_canonical_form() {
        for (text, canonical) in [
            ("0", "0"),
            ("0.5", "500m"),
            ("1.5", "1500m"),
            ("1500m", "1500m"),
            ("1000m", "1"),
            ("1000", "1k"),
            ("1e3", "1k"),
            ("12E-1", "1200m"),
            (".5", "500m"),
            ("5.", "5"),
            ("+1", "1"),
            ("-1.5Gi", "-1536Mi"),
            ("1.5Gi", "1536Mi"),
            ("1024Mi", "1Gi"),
            ("0.5Ki", "512"),
            ("0.1Gi", "107374182400m"),
            ("1Ei", "1Ei"),
            ("0.1n", "1n"),
            ("123456789n", "123456789n"),
        ] {
            assert_eq!(read(text).to_string(), canonical, "{text}");
        }
    }

    #[test]
    fn an_invalid_quantity_is_refused_with_its_text() {
        for text in ["", ".", "-", "1.2.3", "1K", "1kb", "1 Gi", "Gi", "1e", "1e99", "0x1", "NaN", "１"] {
            let error = text.parse::<Quantity>().expect_err(text).to_string();
            assert!(error.contains(&format!("{text:?} is not a quantity")), "{error}");
        }
        assert!("9".repeat(65).parse::<Quantity>().is_err());
    }

    #[test]
    fn amounts_are_compared_and_added_whatever_their_form() {
        assert_eq!(read("1Gi"), read("1073741824"));
        assert!(read("1G") < read("1Gi"));
        assert_eq!((read("1Gi") + read("512Mi")).to_string(), "1536Mi");
        assert_eq!((read("2") - read("500m")).to_string(), "1500m");
        let all: Quantity = ["100m", "200m"].map(read).into_iter().sum();
        assert_eq!(all.to_string(), "300m");
        assert_eq!((Quantity::default() + Quantity::bytes(2_048)).to_string(), "2Ki");
    }

    #[test]
    fn whole_numbers_are_rounded_away_from_zero() {
        assert_eq!((read("1.2").value(), read("1.2").milli_value()), (2, 1_200));
        assert_eq!((read("-1.2").value(), read("100u").milli_value()), (-2, 1));
        assert_eq!(read("9Ei").value(), i64::MAX);
        assert!((read("250m").as_f64() - 0.25).abs() < f64::EPSILON);
    }

    #[test]
    fn a_quantity_is_read_from_text_or_number_and_written_as_text() {
        let read: Vec<Quantity> = serde_json::from_str(r#"["100m", 2, 0.5]"#).expect("quantities");
        assert_eq!(serde_json::to_string(&read).expect("JSON"), r#"["100m","2","500m"]"#);
        assert!(
            serde_json::from_str::<Quantity>(r#""much""#).expect_err("none").to_string().contains("not a quantity")
        );
    }
}
