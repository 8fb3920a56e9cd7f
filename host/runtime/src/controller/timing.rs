//! Runs a controller's timer: waits for each due time by the time of day, and then queues the timer's key.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use windlass_core::cache::mapping::Mapping;
use windlass_core::retry::RetryPolicy;
use windlass_core::timer::{DueTime, KeptProgress, TimerStep};
use windlass_manifest::Controller as Declared;

use super::Controller;
use super::handover::kept::ActiveRound;
use crate::controller::running::Running;
use crate::dispatch::Dispatch;
use crate::dispatch::timer::{ControllerTimer, TimerRecords};
use crate::host::Host;
use crate::supervise::jittered_policy;

/// The interval at which a waiting timer looks at the time of day. It may be set, and sleeping tasks do not follow it.
const CLOCK_LOOK_INTERVAL: Duration = Duration::from_secs(30);
/// If the time of day goes back by more than this, the clock was set, and the wait begins again.
const CLOCK_SET_MIN: Duration = Duration::from_secs(1);
/// Shorter waits for a due time are logged at debug level.
const LOGGED_WAIT_MIN: Duration = Duration::from_mins(1);
/// The pauses between attempts to read when the timer was due last.
const LOAD_BACKOFF: RetryPolicy = jittered_policy(Duration::from_secs(1), Duration::from_secs(30));

/// Keeps the progress of one controller's timer in a lease.
struct LeaseRecords {
    host: Arc<Host>,
    plugin: Arc<str>,
    controller: Arc<str>,
}

impl TimerRecords for LeaseRecords {
    fn read(&self) -> BoxFuture<'_, Result<Option<KeptProgress>, String>> {
        self.host.leadership.timer(&self.plugin, &self.controller).boxed()
    }

    fn write<'a>(&'a self, progress: &'a KeptProgress) -> BoxFuture<'a, Result<(), String>> {
        self.host.leadership.keep_timer(&self.plugin, &self.controller, progress).boxed()
    }
}

impl Controller {
    /// The timer that takes the place of primaries. `None` if the controller has primaries.
    pub(super) fn timer(&self, declared: &Declared) -> Option<Arc<ControllerTimer>> {
        let timer = declared.primary.timer.as_ref()?;
        let (host, plugin) = (self.parts.host.clone(), self.parts.plugin.name().clone());
        let names = [&*plugin, self.name()];
        let records = LeaseRecords { host, plugin: plugin.clone(), controller: self.name().into() };
        let (kind, progress) = (declared.primary.object_kind(), self.handover.timer.clone());
        let follows_changes = declared.watches.iter().any(|watch| watch.mapping == Some(Mapping::All));
        let timer = ControllerTimer::new(names, kind, timer, progress, Box::new(records));
        Some(Arc::new(timer.following_changes(follows_changes)))
    }

    /// Starts the timer of a round, if the controller has one.
    pub(super) fn start_timer(running: &Running, inherited: Option<&ActiveRound>) {
        let Some(timer) = running.dispatch.keys.primaries.timer.clone() else { return };
        if inherited.is_none() {
            timer.forget_pending();
        }
        let timing = Arc::new(Timing { timer, dispatch: running.dispatch.clone() });
        running.feed("timer", move || {
            let timing = timing.clone();
            async move { timing.run().await }
        });
    }
}

/// A timer at work.
struct Timing {
    timer: Arc<ControllerTimer>,
    dispatch: Arc<Dispatch>,
}

impl Timing {
    /// Queues the timer's key at each due time. Never completes.
    async fn run(&self) {
        self.load().await;
        if self.timer.was_wanted() {
            self.dispatch.keys.catch_up_timer(&self.timer.key);
        }
        loop {
            self.keep().await;
            let Some(due) = self.timer.next() else { return pending().await };
            let jitter = u64::try_from(self.timer.jitter.as_millis()).unwrap_or(u64::MAX);
            let at = due.since_1970() + Duration::from_millis(windlass_world::random_range(0..=jitter));
            self.log_next(due, at);
            if self.reaches(at).await {
                self.dispatch.permits.call_gate.open().await;
                self.is_due(due, at);
            }
        }
    }

