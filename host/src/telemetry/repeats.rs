//! Which failures have been told already: one that comes again and again is told once in full, and then counted.

use std::collections::HashMap;

/// More different failures than anybody reads.
const REMEMBERED_FAILURES_MAX: usize = 512;

/// The failures told so far, by their text. Times are in seconds.
#[derive(Debug, Default)]
pub(super) struct Repeats(HashMap<String, ToldFailure>);

#[derive(Debug)]
struct ToldFailure {
    first: u64,
    last_told: u64,
    times: u64,
}

/// How a failure is to be told.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Telling {
    /// It is new.
    InFull,
    /// It is the so-manieth time; it was told in full at `first`.
    Again { times: u64, first: u64 },
    /// It was told a moment ago.
    NotNow,
}

impl Repeats {
    /// How the failure `text` is told at `now`, if it may be told again once in `every` seconds.
    pub(super) fn tell(&mut self, text: String, now: u64, every: u64) -> Telling {
        if let Some(told) = self.0.get_mut(&text) {
            told.times += 1;
            if now.saturating_sub(told.last_told) < every {
                return Telling::NotNow;
            }
            told.last_told = now;
            return Telling::Again { times: told.times, first: told.first };
        }
        if self.0.len() == REMEMBERED_FAILURES_MAX {
            self.forget();
        }
        self.0.insert(text, ToldFailure { first: now, last_told: now, times: 1 });
        Telling::InFull
    }

    /// Something has changed: what fails after it is news.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_shown_in_full_once_and_then_counted() {
        let mut repeats = Repeats::default();
        let mut tell = |text: &str, now| repeats.tell(text.to_owned(), now, 10);
        assert_eq!(tell("a", 100), Telling::InFull);
        assert_eq!(tell("b", 100), Telling::InFull);
        assert_eq!((tell("a", 100), tell("a", 109)), (Telling::NotNow, Telling::NotNow));
        assert_eq!(tell("a", 110), Telling::Again { times: 4, first: 100 });
        assert_eq!((tell("a", 119), tell("a", 300)), (Telling::NotNow, Telling::Again { times: 6, first: 100 }));
        repeats.forget();
        assert_eq!(repeats.tell("a".to_owned(), 301, 10), Telling::InFull);
    }

    #[test]
    fn memory_for_distinct_failures_is_bounded() {
        let mut repeats = Repeats::default();
        (0..3 * REMEMBERED_FAILURES_MAX)
            .for_each(|number| assert_eq!(repeats.tell(number.to_string(), 0, 10), Telling::InFull));
        assert!(repeats.0.len() <= REMEMBERED_FAILURES_MAX);
    }
}
