//! The directory of files that the host writes for objects. The code that follows files does the rest.
//!
//! For each plugin there are `NAME.wasm`, `NAME.policy.yaml`, perhaps `NAME.config.yaml`, and `NAME.object.json`: a
//! record of the artefact, which is written first and removed last. If the process dies while it installs another
//! version, the record has both, and the file's digest says which one is there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;
use windlass_manifest::is_dns_label;
use windlass_objects::{InstalledArtefact, WantedFiles};

use crate::plugins::directory::plugin_files::FileRole;
use crate::plugins::directory::{hexadecimal, is_plugin};
use crate::plugins::{config, rollout};
use crate::policies::SUFFIX as POLICY_SUFFIX;

/// The suffix of records, after the plugin's name.
const RECORD_SUFFIX: &str = ".object.json";
/// The largest size of a record. It has some sources and their digests.
const OBJECT_RECORD_BYTES_MAX: u64 = 64 << 10;
/// The mode of the directory.
const PRIVATE: u32 = 0o700;

/// Why the directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {} for the files of plugin objects: {source}", path.display())]
pub struct ObjectDirectoryError {
    path: PathBuf,
    source: io::Error,
}

/// The artefacts of one plugin.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ArtefactRecord {
    /// The one whose file is there.
    pub(super) installed: InstalledArtefact,
    /// Others that were installed before, and may run again after a rollback.
    pub(super) former: Vec<InstalledArtefact>,
}

impl ArtefactRecord {
    /// The digests of all their files, in hexadecimal.
    pub(super) fn digests(&self) -> BTreeSet<String> {
        file_digests([&self.installed].into_iter().chain(&self.former))
    }
}

/// The digests of the artefacts' files, in hexadecimal.
pub(super) fn file_digests<'a>(artefacts: impl Iterator<Item = &'a InstalledArtefact>) -> BTreeSet<String> {
    artefacts.filter_map(|artefact| artefact.file_digest.strip_prefix("sha256:")).map(str::to_owned).collect()
}

/// Why files were not installed.
#[derive(Debug, thiserror::Error)]
pub(super) enum InstallError {
    /// The artefact's file is not installed, and was not given or does not exist any more.
    #[error("the file of the artefact is missing; the host fetches it again")]
    NoFile,
    /// The given file is not the one that the policy was asked about.
    #[error("the file has the digest {found}, but {wanted} was fetched; the host fetches it again")]
    OtherFile { found: String, wanted: String },
    /// The disk, before the new policy was there. The former one still applies.
    #[error("the policy cannot be written: {0}")]
    Policy(io::Error),
    /// The disk.
    #[error(transparent)]
    Disk(#[from] io::Error),
}

/// A file that came from no registry. It is removed with the last clone. Nothing is ever written into it, because
/// [`put`] makes an installed file of it.
#[derive(Clone, Debug)]
pub(super) struct KeptFile(Arc<RemovedFile>);

/// Removes the file at the end.
#[derive(Debug)]
struct RemovedFile(PathBuf);

impl KeptFile {
    pub(super) fn path(&self) -> &Path {
        &self.0.0
    }
}

impl Drop for RemovedFile {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0) {
            tracing::debug!(%error, "a fetched file was not removed: the next start of the host removes it");
        }
    }
}

/// The directory. All its functions block.
#[derive(Clone, Debug)]
pub(super) struct ObjectDirectory(PathBuf);

impl ObjectDirectory {
    /// Opens or creates the directory, and removes what an earlier process has left half-done. Returns what is
    /// installed for each plugin, except for `taken` names. Reads all files, and breaks off if the host is to `stop`.
    pub(super) fn open(
        path: &Path,
        taken: &BTreeSet<String>,
        stop: &CancellationToken,
    ) -> Result<(Self, BTreeMap<String, ArtefactRecord>), ObjectDirectoryError> {
        let opened = Self::open_or_fail(path, taken, stop);
        opened.map_err(|source| ObjectDirectoryError { path: path.to_owned(), source })
    }