    /// Waits until the time of day is `at`. `false` if the clock was set back meanwhile.
    async fn reaches(&self, at: Duration) -> bool {
        let mut seen = Duration::ZERO;
        loop {
            match look(at, &mut seen, windlass_world::now()) {
                ClockLook::Reached => return true,
                ClockLook::SetBack => return false,
                ClockLook::Early(pause) => tokio::time::sleep(pause).await,
            }
            // Tries again what has failed.
            self.keep().await;
        }
    }

    /// Queues the key for `due`, whose call was to be made at `planned`, or for a later due time that has come as well.
    fn is_due(&self, due: DueTime, planned: Duration) {
        match self.timer.reach(due, planned) {
            TimerStep::Call(_) => self.dispatch.keys.run_timer(&self.timer.key),
            TimerStep::Skip(due) => {
                let (plugin, controller) = self.names();
                tracing::info!(%plugin, %controller, %due, "a due time was missed, and is skipped as the manifest says");
            }
            TimerStep::Wait => {}
        }
    }

    async fn load(&self) {
        let (mut retries, mut logged) = (LOAD_BACKOFF.begin(), String::new());
        while let Err(why) = self.timer.load().await {
            if logged != why {
                let (plugin, controller) = self.names();
                tracing::warn!(
                    %plugin, %controller, error = why,
                    "the timer waits: when it was due last cannot be read from the lease of timers"
                );
                logged = why;
            }
            tokio::time::sleep(retries.pause(windlass_world::random())).await;
        }
    }

    async fn keep(&self) {
        if let Err(error) = self.timer.keep().await {
            self.dispatch.warn_not_kept(&error);
        }
    }

    fn log_next(&self, due: DueTime, at: Duration) {
        let ((plugin, controller), wait) = (self.names(), at.saturating_sub(windlass_world::now()));
        if wait >= LOGGED_WAIT_MIN {
            tracing::info!(%plugin, %controller, %due, ?wait, "the timer waits until it is due");
        } else {
            tracing::debug!(%plugin, %controller, %due, ?wait, "the timer waits until it is due");
        }
    }

    fn names(&self) -> (&Arc<str>, &Arc<str>) {
        (&self.dispatch.callee.principal.plugin, &self.dispatch.callee.controller)
    }
}

/// The result of a look at the clock.
#[derive(Debug, PartialEq, Eq)]
enum ClockLook {
    Reached,
    /// The clock was set back since the last look, so the task must compute its time anew.
    SetBack,
    /// The task looks again after this pause.
    Early(Duration),
}

/// Looks at the clock, which shows `now`, while waiting for the time `at`. `seen` is the time of the last look.
fn look(at: Duration, seen: &mut Duration, now: Duration) -> ClockLook {
    if now >= at {
        return ClockLook::Reached;
    }
    if now + CLOCK_SET_MIN < *seen {
        return ClockLook::SetBack;
    }
    *seen = now;
    ClockLook::Early(at.saturating_sub(now).min(CLOCK_LOOK_INTERVAL))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits for an hour on a clock that is set by so many seconds after ten minutes. Returns how that ends, and the
    /// seconds that it takes.
    fn waited(set_by: i64) -> (ClockLook, u64) {
        let (mut seen, mut passed) = (Duration::ZERO, Duration::ZERO);
        loop {
            let start = Duration::from_hours(1000);
            let mut now = start + passed;
            if passed >= Duration::from_mins(10) {
                now = Duration::from_secs(now.as_secs().checked_add_signed(set_by).expect("after 1970"));
            }
            match look(start + Duration::from_hours(1), &mut seen, now) {
                ClockLook::Early(pause) => passed += pause,
                end => return (end, passed.as_secs()),
            }
        }
    }

    #[test]
    fn a_wait_follows_a_clock_that_is_set_forward_or_back() {
        assert_eq!(waited(0), (ClockLook::Reached, 3600));
        assert_eq!(waited(1800), (ClockLook::Reached, 1800));
        assert_eq!(waited(7200), (ClockLook::Reached, 600));
        assert_eq!(waited(-300), (ClockLook::SetBack, 600));
        assert_eq!(waited(-1), (ClockLook::Reached, 3601), "clocks are adjusted by small amounts all the time");
    }
}
