//! Reads JSON in one pass, if it is in the form that API servers and SDKs write: without white space between tokens.
//!
//! For any other text, the result is `None`, and the caller reads the text from its beginning with serde. Only serde
//! decides what an unusual text means and what is wrong with a bad one. So this module must not accept a text that
//! serde refuses, and must not read a text differently. This module is worth its code, because most of an object is
//! only skipped and checked to be JSON. serde takes three times as long for that.

/// The maximum number of brackets that may be open at a time in a skipped value. Each has a bit, and one more bit marks
/// the end. Kubernetes' own objects have about twenty levels.
const OPEN_BRACKETS_MAX: u32 = u64::BITS - 1;

/// A place in a JSON text.
pub(crate) struct Scan<'a> {
    text: &'a str,
    /// The part that has not been read yet.
    rest: &'a [u8],
}

impl<'a> Scan<'a> {
    /// The beginning of `text`.
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, rest: text.as_bytes() }
    }

    /// The number of bytes that have been read.
    pub(crate) fn at(&self) -> usize {
        self.text.len() - self.rest.len()
    }

    /// The part that has been read since `start`.
    pub(crate) fn since(&self, start: usize) -> Option<&'a str> {
        self.text.get(start..self.at())
    }

    /// `Some` if nothing follows.
    pub(crate) fn end(&self) -> Option<()> {
        self.rest.is_empty().then_some(())
    }

    /// Reads the fields of an object, to its end. `read` gets the name of each field and reads its value.
    pub(crate) fn fields(&mut self, mut read: impl FnMut(&mut Self, &'a str) -> Option<()>) -> Option<()> {
        self.expect(b'{')?;
        if self.follows(b'}') {
            return Some(());
        }
        loop {
            let name = self.string()?;
            self.expect(b':')?;
            read(self, name)?;
            if !self.follows(b',') {
                return self.expect(b'}');
            }
        }
    }

    /// Reads a string without escapes.
    pub(crate) fn string(&mut self) -> Option<&'a str> {
        let start = self.at() + 1;
        let [b'"', string @ ..] = self.rest else { return None };
        let [b'"', after @ ..] = from_special(string) else { return None };
        self.rest = after;
        self.text.get(start..self.at() - 1)
    }

    /// Reads a value that is not null, and returns its text.
    pub(crate) fn raw(&mut self) -> Option<&'a str> {
        let start = self.at();
        self.pass()?;
        self.since(start).filter(|raw| *raw != "null")
    }

    pub(crate) fn boolean(&mut self) -> Option<bool> {
        match self.raw()? {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }

    /// Reads an integer that is not negative. serde does not read `-0` as an integer.
    pub(crate) fn integer(&mut self) -> Option<i64> {
        self.raw().filter(|raw| !raw.starts_with('-'))?.parse().ok()
    }

    /// Skips a value of any type.
    pub(crate) fn pass(&mut self) -> Option<()> {
        self.rest = after_value(self.rest)?;
        Some(())
    }

    pub(crate) fn expect(&mut self, byte: u8) -> Option<()> {
        self.rest = after(self.rest, byte)?;
        Some(())
    }

    /// Skips `byte` if it comes next, and returns whether it does.
    pub(crate) fn follows(&mut self, byte: u8) -> bool {
        let after = after(self.rest, byte);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }
}

/// Sets a field. `None` if it was set before, because a field must appear only once.
pub(crate) fn once<T>(field: &mut Option<T>, value: T) -> Option<()> {
    field.replace(value).is_none().then_some(())
}

/// `rest` after the value with which it begins. Most of an object goes through this loop, so its calls are inlined, its
/// state is in registers, and bytes that usually come together are compared together.
fn after_value(mut rest: &[u8]) -> Option<&[u8]> {
    // A 1, followed by a bit for each open bracket, the innermost last: 1 for an object, 0 for an array.
    let mut open = 1_u64;
    loop {
        // A value begins here.
        rest = match rest {
            [b'"', rest @ ..] => after_string(rest)?,
            [b'{', b'}', rest @ ..] | [b'[', b']', rest @ ..] => rest,
            [b'{' | b'[', ..] if open >> OPEN_BRACKETS_MAX != 0 => return None,
            [b'{', b'"', rest_of_name @ ..] => {
                open = (open << 1) | 1;
                rest = after_name(rest_of_name)?;
                continue;
            }
            [b'[', first @ ..] => {
                open <<= 1;
                rest = first;
                continue;
            }
            [first, rest @ ..] => after_scalar(*first, rest)?,
            [] => return None,
        };
        // A value has ended. The values that contain it may end here too.
        loop {
            if open == 1 {
                return Some(rest);
            }
            let is_in_object = open & 1 == 1;
            rest = match rest {
                [b',', b'"', rest_of_name @ ..] if is_in_object => {
                    rest = after_name(rest_of_name)?;
                    break;
                }
                [b',', next @ ..] if !is_in_object => {
                    rest = next;
                    break;
                }
                [b'}', after @ ..] if is_in_object => after,
                [b']', after @ ..] if !is_in_object => after,
                _ => return None,
            };
            open >>= 1;
        }
    }
}

/// `rest`, which begins inside the name of a field, after the colon behind that name.
#[inline]
fn after_name(rest: &[u8]) -> Option<&[u8]> {
    match from_special(rest) {
        [b'"', b':', rest @ ..] => Some(rest),
        [b'\\', rest @ ..] => after(after_escapes(rest)?, b':'),
        _ => None,
    }
}