    fn open_or_fail(
        path: &Path,
        taken: &BTreeSet<String>,
        stop: &CancellationToken,
    ) -> io::Result<(Self, BTreeMap<String, ArtefactRecord>)> {
        fs::DirBuilder::new().recursive(true).mode(PRIVATE).create(path)?;
        let (directory, mut installed) = (Self(path.to_owned()), BTreeMap::new());
        let mut names = BTreeSet::new();
        // A leftover belongs to no object, so hosts ignore it. It must not keep other plugins from running.
        let left = |file: &Path, error: io::Error| {
            tracing::warn!(file = %file.display(), %error, "a leftover of a plugin object cannot be removed: it takes up space");
        };
        for entry in fs::read_dir(path)? {
            let file = entry?.path();
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with('.') {
                // A temporary file, whose process was killed.
                fs::remove_file(&file).unwrap_or_else(|error| left(&file, error));
            } else if let Some(plugin) = name.split('.').next().filter(|plugin| is_dns_label(plugin)) {
                names.insert(plugin.to_owned());
            }
        }
        for plugin in names.into_iter().take_while(|_| !stop.is_cancelled()) {
            match directory.record(&plugin) {
                Some(record) if !taken.contains(&plugin) => {
                    installed.insert(plugin, record);
                }
                // Without a record it is not known which policy the file may have.
                _ => directory.remove(&plugin).unwrap_or_else(|error| left(&FileRole::Own.path(path, &plugin), error)),
            }
        }
        Ok((directory, installed))
    }

    /// Makes the directory anew if it was removed. Returns the `installed` plugins that lack a file, each of which is
    /// given with whether it has a configuration.
    pub(super) fn restore(&self, installed: Vec<(String, bool)>) -> io::Result<Vec<String>> {
        if !self.0.try_exists()? {
            fs::DirBuilder::new().recursive(true).mode(PRIVATE).create(&self.0)?;
        }
        // A file that cannot be looked at is there, as far as is known.
        let is_gone = |path: &PathBuf| path.try_exists().is_ok_and(|exists| !exists);
        let lacks = installed.into_iter().filter(|(plugin, is_configured)| {
            let configuration = is_configured.then(|| config::path_in(&self.0, plugin));
            let files = [FileRole::Own.path(&self.0, plugin), self.policy_file(plugin), self.record_file(plugin)];
            files.iter().chain(&configuration).any(is_gone)
        });
        Ok(lacks.map(|(plugin, _)| plugin).collect())
    }

    /// The record, if it knows the file that is there.
    fn record(&self, plugin: &str) -> Option<ArtefactRecord> {
        let text = windlass_files::read_whole(&self.record_file(plugin), OBJECT_RECORD_BYTES_MAX).ok()?;
        let recorded: Vec<InstalledArtefact> = serde_json::from_slice(&text).ok()?;
        let is_there = format!("sha256:{}", rollout::digest(&FileRole::Own.path(&self.0, plugin)).ok()?);
        let (mut installed, former): (Vec<_>, Vec<_>) =
            recorded.into_iter().partition(|artefact| artefact.file_digest == is_there);
        (!installed.is_empty()).then(|| ArtefactRecord { installed: installed.swap_remove(0), former })
    }

