//! Shares rejections among all replicas, as annotations of a lease of the installation that is never held.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use windlass_core::life::lease::FoundLease;
use windlass_kube::{LeaseKind, Leases};

use super::{Leadership, LeaseMode};
use crate::rejections::{Rejection, RejectionVerdicts};

/// The prefix of a plugin's name in an annotation.
const PREFIX: &str = "rejected.windlass.dev/";
/// How long one request may take.
const REJECTION_REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// The last rejection of each plugin.
pub(crate) type RejectedPlugins = BTreeMap<Arc<str>, Rejection>;

/// Reads the lease, and skips annotations that cannot be read.
pub(super) fn read(found: &FoundLease) -> RejectedPlugins {
    let notes = Leases::notes(found).into_iter();
    notes
        .filter_map(|(note, value)| Some((note.strip_prefix(PREFIX)?.into(), serde_json::from_str(&value).ok()?)))
        .collect()
}

impl Leadership {
    /// The rejections that all replicas know.
    pub(crate) fn rejected(&self) -> watch::Receiver<RejectedPlugins> {
        self.rejected.subscribe()
    }

    /// Completes when the leases have been listed, or cannot be.
    pub(crate) async fn listed(&self) {
        if self.settings.mode != LeaseMode::None {
            self.listed.cancelled().await;
        }
    }

    /// Publishes these `verdicts` about `plugin` to all replicas. The error says why that failed.
    pub(crate) async fn publish(&self, plugin: &str, verdicts: &RejectionVerdicts) -> Result<(), String> {
        if self.settings.mode == LeaseMode::None {
            return Ok(());
        }
        let lease = self.settings.rejected_lease();
        let note = format!("{PREFIX}{plugin}");
        let change = |there: Option<&str>| over(verdicts, there);
        let result = self.leases.note(&lease, LeaseKind::Rejected, &note, change, REJECTION_REQUEST_TIMEOUT).await;
        match result {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!("other clients keep changing the lease {lease}")),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// The new annotation of a plugin whose current annotation is `there`.
fn over(verdicts: &RejectionVerdicts, there: Option<&str>) -> Option<String> {
    let known = there.and_then(|text| serde_json::from_str::<Rejection>(text).ok());
    let all_know = verdicts.over(known.clone());
    // Unchanged verdicts keep their text, which another version may have written.
    if all_know == known { there.map(str::to_owned) } else { serde_json::to_string(&all_know?).ok() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rejections::{JudgedAt, RejectionVerdict};

    #[test]
    fn rejections_of_another_replica_are_read_and_other_notes_ignored() {
        let rejection = Rejection::new("d".into(), "it traps".into(), None);
        let metadata = json!({"name": "windlass-main-rejected", "annotations": {
            "rejected.windlass.dev/webapp": serde_json::to_string(&rejection).expect("text"),
            "rejected.windlass.dev/other": "no JSON",
            "example.com/webapp": "{}",
        }});
        let lease = json!({"metadata": metadata}).to_string();
        assert_eq!(read(&Leases::watched(&lease)), BTreeMap::from([("webapp".into(), rejection)]));
        assert_eq!(read(&None), RejectedPlugins::new());
    }

    #[test]
    fn annotations_of_another_version_stay_unless_there_is_a_newer_verdict() {
        let there = Some(r#"{"digest": "d1", "because": "it traps", "since": "today"}"#);
        let pending = |verdict| {
            let mut verdicts = RejectionVerdicts::default();
            verdicts.add(verdict);
            verdicts
        };
        let pardoned =
            |digest: &str| pending(RejectionVerdict::Pardoned { digest: digest.into(), at: JudgedAt::now() });
        let (d1, d2) = (pardoned("d1"), pardoned("d2"));
        assert_eq!(over(&d2, there).as_deref(), there);
        assert_eq!(over(&d1, there), None);
        assert_eq!(over(&d1, Some("no JSON")).as_deref(), Some("no JSON"));
        let rejection = Rejection::new("d3".into(), "it traps".into(), None);
        let written = over(&pending(RejectionVerdict::Rejected(rejection.clone())), there).expect("news");
        assert_eq!(serde_json::from_str::<Rejection>(&written).expect("a rejection"), rejection);
    }

    #[test]
    fn an_annotation_of_the_former_version_is_read_and_written_to_the_byte() {
        let former = r#"{"digest":"d1","because":"it traps","former":"d0","at":1795000000000}"#;
        let rejection: Rejection = serde_json::from_str(former).expect("as it was written");
        assert_eq!((&*rejection.digest, rejection.former.as_deref()), ("d1", Some("d0")));
        assert_eq!(rejection.at, JudgedAt::from_millis(1_795_000_000_000));
        assert_eq!(serde_json::to_string(&rejection).expect("text"), former);
    }

    #[test]
    fn annotations_of_a_newer_version_stay_until_the_plugin_is_judged_again() {
        let added = r#"{"digest":"d1","because":"it traps","at":5,"rule":"new"}"#;
        let other_form = r#"{"form":2,"digests":["d1","d2"]}"#;
        let metadata = json!({"name": "windlass-main-rejected", "annotations": {
            "rejected.windlass.dev/shop": added, "rejected.windlass.dev/webapp": other_form,
        }});
        let known = read(&Leases::watched(&json!({"metadata": metadata}).to_string()));
        assert_eq!(known.keys().map(|plugin| &**plugin).collect::<Vec<_>>(), ["shop"]);
        let of = |verdict| {
            let mut verdicts = RejectionVerdicts::default();
            verdicts.add(verdict);
            verdicts
        };
        let pardon = of(RejectionVerdict::Pardoned { digest: "d9".into(), at: JudgedAt::from_millis(9) });
        let older = of(RejectionVerdict::Rejected(Rejection::new("d9".into(), "it traps".into(), None)));
        assert_eq!(over(&pardon, Some(added)).as_deref(), Some(added));
        assert_eq!(over(&older, Some(added)).as_deref(), Some(added), "it was judged later");
        assert_eq!(over(&pardon, Some(other_form)).as_deref(), Some(other_form));
        // Each plugin has one rejection, and this replica has just made a newer one.
        assert!(over(&older, Some(other_form)).is_some_and(|written| written.contains("d9")));
    }
}
