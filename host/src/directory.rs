//! Which plugins are to run: decided from the files of the plugin directory, what came of loading them, the list of allowed
//! digests, and what was rejected. Nothing is read or started here; `manager::reload` does, and says what came of it.
//!
//! A plugin goes by its file's stem. Whatever changes, [`Catalog::next`] compares what should be with what is, and names the
//! steps from one to the other, each once.

mod allowed;
mod refusal;
mod rejected;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use self::allowed::{Allowed, AllowedError};
pub(crate) use self::refusal::{NotRevived, Refusal, Why};
pub(crate) use self::rejected::{Rejection, Rejections};
use crate::files::{Change, Content};

/// The SHA-256 of a file, 64 hexadecimal digits.
pub(crate) type Digest = Arc<str>;

/// Why a directory of plugins cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DirectoryError {
    /// It cannot be read.
    #[error("cannot read the plugin directory {}: {problem}; name one with --plugins", path.display())]
    Unreadable {
        /// The directory.
        path: PathBuf,
        /// Why.
        problem: String,
    },
}

/// Whether the file `path` is a plugin's. Hidden files are nobody's, as editors and copies in progress make them.
pub(crate) fn is_plugin(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "wasm")
}

/// The plugin whose file is `path`.
pub(crate) fn name_of(path: &Path) -> Arc<str> {
    path.file_stem().unwrap_or_default().to_string_lossy().into()
}

/// The digits of a digest.
pub(crate) fn hexadecimal(digest: &[u8; 32]) -> Digest {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect::<String>().into()
}

/// A file that was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Loaded<G> {
    pub(crate) digest: Digest,
    /// The definitions that it brings.
    pub(crate) definitions: Vec<String>,
    pub(crate) generation: G,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step<G> {
    /// Load the file, which had this digest when it was looked at.
    Load { plugin: Arc<str>, path: PathBuf, digest: Digest },
    /// Start a plugin that does not run.
    Start { plugin: Arc<str>, loaded: Loaded<G> },
    /// Give a plugin that runs its newer generation.
    Replace { plugin: Arc<str>, loaded: Loaded<G> },
    /// Have what runs drain and end.
    Stop { plugin: Arc<str>, why: Why },
    /// The generation that was to replace what runs is not to: it must not be run any more.
    Withdraw { plugin: Arc<str>, digest: Digest },
    /// The file is not taken. What runs, if any, goes on.
    Refuse { plugin: Arc<str>, digest: Option<Digest>, refusal: Refusal, runs: bool },
    /// A file that was refused has become the one that runs again.
    Agree { plugin: Arc<str> },
    /// The file is not the rejected one any more, which is forgotten.
    Pardon { plugin: Arc<str>, digest: Digest },
    /// There is nothing of the plugin any more.
    Forget { plugin: Arc<str> },
}

/// All plugins, and what has come of them.
#[derive(Debug)]
pub(crate) struct Catalog<G> {
    plugins: BTreeMap<Arc<str>, Entry<G>>,
    allowed: Option<Allowed>,
    /// Those of the first look that nothing has come of yet.
    first: BTreeSet<Arc<str>>,
    has_looked: bool,
    /// How many files may be loaded at the same time, and how many are.
    slots: usize,
    loading: usize,
}

#[derive(Debug)]
struct Entry<G> {
    path: PathBuf,
    file: Content,
    attempt: Attempt<G>,
    runs: Option<Runs>,
    rejected: Option<Rejection>,
    /// The refusal that was told last, and of which bytes.
    told: Option<(Option<Digest>, Refusal)>,
}

/// The last attempt to load the file.
#[derive(Debug)]
enum Attempt<G> {
    None,
    /// It goes on.
    Loading(Digest),
    Failed {
        digest: Digest,
        refusal: Refusal,
        /// The file has had the time to change if somebody was still writing it.
        settled: bool,
    },
    Loaded(Loaded<G>),
}

