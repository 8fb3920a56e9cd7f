//! The digests that were rolled back, so that neither a restart nor another replica runs them again before the file
//! changes.
//!
//! The rejections are in a file if the host has a cache directory. With leases, they are also in an annotation that all
//! replicas see (`leadership`). [`RejectionVerdicts`] collects what to publish there; `plugins::replicas` publishes it.
//!
//! Hosts that share the directory share the file, even hosts of different versions. So each write changes a single
//! entry and keeps all that it does not understand in the other entries. A version that needs another form of an entry
//! must write another file.

mod verdicts;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use self::verdicts::{JudgedAt, RejectionVerdict, RejectionVerdicts};
use windlass_files::read_whole;

/// The SHA-256 of a file, 64 hexadecimal digits.
pub(crate) type Digest = Arc<str>;

/// The longest reason that is kept, in bytes.
const REASON_BYTES_MAX: usize = 200;
/// The largest size of the file, in bytes.
const REJECTIONS_BYTES_MAX: u64 = 16 << 20;
/// The file's name.
const FILE: &str = "rejected.json";

/// One digest of a plugin that must not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Rejection {
    /// The digest of the rejected file.
    #[serde(serialize_with = "as_text", deserialize_with = "from_text")]
    pub(crate) digest: Digest,
    /// Why it was rolled back.
    pub(crate) because: String,
    /// The digest of the version that ran before, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) former: Option<String>,
    /// When the version was judged. Of two rejections, the later judgement counts, in whatever order they arrive.
    #[serde(default)]
    pub(crate) at: JudgedAt,
}

impl Rejection {
    /// A rejection without a date yet. A long `because` is cut, as there is little room in annotations.
    pub(crate) fn new(digest: Digest, mut because: String, former: Option<&str>) -> Self {
        because.truncate(because.floor_char_boundary(REASON_BYTES_MAX));
        Self { digest, because, former: former.map(str::to_owned), at: JudgedAt::default() }
    }
}

fn as_text<S: serde::Serializer>(digest: &Digest, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(digest)
}

fn from_text<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Digest, D::Error> {
    Ok(String::deserialize(deserializer)?.into())
}

/// The last rejection of each plugin that this host knows.
#[derive(Debug, Default)]
pub(crate) struct Rejections {
    /// `None` if rejections are forgotten with the process.
    file: Option<PathBuf>,
    /// The rejections of this host, which do not depend on other hosts' files.
    all: BTreeMap<Arc<str>, Rejection>,
    /// The rejections that the replicas have shared, as far as this replica has read them.
    elsewhere: BTreeMap<Arc<str>, Rejection>,
    /// This host's pardons with their times. An older rejection does not apply here, however late it arrives. There is
    /// one pardon for each rejected file that was replaced while this process lives.
    pardoned: BTreeMap<Arc<str>, BTreeMap<Digest, JudgedAt>>,
}

impl Rejections {
    /// The rejections kept in `directory`. An unreadable file is logged, and replaced by the next rejection.
    pub(crate) fn kept_in(directory: Option<&Path>) -> Self {
        let Some(file) = directory.map(|directory| directory.join(FILE)) else { return Self::default() };
        let all = match read(&file) {
            Ok(entries) => known_of(entries, &file),
            Err(error) => {
                tracing::error!(
                    file = %file.display(), error,
                    "the earlier rejections cannot be read: a rejected version may run again, and is rolled back again then"
                );
                BTreeMap::new()
            }
        };
        Self { file: Some(file), all, ..Self::default() }
    }

    /// All known rejections, to be compared with the files. Shared ones come last.
    pub(crate) fn known(&self) -> Vec<(Arc<str>, Rejection)> {
        let is_in_force =
            |(plugin, it): &(&Arc<str>, &Rejection)| self.pardoned_at(plugin, &it.digest).is_none_or(|at| at < it.at);
        let elsewhere = self.elsewhere.iter().filter(is_in_force);
        self.all.iter().chain(elsewhere).map(|(plugin, it)| (plugin.clone(), it.clone())).collect()
    }

