//! The last lines that a plugin logged in one call, shown with the call's error. The full log has all lines; this
//! module keeps as many as an operator reads next to an error.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The maximum number of lines that are kept of one call.
const CALL_LINES_MAX: usize = 10;
/// The maximum number of bytes that are kept of one line.
const CALL_LINE_BYTES_MAX: usize = 256;

/// The last lines of one call. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct CallLines(Arc<Mutex<VecDeque<CallLine>>>);

/// A log line of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallLine {
    /// Its level, such as `INFO`.
    pub level: &'static str,
    /// The line's message and fields as `NAME=VALUE`, in at most 256 bytes.
    pub text: Box<str>,
}

impl CallLines {
    /// Adds a line. `text` is its message, with its fields if it has any.
    pub fn add(&self, level: &'static str, text: &str) {
        let text = &text[..text.floor_char_boundary(CALL_LINE_BYTES_MAX)];
        let mut lines = self.lock();
        if lines.len() == CALL_LINES_MAX {
            lines.pop_front();
        }
        lines.push_back(CallLine { level, text: text.into() });
    }

    /// Takes the lines out, the oldest first.
    #[must_use]
    pub fn take(&self) -> Vec<CallLine> {
        std::mem::take(&mut *self.lock()).into()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<CallLine>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ten_lines_are_kept() {
        let lines = CallLines::default();
        for at in 0..12 {
            lines.clone().add("INFO", &format!("line {at}"));
        }
        let kept = lines.take();
        let texts: Vec<_> = kept.iter().map(|line| &*line.text).collect();
        assert_eq!((texts.len(), texts[0], texts[9]), (10, "line 2", "line 11"));
        assert_eq!(lines.take(), []);
    }

    #[test]
    fn a_line_takes_at_most_256_bytes() {
        let lines = CallLines::default();
        lines.add("WARN", &"ü".repeat(1000));
        lines.add("WARN", &format!("a{}", "ü".repeat(1000)));
        assert_eq!(lines.take().iter().map(|line| line.text.len()).collect::<Vec<_>>(), [256, 255]);
    }
}
