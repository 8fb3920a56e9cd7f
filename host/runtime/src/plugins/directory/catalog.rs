//! All plugins that have files, as values. Takes in the events that concern them, and remembers their state. `steps`
//! decides what to do.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use super::entry::{CatalogEntry, LoadAttempt, RunningFile};
use super::plugin_files::FileRole;
use super::{Allowed, FileRefusal, LoadedFile, NotRevived};
use crate::files::Change;
use crate::object_names::ObjectNames;
use crate::rejections::{Digest, Rejection};

/// All plugins and their states.
#[derive(Debug)]
pub(crate) struct Catalog<G> {
    pub(super) plugins: BTreeMap<Arc<str>, CatalogEntry<G>>,
    pub(super) allowed: Option<Allowed>,
    /// Which files of objects may run.
    pub(super) objects: ObjectNames,
    /// Plugins seen at the first look that have not been started or refused yet.
    pub(super) first: BTreeSet<Arc<str>>,
    pub(super) has_looked: bool,
    /// How many files may be loaded at the same time, and how many are being loaded.
    pub(super) slots: usize,
    pub(super) loading: usize,
}

impl<G: Clone> Catalog<G> {
    /// An empty catalog. `slots` files may be loaded at the same time. Without `allowed`, all digests are allowed.
    pub(crate) fn new(slots: usize, allowed: Option<Allowed>) -> Self {
        let (plugins, first, objects) = (BTreeMap::new(), BTreeSet::new(), ObjectNames::default());
        Self { plugins, allowed, objects, first, has_looked: false, slots: slots.max(1), loading: 0 }
    }

    /// The same, with plugins that belong to `objects`.
    pub(crate) fn with_objects(self, objects: ObjectNames) -> Self {
        Self { objects, ..self }
    }

    /// Takes over changes in the directory.
    pub(crate) fn take(&mut self, changes: &[Change]) {
        for Change { path, content } in changes {
            let (plugin, _) = FileRole::of(path);
            if !self.has_looked {
                self.first.insert(plugin.clone());
            }
            let entry = self.plugins.entry(plugin).or_insert_with(|| CatalogEntry::new(path.clone()));
            (entry.path, entry.file) = (path.clone(), content.clone());
        }
        self.has_looked = true;
    }

    /// Whether the file of `plugin` exists with another digest.
    pub(crate) fn is_other(&self, plugin: &str, digest: &str) -> bool {
        self.plugins.get(plugin).and_then(CatalogEntry::digest).is_some_and(|now| *now != *digest)
    }

    /// Takes over a changed list of allowed digests.
    pub(crate) fn allow(&mut self, allowed: Allowed) {
        let former = self.allowed.replace(allowed);
        let holds = |list: &Option<Allowed>, digest: &str| list.as_ref().is_none_or(|list| list.holds(digest));
        for entry in self.plugins.values_mut().filter(|entry| entry.runs.is_none()) {
            let before = entry.rejected.as_ref().and_then(|rejected| rejected.former.as_deref());
            if before.is_some_and(|digest| holds(&self.allowed, digest) && !holds(&former, digest)) {
                // The previous version can be started only now.
                entry.reported = None;
            }
        }
    }

    /// The list that does not allow `digest`. `None` if it is allowed.
    pub(crate) fn forbids(&self, digest: &str) -> Option<&Path> {
        self.allowed.as_ref().filter(|allowed| !allowed.holds(digest)).map(Allowed::path)
    }

    /// Marks the digest of `rejection` as rejected for `plugin`. `false` if the file has another digest.
    pub(crate) fn reject(&mut self, plugin: &str, rejection: &Rejection) -> bool {
        let Some(entry) = self.plugins.get_mut(plugin) else { return false };
        let is_it = entry.digest().is_some_and(|digest| digest == rejection.digest);
        if is_it {
            entry.rejected = Some(rejection.clone());
        }
        is_it
    }

    /// Takes the result of loading `digest` of `plugin`. `None` if the file had changed by then.
    pub(crate) fn loaded(&mut self, plugin: &str, digest: &Digest, result: Option<Result<LoadedFile<G>, FileRefusal>>) {
        self.loading = self.loading.saturating_sub(1);
        let Some(entry) = self.plugins.get_mut(plugin) else { return };
        if !matches!(&entry.attempt, LoadAttempt::Loading(loading) if loading == digest) {
            return;
        }
        entry.attempt = match result {
            None => LoadAttempt::None,
            Some(Ok(loaded)) => LoadAttempt::Loaded(loaded),
            Some(Err(refusal)) => LoadAttempt::Failed { digest: digest.clone(), refusal, settled: false },
        };
    }

    /// Records that enough time has passed since `digest` of `plugin` failed to load, so that the file is no longer
    /// being written.
    pub(crate) fn settled(&mut self, plugin: &str, tried: &Digest) {
        let Some(entry) = self.plugins.get_mut(plugin) else { return };
        if let LoadAttempt::Failed { digest, settled, .. } = &mut entry.attempt
            && digest == tried
        {
            *settled = true;
        }
    }

