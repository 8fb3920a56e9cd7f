//! Finds the value of a YAML 1.1 scalar, like `resolve` in `go.yaml.in/yaml/v2/resolve.go`, on which `sigs.k8s.io/yaml`
//! is based.

use serde_json::{Number, Value};

use super::YamlError;

/// The value of a scalar, by its Go type.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    Text(String),
}

impl Scalar {
    /// The value of a scalar without a tag and without quotes.
    pub(super) fn of_plain(text: &str) -> Scalar {
        match text {
            "" | "~" | "null" | "Null" | "NULL" => Scalar::Null,
            "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Scalar::Bool(true),
            "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Scalar::Bool(false),
            ".nan" | ".NaN" | ".NAN" => Scalar::Float(f64::NAN),
            ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Scalar::Float(f64::INFINITY),
            "-.inf" | "-.Inf" | "-.INF" => Scalar::Float(f64::NEG_INFINITY),
            _ => Scalar::of_number(text).unwrap_or_else(|| Scalar::Text(text.to_owned())),
        }
    }

    /// The value of a number. Underscores are ignored, except after a leading dot.
    fn of_number(text: &str) -> Option<Scalar> {
        match text.as_bytes().first()? {
            b'.' => float(text),
            b'+' | b'-' | b'0'..=b'9' => {
                let plain = text.replace('_', "");
                integer(&plain).or_else(|| float(&plain))
            }
            _ => None,
        }
    }

    /// The value of a scalar with an explicit tag. `tag` is the tag's name, such as `int`.
    pub(super) fn of_tagged(tag: &str, text: &str) -> Result<Scalar, YamlError> {
        let found = Scalar::of_plain(text);
        let own = match found {
            Scalar::Null => "null",
            Scalar::Bool(_) => "bool",
            Scalar::Int(_) | Scalar::Uint(_) => "int",
            Scalar::Float(_) => "float",
            Scalar::Text(_) => "str",
        };
        match (tag, found) {
            #[expect(clippy::cast_precision_loss, reason = "as Go converts it")]
            ("float", Scalar::Int(number)) => Ok(Scalar::Float(number as f64)),
            ("null" | "bool" | "int" | "float", found) if own == tag => Ok(found),
            ("null" | "bool" | "int" | "float", _) => {
                Err(YamlError::new(None, &format!("cannot decode !!{own} `{text}` as a !!{tag}")))
            }
            _ => Ok(Scalar::Text(text.to_owned())),
        }
    }

    /// The scalar as a JSON value. A float without a fraction becomes an integer.
    pub(super) fn into_value(self) -> Result<Value, YamlError> {
        Ok(match self {
            Scalar::Null => Value::Null,
            Scalar::Bool(value) => Value::Bool(value),
            Scalar::Int(number) => number.into(),
            Scalar::Uint(number) => number.into(),
            #[expect(clippy::cast_possible_truncation, reason = "it is whole, and small enough")]
            Scalar::Float(number) if number.fract() == 0.0 && number.abs() < 9.2e18 => (number as i64).into(),
            Scalar::Float(number) => match Number::from_f64(number) {
                Some(number) => Value::Number(number),
                None => return Err(YamlError::unsupported_number(number)),
            },
            Scalar::Text(text) => Value::String(text),
        })
    }

    /// The scalar as the key of a map, like `convertToJSONableObject` in `sigs.k8s.io/yaml/yaml.go`.
    pub(super) fn into_key(self) -> Result<String, YamlError> {
        Ok(match self {
            Scalar::Text(text) => text,
            Scalar::Bool(value) => value.to_string(),
            Scalar::Int(number) => number.to_string(),
            Scalar::Float(number) => shortest(number),
            Scalar::Uint(number) => {
                return Err(YamlError::bare(format!("unsupported map key of type: uint64, key: {number:#x}")));
            }
            Scalar::Null => {
                return Err(YamlError::bare("unsupported map key of type: %!s(<nil>), key: <nil>".to_owned()));
            }
        })
    }
}

