//! Cron expressions as Kubernetes' `CronJob` reads them: five fields, in the dialect of robfig/cron v3.
//!
//! An expression is about local time and knows no time zone; [`schedule`](super::schedule) does.

use std::str::FromStr;

use jiff::ToSpan as _;
use jiff::civil::{Date, DateTime};

use crate::deceptive::single_line;

/// The days that are searched for the next match: more than the eight years between two leap days around 2100.
const SEARCHED_DAYS_MAX: usize = 366 * 9;
/// The longest expression, in bytes.
const EXPRESSION_BYTES_MAX: usize = 1024;

/// Why a text is not a cron expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CronError {
    /// The text has another number of fields.
    #[error("has {0} fields instead of five: minute, hour, day of the month, month, day of the week")]
    FieldCount(usize),
    #[error("has more than {EXPRESSION_BYTES_MAX} characters: split it into several controllers")]
    TooLong,
    /// The expression begins with `TZ=` or `CRON_TZ=`.
    #[error("names a time zone: write it to `timeZone` instead")]
    Zone,
    /// The expression is `@every …`.
    #[error("is an interval: write it to `intervalMs` instead")]
    Interval,
    /// The text begins with `@` and is none of the known abbreviations.
    #[error("`{}` is no abbreviation: use @hourly, @daily, @weekly, @monthly or @yearly", single_line(.0, 80))]
    Abbreviation(String),
    /// A part of a field is wrong.
    #[error("{field}: `{}` {problem}", single_line(part, 80))]
    Part {
        /// The field's name.
        field: &'static str,
        /// The part between two commas.
        part: String,
        /// The mistake, and the correct form.
        problem: String,
    },
    /// No day matches, such as February 30.
    #[error("never matches: no month that it names has such a day")]
    Never,
}

/// A field's name, range, and names of values.
struct FieldForm {
    name: &'static str,
    range: (u32, u32),
    /// The names of the values, from the lowest value on. Empty if they have none.
    names: &'static [&'static str],
    /// The permitted values, for messages.
    values: &'static str,
}

const MINUTE: FieldForm = FieldForm { name: "minute", range: (0, 59), names: &[], values: "0 to 59" };
const HOUR: FieldForm = FieldForm { name: "hour", range: (0, 23), names: &[], values: "0 to 23" };
const DAY: FieldForm = FieldForm { name: "day of the month", range: (1, 31), names: &[], values: "1 to 31" };
const MONTH: FieldForm = FieldForm {
    name: "month",
    range: (1, 12),
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    values: "1 to 12, or jan to dec",
};
const WEEKDAY: FieldForm = FieldForm {
    name: "day of the week",
    range: (0, 6),
    names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
    values: "0 to 6, or sun to sat; Sunday is 0",
};

/// The values of one field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct FieldValues {
    /// Bit `n` is set if the value `n` matches.
    bits: u64,
    /// Whether the field says `*` or `?`, and so leaves the choice of the day to the other field of days.
    is_any: bool,
}

impl FieldValues {
    fn has(self, value: u32) -> bool {
        self.bits >> value & 1 == 1
    }

    /// The lowest value from `least` on.
    fn first_from(self, least: u32) -> Option<u32> {
        let rest = self.bits.checked_shr(least).unwrap_or_default();
        (rest != 0).then(|| least + rest.trailing_zeros())
    }

    /// The highest value up to `most`.
    fn last_to(self, most: u32) -> Option<u32> {
        let rest = self.bits & (u64::MAX >> (63 - most));
        rest.checked_ilog2()
    }
}

/// The minutes of local time that a cron expression names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CronExpression {
    minutes: FieldValues,
    hours: FieldValues,
    days: FieldValues,
    months: FieldValues,
    weekdays: FieldValues,
}

impl FromStr for CronExpression {
    type Err = CronError;

    fn from_str(text: &str) -> Result<Self, CronError> {
        if text.len() > EXPRESSION_BYTES_MAX {
            return Err(CronError::TooLong);
        }
        let text = text.trim();
        if text.starts_with("TZ=") || text.starts_with("CRON_TZ=") {
            return Err(CronError::Zone);
        }
        let text = if text.starts_with('@') { abbreviated(text)? } else { text };
        let fields: Vec<_> = text.split_whitespace().collect();
        let &[minutes, hours, days, months, weekdays] = &*fields else {
            return Err(CronError::FieldCount(fields.len()));
        };
        let expression = Self {
            minutes: MINUTE.read(minutes)?,
            hours: HOUR.read(hours)?,
            days: DAY.read(days)?,
            months: MONTH.read(months)?,
            weekdays: WEEKDAY.read(weekdays)?,
        };
        match expression.first_from(DateTime::constant(2000, 1, 1, 0, 0, 0, 0)) {
            Some(_) => Ok(expression),
            None => Err(CronError::Never),
        }
    }
}

fn abbreviated(text: &str) -> Result<&'static str, CronError> {
    match text {
        "@yearly" | "@annually" => Ok("0 0 1 1 *"),
        "@monthly" => Ok("0 0 1 * *"),
        "@weekly" => Ok("0 0 * * 0"),
        "@daily" | "@midnight" => Ok("0 0 * * *"),
        "@hourly" => Ok("0 * * * *"),
        _ if text.starts_with("@every") => Err(CronError::Interval),
        _ => Err(CronError::Abbreviation(text.to_owned())),
    }
}

