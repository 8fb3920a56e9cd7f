//! The warnings of one request, which are part of its response whether it succeeds or fails.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The total number of characters of all warnings above which each one is truncated: `truncateAtTotalRunes` of
/// `k8s.io/apiserver/pkg/endpoints/filters/warning.go`.
const TOTAL_CHARS_MAX: usize = 4 * 1024;

/// The number of characters that a truncated warning keeps.
const CUT_CHARS_MAX: usize = 256;

/// The warnings of one request. Clones share the list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Warnings(Arc<Mutex<WarningList>>);

#[derive(Debug, Default)]
struct WarningList {
    known: HashSet<String>,
    in_order: Vec<String>,
}

impl Warnings {
    /// Adds a warning, unless it is in the list already.
    pub(crate) fn add(&self, texts: impl IntoIterator<Item = String>) {
        let mut given = self.given();
        for text in texts {
            if !text.is_empty() && given.known.insert(text.clone()) {
                given.in_order.push(text);
            }
        }
    }

    pub(crate) fn clear(&self) {
        *self.given() = WarningList::default();
    }

    pub(crate) fn list(&self) -> Vec<String> {
        self.given().in_order.clone()
    }

    fn given(&self) -> MutexGuard<'_, WarningList> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The values of the `Warning` header, which kubectl prints. A text with control characters has no value.
    pub(crate) fn header_values(&self) -> Vec<String> {
        let texts: Vec<String> = self.list().into_iter().filter(|text| !text.chars().any(char::is_control)).collect();
        let total: usize = texts.iter().map(|text| text.chars().count()).sum();
        let each_max = if total > TOTAL_CHARS_MAX { CUT_CHARS_MAX } else { usize::MAX };
        let (mut values, mut written) = (Vec::new(), 0);
        for text in texts {
            if written >= TOTAL_CHARS_MAX && total > TOTAL_CHARS_MAX {
                break;
            }
            let text: String = text.chars().take(each_max).collect();
            written += text.chars().count();
            values.push(format!("299 - \"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")));
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header_values(texts: &[String]) -> Vec<String> {
        let warnings = Warnings::default();
        warnings.add(texts.to_vec());
        warnings.header_values()
    }

    #[test]
    fn a_warning_is_sent_once_and_quoted() {
        let texts = ["a \"b\" \\c", "é", "", "a \"b\" \\c", "a\nb"].map(str::to_owned);
        assert_eq!(header_values(&texts), [r#"299 - "a \"b\" \\c""#, "299 - \"é\""]);
    }

    #[test]
    fn warnings_are_truncated_if_their_total_is_too_long() {
        let long = |first: usize| format!("{first:04}{}", "é".repeat(296));
        let lengths = |count: usize| -> Vec<usize> {
            let values = header_values(&(0..count).map(long).collect::<Vec<_>>());
            values.iter().map(|value| value.chars().count() - "299 - \"\"".len()).collect()
        };
        assert_eq!(lengths(13), [300; 13]);
        assert_eq!(lengths(14), [256; 14]);
        assert_eq!(lengths(30), [256; 16]);
    }
}
