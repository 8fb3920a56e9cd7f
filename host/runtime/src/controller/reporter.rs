//! The status of a controller whose plugin has several generations. Only the status of the followed generation is
//! shown: the one at work, else the one that is about to start. The status of another generation is kept until it is
//! followed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Controller;
use crate::leadership::LeaseStanding;
use crate::observe::status::{ControllerState, ControllerStatus};

/// The last status that one generation reported in one term.
pub(super) struct GenerationReport(Mutex<(ControllerState, Option<String>)>);

/// Knows which generation is followed, and where its status is shown.
pub(super) struct StatusReporter {
    status: Arc<ControllerStatus>,
    /// Locked while a status is reported or shown, so that no other generation can overwrite the followed one's.
    report: Mutex<Option<Arc<GenerationReport>>>,
}

impl Default for GenerationReport {
    fn default() -> Self {
        Self(Mutex::new((ControllerState::Starting, None)))
    }
}

impl GenerationReport {
    /// The last status, and its reason.
    pub(super) fn last(&self) -> (ControllerState, Option<String>) {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, (ControllerState, Option<String>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StatusReporter {
    /// Follows no generation yet.
    pub(super) fn new(status: Arc<ControllerStatus>) -> Self {
        Self { status, report: Mutex::default() }
    }

    pub(super) fn status(&self) -> &Arc<ControllerStatus> {
        &self.status
    }

    /// Follows only `report` from now on, and shows its last status.
    pub(super) fn follow(&self, report: &Arc<GenerationReport>) {
        let mut reporter = self.lock();
        let (state, reason) = report.last();
        self.status.set(state, reason);
        *reporter = Some(report.clone());
    }

    /// As [`Self::follow`], but keeps the shown status until `report` changes: the next generation continues where the
    /// previous one was.
    pub(super) fn follow_from_now(&self, report: &Arc<GenerationReport>) {
        *self.lock() = Some(report.clone());
    }

    /// Records that the controller of `report` is in `state`, and why.
    pub(super) fn report(&self, report: &Arc<GenerationReport>, state: ControllerState, reason: Option<String>) {
        let reporter = self.lock();
        if is_followed(reporter.as_ref(), report) {
            self.status.set(state, reason.clone());
        }
        *report.lock() = (state, reason);
    }

    /// Calls `show` if `report` is followed; other generations must not change what is shown.
    pub(super) fn show(&self, report: &Arc<GenerationReport>, show: impl FnOnce(&ControllerStatus)) {
        let reporter = self.lock();
        if is_followed(reporter.as_ref(), report) {
            show(&self.status);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<GenerationReport>>> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_followed(reporter: Option<&Arc<GenerationReport>>, report: &Arc<GenerationReport>) -> bool {
    reporter.is_some_and(|reporter| Arc::ptr_eq(reporter, report))
}

impl Controller {
    /// Shows that another replica runs the plugin, or why none does.
    pub(crate) fn stands_by(&self, lease: &LeaseStanding, unserved: Option<&str>) {
        self.handover.reporter.follow(&self.report);
        let (state, why) = lease.standing_by(unserved);
        self.report_state(state, Some(why));
        // The suspension was about this replica. Another one runs the plugin now.
        self.parts.host.status.plugin(self.parts.plugin.name()).is_unsuspended();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::metrics::HostMetrics;

    fn reporter() -> StatusReporter {
        let metrics = HostMetrics::new().controller("a", "a");
        StatusReporter::new(ControllerStatus::unlisted(&"a".into(), "a", 1, metrics))
    }

    fn waits(reason: &str) -> (ControllerState, Option<String>) {
        (ControllerState::Waiting, Some(reason.to_owned()))
    }

    fn report(reporter: &StatusReporter, report: &Arc<GenerationReport>, reason: &str) {
        let (state, reason) = waits(reason);
        reporter.report(report, state, reason);
    }

    #[test]
    fn following_a_generation_shows_its_last_report_and_no_others() {
        let (reporter, one, next) = (reporter(), Arc::default(), Arc::default());
        reporter.follow(&one);
        report(&reporter, &one, "of one");
        report(&reporter, &next, "of the next");
        assert_eq!((reporter.status().state(), next.last()), (waits("of one"), waits("of the next")));
        reporter.follow(&next);
        assert_eq!(reporter.status().state(), waits("of the next"));
        report(&reporter, &one, "too late");
        reporter.show(&one, |_| panic!("this generation is not followed"));
        assert_eq!(reporter.status().state(), waits("of the next"));
    }

    #[test]
    fn a_successor_followed_from_now_shows_nothing_until_its_first_report() {
        let (reporter, one, next) = (reporter(), Arc::default(), Arc::default());
        reporter.follow(&one);
        reporter.report(&one, ControllerState::Running, None);
        reporter.follow_from_now(&next);
        assert_eq!(reporter.status().state(), (ControllerState::Running, None));
        report(&reporter, &next, "of the next");
        assert_eq!(reporter.status().state(), waits("of the next"));
    }
}
