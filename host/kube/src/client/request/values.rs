//! Finds JSON values in a stream of bytes without parsing them.

use std::ops::Range;

/// The maximum size of one value of a watch, or of one item of a list, in bytes. etcd allows objects of 1.5 MiB;
/// escapes and `managedFields` can make them several times as large.
pub(crate) const VALUE_BYTES_MAX: usize = 32 << 20;

/// Finds the end of the first JSON value in a growing buffer. It looks at each byte once and counts brackets outside of
/// strings. The parser later decides whether the value is JSON.
#[derive(Debug, Default)]
pub(crate) struct ValueScan {
    /// The number of bytes that were examined.
    at: usize,
    /// Where the value begins. `None` if there was only white space so far.
    start: Option<usize>,
    depth: usize,
    in_string: bool,
    /// Whether the value ends at `at`.
    found: bool,
}

impl ValueScan {
    /// The range of the value in `bytes`, once it is complete. Until the scan is reset, `bytes` may only grow at its
    /// end. Text that does not begin with a bracket is returned as far as it has arrived, so that the parser rejects
    /// it.
    pub(crate) fn find(&mut self, bytes: &[u8]) -> Option<Range<usize>> {
        let start = match self.start {
            Some(start) => start,
            None => self.begin(bytes)?,
        };
        while !self.found && self.at < bytes.len() {
            self.step(bytes);
        }
        self.found.then_some(start..self.at)
    }

    fn begin(&mut self, bytes: &[u8]) -> Option<usize> {
        let rest = bytes.get(self.at..).unwrap_or_default();
        let Some(white) = rest.iter().position(|byte| !byte.is_ascii_whitespace()) else {
            self.at = bytes.len();
            return None;
        };
        let start = self.at + white;
        self.start = Some(start);
        self.at = start;
        if !matches!(bytes[start], b'{' | b'[') {
            (self.at, self.found) = (bytes.len(), true);
        }
        Some(start)
    }

    fn step(&mut self, bytes: &[u8]) {
        let byte = bytes[self.at];
        if self.in_string {
            let Some(next) = memchr::memchr2(b'"', b'\\', &bytes[self.at..]) else {
                self.at = bytes.len();
                return;
            };
            self.at += next;
            self.in_string = bytes[self.at] == b'\\';
            // Skips the byte after a backslash as well, even if it has not arrived yet.
            self.at += if self.in_string { 2 } else { 1 };
            return;
        }
        self.at += 1;
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.depth -= 1;
                self.found = self.depth == 0;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: [&str; 7] = [
        "{}",
        "[]",
        r#"{"a":[{"b":"}]{["},{}]}"#,
        r#"{"a":"\"}","b":"\\"}"#,
        r#"{"a\\\"{":"\u007d"}"#,
        "{\n  \"a\": {\n    \"b\": 1\n  }\n}",
        r#"{"ä":"ö}"}"#,
    ];

    #[test]
    fn a_value_is_found_across_any_chunk_boundaries() {
        for value in VALUES {
            for (before, after) in [("", ""), ("", "{}"), (" \r\n\t", "\n"), ("\n", "garbage")] {
                let text = format!("{before}{value}{after}");
                let whole = before.len()..before.len() + value.len();
                for cut in 0..=text.len() {
                    let mut scan = ValueScan::default();
                    let early = scan.find(&text.as_bytes()[..cut]);
                    assert_eq!(early.is_some(), cut >= whole.end, "{text:?} cut at {cut}");
                    assert_eq!(scan.find(text.as_bytes()), Some(whole.clone()), "{text:?} cut at {cut}");
                }
            }
        }
    }

    #[test]
    fn a_value_comes_byte_by_byte() {
        for value in VALUES {
            let mut scan = ValueScan::default();
            let ends = |end: usize| scan.find(&value.as_bytes()[..end]).map(|found| found.end);
            let found: Vec<_> = (0..=value.len()).filter_map(ends).collect();
            assert_eq!(found, [value.len()], "{value}");
        }
    }

    #[test]
    fn text_that_begins_no_object_is_returned_at_once() {
        assert_eq!(ValueScan::default().find(b" not JSON\n{}"), Some(1..12));
        assert_eq!(ValueScan::default().find(b" }"), Some(1..2));
        assert_eq!(ValueScan::default().find(b" \n"), None);
        assert_eq!(ValueScan::default().find(b""), None);
    }
}