/// What was started.
#[derive(Debug)]
struct Runs {
    /// Of the newest generation that it was given, which may still wait to take over.
    digest: Digest,
    definitions: Vec<String>,
    /// The digest of what is at work, and the definitions that it brings.
    at_work: (Digest, Vec<String>),
    /// It was told to end.
    ends: bool,
    /// It has ended by itself: it can never run under this host's settings.
    spent: bool,
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
            let plugin = name_of(path);
            if !self.has_looked {
                self.first.insert(plugin.clone());
            }
            let new = || Entry {
                path: path.clone(),
                file: Content::Gone,
                attempt: Attempt::None,
                runs: None,
                rejected: None,
                told: None,
            };
            self.plugins.entry(plugin).or_insert_with(new).file = content.clone();
        }
        self.has_looked = true;
    }

    /// Whether the file of `plugin` is there and has another digest.
    pub(crate) fn is_other(&self, plugin: &str, digest: &str) -> bool {
        self.plugins.get(plugin).and_then(Entry::digest).is_some_and(|now| *now != *digest)
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

    /// This is not to be run of `plugin`. False: its file is another one.
    pub(crate) fn reject(&mut self, plugin: &str, rejection: &Rejection) -> bool {
        let Some(entry) = self.plugins.get_mut(plugin) else { return false };
        let is_it = entry.digest().is_some_and(|digest| digest == rejection.digest);
        if is_it {
            entry.rejected = Some(rejection.clone());
        }
        is_it
    }

    /// What came of loading `digest` of `plugin`. None: the file was another one by then.
    pub(crate) fn loaded(&mut self, plugin: &str, digest: &Digest, result: Option<Result<Loaded<G>, Refusal>>) {
        self.loading = self.loading.saturating_sub(1);
        let Some(entry) = self.plugins.get_mut(plugin) else { return };
        if !matches!(&entry.attempt, Attempt::Loading(loading) if loading == digest) {
            return;
        }
        entry.attempt = match result {
            None => Attempt::None,
            Some(Ok(loaded)) => Attempt::Loaded(loaded),
            Some(Err(refusal)) => Attempt::Failed { digest: digest.clone(), refusal, settled: false },
        };
    }

    /// Enough time has passed since `digest` of `plugin` could not be loaded: nobody is still writing it.
    pub(crate) fn settled(&mut self, plugin: &str, tried: &Digest) {
        let Some(entry) = self.plugins.get_mut(plugin) else { return };
        if let Attempt::Failed { digest, settled, .. } = &mut entry.attempt
            && digest == tried
        {
            *settled = true;
        }
    }

    /// What ran of `plugin` has ended. Whether it was told to, or something newer waits in its place.
    pub(crate) fn ended(&mut self, plugin: &str) -> bool {
        let Some(entry) = self.plugins.get_mut(plugin) else { return true };
        match &mut entry.runs {
            Some(runs) if !runs.ends && runs.digest == runs.at_work.0 => {
                runs.spent = true;
                false
            }
            // Otherwise a newer one has come in the same instant, which is to be tried too.
            _ => {
                entry.runs = None;
                if entry.rejected.is_some() {
                    // What ran before it can be started only now.
                    entry.told = None;
                }
                true
            }
        }
    }

    /// A generation of `plugin` is at work from now on.
    pub(crate) fn took_over(&mut self, plugin: &str, now: &Loaded<G>) {
        if let Some(runs) = self.plugins.get_mut(plugin).and_then(|entry| entry.runs.as_mut()) {
            runs.at_work = (now.digest.clone(), now.definitions.clone());
        }
    }

    /// A generation of `plugin` has failed, and `to`, which ran before, runs again.
    pub(crate) fn rolled_back(&mut self, plugin: &str, rejection: Rejection, to: &Loaded<G>) {
        let Some(entry) = self.plugins.get_mut(plugin) else { return };
        if let Some(runs) = &mut entry.runs {
            runs.at_work = (to.digest.clone(), to.definitions.clone());
            // Another may have been given to it since.
            if runs.digest == rejection.digest {
                runs.want_what_is_at_work();
            }
        }
        entry.rejected = Some(rejection);
    }

    /// What ran before the rejected file is at hand again. If it is wanted, it is to be started in the place of that.
    pub(crate) fn revive(&mut self, plugin: &str, loaded: &Loaded<G>) -> Result<(), NotRevived> {
        let rival = self.rival(plugin, &loaded.definitions);
        let Some(entry) = self.plugins.get_mut(plugin) else { return Err(NotRevived::Superfluous) };
        let is_meant = |rejected: &Rejection| {
            entry.digest().as_ref() == Some(&rejected.digest) && rejected.former.as_deref() == Some(&*loaded.digest)
        };
        if entry.runs.is_some() || !entry.rejected.as_ref().is_some_and(is_meant) {
            return Err(NotRevived::Superfluous);
        }
        if let Some(allowed) = self.allowed.as_ref().filter(|allowed| !allowed.holds(&loaded.digest)) {
            return Err(NotRevived::NotAllowed { digest: loaded.digest.clone(), list: allowed.path().to_owned() });
        }
        if let Some(rival) = rival {
            return Err(NotRevived::Rival(rival));
        }
        entry.runs = Some(Runs::started(loaded.digest.clone(), loaded.definitions.clone()));
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

    /// What is to be done now. Each step is taken as done by the time that this is asked again.
    pub(crate) fn next(&mut self) -> Vec<Step<G>> {
        let mut steps = Vec::new();
        let names: Vec<_> = self.plugins.keys().cloned().collect();
        for plugin in names {
            // One step may follow from another, as a start from a stop; not for ever.
            while let Some(step) = self.step(&plugin) {
                let is_last = matches!(step, Step::Forget { .. });
                steps.push(step);
                if is_last {
                    break;
                }
            }
        }
        steps
    }

    fn step(&mut self, plugin: &Arc<str>) -> Option<Step<G>> {
        let plugin = plugin.clone();
        let entry = self.plugins.get_mut(&plugin)?;
        let digest = match entry.file.clone() {
            Content::Gone => {
                self.first.remove(&plugin);
                return self.gone(plugin);
            }
            Content::Unreadable(problem) => {
                self.first.remove(&plugin);
                let refusal = Refusal::Unreadable { path: entry.path.clone(), problem };
                return entry.refuse(plugin, None, refusal);
            }
            Content::TooLarge(most) => {
                self.first.remove(&plugin);
                let refusal = Refusal::TooLarge { path: entry.path.clone(), most };
                return entry.refuse(plugin, None, refusal);
            }
            Content::Is(digest) => hexadecimal(&digest),
        };
        if let Some(rejected) = entry.rejected.take_if(|rejected| rejected.digest != digest) {
            return Some(Step::Pardon { plugin, digest: rejected.digest });
        }
        let no_longer = entry.no_longer_allowed(&plugin, self.allowed.as_ref());
        if let Some(step) = no_longer.or_else(|| entry.rejected_elsewhere(&plugin)) {
            return Some(step);
        }
        if let Some(refusal) = entry.unwanted(&digest, self.allowed.as_ref()) {
            self.first.remove(&plugin);
            return entry.refuse(plugin, Some(digest), refusal);
        }
        if entry.runs.as_ref().is_some_and(|runs| runs.digest == digest && !runs.ends) {
            if let Attempt::Failed { .. } | Attempt::Loaded(_) = entry.attempt {
                entry.attempt = Attempt::None;
            }
            return entry.told.take().map(|_| Step::Agree { plugin });
        }
        match &entry.attempt {
            Attempt::Loading(_) => None,
            Attempt::Failed { digest: tried, refusal, settled } if *tried == digest => {
                let refusal = settled.then(|| refusal.clone())?;
                self.first.remove(&plugin);
                entry.refuse(plugin, Some(digest), refusal)
            }
            Attempt::Loaded(loaded) if loaded.digest == digest => self.ready(plugin),
            Attempt::None | Attempt::Failed { .. } | Attempt::Loaded(_) => {
                if self.loading >= self.slots {
                    return None;
                }
                self.loading += 1;
                entry.attempt = Attempt::Loading(digest.clone());
                Some(Step::Load { plugin, path: entry.path.clone(), digest })
            }
        }
    }

    /// The next step of a plugin whose file is gone.
    fn gone(&mut self, plugin: Arc<str>) -> Option<Step<G>> {
        let entry = self.plugins.get_mut(&plugin)?;
        match &mut entry.runs {
            Some(runs) if runs.ends => None,
            Some(runs) if !runs.spent => {
                runs.ends = true;
                Some(Step::Stop { plugin, why: Why::Deleted })
            }
            _ => {
                if let Some(rejected) = entry.rejected.take() {
                    return Some(Step::Pardon { plugin, digest: rejected.digest });
                }
                self.plugins.remove(&plugin);
                Some(Step::Forget { plugin })
            }
        }
    }

    /// The next step of a plugin whose file is loaded and does not run.
    fn ready(&mut self, plugin: Arc<str>) -> Option<Step<G>> {
        let Attempt::Loaded(loaded) = &self.plugins.get(&plugin)?.attempt else { return None };
        let loaded = loaded.clone();
        let rival = self.rival(&plugin, &loaded.definitions);
        if rival.is_none() && !loaded.definitions.is_empty() && self.first.iter().any(|other| *other < plugin) {
            // Of two that are there when the host starts, the first by name runs, on every replica.
            return None;
        }
        self.first.remove(&plugin);
        let entry = self.plugins.get_mut(&plugin)?;
        if let Some(refusal) = rival {
            return entry.refuse(plugin, Some(loaded.digest), refusal);
        }
        let (digest, definitions) = (loaded.digest.clone(), loaded.definitions.clone());
        match &mut entry.runs {
            // It starts when that has ended.
            Some(runs) if runs.ends => return None,
            Some(runs) if !runs.spent => {
                (runs.digest, runs.definitions) = (digest, definitions);
                (entry.attempt, entry.told) = (Attempt::None, None);
                return Some(Step::Replace { plugin, loaded });
            }
            _ => entry.runs = Some(Runs::started(digest, definitions)),
        }
        (entry.attempt, entry.told) = (Attempt::None, None);
        Some(Step::Start { plugin, loaded })
    }

    /// Who runs and brings one of these definitions too.
    fn rival(&self, plugin: &str, definitions: &[String]) -> Option<Refusal> {
        if definitions.is_empty() {
            return None;
        }
        let others = self.plugins.iter().filter(|(name, _)| ***name != *plugin);
        let claims = others.filter_map(|(name, entry)| Some((name, entry.runs.as_ref()?)));
        let mut taken = claims.flat_map(|(name, runs)| runs.definitions.iter().map(move |it| (name, it)));
        let (first, definition) = taken.find(|(_, definition)| definitions.contains(definition))?;
        Some(Refusal::Rival { definition: definition.clone(), first: first.clone() })
    }
}

impl<G> Entry<G> {
    fn digest(&self) -> Option<Digest> {
        match &self.file {
            Content::Is(digest) => Some(hexadecimal(digest)),
            Content::Gone | Content::Unreadable(_) | Content::TooLarge(_) => None,
        }
    }

    /// What is at work is stopped if it may not run any more; what was to replace it is withdrawn.
    fn no_longer_allowed(&mut self, plugin: &Arc<str>, allowed: Option<&Allowed>) -> Option<Step<G>> {
        let (runs, allowed) = (self.runs.as_mut()?, allowed?);
        if runs.spent {
            self.runs.take_if(|runs| !allowed.holds(&runs.digest));
            return None;
        }
        let list = || allowed.path().to_owned();
        runs.drop_what(plugin, |digest| !allowed.holds(digest), |digest| Why::NotAllowed { digest, list: list() })
    }

    /// The same if another replica has rolled it back: this one knows no generation before what is at work.
    fn rejected_elsewhere(&mut self, plugin: &Arc<str>) -> Option<Step<G>> {
        let (runs, rejected) = (self.runs.as_mut()?, self.rejected.as_ref()?);
        if runs.spent {
            return None;
        }
        let because = || rejected.because.clone();
        runs.drop_what(
            plugin,
            |digest| *digest == rejected.digest,
            |digest| Why::Rejected { digest, because: because() },
        )
    }

    /// Why a file of this digest is not even loaded.
    fn unwanted(&self, digest: &Digest, allowed: Option<&Allowed>) -> Option<Refusal> {
        let (path, digest) = (self.path.clone(), digest.clone());
        // Whether it is allowed or not: what ran before it can be started.
        if let Some(Rejection { because, former, .. }) = self.rejected.clone() {
            return Some(Refusal::Rejected { path, digest, because, former });
        }
        let allowed = allowed.filter(|allowed| !allowed.holds(&digest))?;
        Some(Refusal::NotAllowed { path, digest, list: allowed.path().to_owned() })
    }

    /// Once for each reason.
    fn refuse(&mut self, plugin: Arc<str>, digest: Option<Digest>, refusal: Refusal) -> Option<Step<G>> {
        let now = (digest, refusal);
        if self.told.as_ref() == Some(&now) {
            return None;
        }
        self.told = Some(now.clone());
        let runs = self.runs.as_ref().is_some_and(|runs| !runs.ends);
        Some(Step::Refuse { plugin, digest: now.0, refusal: now.1, runs })
    }
}

impl Runs {
    fn started(digest: Digest, definitions: Vec<String>) -> Self {
        let at_work = (digest.clone(), definitions.clone());
        Self { digest, definitions, at_work, ends: false, spent: false }
    }

    fn want_what_is_at_work(&mut self) {
        (self.digest, self.definitions) = self.at_work.clone();
    }

    /// The step by which nothing runs, nor comes to, that `must_go`.
    fn drop_what<G>(
        &mut self,
        plugin: &Arc<str>,
        must_go: impl Fn(&Digest) -> bool,
        why: impl FnOnce(Digest) -> Why,
    ) -> Option<Step<G>> {
        if self.ends {
            return None;
        }
        let plugin = plugin.clone();
        if must_go(&self.at_work.0) {
            self.ends = true;
            return Some(Step::Stop { plugin, why: why(self.at_work.0.clone()) });
        }
        if self.digest == self.at_work.0 || !must_go(&self.digest) {
            return None;
        }
        let digest = self.digest.clone();
        self.want_what_is_at_work();
        Some(Step::Withdraw { plugin, digest })
    }
}
