//! Keeps the progress of timers for the replica that runs the plugin next, as annotations of a lease of the
//! installation that is never held. A plugin's own lease would not do: each write would conflict with a renewal, and
//! the lease of a plugin depends on the lease mode.

use std::collections::BTreeMap;
use std::time::Duration;

use windlass_core::life::lease::ElectionAnswer;
use windlass_core::timer::KeptProgress;
use windlass_kube::{LeaseKind, Leases};

use super::{Leadership, LeaseMode};

/// The prefix of a plugin's name in an annotation.
const PREFIX: &str = "timers.windlass.dev/";
/// How long one request may take.
const TIMER_REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// The progress of a plugin's timers, by controller.
type PluginTimers = BTreeMap<String, KeptProgress>;

impl Leadership {
    /// Whether replicas keep the progress of timers for each other. Without leases, only this process knows it.
    pub(crate) fn keeps_timers(&self) -> bool {
        self.settings.mode != LeaseMode::None
    }

    /// The kept progress of the timer of this controller. `None` if there is none, or if it cannot be read. The error
    /// says why the API server could not be asked.
    pub(crate) async fn timer(&self, plugin: &str, controller: &str) -> Result<Option<KeptProgress>, String> {
        if !self.keeps_timers() {
            return Ok(None);
        }
        let answer = self.leases.get(&self.settings.timers_lease(), TIMER_REQUEST_TIMEOUT).await;
        let ElectionAnswer::Found(found) = answer.map_err(|error| error.to_string())? else { return Ok(None) };
        let note = Leases::notes(&found).remove(&format!("{PREFIX}{plugin}"));
        Ok(read(note.as_deref()).remove(controller))
    }

    /// Keeps the progress of the timer of this controller. The error says why that failed.
    pub(crate) async fn keep_timer(
        &self,
        plugin: &str,
        controller: &str,
        progress: &KeptProgress,
    ) -> Result<(), String> {
        if !self.keeps_timers() {
            return Ok(());
        }
        let (lease, note) = (self.settings.timers_lease(), format!("{PREFIX}{plugin}"));
        let change = |there: Option<&str>| Some(with(there, controller, progress));
        match self.leases.note(&lease, LeaseKind::Timers, &note, change, TIMER_REQUEST_TIMEOUT).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!("others keep writing the lease {lease}")),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// The timers in an annotation. Empty if it cannot be read.
fn read(note: Option<&str>) -> PluginTimers {
    note.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// The annotation `there` with the progress of one controller.
fn with(there: Option<&str>, controller: &str, progress: &KeptProgress) -> String {
    let mut timers = read(there);
    timers.insert(controller.to_owned(), progress.clone());
    serde_json::json!(timers).to_string()
}

#[cfg(test)]
mod tests {
    use windlass_core::timer::DueTime;

    use super::*;

    fn at(seconds: u64) -> DueTime {
        DueTime::at(Duration::from_secs(seconds))
    }

    fn progress(rule: &str, last: Option<u64>) -> KeptProgress {
        KeptProgress { rule: rule.to_owned(), begun: at(1), last: last.map(at) }
    }

    #[test]
    fn a_timer_is_kept_beside_others_of_its_plugin_and_read_again() {
        let one = with(None, "nightly", &progress("cron \"0 3 * * *\" in UTC", Some(1_796_000_400)));
        assert_eq!(
            one,
            r#"{"nightly":{"begun":"1970-01-01T00:00:01Z","last":"2026-11-30T01:00:00Z","rule":"cron \"0 3 * * *\" in UTC"}}"#
        );
        let both = with(Some(&one), "hourly", &progress("every 3600s", None));
        let timers = read(Some(&both));
        assert_eq!(timers.keys().collect::<Vec<_>>(), ["hourly", "nightly"]);
        assert_eq!(timers["nightly"].last, Some(at(1_796_000_400)));
    }

    #[test]
    fn an_annotation_that_cannot_be_read_counts_as_missing() {
        assert!(read(None).is_empty() && read(Some("no JSON")).is_empty());
        assert_eq!(read(Some(&with(Some("no JSON"), "a", &progress("every 1s", None)))).len(), 1);
    }
}
