//! Log lines that repeat, summed up. The first of a period, such as a minute, are logged; further ones are only counted,
//! and the next line that is logged says how many they were.
//!
//! For warnings that one sick server brings by the hundred, of which some tell as much as all. Callers log at debug level what
//! is only counted.

use std::time::Duration;

use crate::clock::Moment;

/// One kind of line in one place, such as all failed calls of a controller.
#[derive(Clone, Debug)]
pub struct Repeats {
    most: u32,
    /// The time for which lines are summed up.
    period: Duration,
    /// When the first line of the present period was logged.
    began: Option<Moment>,
    logged: u32,
    unsaid: u64,
}

impl Repeats {
    /// So many lines are logged each minute.
    #[must_use]
    pub const fn a_minute(most: u32) -> Self {
        Self::each(Duration::from_mins(1), most)
    }

    /// So many lines are logged each `period`.
    #[must_use]
    pub const fn each(period: Duration, most: u32) -> Self {
        Self { most, period, began: None, logged: 0, unsaid: 0 }
    }

    /// Whether another line is to be logged `now`. If it is: how many were not since the last that was.
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
    fn the_first_of_a_minute_are_logged_and_the_next_minutes_first_sums_up_the_others() {
        let mut repeats = Repeats::a_minute(2);
        let at = |seconds: u64| Moment(Duration::from_secs(seconds));
        let said = [5, 6, 7, 64].map(|second| repeats.line(at(second)));
        assert_eq!(said, [Some(0), Some(0), None, None]);
        let said = [65, 66, 67].map(|second| repeats.line(at(second)));
        assert_eq!(said, [Some(2), Some(0), None], "a minute after its first line another period begins");
        assert_eq!(repeats.line(at(9_000)), Some(1));
    }
}