    /// The rejections of files that have since been replaced.
    pub(crate) fn stale(&self, is_other: impl Fn(&str, &str) -> bool) -> Vec<(Arc<str>, Digest)> {
        let stale = self.all.iter().filter(|(plugin, it)| is_other(plugin, &it.digest));
        stale.map(|(plugin, it)| (plugin.clone(), it.digest.clone())).collect()
    }

    /// Takes over the rejections that the replicas share.
    pub(crate) fn take_shared(&mut self, elsewhere: BTreeMap<Arc<str>, Rejection>) {
        self.elsewhere = elsewhere;
    }

    /// Records a rejection that this replica made `now`. Returns the rejection with a date. The date is later than
    /// everything that this replica knew by then, even if clocks differ.
    pub(crate) fn judged(&mut self, plugin: &Arc<str>, mut rejection: Rejection, now: JudgedAt) -> Rejection {
        let known = [&self.all, &self.elsewhere].into_iter().filter_map(|known| known.get(plugin).map(|it| it.at));
        let before = known.chain(self.pardoned_at(plugin, &rejection.digest)).max();
        rejection.at = before.map_or(now, |before| now.after(before));
        self.add(plugin, &rejection);
        rejection
    }

    /// Remembers a rejection, and writes it to the file.
    pub(crate) fn add(&mut self, plugin: &Arc<str>, rejection: &Rejection) {
        if self.all.insert(plugin.clone(), rejection.clone()).as_ref() != Some(rejection) {
            self.keep(|entries| {
                // This cannot fail, as all fields are text and numbers.
                let entry = serde_json::to_value(rejection).unwrap_or_default();
                entries.insert(plugin.to_string(), entry);
            });
        }
    }

    /// Forgets the rejection of `plugin` if it is of this `digest`, even if other replicas have not learned of it yet.
    /// Returns the date of the pardon.
    pub(crate) fn pardon(&mut self, plugin: &Arc<str>, digest: &Digest, now: JudgedAt) -> JudgedAt {
        let known = [&self.all, &self.elsewhere].into_iter().filter_map(|known| known.get(plugin));
        let known = known.filter(|it| it.digest == *digest).map(|it| it.at);
        let before = known.chain(self.pardoned_at(plugin, digest)).max();
        let at = before.map_or(now, |before| now.after(before));
        self.pardoned.entry(plugin.clone()).or_default().insert(digest.clone(), at);
        if self.all.get(plugin).is_some_and(|rejection| rejection.digest == *digest) {
            self.all.remove(plugin);
            self.keep(|entries| {
                // Another host may have rejected a different digest since.
                if entries.get(&**plugin).is_some_and(|entry| entry["digest"] == **digest) {
                    entries.remove(&**plugin);
                }
            });
        }
        at
    }

    fn pardoned_at(&self, plugin: &str, digest: &str) -> Option<JudgedAt> {
        self.pardoned.get(plugin)?.get(digest).copied()
    }

    /// Applies `change` to the file's current entries.
    fn keep(&self, change: impl FnOnce(&mut KeptEntries)) {
        let Some(file) = &self.file else { return };
        // An unreadable file was logged when it was opened.
        let mut entries = read(file).unwrap_or_default();
        change(&mut entries);
        if let Err(error) = write(file, &entries) {
            tracing::error!(
                file = %file.display(), %error,
                "the rejections could not be saved: after a restart, a rejected version may run again"
            );
        }
    }
}

/// The file's entries by plugin, each in the form that some version wrote.
type KeptEntries = BTreeMap<String, Value>;