    /// Installs `files` of `plugin`. `file` is the artefact's file, if another one is installed or none.
    pub(super) fn install(
        &self,
        plugin: &str,
        installed: Option<&InstalledArtefact>,
        files: &WantedFiles,
        file: Option<&Path>,
    ) -> Result<(), InstallError> {
        let own = FileRole::Own.path(&self.0, plugin);
        let current = FileRole::Current.path(&self.0, plugin);
        let is_there = installed == Some(&files.artefact) && own.is_file();
        let prepare = || {
            if files.shadow && !is_there && own.is_file() && !current.is_file() {
                // The running version runs on while the new one waits, even if both come in one edit with the strategy.
                link(&own, &current)?;
            }
            let recorded: Vec<_> = [&files.artefact].into_iter().chain(&files.former).collect();
            write(&self.record_file(plugin), &serde_json::to_vec(&recorded)?)?;
            // The policy comes first, so that the plugin has it when it is loaded.
            write(&self.policy_file(plugin), files.policy.as_bytes())
        };
        prepare().map_err(InstallError::Policy)?;
        let configuration = config::path_in(&self.0, plugin);
        match &files.config {
            Some(text) => write(&configuration, text.as_bytes())?,
            None => remove_if_there(&configuration)?,
        }
        if !is_there {
            put(file.ok_or(InstallError::NoFile)?, &own, &files.artefact.file_digest)?;
        }
        if !files.shadow {
            // A version that has waited as a shadow is promoted.
            remove_if_there(&current)?;
        }
        Ok(())
    }

    /// Ends `plugin`: removes what runs. If `revoked`, also removes its policy, so that no further call is granted
    /// anything.
    pub(super) fn end(&self, plugin: &str, revoked: bool) -> io::Result<()> {
        if revoked {
            remove_if_there(&self.policy_file(plugin))?;
        }
        for role in [FileRole::Next, FileRole::Current, FileRole::Own] {
            remove_if_there(&role.path(&self.0, plugin))?;
        }
        Ok(())
    }

    /// Removes everything of `plugin`, which has ended.
    pub(super) fn remove(&self, plugin: &str) -> io::Result<()> {
        self.end(plugin, true)?;
        remove_if_there(&config::path_in(&self.0, plugin))?;
        remove_if_there(&self.record_file(plugin))
    }

    /// Keeps a file that was not fetched from a registry. Hosts ignore it.
    pub(super) fn keep(&self, plugin: &str, bytes: &[u8]) -> io::Result<KeptFile> {
        // Each fetch has a file: an earlier one may have been installed by a link.
        let path = self.0.join(format!(".{plugin}.{:032x}.fetched", windlass_world::random::<u128>()));
        let mut file = fs::File::create_new(&path)?;
        let kept = KeptFile(Arc::new(RemovedFile(path)));
        file.write_all(bytes)?;
        file.sync_all()?;
        Ok(kept)
    }

    fn policy_file(&self, plugin: &str) -> PathBuf {
        self.0.join(format!("{plugin}{POLICY_SUFFIX}"))
    }

    fn record_file(&self, plugin: &str) -> PathBuf {
        self.0.join(format!("{plugin}{RECORD_SUFFIX}"))
    }
}

/// Replaces `path` by a file with this content, unless it has that already.
fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|before| before == content) {
        return Ok(());
    }
    let new = hidden(path);
    let mut file = fs::File::create(&new)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&new, path)
}

/// Replaces `to` by the file `from`, which stays where it is, if it has this digest.
fn put(from: &Path, to: &Path, wanted: &str) -> Result<(), InstallError> {
    let new = hidden(to);
    if let Err(error) = link_new(from, &new) {
        return Err(if from.exists() { error.into() } else { InstallError::NoFile });
    }
    // The policy was asked about this digest, so no other file may get its rights.
    let found = format!("sha256:{}", rollout::digest(&new)?);
    if found != wanted {
        remove_if_there(&new)?;
        return Err(InstallError::OtherFile { found, wanted: wanted.to_owned() });
    }
    Ok(fs::rename(&new, to)?)
}

/// Replaces `to` by the file `from`, which stays where it is.
fn link(from: &Path, to: &Path) -> io::Result<()> {
    let new = hidden(to);
    link_new(from, &new)?;
    fs::rename(&new, to)
}

