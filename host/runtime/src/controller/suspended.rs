//! Shows that a controller's plugin is suspended, and waits until it may be tried again: see [`Suspension`].

use std::sync::Arc;

use jiff::Timestamp;
use tokio::time::Instant;
use windlass_kube::Excess;

use super::Controller;
use crate::observe::status::{ControllerState, PluginPhase};
use crate::suspension::Suspension;

impl Controller {
    pub(crate) fn suspension(&self) -> &Arc<Suspension> {
        &self.parts.suspension
    }

    /// Waits until the plugin may be tried again, and shows meanwhile that it is suspended. Returns the number of past
    /// excesses.
    pub(super) async fn unsuspended(&self) -> u64 {
        let mut was_suspended = false;
        let excesses = self.parts.suspension.over(|next| {
            was_suspended = true;
            self.show_suspended(next);
        });
        let excesses = excesses.await;
        if was_suspended {
            // This reports the controller as starting. Otherwise, if another controller is ready sooner, the plugin
            // would count as one whose caches fit.
            self.report_state(ControllerState::Starting, None);
        }
        if was_suspended && let Some(excess) = self.parts.budget.last_excess() {
            let plugin = self.parts.plugin.name();
            tracing::info!(%plugin, controller = self.name(), "the suspended plugin is tried again");
            self.handover.reporter.show(&self.report, |_| {
                self.parts.host.status.plugin(plugin).still_suspended(format!("it is tried again now: {excess}"));
            });
        }
        excesses
    }

    /// Shows that the plugin is suspended and starts again at `next`.
    fn show_suspended(&self, next: Instant) {
        let Some(excess) = self.parts.budget.last_excess() else { return };
        let why = describe(&excess, next);
        self.report_state(ControllerState::Waiting, Some(why.clone()));
        // A generation that was replaced does not show this, as the new one may need less.
        self.handover.reporter.show(&self.report, |_| {
            self.parts.host.status.plugin(self.parts.plugin.name()).set(PluginPhase::Suspended, Some(why));
        });
    }

    /// The plugin's caches have outgrown their limits. Shows and logs that the plugin is suspended.
    pub(super) fn suspend(&self, excess: &Excess) {
        let Err(next) = self.parts.suspension.check(Instant::now()) else { return };
        self.show_suspended(next);
        let retry_in = next.saturating_duration_since(Instant::now());
        tracing::error!(
            plugin = %self.parts.plugin.name(), controller = self.name(), error = %excess,
            retry_in = format!("{retry_in:.0?}"), "plugin suspended: it caches too much"
        );
    }

    /// Shows that the plugin is no longer suspended, if that is true. A plugin that is tried again counts as suspended
    /// until the caches of all its controllers fit, or fail for another reason.
    pub(super) fn show_unsuspended(&self) {
        if self.parts.suspension.is_in_force() {
            return;
        }
        self.handover.reporter.show(&self.report, |_| {
            let (host, plugin) = (&self.parts.host, self.parts.plugin.name());
            let status = host.status.plugin(plugin);
            if status.is_unsuspended_if_filled() {
                host.policies.show_now(&status);
                tracing::info!(%plugin, "the plugin is not suspended any more");
            }
        });
    }
}

/// Why a plugin is suspended, and until when, as text for people.
fn describe(excess: &Excess, next: Instant) -> String {
    let second = windlass_world::now().saturating_add(next.saturating_duration_since(Instant::now())).as_secs();
    let at = i64::try_from(second).ok().and_then(|second| Timestamp::from_second(second).ok()).unwrap_or_default();
    format!("it is tried again at {at}: {excess}")
}
