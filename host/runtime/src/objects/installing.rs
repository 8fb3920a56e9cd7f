//! Carries out the plan: fetches, installs, and removes the files of objects.

use std::collections::BTreeSet;

use tokio::time::Instant;
use windlass_objects::{FetchState, InstalledArtefact, PluginSource, WantedFiles};

use super::directory::{InstallError, file_digests};
use super::{DISK_RETRY_PAUSE, FETCH_BACKOFF, FetchAttempts, FetchEnd, Objects, RunningFetch};
use crate::supervise::caught;

impl Objects {
    /// Drops attempts for objects that are gone or have another source.
    pub(super) fn forget_old_fetches(&mut self) {
        let plugins = self.followed.plugins();
        self.fetches
            .retain(|name, (source, _)| plugins.get(name).is_some_and(|plugin| plugin.source() == Some(source)));
        let (fetches, now) = (&self.fetches, Instant::now());
        self.attempts.retain(|name, attempts| {
            if !fetches.contains_key(name) {
                attempts.stop();
            }
            plugins.contains_key(name) || attempts.puts_off(now)
        });
    }

    /// Begins the attempts that the plan asks for, repeats a failed one if its object was edited, and stops those whose
    /// source no policy covers any more.
    pub(super) fn want_fetches(&mut self) {
        let now = Instant::now();
        for plan in &self.plans {
            let (name, generation) = (&plan.plugin.name, plan.plugin.generation);
            let Some(source) = plan.plugin.source() else { continue };
            if plan.must_fetch {
                let begun = self.attempts.remove(name).and_then(|former| former.begun);
                let mut attempts = FetchAttempts::new(generation, begun);
                attempts.due = Some(attempts.soonest(now));
                self.attempts.insert(name.clone(), attempts);
                self.fetches.insert(name.clone(), (source.clone(), FetchState::Running));
                continue;
            }
            let Some(attempts) = self.attempts.get_mut(name) else { continue };
            if plan.fetch.is_none() {
                if self.fetches.get(name).is_some_and(|(_, state)| !matches!(state, FetchState::Fetched(_))) {
                    self.fetches.remove(name);
                    attempts.stop();
                }
            } else if attempts.generation != generation {
                attempts.generation = generation;
                if matches!(plan.fetch, Some(FetchState::Failed(_))) {
                    (attempts.retries, attempts.due) = (FETCH_BACKOFF.begin(), Some(attempts.soonest(now)));
                }
            }
        }
        self.retry_fetches();
    }

    /// Begins the attempts that are due.
    pub(super) fn retry_fetches(&mut self) {
        let now = Instant::now();
        let due = self.attempts.iter_mut().filter(|(_, attempts)| attempts.due.is_some_and(|due| due <= now));
        let mut begun = Vec::new();
        for (name, attempts) in due {
            (attempts.due, attempts.begun) = (None, Some(now));
            if let Some((source, _)) = self.fetches.get(name) {
                begun.push((name.clone(), source.clone()));
            }
        }
        for (name, source) in begun {
            self.begin_fetch(name, source);
        }
    }

    fn begin_fetch(&mut self, name: String, source: PluginSource) {
        let (sources, panics) = (self.sources.clone(), self.host.panics.clone());
        let of = name.clone();
        let running = self.fetching.spawn(async move {
            let fetched = caught("fetch", &panics, sources.fetch(&name, &source)).await;
            (name, source, fetched)
        });
        if let Some(attempts) = self.attempts.get_mut(&of) {
            attempts.running = Some(RunningFetch(running));
        }
    }

    /// Takes over the result of a fetch. True if a new plan is due.
    pub(super) fn fetched(&mut self, (name, source, result): FetchEnd) -> bool {
        let Some((wanted, state)) = self.fetches.get_mut(&name).filter(|(wanted, _)| *wanted == source) else {
            return false;
        };
        let Some(attempts) = self.attempts.get_mut(&name) else { return false };
        let pause = attempts.retries.pause(windlass_world::random());
        match result {
            Some(Ok(fetched)) => {
                let digest = fetched.artefact.named_digest();
                tracing::info!(plugin = name, digest, "the file of the plugin object was fetched");
                *state = FetchState::Fetched(fetched.artefact.clone());
                attempts.file = Some(fetched);
            }
            Some(Err(error)) => {
                let wait = pause.max(error.retry_after());
                attempts.due = (!error.is_final()).then(|| Instant::now() + wait);
                let failure = error.failure();
                if *state != FetchState::Failed(failure.clone()) {
                    let (reason, error) = (failure.reason, &failure.message);
                    tracing::warn!(
                        plugin = name,
                        reason,
                        error,
                        "the file of the plugin object cannot be fetched: a version that is installed runs on"
                    );
                }
                *state = FetchState::Failed(failure);
            }
            // The panic was logged.
            None => attempts.due = Some(Instant::now() + pause),
        }
        debug_assert_eq!(*wanted, source);
        true
    }