fn link_new(from: &Path, new: &Path) -> io::Result<()> {
    remove_if_there(new)?;
    if fs::hard_link(from, new).is_err() {
        // The store may be on another file system.
        fs::copy(from, new)?;
        fs::File::open(new)?.sync_all()?;
    }
    Ok(())
}

/// The plugins that have files in the operator's directory.
pub(super) fn taken_names(directory: &Path) -> io::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if is_plugin(&path) && !crate::files::is_hidden(&path) {
            names.insert(FileRole::of(&path).0.to_string());
        }
    }
    Ok(names)
}

/// A file beside `path` that hosts ignore.
fn hidden(path: &Path) -> PathBuf {
    path.with_file_name(format!(".{}.new", path.file_name().unwrap_or_default().to_string_lossy()))
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The SHA-256 of `bytes`, as `sha256:…`.
pub(super) fn digest_text(bytes: &[u8]) -> String {
    format!("sha256:{}", hexadecimal(&Sha256::digest(bytes).into()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn artefact(content: &str) -> InstalledArtefact {
        let source = json!({"configMap": {"name": "files"}});
        InstalledArtefact {
            source: serde_json::from_value(source).expect("valid"),
            digest: None,
            file_digest: digest_text(content.as_bytes()),
        }
    }

    fn wanted(content: &str) -> WantedFiles {
        let (artefact, former) = (artefact(content), Vec::new());
        WantedFiles { artefact, former, policy: "{}".to_owned(), config: None, shadow: false }
    }

    fn wanted_after(content: &str, former: &[&str]) -> WantedFiles {
        WantedFiles { former: former.iter().map(|content| artefact(content)).collect(), ..wanted(content) }
    }

    /// An empty directory, and a file with this content outside of it.
    fn empty(content: &str) -> (tempfile::TempDir, ObjectDirectory, PathBuf) {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("objects");
        let opened = ObjectDirectory::open(&path, &BTreeSet::new(), &CancellationToken::new());
        let (directory, _) = opened.expect("it is new");
        let file = place.path().join("fetched");
        fs::write(&file, content).expect("it can be written");
        (place, directory, file)
    }

    fn reopened(directory: &ObjectDirectory, taken: &[&str]) -> BTreeMap<String, InstalledArtefact> {
        let taken = taken.iter().map(|&name| name.to_owned()).collect();
        let records = ObjectDirectory::open(&directory.0, &taken, &CancellationToken::new()).expect("it is there").1;
        records.into_iter().map(|(name, record)| (name, record.installed)).collect()
    }

    #[test]
    fn an_installed_plugin_is_known_after_a_restart() {
        let (_place, directory, file) = empty("one");
        directory.install("shop", None, &wanted("one"), Some(&file)).expect("it can be written");
        assert_eq!(reopened(&directory, &[]), [("shop".to_owned(), artefact("one"))].into());
        assert_eq!(reopened(&directory, &["shop"]), BTreeMap::new());
        assert_eq!(fs::read_dir(&directory.0).expect("it is there").count(), 0, "the operator's file has the name");
    }

    #[test]
    fn a_crash_between_two_versions_leaves_one_of_them() {
        let (_place, directory, file) = empty("one");
        directory.install("shop", None, &wanted("one"), Some(&file)).expect("it can be written");
        let one = artefact("one");
        let broken =
            directory.install("shop", Some(&one), &wanted_after("two", &["one"]), None).expect_err("there is no file");
        assert!(matches!(broken, InstallError::NoFile));
        assert_eq!(reopened(&directory, &[]), [("shop".to_owned(), one.clone())].into(), "the record has both");
        let file = file.with_file_name("another");
        fs::write(&file, "two").expect("it can be written");
        directory.install("shop", Some(&one), &wanted_after("two", &["one"]), Some(&file)).expect("it can be written");
        assert_eq!(reopened(&directory, &[]), [("shop".to_owned(), artefact("two"))].into());
    }

    #[test]
    fn the_record_has_exactly_the_artefacts_that_may_run_again() {
        let (_place, directory, file) = empty("two");
        let (one, zero) = (artefact("one"), artefact("zero"));
        let wanted = wanted_after("two", &["one", "zero"]);
        directory.install("shop", Some(&one), &wanted, Some(&file)).expect("it can be written");
        let record = directory.record("shop").expect("it is there");
        assert_eq!(record, ArtefactRecord { installed: artefact("two"), former: vec![one, zero] });
        let (two, wanted) = (artefact("two"), wanted_after("two", &["zero"]));
        directory.install("shop", Some(&two), &wanted, None).expect("it can be written");
        let record = directory.record("shop").expect("it is there");
        assert_eq!(record.former, [artefact("zero")], "the policy does not cover the other one any more");
        assert_eq!(record.digests().len(), 2);
    }

    #[test]
    fn an_odd_file_does_not_keep_the_directory_from_being_opened() {
        let (_place, directory, file) = empty("one");
        directory.install("shop", None, &wanted("one"), Some(&file)).expect("it can be written");
        for odd in [".odd", "odd.wasm"] {
            fs::create_dir(directory.0.join(odd)).expect("it can be made");
        }
        assert_eq!(reopened(&directory, &[]), [("shop".to_owned(), artefact("one"))].into());
    }

    #[test]
    fn a_stop_ends_the_reading_of_installed_files() {
        let (_place, directory, file) = empty("one");
        directory.install("shop", None, &wanted("one"), Some(&file)).expect("it can be written");
        let stopped = CancellationToken::new();
        stopped.cancel();
        let (_, records) = ObjectDirectory::open(&directory.0, &BTreeSet::new(), &stopped).expect("it is there");
        assert!(records.is_empty());
        assert_eq!(reopened(&directory, &[]).len(), 1, "nothing was removed");
    }

    #[test]
    fn a_later_fetch_does_not_change_an_installed_file() {
        let (_place, directory, _) = empty("one");
        let own = FileRole::Own.path(&directory.0, "shop");
        let one = directory.keep("shop", b"one").expect("it can be written");
        directory.install("shop", None, &wanted("one"), Some(one.path())).expect("it can be written");
        let two = directory.keep("shop", b"two").expect("it can be written");
        assert_eq!(fs::read(&own).expect("it is there"), b"one");
        drop((one, two));
        assert_eq!(fs::read(&own).expect("it is there"), b"one");
        let hidden = fs::read_dir(&directory.0)
            .expect("it is there")
            .filter(|file| file.as_ref().is_ok_and(|file| file.file_name().as_encoded_bytes().starts_with(b".")));
        assert_eq!(hidden.count(), 0, "fetched files are removed once they are not needed");
    }

    #[test]
    fn a_file_with_another_digest_is_not_installed() {
        let (_place, directory, file) = empty("two");
        let refused = directory.install("shop", None, &wanted("one"), Some(&file)).expect_err("it is another file");
        assert!(matches!(refused, InstallError::OtherFile { .. }));
        assert!(!FileRole::Own.path(&directory.0, "shop").exists());
        fs::remove_file(&file).expect("it is there");
        let refused = directory.install("shop", None, &wanted("one"), Some(&file)).expect_err("it is gone");
        assert!(matches!(refused, InstallError::NoFile));
    }

    #[test]
    fn a_directory_that_was_removed_is_made_anew() {
        let (_place, directory, file) = empty("one");
        let installed = || vec![("shop".to_owned(), false)];
        fs::remove_dir(&directory.0).expect("it is empty");
        assert_eq!(directory.restore(installed()).expect("it can be made"), ["shop"]);
        directory.install("shop", None, &wanted("one"), Some(&file)).expect("it can be written");
        assert_eq!(directory.restore(installed()).expect("it is there"), [""; 0]);
    }

    #[test]
    fn a_plugin_that_lacks_one_of_its_files_is_installed_again() {
        let (_place, directory, file) = empty("one");
        let wanted = WantedFiles { config: Some("{}".to_owned()), ..wanted("one") };
        let (one, installed) = (artefact("one"), || vec![("shop".to_owned(), true)]);
        directory.install("shop", None, &wanted, Some(&file)).expect("it can be written");
        for suffix in [".wasm", POLICY_SUFFIX, ".config.yaml", RECORD_SUFFIX] {
            let path = directory.0.join(format!("shop{suffix}"));
            fs::remove_file(&path).expect("it is there");
            assert_eq!(directory.restore(installed()).expect("it is there"), ["shop"], "{suffix}");
            directory.install("shop", Some(&one), &wanted, Some(&file)).expect("it can be written");
            assert!(path.exists(), "{suffix}");
        }
        assert_eq!(directory.restore(installed()).expect("it is there"), [""; 0]);
    }

    #[test]
    fn a_file_without_a_record_does_not_outlive_a_restart() {
        let (_place, directory, file) = empty("one");
        directory.install("shop", None, &wanted("one"), Some(&file)).expect("it can be written");
        // Nothing writes into an installed file, which may be a link.
        fs::remove_file(FileRole::Own.path(&directory.0, "shop")).expect("it is there");
        fs::write(FileRole::Own.path(&directory.0, "shop"), "foreign").expect("it can be written");
        fs::write(FileRole::Own.path(&directory.0, "api"), "foreign").expect("it can be written");
        assert_eq!(reopened(&directory, &[]), BTreeMap::new());
        assert_eq!(fs::read_dir(&directory.0).expect("it is there").count(), 0);
    }

    #[test]
    fn an_ended_plugin_keeps_its_policy_for_its_last_calls_unless_revoked() {
        let (_place, directory, file) = empty("one");
        let has = |suffix: &str| directory.0.join(format!("shop{suffix}")).exists();
        for revoked in [false, true] {
            directory.install("shop", None, &wanted("one"), Some(&file)).expect("it can be written");
            directory.end("shop", revoked).expect("it can be removed");
            assert_eq!([has(".wasm"), has(POLICY_SUFFIX), has(RECORD_SUFFIX)], [false, !revoked, true]);
            directory.remove("shop").expect("it can be removed");
            assert_eq!([has(POLICY_SUFFIX), has(RECORD_SUFFIX)], [false, false]);
        }
    }

    #[test]
    fn the_running_version_is_kept_when_a_shadow_is_installed() {
        let (_place, directory, file) = empty("one");
        let current = FileRole::Current.path(&directory.0, "shop");
        directory.install("shop", None, &wanted("one"), Some(&file)).expect("it can be written");
        // The installed file is a link to the first one, which the store never changes.
        let file = file.with_file_name("another");
        fs::write(&file, "two").expect("it can be written");
        let (one, shadow) = (artefact("one"), WantedFiles { shadow: true, ..wanted("two") });
        directory.install("shop", Some(&one), &shadow, Some(&file)).expect("it can be written");
        assert_eq!(fs::read(&current).expect("it is kept"), b"one");
        assert_eq!(fs::read(FileRole::Own.path(&directory.0, "shop")).expect("it is there"), b"two");
    }

    #[test]
    fn without_a_shadow_the_waiting_version_is_promoted() {
        let (_place, directory, file) = empty("one");
        let current = FileRole::Current.path(&directory.0, "shop");
        let shadow = WantedFiles { shadow: true, ..wanted("one") };
        directory.install("shop", None, &shadow, Some(&file)).expect("it can be written");
        fs::write(&current, "zero").expect("it can be written");
        let one = artefact("one");
        directory.install("shop", Some(&one), &shadow, None).expect("it is there");
        assert!(current.exists());
        directory.install("shop", Some(&one), &wanted("one"), None).expect("it is there");
        assert!(!current.exists());
    }
}
