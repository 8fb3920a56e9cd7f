//! All plugins that there are files of, as values: what is told of them, and what is remembered. What follows is in
//! `steps`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use super::entry::{CatalogEntry, LoadAttempt, RunningFile};
use super::plugin_files::FileRole;
use super::{Allowed, FileRefusal, LoadedFile, NotRevived};
use crate::files::Change;
use crate::rejections::{Digest, Rejection};

/// All plugins, and what has come of them.
#[derive(Debug)]
pub(crate) struct Catalog<G> {
    pub(super) plugins: BTreeMap<Arc<str>, CatalogEntry<G>>,
    pub(super) allowed: Option<Allowed>,
    /// Those of the first look that nothing has come of yet.
    pub(super) first: BTreeSet<Arc<str>>,
    pub(super) has_looked: bool,
    /// How many files may be loaded at the same time, and how many are.
    pub(super) slots: usize,
    pub(super) loading: usize,
}

impl<G: Clone> Catalog<G> {
    /// No plugin yet. `slots` files may be loaded at the same time; without `allowed`, any may.
    pub(crate) fn new(slots: usize, allowed: Option<Allowed>) -> Self {
        let (plugins, first) = (BTreeMap::new(), BTreeSet::new());
        Self { plugins, allowed, first, has_looked: false, slots: slots.max(1), loading: 0 }
    }

    /// The directory has changed.
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

    /// Whether the file of `plugin` is there and has another digest.
    pub(crate) fn is_other(&self, plugin: &str, digest: &str) -> bool {
        self.plugins.get(plugin).and_then(CatalogEntry::digest).is_some_and(|now| *now != *digest)
    }

    /// There is another list of allowed digests.
    pub(crate) fn allow(&mut self, allowed: Allowed) {
        let former = self.allowed.replace(allowed);
        let holds = |list: &Option<Allowed>, digest: &str| list.as_ref().is_none_or(|list| list.holds(digest));
        for entry in self.plugins.values_mut().filter(|entry| entry.runs.is_none()) {
            let before = entry.rejected.as_ref().and_then(|rejected| rejected.former.as_deref());
            if before.is_some_and(|digest| holds(&self.allowed, digest) && !holds(&former, digest)) {
                // What ran before can be started only now.
                entry.told = None;
            }
        }
    }

    /// The list that does not allow `digest`. None: it may be run.
    pub(crate) fn forbids(&self, digest: &str) -> Option<&Path> {
        self.allowed.as_ref().filter(|allowed| !allowed.holds(digest)).map(Allowed::path)
    }

    /// This is not to be run of `plugin`. False: its file is another one.
    pub(crate) fn reject(&mut self, plugin: &str, rejection: &Rejection) -> bool {
        let Some(entry) = self.plugins.get_mut(plugin) else { return false };
        let is_it = entry.digest().is_some_and(|digest| digest == rejection.digest);
        if is_it {
            entry.rejected = Some(rejection.clone());
        }
        is_it
    }

    /// Takes the result of loading `digest` of `plugin`. None: the file was another one by then.
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

    /// Enough time has passed since `digest` of `plugin` could not be loaded: nobody is still writing it.
    pub(crate) fn settled(&mut self, plugin: &str, tried: &Digest) {
        let Some(entry) = self.plugins.get_mut(plugin) else { return };
        if let LoadAttempt::Failed { digest, settled, .. } = &mut entry.attempt
            && digest == tried
        {
            *settled = true;
        }
    }

    /// `tried` of `plugin`, which was not taken, may be loaded again.
    pub(crate) fn load_again(&mut self, plugin: &str, tried: &Digest) {
        let Some(entry) = self.plugins.get_mut(plugin) else { return };
        if matches!(&entry.attempt, LoadAttempt::Failed { digest, .. } if digest == tried) {
            entry.attempt = LoadAttempt::None;
        }
    }