    /// Makes the directory have what the plan says.
    pub(super) async fn install_all(&mut self) {
        let wanted: Vec<_> = self.plans.iter().map(|plan| (plan.plugin.name.clone(), plan.files.clone())).collect();
        let has_files = |name: &String| wanted.iter().any(|(of, files)| of == name && files.is_some());
        self.install_errors.retain(|name, _| has_files(name));
        let named: BTreeSet<_> = wanted.iter().map(|(name, _)| name.clone()).collect();
        let gone: Vec<_> = self.former.keys().filter(|name| !named.contains(*name)).cloned().collect();
        for name in gone {
            // The last calls of a deleted plugin need its rights, unless the policy is deleted, too.
            let revoked = self.followed.policies().get(&name).is_none_or(|policy| policy.source.is_err());
            self.end(&name, revoked).await;
        }
        // Ends come first: an install may take long, and rights must go at once.
        for (name, _) in wanted.iter().filter(|(_, files)| files.is_none()) {
            if self.former.contains_key(name) {
                self.end(name, true).await;
            }
        }
        for (name, files) in wanted {
            if let Some(files) = files.filter(|files| self.applied.get(&name) != Some(files)) {
                self.install(name, files).await;
            }
        }
    }

    /// Looks whether files were removed that the host has installed, as when the cache directory is emptied. True if
    /// so: the next plan installs them again.
    pub(super) async fn find_lost_files(&mut self) -> bool {
        let installed = self.applied.iter().map(|(name, files)| (name.clone(), files.config.is_some())).collect();
        let directory = self.directory.clone();
        let lost = windlass_world::spawn_blocking(move || directory.restore(installed)).await;
        let lost = match lost.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
            Ok(lost) => lost,
            Err(error) => {
                // An attempt to install something says so, too.
                tracing::debug!(%error, "the directory of plugin objects cannot be made anew");
                return false;
            }
        };
        for name in &lost {
            tracing::error!(
                plugin = name,
                "files of the plugin object were removed from the cache directory: the host installs them again, and \
                 fetches the plugin first if its store has lost it, too"
            );
            // Without a fetch since the start, the file is in the store only.
            if let Some(files) = self.applied.remove(name) {
                self.recall(name, &files.artefact).await;
            }
        }
        !lost.is_empty()
    }

    async fn install(&mut self, name: String, files: WantedFiles) {
        if !self.names.belongs(&name) && self.host.status.known(&name).is_some() {
            // A file of the operator was removed, and its plugin, which must not get the object's policy, still runs.
            self.act_again(Instant::now());
            return;
        }
        // This comes first: no file of the operator may apply to the plugin from now on.
        self.names.claim(&name, file_digests([&files.artefact].into_iter().chain(&files.former)));
        self.former.entry(name.clone()).or_default();
        let (directory, of) = (self.directory.clone(), name.clone());
        let (installed, wanted) = (self.installed.get(&name).cloned(), files.clone());
        let fetched = self.attempts.get(&name).and_then(|attempts| attempts.file.clone());
        let fetched = fetched.filter(|fetched| fetched.artefact == files.artefact);
        let written = windlass_world::spawn_blocking(move || {
            let file = fetched.as_ref().map(|fetched| fetched.place.path());
            directory.install(&of, installed.as_ref(), &wanted, file)
        });
        let written = written.await.unwrap_or_else(|error| Err(InstallError::Disk(std::io::Error::other(error))));
        if !matches!(written, Err(InstallError::Policy(_))) {
            self.ending.has_policy(&name);
        }
        match written {
            Ok(()) => {
                tracing::info!(plugin = name, "the files of the plugin object are installed");
                self.ending.remove(&name);
                self.install_errors.remove(&name);
                self.installed.insert(name.clone(), files.artefact.clone());
                self.former.insert(name.clone(), files.former.clone());
                self.applied.insert(name, files);
            }
            Err(error @ (InstallError::NoFile | InstallError::OtherFile { .. })) => {
                tracing::warn!(plugin = name, %error, "the plugin object is not installed: its file is missing");
                self.fetches.remove(&name);
                if let Some(attempts) = self.attempts.get_mut(&name) {
                    attempts.stop();
                }
                if self.installed.get(&name) == Some(&files.artefact) {
                    self.installed.remove(&name);
                    // It may still run.
                    self.former.entry(name.clone()).or_default().insert(0, files.artefact.clone());
                    self.recall(&name, &files.artefact).await;
                }
                self.act_again(Instant::now());
            }
            Err(error) => {
                tracing::error!(plugin = name, %error, "cannot write the files of the plugin object: the host tries again");
                self.install_errors.insert(name.clone(), error.to_string());
                let is_new = self.applied.get(&name).is_none_or(|applied| applied.policy != files.policy);
                if matches!(error, InstallError::Policy(_)) && is_new && self.installed.contains_key(&name) {
                    // The former policy may grant more than this one.
                    self.end(&name, true).await;
                }
                self.act_again(Instant::now() + DISK_RETRY_PAUSE);
            }
        }
    }

    /// Gets what was installed from the store, if the object still has its source. So a tag need not be resolved again,
    /// which needs the registry, and may lead to another version.
    async fn recall(&mut self, name: &str, artefact: &InstalledArtefact) {
        let Some(plugin) = self.followed.plugins().get(name) else { return };
        if plugin.source() != Some(&artefact.source) || self.fetches.contains_key(name) {
            return;
        }
        let generation = plugin.generation;
        let (sources, of) = (self.sources.clone(), artefact.clone());
        let Ok(Some(file)) = windlass_world::spawn_blocking(move || sources.stored(&of)).await else { return };
        let begun = self.attempts.get(name).and_then(|attempts| attempts.begun);
        let attempts = FetchAttempts { file: Some(file), ..FetchAttempts::new(generation, begun) };
        self.attempts.insert(name.to_owned(), attempts);
        let state = FetchState::Fetched(artefact.clone());
        self.fetches.insert(name.to_owned(), (artefact.source.clone(), state));
    }

    /// Removes what runs, so that the plugin ends. If `revoked`, its calls lose their rights at once.
    async fn end(&mut self, name: &str, revoked: bool) {
        self.applied.remove(name);
        if !self.ending.must_end(name, revoked) {
            return;
        }
        self.names.claim(name, BTreeSet::new());
        let (directory, of) = (self.directory.clone(), name.to_owned());
        let removed = windlass_world::spawn_blocking(move || directory.end(&of, revoked)).await;
        match removed.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
            Ok(()) => tracing::info!(plugin = name, revoked, "the files of the plugin object are removed: it ends"),
            Err(error) => {
                self.ending.remove(name);
                self.act_again(Instant::now() + DISK_RETRY_PAUSE);
                tracing::error!(plugin = name, %error, "cannot remove the files of the plugin object: it runs on");
            }
        }
    }

    /// Lets the store remove what is not installed any more.
    pub(super) async fn retain_installed(&mut self) {
        let installed: Vec<_> = self.installed.values().cloned().collect();
        if self.retained.as_ref() == Some(&installed) {
            return;
        }
        self.retained = Some(installed.clone());
        let sources = self.sources.clone();
        if windlass_world::spawn_blocking(move || sources.retain(&installed)).await.is_err() {
            tracing::error!("the host panicked when it removed fetched plugins; the disk may fill up");
        }
    }

    /// Gives up the names of plugins that have ended. True if there were any.
    pub(super) async fn finish_ended(&mut self) -> bool {
        let ended: Vec<_> =
            self.ending.names().filter(|name| self.host.status.known(name).is_none()).cloned().collect();
        for name in &ended {
            self.ending.remove(name);
            let installed = self.installed.remove(name);
            self.former.remove(name);
            // Files of the operator count from now on. The removal of the record wakes those who follow files.
            self.names.release(name);
            let (directory, of) = (self.directory.clone(), name.clone());
            let removed = windlass_world::spawn_blocking(move || directory.remove(&of)).await;
            if let Err(error) = removed.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
                tracing::error!(plugin = name, %error, "cannot remove the files of a plugin object that has ended: they take up space");
            }
            if let Some(installed) = installed {
                self.recall(name, &installed).await;
            }
        }
        !ended.is_empty()
    }
}
