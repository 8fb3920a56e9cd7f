//! What was rolled back, for all replicas: annotations of one lease of the installation that nobody holds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use windlass_core::lease::Found;
use windlass_kube::Leases;

use super::{Leadership, LeaseMode};
use crate::directory::Rejection;

/// What stands before the plugin's name in an annotation's.
const PREFIX: &str = "rejected.windlass.dev/";
/// How long one request may take.
const LIMIT: Duration = Duration::from_secs(5);
/// Of each plugin, the last.
pub(crate) type Rejected = BTreeMap<Arc<str>, Rejection>;

/// What the lease says. What cannot be read is passed over.
pub(super) fn read(found: &Found) -> Rejected {
    let notes = Leases::notes(found).into_iter();
    notes
        .filter_map(|(note, value)| Some((note.strip_prefix(PREFIX)?.into(), serde_json::from_str(&value).ok()?)))
        .collect()
}

impl Leadership {
    /// What all replicas know to be rejected.
    pub(crate) fn rejected(&self) -> watch::Receiver<Rejected> {
        self.rejected.subscribe()
    }

    /// Completes when the leases have been listed, or cannot be.
    pub(crate) async fn listed(&self) {
        if self.settings.mode != LeaseMode::None {
            self.listed.cancelled().await;
        }
    }

    /// Has all replicas know that `plugin` was rolled back; or, with None, that it is tried again. Err: they do not know, and why.
    pub(crate) async fn tell_rejected(&self, plugin: &str, rejection: Option<&Rejection>) -> Result<(), String> {
        if self.settings.mode == LeaseMode::None {
            return Ok(());
        }
        let lease = self.settings.rejected_lease();
        let value = rejection.and_then(|rejection| serde_json::to_string(rejection).ok());
        match self.leases.note(&lease, &format!("{PREFIX}{plugin}"), value.as_deref(), LIMIT).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!("others write the lease {lease} all the time")),
            Err(error) => Err(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_another_replica_has_written_is_read_and_the_rest_passed_over() {
        let rejection = Rejection::new("d".into(), "it traps".into(), None);
        let metadata = json!({"name": "windlass-main-rejected", "annotations": {
            "rejected.windlass.dev/webapp": serde_json::to_string(&rejection).expect("text"),
            "rejected.windlass.dev/other": "no JSON",
            "example.com/webapp": "{}",
        }});
        let lease = json!({"metadata": metadata}).to_string();
        assert_eq!(read(&Leases::watched(&lease)), BTreeMap::from([("webapp".into(), rejection)]));
        assert_eq!(read(&None), Rejected::new());
    }
}
