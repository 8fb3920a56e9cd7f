//! The progress of one timer: the due time that was handled last, and the one that is being handled.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::MissedTimes;
use super::schedule::TimerRule;

/// How far a due time that was handled may lie in the future: the clock was set back, and the times in between are not
/// due again. If it lies further ahead, the clock was wrong before, and the timer starts afresh.
const HANDLED_AHEAD_MAX: Duration = Duration::from_hours(1);

/// With [`MissedTimes::Skip`], how late a call may begin. A failover between replicas takes less.
const SKIP_LATENESS_MAX: Duration = Duration::from_mins(1);

/// A time of day on a day, with milliseconds. Its text is in UTC, such as `2026-11-29T02:00:00Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DueTime(Duration);

impl DueTime {
    /// The time at this distance from 1970.
    #[must_use]
    pub fn at(since_1970: Duration) -> Self {
        Self(Duration::from_secs(since_1970.as_secs()) + Duration::from_millis(since_1970.subsec_millis().into()))
    }

    /// The time since 1970.
    #[must_use]
    pub fn since_1970(self) -> Duration {
        self.0
    }
}

impl fmt::Display for DueTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = i64::try_from(self.0.as_millis()).unwrap_or(i64::MAX);
        Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX).fmt(f)
    }
}

impl TryFrom<String> for DueTime {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let time: Timestamp = text.parse().map_err(|error: jiff::Error| error.to_string())?;
        let millis = u64::try_from(time.as_millisecond()).map_err(|_| format!("{text} is before 1970"))?;
        Ok(Self(Duration::from_millis(millis)))
    }
}

impl From<DueTime> for String {
    fn from(time: DueTime) -> Self {
        time.to_string()
    }
}

/// The part of a timer's progress that outlives a replica.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptProgress {
    /// The rule in words, to notice that it has changed.
    pub rule: String,
    /// The time from which on the rule counts: due times before it were never missed.
    pub begun: DueTime,
    /// The last due time whose call has ended well, or is not to be made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<DueTime>,
    /// With [`MissedTimes::Skip`], the due time for which a call has begun that has not ended well. It is not skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tried: Option<DueTime>,
}

/// The step that follows when a due time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerStep {
    /// A call for this due time is to be made.
    Call(DueTime),
    /// This due time was missed, and no call is made for it.
    Skip(DueTime),
    /// A call for it is to be made already.
    Wait,
}

/// The progress of one timer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimerProgress {
    kept: Option<KeptProgress>,
    /// The due time for which a call is to be made, or whose call has not ended well yet.
    pending: Option<DueTime>,
}

impl TimerProgress {
    /// Goes on with what this process and other replicas (`kept`) know, under the rule that `rule` describes.
    pub fn resume(&mut self, rule: &str, kept: Option<KeptProgress>, now: Duration) {
        let known = [self.kept.take(), kept];
        let tried = known.iter().flatten().filter_map(|known| known.tried).max();
        let known = known.into_iter().flatten().max_by_key(|known| known.last);
        let last = known.as_ref().and_then(|known| known.last);
        let tried = tried.filter(|tried| Some(*tried) > last);
        // A changed rule counts from the change, so that it missed nothing.
        let begun = known.filter(|known| known.rule == rule).map_or(DueTime::at(now), |known| known.begun);
        self.kept = Some(KeptProgress { rule: rule.to_owned(), begun, last, tried });
    }

    /// Forgets the pending due time, because its call is lost. It is due again.
    pub fn forget_pending(&mut self) {
        self.pending = None;
    }

    /// The due time to handle next, seen at `now`: see [`TimerRule::next`]. `None` if the timer is never due again, or
    /// does not run yet.
    pub fn next(&mut self, rule: &TimerRule, now: Duration) -> Option<DueTime> {
        let kept = self.kept.as_mut()?;
        let is_wrong = |time: &DueTime| time.0 > now.saturating_add(HANDLED_AHEAD_MAX);
        if is_wrong(&kept.begun) || kept.last.as_ref().is_some_and(is_wrong) {
            (kept.begun, kept.last, kept.tried) = (DueTime::at(now), None, None);
        }
        self.pending.take_if(|pending| is_wrong(pending));
        let last = kept.last.max(self.pending);
        rule.next(last.map(DueTime::since_1970), kept.begun.0, now).map(DueTime::at)
    }

    /// Decides about `due`, whose call was to be made at `planned` and can be made `now`. Of later due times that are
    /// there already, because calls were impossible for long, only the latest counts.
    pub fn reach(
        &mut self,
        rule: &TimerRule,
        missed: MissedTimes,
        due: DueTime,
        planned: Duration,
        now: Duration,
    ) -> TimerStep {
        let later = self.next(rule, now).filter(|later| *later > due && later.0 <= now);
        // The later one gets the same jitter. Otherwise a jitter longer than the time between two due times would make
        // most calls late.
        let jitter = planned.saturating_sub(due.0);
        let due = later.unwrap_or(due);
        if self.is_skipped(missed, due, jitter, now) {
            self.finish(due);
            return TimerStep::Skip(due);
        }
        if self.pending.replace(due) == Some(due) { TimerStep::Wait } else { TimerStep::Call(due) }
    }

    /// Decides about the pending due time right before its call, which waited in the queue. If it is late, it is
    /// finished and returned: no call is to be made. `jitter_max` is the longest jitter.
    pub fn skip_late(&mut self, missed: MissedTimes, jitter_max: Duration, now: Duration) -> Option<DueTime> {
        let due = self.pending.filter(|due| self.is_skipped(missed, *due, jitter_max, now))?;
        self.finish(due);
        Some(due)
    }

    fn is_skipped(&self, missed: MissedTimes, due: DueTime, jitter: Duration, now: Duration) -> bool {
        let was_tried = self.kept.as_ref().is_some_and(|kept| kept.tried == Some(due));
        let lateness = now.saturating_sub(due.0.saturating_add(jitter));
        missed == MissedTimes::Skip && !was_tried && lateness > SKIP_LATENESS_MAX
    }

    /// Records that a call for `due` begins.
    pub fn begin(&mut self, missed: MissedTimes, due: DueTime) {
        if let Some(kept) = self.kept.as_mut().filter(|_| missed == MissedTimes::Skip) {
            kept.tried = Some(due);
        }
    }

    /// Records that `due` was handled: its call has ended well, or is not to be made.
    pub fn finish(&mut self, due: DueTime) {
        self.pending.take_if(|pending| *pending == due);
        if let Some(kept) = &mut self.kept {
            kept.last = Some(due);
            kept.tried.take_if(|tried| *tried <= due);
        }
    }

    /// The pending due time.
    #[must_use]
    pub fn pending(&self) -> Option<DueTime> {
        self.pending
    }

    /// The part that outlives a replica. `None` if the timer does not run yet.
    #[must_use]
    pub fn kept(&self) -> Option<&KeptProgress> {
        self.kept.as_ref()
    }
}
