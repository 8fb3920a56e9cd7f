//! The notes that the replicas of an installation leave for each other, and for later replicas, in the annotations of a
//! lease without a holder.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::life::lease::{ElectionAnswer, FoundLease, LeaseRecord};

use super::{LeaseError, LeaseKind, Leases, SERVES};

/// The maximum number of attempts when other writers come first.
const NOTE_ATTEMPTS_MAX: usize = 8;

/// Annotations by their names.
pub type Notes = BTreeMap<String, String>;

impl Leases {
    /// The annotations of a lease.
    #[must_use]
    pub fn notes(found: &FoundLease) -> Notes {
        let metadata: Value =
            found.as_ref().and_then(|(version, _)| serde_json::from_str(version).ok()).unwrap_or_default();
        let annotations = metadata["annotations"].as_object().into_iter().flatten();
        annotations.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
    }

    /// The plugins that a member can serve, according to its lease. `None` if the lease does not say.
    #[must_use]
    pub fn serves(found: &FoundLease) -> Option<String> {
        Self::notes(found).remove(SERVES)
    }

    /// Changes the annotation `note` of the lease `name`, which is of this `kind`. `change` maps the current value to
    /// the new one; `None` means that there is no annotation. Creates the lease if necessary. Returns false if other
    /// writers came first in every attempt.
    pub async fn note(
        &self,
        name: &str,
        kind: LeaseKind,
        note: &str,
        change: impl Fn(Option<&str>) -> Option<String>,
        limit: Duration,
    ) -> Result<bool, LeaseError> {
        for _ in 0..NOTE_ATTEMPTS_MAX {
            let ElectionAnswer::Found(found) = self.get(name, limit).await? else { continue };
            let notes = Self::notes(&found);
            let now = notes.get(note).map(String::as_str);
            let value = change(now);
            if value.as_deref() == now {
                return Ok(true);
            }
            let Some((version, record)) = found else {
                let nobody =
                    LeaseRecord { holder: "".into(), duration: Duration::from_secs(1), transitions: 0, acquired: None };
                // The annotation is then written over the new lease.
                self.write(name, kind, None, &nobody, None, limit).await?;
                continue;
            };
            let mut metadata: Value = serde_json::from_str(&version).unwrap_or_default();
            put(&mut metadata, note, value.as_deref());
            let over = metadata.to_string().into();
            if let ElectionAnswer::Written { .. } = self.write(name, kind, Some(&over), &record, None, limit).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Sets or removes the annotation `note` in this metadata.
pub(super) fn put(metadata: &mut Value, note: &str, value: Option<&str>) {
    if !metadata["annotations"].is_object() {
        metadata["annotations"] = json!({});
    }
    match (value, metadata["annotations"].as_object_mut()) {
        (Some(value), Some(notes)) => drop(notes.insert(note.to_owned(), value.into())),
        (None, Some(notes)) => drop(notes.remove(note)),
        (_, None) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_members_note_is_read_as_written_and_other_annotations_stay() {
        let mut metadata = json!({"name": "m", "annotations": {"other": "stays"}});
        let found = |metadata: &Value| Leases::watched(&json!({"metadata": metadata}).to_string());
        assert_eq!(Leases::serves(&found(&metadata)), None);
        put(&mut metadata, SERVES, Some("webapp@5f"));
        assert_eq!(Leases::serves(&found(&metadata)).as_deref(), Some("webapp@5f"));
        put(&mut metadata, SERVES, None);
        assert_eq!(metadata["annotations"], json!({"other": "stays"}));
    }
}