impl FieldForm {
    fn read(&self, text: &str) -> Result<FieldValues, CronError> {
        let mut values = FieldValues::default();
        for part in text.split(',') {
            let read = self.read_part(part);
            let part = read.map_err(|problem| CronError::Part { field: self.name, part: part.to_owned(), problem })?;
            values.bits |= part.bits;
            values.is_any |= part.is_any;
        }
        Ok(values)
    }

    /// Reads one part of a list: `*`, `5`, `1-5`, or one of these with a step, such as `*/15`.
    fn read_part(&self, part: &str) -> Result<FieldValues, String> {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (part, None),
        };
        let step: Option<u32> = match step.map(str::parse) {
            None => None,
            Some(Ok(step)) if step > 0 => Some(step),
            Some(_) => return Err("has a step that is not a positive number, as in `*/15`".to_owned()),
        };
        let is_any = matches!(range, "*" | "?");
        let (first, last) = match range.split_once('-') {
            _ if is_any => self.range,
            Some((first, last)) => (self.value(first)?, self.value(last)?),
            // As in `5/15`: from five on.
            None if step.is_some() => (self.value(range)?, self.range.1),
            None => (self.value(range)?, self.value(range)?),
        };
        if first > last {
            return Err("is a range whose end comes before its beginning".to_owned());
        }
        let step = step.unwrap_or(1);
        let values = (first..=last).step_by(usize::try_from(step).unwrap_or(usize::MAX));
        // As in robfig/cron, `*/2` is not `*`: on a field of days, it restricts them.
        Ok(FieldValues { bits: values.fold(0, |bits, value| bits | 1 << value), is_any: is_any && step == 1 })
    }

    fn value(&self, text: &str) -> Result<u32, String> {
        let (least, most) = self.range;
        let named = self.names.iter().position(|name| name.eq_ignore_ascii_case(text));
        let named = named.and_then(|at| u32::try_from(at).ok()).map(|at| least + at);
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = is_number.then(|| text.parse().ok()).flatten();
        named
            .or(number)
            .filter(|value| (least..=most).contains(value))
            .ok_or_else(|| format!("has a value that is not {}", self.values))
    }
}

impl CronExpression {
    /// The first matching minute at `from` or later. `None` if there is none within nine years.
    pub(super) fn first_from(&self, from: DateTime) -> Option<DateTime> {
        let from = if from.second() > 0 || from.subsec_nanosecond() > 0 {
            minute_of(from).checked_add(1.minute()).ok()?
        } else {
            from
        };
        let mut date = from.date();
        let (mut hour, mut minute) = (unsigned(from.hour()), unsigned(from.minute()));
        for _ in 0..SEARCHED_DAYS_MAX {
            if let Some((hour, minute)) = self.has_day(date).then(|| self.time_from(hour, minute)).flatten() {
                return Some(date.at(signed(hour), signed(minute), 0, 0));
            }
            date = date.tomorrow().ok()?;
            (hour, minute) = (0, 0);
        }
        None
    }

    /// The last matching minute at `until` or earlier. `None` if there is none within nine years.
    pub(super) fn last_to(&self, until: DateTime) -> Option<DateTime> {
        let mut date = until.date();
        let (mut hour, mut minute) = (unsigned(until.hour()), unsigned(until.minute()));
        for _ in 0..SEARCHED_DAYS_MAX {
            if let Some((hour, minute)) = self.has_day(date).then(|| self.time_to(hour, minute)).flatten() {
                return Some(date.at(signed(hour), signed(minute), 0, 0));
            }
            date = date.yesterday().ok()?;
            (hour, minute) = (23, 59);
        }
        None
    }

    /// If both fields of days restrict the days, a day matches if one of them does.
    fn has_day(&self, date: Date) -> bool {
        let by_month = self.days.has(unsigned(date.day()));
        let by_week = self.weekdays.has(unsigned(date.weekday().to_sunday_zero_offset()));
        let is_either = !self.days.is_any && !self.weekdays.is_any;
        self.months.has(unsigned(date.month())) && if is_either { by_month || by_week } else { by_month && by_week }
    }

    fn time_from(&self, hour: u32, minute: u32) -> Option<(u32, u32)> {
        if self.hours.has(hour)
            && let Some(minute) = self.minutes.first_from(minute)
        {
            return Some((hour, minute));
        }
        Some((self.hours.first_from(hour + 1)?, self.minutes.first_from(0)?))
    }

    fn time_to(&self, hour: u32, minute: u32) -> Option<(u32, u32)> {
        if self.hours.has(hour)
            && let Some(minute) = self.minutes.last_to(minute)
        {
            return Some((hour, minute));
        }
        Some((self.hours.last_to(hour.checked_sub(1)?)?, self.minutes.last_to(59)?))
    }
}

fn minute_of(time: DateTime) -> DateTime {
    time.date().at(time.hour(), time.minute(), 0, 0)
}

/// Fields of times are small and never negative.
fn unsigned(value: i8) -> u32 {
    u32::try_from(value).unwrap_or_default()
}

fn signed(value: u32) -> i8 {
    i8::try_from(value).unwrap_or_default()
}