fn read(file: &Path) -> Result<KeptEntries, String> {
    match read_whole(file, REJECTIONS_BYTES_MAX) {
        Ok(text) => serde_json::from_slice(&text).map_err(|error| error.to_string()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(KeptEntries::new()),
        Err(error) => Err(error.to_string()),
    }
}

/// The entries that this version can read.
fn known_of(entries: KeptEntries, file: &Path) -> BTreeMap<Arc<str>, Rejection> {
    let known = entries.into_iter().filter_map(|(plugin, entry)| match serde_json::from_value(entry) {
        Ok(rejection) => Some((plugin.into(), rejection)),
        Err(error) => {
            tracing::warn!(
                file = %file.display(), plugin, %error,
                "the rejection of this plugin cannot be read, and is left as it is: a newer version of the host may have written it"
            );
            None
        }
    });
    known.collect()
}

/// Writes the whole file or nothing, by replacing it.
fn write(file: &Path, entries: &KeptEntries) -> std::io::Result<()> {
    let new = file.with_extension("json.new");
    let mut written = std::fs::File::create(&new)?;
    written.write_all(&serde_json::to_vec_pretty(entries)?)?;
    written.sync_all()?;
    std::fs::rename(&new, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejection(digest: &str) -> Rejection {
        Rejection::new(digest.into(), "it traps".into(), None)
    }

    /// The digests known of the only plugin.
    fn known(rejections: &Rejections) -> Vec<String> {
        rejections.known().into_iter().map(|(_, it)| it.digest.to_string()).collect()
    }

    const NOTHING: [&str; 0] = [];

    #[test]
    fn a_rejection_survives_a_restart_and_is_forgotten_with_a_new_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let open = || Rejections::kept_in(Some(directory.path()));
        let rejection = Rejection::new("d1".into(), "it traps ".repeat(100), Some("d0"));
        assert!(rejection.because.len() <= REASON_BYTES_MAX);
        open().add(&"webapp".into(), &rejection);
        let mut again = open();
        assert_eq!(again.known(), [("webapp".into(), rejection)]);
        assert_eq!(again.stale(|_, digest| digest != "d1"), []);
        assert_eq!(again.stale(|_, digest| digest == "d1"), [("webapp".into(), "d1".into())]);
        again.pardon(&"webapp".into(), &"d2".into(), at(1));
        assert_eq!(known(&open()), ["d1"], "that was another digest");
        again.pardon(&"webapp".into(), &"d1".into(), at(1));
        assert_eq!(known(&open()), NOTHING);
    }

    #[test]
    fn a_second_pardon_does_not_take_back_the_date_of_the_first() {
        let (mut rejections, plugin) = (Rejections::default(), Arc::from("webapp"));
        let judged = rejections.judged(&plugin, rejection("d1"), at(40));
        let first = rejections.pardon(&plugin, &"d1".into(), at(3));
        assert!(rejections.pardon(&plugin, &"d1".into(), at(4)) > first, "even if the clock is behind");
        rejections.take_shared([(plugin, judged)].into());
        assert_eq!(known(&rejections), NOTHING);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_replaced_and_not_fatal() {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join(FILE), "{").expect("written");
        let mut rejections = Rejections::kept_in(Some(directory.path()));
        rejections.add(&"webapp".into(), &rejection("d1"));
        assert_eq!(known(&Rejections::kept_in(Some(directory.path()))), ["d1"]);
    }

    /// A file as the previous version wrote it.
    const FORMER: &str = r#"{
  "shop": {
    "digest": "d1",
    "because": "3 of its first 5 calls trapped",
    "former": "d0",
    "at": 1795000000000
  },
  "webapp": {
    "digest": "d2",
    "because": "it traps",
    "at": 0
  }
}"#;

    fn file_with(text: &str) -> tempfile::TempDir {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join(FILE), text).expect("written");
        directory
    }

    #[test]
    fn the_file_of_the_former_version_is_read_and_written_as_that_does() {
        let directory = file_with(FORMER);
        let open = || Rejections::kept_in(Some(directory.path()));
        let shop = Rejection::new("d1".into(), "3 of its first 5 calls trapped".into(), Some("d0"));
        let shop = Rejection { at: at(1_795_000_000_000), ..shop };
        assert_eq!(open().known(), [("shop".into(), shop.clone()), ("webapp".into(), rejection("d2"))]);
        open().pardon(&"shop".into(), &"d1".into(), at(1));
        assert_eq!(known(&open()), ["d2"]);
        open().add(&"shop".into(), &shop);
        let written = std::fs::read_to_string(directory.path().join(FILE)).expect("there");
        assert_eq!(written.parse::<Value>().expect("JSON"), FORMER.parse::<Value>().expect("JSON"));
    }

    #[test]
    fn entries_of_a_newer_version_survive_a_write_of_other_entries() {
        let newer = r#"{
            "shop": {"digest": "d1", "because": "it traps", "at": 5, "rolledBackBy": "another rule"},
            "odd": {"form": 2, "digests": ["d7", "d8"]},
            "webapp": {"digest": "d2", "because": "it traps", "at": 6}
        }"#;
        let directory = file_with(newer);
        let mut rejections = Rejections::kept_in(Some(directory.path()));
        assert_eq!(known(&rejections), ["d1", "d2"], "an entry that cannot be read does not hide the others");
        rejections.pardon(&"webapp".into(), &"d2".into(), at(7));
        rejections.add(&"other".into(), &rejection("d3"));
        let written = std::fs::read_to_string(directory.path().join(FILE)).expect("there");
        let (written, newer): (Value, Value) = (written.parse().expect("JSON"), newer.parse().expect("JSON"));
        assert_eq!([&written["shop"], &written["odd"]], [&newer["shop"], &newer["odd"]]);
        assert_eq!(written["other"]["digest"], "d3");
        assert_eq!(written["webapp"], Value::Null);
    }

    #[test]
    fn hosts_that_share_the_file_do_not_undo_each_other() {
        let directory = tempfile::tempdir().expect("a directory");
        let open = || Rejections::kept_in(Some(directory.path()));
        let (mut one, mut other) = (open(), open());
        one.add(&"shop".into(), &rejection("d1"));
        other.add(&"webapp".into(), &rejection("d2"));
        assert_eq!(known(&open()), ["d1", "d2"]);
        one.add(&"shop".into(), &rejection("d3"));
        other.add(&"shop".into(), &rejection("d4"));
        one.pardon(&"shop".into(), &"d3".into(), at(1));
        assert_eq!(known(&open()), ["d4", "d2"], "that was another digest");
    }

    fn at(time: u64) -> JudgedAt {
        JudgedAt::from_millis(time)
    }

    #[test]
    fn a_local_pardon_holds_until_another_replica_rejects_the_file_again() {
        let (plugin, mut rejections) = (Arc::from("webapp"), Rejections::default());
        let shared =
            |digest: &str, time| BTreeMap::from([("webapp".into(), Rejection { at: at(time), ..rejection(digest) })]);
        rejections.take_shared(shared("d1", 1));
        assert_eq!(known(&rejections), ["d1"]);
        rejections.pardon(&plugin, &"d1".into(), at(2));
        assert_eq!(known(&rejections), NOTHING, "the file may come back before the other replicas learn of the pardon");
        rejections.take_shared(shared("d1", 1));
        assert_eq!(known(&rejections), NOTHING, "this rejection is older than the pardon");
        rejections.take_shared(shared("d2", 3));
        assert_eq!(known(&rejections), ["d2"], "that is another replica's");
        rejections.take_shared(shared("d1", 4));
        assert_eq!(known(&rejections), ["d1"], "it has failed again");
        // This replica pardons it.
        rejections.pardon(&plugin, &"d1".into(), at(5));
        assert_eq!(rejections.judged(&plugin, rejection("d1"), at(6)).at, at(6));
        assert_eq!(known(&rejections), ["d1"]);
    }

    #[test]
    fn a_pardon_outlasts_a_late_copy_of_the_rejection_that_it_ended() {
        let (plugin, mut rejections) = (Arc::from("webapp"), Rejections::default());
        let judged = rejections.judged(&plugin, rejection("d1"), at(5));
        // The clock was set back meanwhile.
        let pardoned = rejections.pardon(&plugin, &"d1".into(), at(1));
        // First an old shared state arrives because of another plugin, and then the rejection itself.
        rejections.take_shared(BTreeMap::new());
        rejections.take_shared(BTreeMap::from([(plugin.clone(), judged.clone())]));
        assert_eq!(known(&rejections), NOTHING);
        assert!(pardoned > judged.at && rejections.judged(&plugin, rejection("d1"), at(1)).at > pardoned);
    }
}
