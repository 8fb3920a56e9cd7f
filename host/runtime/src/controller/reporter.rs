//! The status of a controller whose plugin has several generations: one of them is followed, and its status is shown.
//! That is the one at work, else the one that is to be. The status of another is shown once it is followed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Controller;
use crate::leadership::LeaseStanding;
use crate::observe::status::{ControllerState, ControllerStatus};

/// One generation's, in one term: what it has said last.
pub(super) struct GenerationReport(Mutex<(ControllerState, Option<String>)>);

/// Which voice is heard, and where what it says is shown.
pub(super) struct StatusReporter {
    status: Arc<ControllerStatus>,
    /// Locked while anything is said or shown: nobody speaks over the one that is heard by then.
    report: Mutex<Option<Arc<GenerationReport>>>,
}

impl Default for GenerationReport {
    fn default() -> Self {
        Self(Mutex::new((ControllerState::Starting, None)))
    }
}

impl GenerationReport {
    /// Its last status, and the reason.
    pub(super) fn last(&self) -> (ControllerState, Option<String>) {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, (ControllerState, Option<String>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StatusReporter {
    /// Nobody is heard yet.
    pub(super) fn new(status: Arc<ControllerStatus>) -> Self {
        Self { status, report: Mutex::default() }
    }

    pub(super) fn status(&self) -> &Arc<ControllerStatus> {
        &self.status
    }

    /// Only `report` is heard from now on, and what it has said last is shown.
    pub(super) fn follow(&self, report: &Arc<GenerationReport>) {
        let mut reporter = self.lock();
        let (state, reason) = report.last();
        self.status.set(state, reason);
        *reporter = Some(report.clone());
    }

    /// The same, but what is shown stays until it says something: it goes on where the one before it was.
    pub(super) fn follow_from_now(&self, report: &Arc<GenerationReport>) {
        *self.lock() = Some(report.clone());
    }

    /// `report` says what its controller does, and why.
    pub(super) fn report(&self, report: &Arc<GenerationReport>, state: ControllerState, reason: Option<String>) {
        let reporter = self.lock();
        if is_followed(reporter.as_ref(), report) {
            self.status.set(state, reason.clone());
        }
        *report.lock() = (state, reason);
    }

    /// Has `show` done if `report` is heard: what it shows is of the one that it belongs to.
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
    /// Shows that another replica runs it, or why none does.
    pub(crate) fn stands_by(&self, lease: &LeaseStanding, unserved: Option<&str>) {
        self.handover.reporter.follow(&self.report);
        let (state, why) = lease.standing_by(unserved);
        self.say(state, Some(why));
        // It says of what this replica ran that it did not fit. Another replica runs the plugin now.
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
        reporter.show(&one, |_| panic!("what it shows is of one that nobody hears"));
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