/// The first byte of `rest`, and the bytes after it.
#[inline]
fn next(rest: &[u8]) -> Option<(u8, &[u8])> {
    rest.split_first().map(|(byte, rest)| (*byte, rest))
}

/// `rest` after `byte`, if `rest` begins with it.
#[inline]
fn after(rest: &[u8], byte: u8) -> Option<&[u8]> {
    rest.split_first().filter(|(first, _)| **first == byte).map(|(_, rest)| rest)
}

/// `rest`, which begins inside a string, after the end of that string.
#[inline]
fn after_string(rest: &[u8]) -> Option<&[u8]> {
    match from_special(rest) {
        [b'"', rest @ ..] => Some(rest),
        [b'\\', rest @ ..] => after_escapes(rest),
        _ => None,
    }
}

/// As [`after_string`], if a backslash was just read.
#[cold]
fn after_escapes(mut rest: &[u8]) -> Option<&[u8]> {
    loop {
        let byte;
        (byte, rest) = next(rest)?;
        match byte {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
            b'u' => {
                let (digits, after) = rest.split_first_chunk::<4>()?;
                if !digits.iter().all(u8::is_ascii_hexdigit) {
                    return None;
                }
                rest = after;
            }
            _ => return None,
        }
        rest = match next(from_special(rest))? {
            (b'"', rest) => return Some(rest),
            (b'\\', rest) => rest,
            _ => return None,
        };
    }
}

/// `rest` after the word or number whose first byte is `first`.
fn after_scalar(first: u8, rest: &[u8]) -> Option<&[u8]> {
    match first {
        b't' => rest.strip_prefix(b"rue"),
        b'f' => rest.strip_prefix(b"alse"),
        b'n' => rest.strip_prefix(b"ull"),
        b'-' => next(rest).and_then(|(digit, rest)| after_number(digit, rest)),
        digit => after_number(digit, rest),
    }
}

/// `rest` after the number whose first digit is `first`.
fn after_number(first: u8, mut rest: &[u8]) -> Option<&[u8]> {
    match first {
        // A digit after a leading zero is refused later, where the end of the value is expected.
        b'0' => {}
        b'1'..=b'9' => rest = after_digits(rest),
        _ => return None,
    }
    if let Some(fraction) = after(rest, b'.') {
        rest = after_digit(fraction)?;
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        rest = after_digit(exponent.strip_prefix(b"+").or(exponent.strip_prefix(b"-")).unwrap_or(exponent))?;
    }
    Some(rest)
}

/// `rest` after one or more digits.
fn after_digit(rest: &[u8]) -> Option<&[u8]> {
    next(rest).filter(|(byte, _)| byte.is_ascii_digit()).map(|(_, rest)| after_digits(rest))
}

fn after_digits(mut rest: &[u8]) -> &[u8] {
    while let [b'0'..=b'9', after @ ..] = rest {
        rest = after;
    }
    rest
}

/// The rest of `bytes`, from the first byte that ends a plain string or cannot be in one: a quote, a backslash or a
/// control character.
#[inline]
fn from_special(mut bytes: &[u8]) -> &[u8] {
    // Examines eight bytes at a time with Mycroft's test for bytes that are less than a number. The top bit of each
    // byte says whether the byte is one of those wanted. A borrow makes only the bytes after a hit wrong. Flipping the
    // bit that distinguishes a quote from a space makes the quote a neighbour of the control characters, so that one
    // test finds both.
    const ONES: u64 = u64::MAX / 0xFF;
    const QUOTE_AND_SPACE: u64 = ONES * (b'"' ^ b' ') as u64;
    const AFTER_SPACE: u64 = ONES * (b' ' + 1) as u64;
    const BACKSLASHES: u64 = ONES * b'\\' as u64;
    while let Some((chunk, rest)) = bytes.split_first_chunk::<8>() {
        let chunk = u64::from_le_bytes(*chunk);
        let control_or_quote = (chunk ^ QUOTE_AND_SPACE).wrapping_sub(AFTER_SPACE);
        let backslash = (chunk ^ BACKSLASHES).wrapping_sub(ONES);
        let found = (control_or_quote | backslash) & !chunk & (ONES << 7);
        if found != 0 {
            return &bytes[(found.trailing_zeros() / 8) as usize..];
        }
        bytes = rest;
    }
    from_special_byte(bytes)
}

/// As [`from_special`], byte by byte, for the end of a text.
#[cold]
fn from_special_byte(bytes: &[u8]) -> &[u8] {
    let is_special = |byte: &u8| matches!(*byte, b'"' | b'\\' | ..0x20);
    &bytes[bytes.iter().position(is_special).unwrap_or(bytes.len())..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_ends_at_its_first_quote_wherever_that_is() {
        for at in 0..20 {
            let before = "~\u{7f}é! #€".chars().cycle().take(at).collect::<String>();
            for end in 0..=0x7f_u8 {
                let text = format!("\"{before}{}x\"", char::from(end));
                let found = Scan::new(&text).string();
                let expected = match end {
                    b'"' => Some(&*before),
                    b'\\' | ..0x20 => None,
                    _ => Some(&text[1..text.len() - 1]),
                };
                assert_eq!(found, expected, "{text:?}");
            }
        }
    }
}