/// Parses an integer, like `strconv.ParseInt` and `ParseUint` with base 0: a leading zero means octal.
fn integer(text: &str) -> Option<Scalar> {
    let (is_negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let prefix = digits.get(..2).unwrap_or_default().to_ascii_lowercase();
    let (radix, digits) = match prefix.as_str() {
        "0x" => (16, &digits[2..]),
        "0o" => (8, &digits[2..]),
        "0b" => (2, &digits[2..]),
        _ if digits.len() > 1 && digits.starts_with('0') => (8, &digits[1..]),
        _ => (10, digits),
    };
    // Rust's parser would accept a sign here.
    if !digits.chars().all(|digit| digit.is_digit(radix)) {
        return None;
    }
    let magnitude = i128::from(u64::from_str_radix(digits, radix).ok()?);
    let number = if is_negative { -magnitude } else { magnitude };
    match (i64::try_from(number), u64::try_from(number)) {
        (Ok(number), _) => Some(Scalar::Int(number)),
        // Go's `ParseUint` does not accept a sign.
        (_, Ok(number)) if !text.starts_with('+') => Some(Scalar::Uint(number)),
        _ => None,
    }
}

/// Parses a float, like Go's `yamlStyleFloat` and `strconv.ParseFloat`, which refuses numbers that are too large.
fn float(text: &str) -> Option<Scalar> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(place) => (&unsigned[..place], Some(&unsigned[place + 1..])),
        None => (unsigned, None),
    };
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let has_mantissa = are_digits(whole) && are_digits(fraction) && !(whole.is_empty() && fraction.is_empty());
    let has_exponent = exponent.is_none_or(|exponent| {
        let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        !digits.is_empty() && are_digits(digits)
    });
    let number: f64 = (has_mantissa && has_exponent).then(|| text.parse().ok())??;
    number.is_finite().then_some(Scalar::Float(number))
}

/// Formats a number like Go's `strconv.FormatFloat(number, 'g', -1, 32)`.
fn shortest(number: f64) -> String {
    if number.is_nan() {
        return ".nan".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    #[expect(clippy::cast_possible_truncation, reason = "as Go prints it, with 32 bits")]
    let scientific = format!("{:e}", number as f32);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let digits = i32::try_from(mantissa.bytes().filter(u8::is_ascii_digit).count()).unwrap_or(i32::MAX);
    let most = if digits > 6 && digits > exponent { digits } else { 6 };
    if (-4..most).contains(&exponent) {
        #[expect(clippy::cast_possible_truncation, reason = "as above")]
        return (number as f32).to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// `tests/differential/scripts/yaml.yaml` compares more scalars with a real server.
    #[test]
    fn plain_scalars_are_those_of_yaml_1_1() {
        for (text, value) in [
            ("0644", json!(420)),
            ("-0644", json!(-420)),
            ("0o644", json!(420)),
            ("019", json!(19)),
            ("00", json!(0)),
            ("0x1F", json!(31)),
            ("0b101", json!(5)),
            ("1_000", json!(1000)),
            ("1_0.5", json!(10.5)),
            ("1e3", json!(1000)),
            (".5", json!(0.5)),
            ("1.", json!(1)),
            ("18446744073709551615", json!(u64::MAX)),
            ("yes", json!(true)),
            ("off", json!(false)),
            ("tRUE", json!("tRUE")),
            ("~", json!(null)),
            ("1e400", json!("1e400")),
            ("0x", json!("0x")),
            ("0+1", json!("0+1")),
            ("1:30", json!("1:30")),
            ("_1", json!("_1")),
            ("-", json!("-")),
            ("2001-01-01", json!("2001-01-01")),
        ] {
            assert_eq!(Scalar::of_plain(text).into_value().expect(text), value, "{text}");
        }
        assert!(Scalar::of_plain(".inf").into_value().is_err());
    }

    #[test]
    fn a_key_is_written_as_go_formats_it() {
        for (text, key) in
            [("0644", "420"), ("1.50", "1.5"), ("1e3", "1000"), ("1e6", "1e+06"), ("1e-7", "1e-07"), ("yes", "true")]
        {
            assert_eq!(Scalar::of_plain(text).into_key().expect(text), key, "{text}");
        }
        assert!(Scalar::of_plain("~").into_key().is_err());
    }

    #[test]
    fn a_tag_determines_the_type_of_a_scalar() {
        let read = |tag, text| Scalar::of_tagged(tag, text).and_then(Scalar::into_value);
        assert_eq!(read("str", "0644").expect("a text"), json!("0644"));
        assert_eq!(read("int", "0644").expect("a number"), json!(420));
        assert_eq!(read("float", "1").expect("a number"), json!(1));
        assert!(read("int", "a").is_err());
    }
}