    /// Allows `tried` of `plugin`, which was refused, to be loaded again.
    pub(crate) fn load_again(&mut self, plugin: &str, tried: &Digest) {
        let Some(entry) = self.plugins.get_mut(plugin) else { return };
        if matches!(&entry.attempt, LoadAttempt::Failed { digest, .. } if digest == tried) {
            entry.attempt = LoadAttempt::None;
        }
    }

    /// Records that the running generation of `plugin` has ended. Returns whether that was expected: it had to end, or
    /// a newer one waits.
    pub(crate) fn ended(&mut self, plugin: &str) -> bool {
        let Some(entry) = self.plugins.get_mut(plugin) else { return true };
        match &mut entry.runs {
            Some(runs) if !runs.ends && runs.digest == runs.at_work.digest => {
                runs.spent = true;
                false
            }
            // Otherwise a newer generation has arrived at the same moment. It is tried too.
            _ => {
                entry.instead = entry.runs.take().and_then(|runs| runs.instead.or(runs.returns));
                if entry.rejected.is_some() {
                    // The previous version can be started only now.
                    entry.reported = None;
                }
                true
            }
        }
    }

    /// Records that a failure of the host has ended the running generation of `plugin`. No generation is started before
    /// [`Catalog::again`].
    pub(crate) fn fell(&mut self, plugin: &str) {
        let Some(entry) = self.plugins.get_mut(plugin) else { return };
        // This includes the running generation, because the current file may not be startable.
        entry.instead = entry.runs.take().map(|runs| runs.instead.or(runs.returns).unwrap_or(runs.at_work));
        entry.fell = true;
    }

    /// Allows a plugin to be started again after a failure of the host.
    pub(crate) fn again(&mut self, plugin: &str) {
        let Some(entry) = self.plugins.get_mut(plugin) else { return };
        if std::mem::take(&mut entry.fell) {
            // The previous version is looked for again. If nothing can be started, the reason is logged again.
            entry.reported = None;
            let CatalogEntry { instead, rejected, .. } = entry;
            instead.take_if(|it| rejected.as_ref().is_some_and(|rejected| rejected.digest == it.digest));
        }
    }

    /// The plugins that run or were to be started.
    pub(crate) fn at_work(&self) -> impl Iterator<Item = &Arc<str>> {
        let at_work = |entry: &CatalogEntry<G>| entry.runs.as_ref().is_some_and(|runs| !runs.ends && !runs.spent);
        self.plugins.iter().filter(move |(_, entry)| at_work(entry)).map(|(plugin, _)| plugin)
    }

    /// Records that the generation `now` of `plugin` has taken over.
    pub(crate) fn took_over(&mut self, plugin: &str, now: &LoadedFile<G>) {
        if let Some(runs) = self.plugins.get_mut(plugin).and_then(|entry| entry.runs.as_mut()) {
            runs.took_over(now);
        }
    }

    /// Records that the running generation of `plugin` has failed, and that `to`, which ran before, will take over
    /// again as soon as it can.
    pub(crate) fn rolled_back(&mut self, plugin: &str, rejection: Rejection, to: &LoadedFile<G>) {
        let Some(entry) = self.plugins.get_mut(plugin) else { return };
        if let Some(runs) = &mut entry.runs {
            runs.rolled_back(&rejection.digest, to);
        }
        entry.rejected = Some(rejection);
    }

    /// Starts the version before the rejected one, if it is still wanted. It was loaded again, and runs in place of the
    /// rejected version.
    pub(crate) fn revive(&mut self, plugin: &str, loaded: &LoadedFile<G>) -> Result<(), NotRevived> {
        let rival = self.rival(plugin, &loaded.definitions);
        let Some(entry) = self.plugins.get_mut(plugin) else { return Err(NotRevived::Superfluous) };
        let is_meant = |rejected: &Rejection| {
            entry.digest().as_ref() == Some(&rejected.digest) && rejected.former.as_deref() == Some(&*loaded.digest)
        };
        // After a failure of the host, the previous version is searched for once the plugin may be started again.
        if entry.runs.is_some() || entry.fell || !entry.rejected.as_ref().is_some_and(is_meant) {
            return Err(NotRevived::Superfluous);
        }
        if let Some(allowed) = self.allowed.as_ref().filter(|allowed| !allowed.holds(&loaded.digest)) {
            return Err(NotRevived::NotAllowed { digest: loaded.digest.clone(), list: allowed.path().to_owned() });
        }
        if !self.objects.may_run(plugin, &loaded.digest) {
            return Err(NotRevived::NotCovered { digest: loaded.digest.clone() });
        }
        if let Some(rival) = rival {
            return Err(NotRevived::Rival(rival));
        }
        entry.runs = Some(RunningFile::started(loaded.clone()));
        Ok(())
    }

    /// Whether every file of the first look was started or refused.
    pub(crate) fn is_settled(&self) -> bool {
        self.has_looked && self.first.is_empty()
    }

    /// Number of running plugins.
    pub(crate) fn running(&self) -> usize {
        self.plugins.values().filter(|entry| entry.runs.is_some()).count()
    }
}
