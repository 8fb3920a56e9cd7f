//! A generation that cannot take over yet: decides when to check it again, and when to report that it waits. Its caller
//! checks and reports.

use std::time::Duration;

use tokio::time::Instant;

/// How long a generation may take to get ready before that is reported.
pub(super) const READY_REPORT_AFTER: Duration = Duration::from_mins(2);
/// How often to check the obstacle of a generation that is ready.
pub(super) const SWAP_LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How often to check what a slow generation waits for.
const READY_REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// How long a generation has waited, and what was reported.
pub(super) struct SwapWait {
    since: Instant,
    look: Instant,
    reported: Option<String>,
}

impl SwapWait {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, look: now + READY_REPORT_INTERVAL, reported: None }
    }

    pub(super) fn since(&self) -> Instant {
        self.since
    }

    /// When to check again for the obstacle that the generation waits for.
    pub(super) fn look(&self) -> Instant {
        self.look
    }

    /// Whether the generation has waited longer than expected.
    pub(super) fn is_long(&self, now: Instant) -> bool {
        now >= self.since + READY_REPORT_AFTER
    }

    /// Records that the generation is getting ready, and `why` it waits. Returns the reason if it should be reported,
    /// because this takes long.
    pub(super) fn gets_ready(&mut self, now: Instant, why: String) -> Option<String> {
        self.look = (self.since + READY_REPORT_AFTER).max(now + READY_REPORT_INTERVAL);
        if self.is_long(now) { self.news(why) } else { None }
    }

    /// Records that the generation is ready, and `why` it cannot take over. Returns the reason if it should be
    /// reported, because an operator must act.
    pub(super) fn is_kept_back(&mut self, now: Instant, why: String) -> Option<String> {
        self.look = now + SWAP_LOOK_INTERVAL;
        self.news(why)
    }

    fn news(&mut self, why: String) -> Option<String> {
        if self.reported.as_ref() == Some(&why) {
            return None;
        }
        self.reported = Some(why.clone());
        Some(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preparing_version_is_reported_after_two_minutes_once_a_reason() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let mut waiting = SwapWait::new(began);
        assert_eq!(waiting.look(), at(10));
        for early in [0, 10, 119] {
            assert_eq!(waiting.gets_ready(at(early), "its lists".to_owned()), None, "{early}");
            assert!(waiting.look() >= at(120) && !waiting.is_long(at(early)), "{early}");
        }
        assert_eq!(waiting.gets_ready(at(120), "its lists".to_owned()).as_deref(), Some("its lists"));
        assert_eq!((waiting.look(), waiting.is_long(at(120))), (at(130), true));
        assert_eq!(waiting.gets_ready(at(130), "its lists".to_owned()), None, "that has been reported");
        assert_eq!(waiting.gets_ready(at(131), "a policy".to_owned()).as_deref(), Some("a policy"));
    }

    #[test]
    fn a_blocked_ready_version_reports_why_at_once_and_is_checked_soon() {
        let began = Instant::now();
        let mut waiting = SwapWait::new(began);
        assert_eq!(waiting.is_kept_back(began, "finalizers".to_owned()).as_deref(), Some("finalizers"));
        assert_eq!(waiting.look(), began + Duration::from_secs(1));
        assert_eq!(waiting.is_kept_back(began + Duration::from_secs(1), "finalizers".to_owned()), None);
    }
}
