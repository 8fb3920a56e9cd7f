//! Limits repeated log lines. In each period, such as a minute, the first few lines are logged. Further lines are only
//! counted, and the next line that is logged reports their number.
//!
//! Meant for warnings that one faulty server can cause by the hundred. Callers log the counted lines at debug level.

use std::time::Duration;

use crate::clock::Moment;

/// One kind of line in one place, such as the failed calls of a controller.
#[derive(Clone, Debug)]
pub struct Repeats {
    most: u32,
    period: Duration,
    /// When the first line of the current period was logged.
    began: Option<Moment>,
    logged: u32,
    unsaid: u64,
}

impl Repeats {
    /// Logs at most `most` lines per minute.
    #[must_use]
    pub const fn a_minute(most: u32) -> Self {
        Self::each(Duration::from_mins(1), most)
    }

    /// Logs at most `most` lines per `period`.
    #[must_use]
    pub const fn each(period: Duration, most: u32) -> Self {
        Self { most, period, began: None, logged: 0, unsaid: 0 }
    }

    /// Whether to log another line `now`. If so, returns how many lines were left out since the last logged line.
    pub fn line(&mut self, now: Moment) -> Option<u64> {
        if self.began.is_none_or(|began| now >= began + self.period) {
            (self.began, self.logged) = (Some(now), 0);
        }
        if self.logged < self.most {
            self.logged += 1;
            return Some(std::mem::take(&mut self.unsaid));
        }
        self.unsaid += 1;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_minutes_first_line_counts_the_lines_that_were_not_logged() {
        let mut repeats = Repeats::a_minute(2);
        let at = |seconds: u64| Moment(Duration::from_secs(seconds));
        let said = [5, 6, 7, 64].map(|second| repeats.line(at(second)));
        assert_eq!(said, [Some(0), Some(0), None, None]);
        let said = [65, 66, 67].map(|second| repeats.line(at(second)));
        assert_eq!(said, [Some(2), Some(0), None], "a minute after its first line another period begins");
        assert_eq!(repeats.line(at(9_000)), Some(1));
    }
}
