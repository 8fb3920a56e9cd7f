//! Keeps the progress of timers for the replica that runs the plugin next, as annotations of a lease of the
//! installation that is never held. A plugin's own lease would not do: each write would conflict with a renewal, and
//! the lease of a plugin depends on the lease mode.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;
use windlass_core::life::lease::ElectionAnswer;
use windlass_core::timer::KeptProgress;
use windlass_kube::{LeaseKind, Leases};

use super::{Leadership, LeaseMode};

/// The prefix of a plugin's name in an annotation.
const PREFIX: &str = "timers.windlass.dev/";
/// How long one request may take.
const TIMER_REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest wait for other timers of this process that write. A timer that waits for longer tries again later.
const TIMER_WRITE_WAIT_MAX: Duration = Duration::from_secs(10);

/// The entries of a plugin's timers, by controller. Another version of the host may have written some in another form.
type PluginTimers = BTreeMap<String, Value>;

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
        Ok(entry(note.as_deref(), controller).unwrap_or_else(|error| {
            tracing::warn!(
                plugin, controller, %error,
                "when the timer was due last cannot be read from its lease: the timer starts afresh"
            );
            None
        }))
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
        let Ok(_writes) = timeout(TIMER_WRITE_WAIT_MAX, self.timer_write.lock()).await else {
            return Err("other timers of this process take too long to write theirs: it tries again soon".to_owned());
        };
        let change = |there: Option<&str>| Some(with(there, controller, progress, windlass_world::now()));
        match self.leases.note(&lease, LeaseKind::Timers, &note, change, TIMER_REQUEST_TIMEOUT).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!("others keep writing the lease {lease}")),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// The timers in an annotation.
fn read(note: Option<&str>) -> serde_json::Result<PluginTimers> {
    note.map_or_else(|| Ok(PluginTimers::new()), serde_json::from_str)
}

/// The progress of one controller in an annotation.
fn entry(note: Option<&str>, controller: &str) -> serde_json::Result<Option<KeptProgress>> {
    read(note)?.remove(controller).map(serde_json::from_value).transpose()
}

/// The annotation `there` with the progress of one controller. Other entries stay as they are. So does a later progress
/// by the same rule, because this one is late then, unless it lies in the future: the clock was wrong before.
fn with(there: Option<&str>, controller: &str, progress: &KeptProgress, now: Duration) -> String {
    let is_later = |entry: &KeptProgress| {
        let is_past = entry.last.is_some_and(|last| last.since_1970() <= now);
        is_past && entry.rule == progress.rule && entry.last > progress.last
    };
    if let (Some(there), Ok(Some(_))) = (there, entry(there, controller).map(|entry| entry.filter(is_later))) {
        return there.to_owned();
    }
    let mut timers = read(there).unwrap_or_default();
    timers.insert(controller.to_owned(), json!(progress));
    json!(timers).to_string()
}

#[cfg(test)]
mod tests {
    use windlass_core::timer::DueTime;

    use super::*;

    fn at(seconds: u64) -> DueTime {
        DueTime::at(Duration::from_secs(seconds))
    }

    fn progress(rule: &str, last: Option<u64>) -> KeptProgress {
        KeptProgress { rule: rule.to_owned(), begun: at(1), last: last.map(at), tried: None }
    }

    /// The annotation after a write in the year 2033.
    fn with(there: Option<&str>, controller: &str, progress: &KeptProgress) -> String {
        super::with(there, controller, progress, Duration::from_secs(2_000_000_000))
    }

    fn last(note: &str, controller: &str) -> Option<DueTime> {
        entry(Some(note), controller).expect("it can be read").expect("it is there").last
    }

    #[test]
    fn a_timer_is_kept_beside_others_of_its_plugin_and_read_again() {
        let one = with(None, "nightly", &progress("cron \"0 3 * * *\" in UTC", Some(1_796_000_400)));
        assert_eq!(
            one,
            r#"{"nightly":{"begun":"1970-01-01T00:00:01Z","last":"2026-11-30T01:00:00Z","rule":"cron \"0 3 * * *\" in UTC"}}"#
        );
        let both = with(Some(&one), "hourly", &progress("every 3600s", None));
        let timers = read(Some(&both)).expect("JSON");
        assert_eq!(timers.keys().collect::<Vec<_>>(), ["hourly", "nightly"]);
        assert_eq!(last(&both, "nightly"), Some(at(1_796_000_400)));
    }

    #[test]
    fn an_entry_that_cannot_be_read_costs_no_other_entry() {
        let good = with(Some(r#"{"other":{"last":"yesterday"}}"#), "a", &progress("every 1s", Some(7)));
        assert!(good.contains(r#""other":{"last":"yesterday"}"#), "{good}");
        assert_eq!(last(&good, "a"), Some(at(7)));
        assert!(entry(Some(&good), "other").is_err());
        let mended = with(Some(&good), "other", &progress("every 1s", Some(8)));
        assert_eq!((last(&mended, "a"), last(&mended, "other")), (Some(at(7)), Some(at(8))));
    }

    #[test]
    fn an_annotation_that_cannot_be_read_is_replaced() {
        assert!(entry(None, "a").is_ok_and(|entry| entry.is_none()) && entry(Some("no JSON"), "a").is_err());
        assert_eq!(last(&with(Some("no JSON"), "a", &progress("every 1s", Some(7))), "a"), Some(at(7)));
    }

    #[test]
    fn a_late_write_does_not_replace_later_progress() {
        let there = with(None, "a", &progress("every 1s", Some(9)));
        assert_eq!(with(Some(&there), "a", &progress("every 1s", Some(8))), there);
        assert_eq!(last(&with(Some(&there), "a", &progress("every 2s", Some(8))), "a"), Some(at(8)), "a new rule");
        let future = with(None, "a", &progress("every 1s", Some(3_000_000_000)));
        assert_eq!(last(&with(Some(&future), "a", &progress("every 1s", Some(8))), "a"), Some(at(8)));
    }
}