    /// The running generation of `plugin` has ended. Returns whether it was told to, or something newer waits in its
    /// place.
    pub(crate) fn ended(&mut self, plugin: &str) -> bool {
        let Some(entry) = self.plugins.get_mut(plugin) else { return true };
        match &mut entry.runs {
            Some(runs) if !runs.ends && runs.digest == runs.at_work.digest => {
                runs.spent = true;
                false
            }
            // Otherwise a newer one has come in the same instant, which is to be tried too.
            _ => {
                entry.instead = entry.runs.take().and_then(|runs| runs.instead.or(runs.returns));
                if entry.rejected.is_some() {
                    // What ran before it can be started only now.
                    entry.told = None;
                }
                true
            }
        }
    }

    /// The running generation of `plugin` is no more, by the host's own fault. Nothing of it is started before
    /// [`Catalog::again`].
    pub(crate) fn fell(&mut self, plugin: &str) {
        let Some(entry) = self.plugins.get_mut(plugin) else { return };
        // What was at work, too: the file may be one that nothing can be started of.
        entry.instead = entry.runs.take().map(|runs| runs.instead.or(runs.returns).unwrap_or(runs.at_work));
        entry.fell = true;
    }

    /// A plugin that fell may be started again.
    pub(crate) fn again(&mut self, plugin: &str) {
        let Some(entry) = self.plugins.get_mut(plugin) else { return };
        if std::mem::take(&mut entry.fell) {
            // What ran before is looked for again; and why nothing is started, if so, is news.
            entry.told = None;
            let CatalogEntry { instead, rejected, .. } = entry;
            instead.take_if(|it| rejected.as_ref().is_some_and(|rejected| rejected.digest == it.digest));
        }
    }

    /// Which plugins run, or were to be started.
    pub(crate) fn at_work(&self) -> impl Iterator<Item = &Arc<str>> {
        let at_work = |entry: &CatalogEntry<G>| entry.runs.as_ref().is_some_and(|runs| !runs.ends && !runs.spent);
        self.plugins.iter().filter(move |(_, entry)| at_work(entry)).map(|(plugin, _)| plugin)
    }

    /// A generation of `plugin` is at work from now on.
    pub(crate) fn took_over(&mut self, plugin: &str, now: &LoadedFile<G>) {
        if let Some(runs) = self.plugins.get_mut(plugin).and_then(|entry| entry.runs.as_mut()) {
            runs.took_over(now);
        }
    }

    /// A generation of `plugin` has failed, and `to`, which ran before, is to run again as soon as it can take over.
    pub(crate) fn rolled_back(&mut self, plugin: &str, rejection: Rejection, to: &LoadedFile<G>) {
        let Some(entry) = self.plugins.get_mut(plugin) else { return };
        if let Some(runs) = &mut entry.runs {
            runs.rolled_back(&rejection.digest, to);
        }
        entry.rejected = Some(rejection);
    }

    /// The generation before the rejected file is at hand again. If it is wanted, it is to be started in the place of
    /// that.
    pub(crate) fn revive(&mut self, plugin: &str, loaded: &LoadedFile<G>) -> Result<(), NotRevived> {
        let rival = self.rival(plugin, &loaded.definitions);
        let Some(entry) = self.plugins.get_mut(plugin) else { return Err(NotRevived::Superfluous) };
        let is_meant = |rejected: &Rejection| {
            entry.digest().as_ref() == Some(&rejected.digest) && rejected.former.as_deref() == Some(&*loaded.digest)
        };
        // What has fallen is looked for when it may be started again.
        if entry.runs.is_some() || entry.fell || !entry.rejected.as_ref().is_some_and(is_meant) {
            return Err(NotRevived::Superfluous);
        }
        if let Some(allowed) = self.allowed.as_ref().filter(|allowed| !allowed.holds(&loaded.digest)) {
            return Err(NotRevived::NotAllowed { digest: loaded.digest.clone(), list: allowed.path().to_owned() });
        }
        if let Some(rival) = rival {
            return Err(NotRevived::Rival(rival));
        }
        entry.runs = Some(RunningFile::started(loaded.clone()));
        Ok(())
    }

    /// Whether something has come of every file of the first look.
    pub(crate) fn is_settled(&self) -> bool {
        self.has_looked && self.first.is_empty()
    }

    /// How many plugins run.
    pub(crate) fn running(&self) -> usize {
        self.plugins.values().filter(|entry| entry.runs.is_some()).count()
    }
}
