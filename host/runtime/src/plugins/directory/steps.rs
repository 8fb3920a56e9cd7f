//! Decides what to do, given the files and what runs. Each step is returned once.

use std::sync::Arc;

use super::catalog::Catalog;
use super::entry::{LoadAttempt, RunningFile};
use super::{DirectoryStep, FileRefusal, StopReason};
use crate::files::Content;

impl<G: Clone> Catalog<G> {
    /// The steps to take now. The caller must take them all before it asks again.
    pub(crate) fn next(&mut self) -> Vec<DirectoryStep<G>> {
        let mut steps = Vec::new();
        let names: Vec<_> = self.plugins.keys().cloned().collect();
        for plugin in names {
            // A step may follow from another one, as a start from a stop, but the number of steps is bounded.
            while let Some(step) = self.step(&plugin) {
                let is_last = matches!(step, DirectoryStep::Forget { .. });
                steps.push(step);
                if is_last {
                    break;
                }
            }
        }
        steps
    }

    fn step(&mut self, plugin: &Arc<str>) -> Option<DirectoryStep<G>> {
        let plugin = plugin.clone();
        let entry = self.plugins.get_mut(&plugin)?;
        if matches!(entry.file, Content::Gone) {
            self.first.remove(&plugin);
            return self.gone(plugin);
        }
        let digest = entry.digest();
        if let Some(digest) = &digest
            && let Some(rejected) = entry.rejected.take_if(|rejected| rejected.digest != *digest)
        {
            return Some(DirectoryStep::Pardon { plugin, digest: rejected.digest });
        }
        // Check this in every state of the file, because the running generation must be allowed.
        let no_longer = entry.no_longer_allowed(&plugin, self.allowed.as_ref());
        if let Some(step) = no_longer.or_else(|| entry.rejected_elsewhere(&plugin)) {
            return Some(step);
        }
        let unwanted = match &digest {
            Some(digest) => entry.unwanted(digest, self.allowed.as_ref()),
            None => entry.unread(),
        };
        if let Some(refusal) = unwanted {
            self.first.remove(&plugin);
            return self.instead(&plugin).or_else(|| {
                let entry = self.plugins.get_mut(&plugin)?;
                entry.refuse(plugin, digest, refusal)
            });
        }
        let digest = digest?;
        if entry.fell {
            return None;
        }
        entry.instead = None;
        if entry.runs.as_ref().is_some_and(|runs| runs.digest == digest && !runs.ends) {
            if let LoadAttempt::Failed { .. } | LoadAttempt::Loaded(_) = entry.attempt {
                entry.attempt = LoadAttempt::None;
            }
            return entry.reported.take().map(|_| DirectoryStep::Agree { plugin });
        }
        match &entry.attempt {
            LoadAttempt::Loading(_) => None,
            LoadAttempt::Failed { digest: tried, refusal, settled } if *tried == digest => {
                let refusal = settled.then(|| refusal.clone())?;
                self.first.remove(&plugin);
                entry.refuse(plugin, Some(digest), refusal)
            }
            LoadAttempt::Loaded(loaded) if loaded.digest == digest => self.ready(plugin),
            LoadAttempt::None | LoadAttempt::Failed { .. } | LoadAttempt::Loaded(_) => {
                if self.loading >= self.slots {
                    return None;
                }
                self.loading += 1;
                entry.attempt = LoadAttempt::Loading(digest.clone());
                Some(DirectoryStep::Load { plugin, path: entry.path.clone(), digest })
            }
        }
    }

    /// The next step for a plugin whose file is gone.
    fn gone(&mut self, plugin: Arc<str>) -> Option<DirectoryStep<G>> {
        let entry = self.plugins.get_mut(&plugin)?;
        match &mut entry.runs {
            Some(runs) if runs.ends => None,
            Some(runs) if !runs.spent => {
                runs.ends = true;
                Some(DirectoryStep::Stop { plugin, why: StopReason::Deleted })
            }
            _ => {
                if let Some(rejected) = entry.rejected.take() {
                    return Some(DirectoryStep::Pardon { plugin, digest: rejected.digest });
                }
                self.plugins.remove(&plugin);
                Some(DirectoryStep::Forget { plugin })
            }
        }
    }

    /// The next step for a plugin whose file is loaded but does not run.
    fn ready(&mut self, plugin: Arc<str>) -> Option<DirectoryStep<G>> {
        let LoadAttempt::Loaded(loaded) = &self.plugins.get(&plugin)?.attempt else { return None };
        let loaded = loaded.clone();
        let rival = self.rival(&plugin, &loaded.definitions);
        if rival.is_none() && !loaded.definitions.is_empty() && self.first.iter().any(|other| *other < plugin) {
            // If two plugins bring the same definition when the host starts, the first by name runs, on every replica.
            return None;
        }
        self.first.remove(&plugin);
        let entry = self.plugins.get_mut(&plugin)?;
        if let Some(refusal) = rival {
            return entry.refuse(plugin, Some(loaded.digest), refusal);
        }
        let (digest, definitions) = (loaded.digest.clone(), loaded.definitions.clone());
        match &mut entry.runs {
            // The loaded version starts when the running one has ended.
            Some(runs) if runs.ends => return None,
            Some(runs) if !runs.spent => {
                (runs.digest, runs.definitions, runs.instead) = (digest, definitions, None);
                (entry.attempt, entry.reported) = (LoadAttempt::None, None);
                return Some(DirectoryStep::Replace { plugin, loaded });
            }
            _ => entry.runs = Some(RunningFile::started(loaded.clone())),
        }
        (entry.attempt, entry.reported) = (LoadAttempt::None, None);
        Some(DirectoryStep::Start { plugin, loaded })
    }

    /// Starts the generation that should have continued. An unwanted generation had taken over nevertheless, and had to
    /// be stopped.
    fn instead(&mut self, plugin: &Arc<str>) -> Option<DirectoryStep<G>> {
        let entry = self.plugins.get_mut(plugin)?;
        let loaded = entry.instead.take_if(|_| entry.runs.is_none() && !entry.fell)?;
        if self.allowed.as_ref().is_some_and(|allowed| !allowed.holds(&loaded.digest))
            || !self.objects.may_run(plugin, &loaded.digest)
            || self.rival(plugin, &loaded.definitions).is_some()
        {
            return None;
        }
        let entry = self.plugins.get_mut(plugin)?;
        entry.runs = Some(RunningFile::started(loaded.clone()));
        // The refusal of the file is reported again, because another version runs now.
        entry.reported = None;
        Some(DirectoryStep::Start { plugin: plugin.clone(), loaded })
    }

    /// A running plugin that brings one of these definitions too.
    pub(super) fn rival(&self, plugin: &str, definitions: &[String]) -> Option<FileRefusal> {
        if definitions.is_empty() {
            return None;
        }
        let others = self.plugins.iter().filter(|(name, _)| ***name != *plugin);
        let claims = others.filter_map(|(name, entry)| Some((name, entry.runs.as_ref()?)));
        let mut taken = claims.flat_map(|(name, runs)| runs.definitions.iter().map(move |it| (name, it)));
        let (first, definition) = taken.find(|(_, definition)| definitions.contains(definition))?;
        Some(FileRefusal::Rival { definition: definition.clone(), first: first.clone() })
    }
}
