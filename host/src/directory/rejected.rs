//! The digests that were rolled back, so that neither a restart nor another replica runs them again before the file changes.
//!
//! Kept in a file, if the host has a directory to keep things in; and, where there are leases, in an annotation that all replicas
//! see (`leadership`).

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Digest;
use crate::files::read_whole;

/// What a rejection says of its reason.
const MOST_REASON: usize = 200;
const MOST_BYTES: u64 = 16 << 20;
/// The file's name.
const FILE: &str = "rejected.json";

/// One digest of a plugin that is not to be run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Rejection {
    /// Of the file.
    #[serde(serialize_with = "as_text", deserialize_with = "from_text")]
    pub(crate) digest: Digest,
    /// Why it was rolled back.
    pub(crate) because: String,
    /// The digest of what ran before it, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) former: Option<String>,
}

impl Rejection {
    /// `because` is cut if it is long: it is kept where there is little room.
    pub(crate) fn new(digest: Digest, mut because: String, former: Option<&str>) -> Self {
        because.truncate(because.floor_char_boundary(MOST_REASON));
        Self { digest, because, former: former.map(str::to_owned) }
    }
}

fn as_text<S: serde::Serializer>(digest: &Digest, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(digest)
}

fn from_text<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Digest, D::Error> {
    Ok(String::deserialize(deserializer)?.into())
}

/// What this host remembers of it, by plugin: the last one of each.
#[derive(Debug, Default)]
pub(crate) struct Rejections {
    /// None: it is forgotten with the process.
    file: Option<PathBuf>,
    all: BTreeMap<Arc<str>, Rejection>,
}

impl Rejections {
    /// Those that were kept in `directory`. A file that cannot be read is told of, and replaced by the next rejection.
    pub(crate) fn kept_in(directory: Option<&Path>) -> Self {
        let Some(file) = directory.map(|directory| directory.join(FILE)) else { return Self::default() };
        let all = match read(&file) {
            Ok(all) => all,
            Err(error) => {
                tracing::error!(
                    file = %file.display(), error,
                    "what was rolled back before cannot be read: it may run again, and is rolled back again then"
                );
                BTreeMap::new()
            }
        };
        Self { file: Some(file), all }
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Rejection)> {
        self.all.iter()
    }

    /// Remembers one.
    pub(crate) fn add(&mut self, plugin: &Arc<str>, rejection: &Rejection) {
        if self.all.insert(plugin.clone(), rejection.clone()).as_ref() != Some(rejection) {
            self.keep();
        }
    }

    /// Forgets the one of `plugin`, if it is this.
    pub(crate) fn remove(&mut self, plugin: &str, digest: &str) {
        if self.all.get(plugin).is_some_and(|rejection| *rejection.digest == *digest) {
            self.all.remove(plugin);
            self.keep();
        }
    }

    fn keep(&self) {
        let Some(file) = &self.file else { return };
        if let Err(error) = write(file, &self.all) {
            tracing::error!(
                file = %file.display(), %error,
                "what was rolled back could not be written down: after a restart it may run again"
            );
        }
    }
}

fn read(file: &Path) -> Result<BTreeMap<Arc<str>, Rejection>, String> {
    match read_whole(file, MOST_BYTES) {
        Ok(text) => {
            let all: BTreeMap<String, Rejection> = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
            Ok(all.into_iter().map(|(plugin, rejection)| (plugin.into(), rejection)).collect())
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(error.to_string()),
    }
}

/// Whole or not at all: another file is written first.
fn write(file: &Path, all: &BTreeMap<Arc<str>, Rejection>) -> std::io::Result<()> {
    let all: BTreeMap<&str, &Rejection> = all.iter().map(|(plugin, rejection)| (&**plugin, rejection)).collect();
    let new = file.with_extension("json.new");
    let mut written = std::fs::File::create(&new)?;
    written.write_all(&serde_json::to_vec_pretty(&all)?)?;
    written.sync_all()?;
    std::fs::rename(&new, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_rejected_is_known_after_a_restart_and_forgotten_when_the_file_changes() {
        let directory = tempfile::tempdir().expect("a directory");
        let open = || Rejections::kept_in(Some(directory.path()));
        let rejection = Rejection::new("d1".into(), "it traps ".repeat(100), Some("d0"));
        assert!(rejection.because.len() <= MOST_REASON);
        open().add(&"webapp".into(), &rejection);
        let mut again = open();
        assert_eq!(again.iter().map(|(plugin, it)| (&**plugin, it)).collect::<Vec<_>>(), [("webapp", &rejection)]);
        again.remove("webapp", "d2");
        assert_eq!(open().iter().count(), 1, "that was another digest");
        again.remove("webapp", "d1");
        assert_eq!(open().iter().count(), 0);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_replaced_and_not_fatal() {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join(FILE), "{").expect("written");
        let mut rejections = Rejections::kept_in(Some(directory.path()));
        rejections.add(&"webapp".into(), &Rejection::new("d1".into(), "it traps".into(), None));
        assert_eq!(Rejections::kept_in(Some(directory.path())).iter().count(), 1);
    }
}
