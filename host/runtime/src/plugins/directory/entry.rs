//! One plugin of the catalog: its file, the result of loading it, and its running generation.

use std::path::PathBuf;
use std::sync::Arc;

use super::{Allowed, DirectoryStep, FileRefusal, LoadedFile, StopReason, hexadecimal};
use crate::files::Content;
use crate::rejections::{Digest, Rejection};

#[derive(Debug)]
pub(super) struct CatalogEntry<G> {
    pub(super) path: PathBuf,
    pub(super) file: Content,
    pub(super) attempt: LoadAttempt<G>,
    pub(super) runs: Option<RunningFile<G>>,
    pub(super) rejected: Option<Rejection>,
    /// The generation to start in place of an unwanted file, once the current one has ended.
    pub(super) instead: Option<LoadedFile<G>>,
    /// Whether a failure of the host has ended the running generation, and no generation was started since.
    pub(super) fell: bool,
    /// The last refusal that was reported, and the digest that it was about.
    pub(super) reported: Option<(Option<Digest>, FileRefusal)>,
}

/// The last attempt to load the file.
#[derive(Debug)]
pub(super) enum LoadAttempt<G> {
    None,
    /// In progress.
    Loading(Digest),
    Failed {
        digest: Digest,
        refusal: FileRefusal,
        /// Whether the file had enough time to change, in case it was still being written.
        settled: bool,
    },
    Loaded(LoadedFile<G>),
}

/// A started generation.
#[derive(Debug)]
pub(super) struct RunningFile<G> {
    /// The digest of the newest generation that the plugin was given. This generation may still wait to take over.
    pub(super) digest: Digest,
    pub(super) definitions: Vec<String>,
    pub(super) at_work: LoadedFile<G>,
    /// The generation that takes over again from the running one, which was rolled back here.
    pub(super) returns: Option<LoadedFile<G>>,
    /// The generation that runs instead of a withdrawn one. It must be started again if the withdrawn one took over at
    /// the same moment.
    pub(super) instead: Option<LoadedFile<G>>,
    /// Whether it must end.
    pub(super) ends: bool,
    /// Whether the generation ended by itself, because it cannot run under this host's settings.
    pub(super) spent: bool,
}

impl<G: Clone> CatalogEntry<G> {
    /// A new entry, for a file that was not loaded yet.
    pub(super) fn new(path: PathBuf) -> Self {
        let (file, attempt) = (Content::Gone, LoadAttempt::None);
        Self { path, file, attempt, runs: None, rejected: None, instead: None, fell: false, reported: None }
    }

    pub(super) fn digest(&self) -> Option<Digest> {
        match &self.file {
            Content::Is(digest) => Some(hexadecimal(digest)),
            Content::Gone | Content::Unreadable(_) | Content::Withheld(_) | Content::TooLarge(_) => None,
        }
    }

    /// Stops the running generation if it is no longer allowed, or withdraws the generation that was to replace it.
    pub(super) fn no_longer_allowed(
        &mut self,
        plugin: &Arc<str>,
        allowed: Option<&Allowed>,
    ) -> Option<DirectoryStep<G>> {
        let (runs, allowed) = (self.runs.as_mut()?, allowed?);
        if runs.spent {
            self.runs.take_if(|runs| !allowed.holds(&runs.digest));
            return None;
        }
        let list = || allowed.path().to_owned();
        runs.drop_what(
            plugin,
            |digest| !allowed.holds(digest),
            |digest| StopReason::NotAllowed { digest, list: list() },
        )
    }

    /// As [`Self::no_longer_allowed`], for a generation that another replica has rolled back. This replica does not
    /// know which generation ran before. A generation that was rolled back here runs until the previous one can take
    /// over.
    pub(super) fn rejected_elsewhere(&mut self, plugin: &Arc<str>) -> Option<DirectoryStep<G>> {
        let (runs, rejected) = (self.runs.as_mut()?, self.rejected.as_ref()?);
        if runs.spent || runs.returns.is_some() {
            return None;
        }
        let because = || rejected.because.clone();
        runs.drop_what(
            plugin,
            |digest| *digest == rejected.digest,
            |digest| StopReason::Rejected { digest, because: because() },
        )
    }

    /// Why the content of the file is unknown.
    pub(super) fn unread(&self) -> Option<FileRefusal> {
        let path = self.path.clone();
        match &self.file {
            Content::Unreadable(problem) => Some(FileRefusal::Unreadable { path, problem: problem.clone() }),
            Content::Withheld(problem) => Some(FileRefusal::Withheld { path, problem: problem.clone() }),
            Content::TooLarge(most) => Some(FileRefusal::TooLarge { path, most: *most }),
            Content::Gone | Content::Is(_) => None,
        }
    }

    /// Why a file with this digest is not even loaded.
    pub(super) fn unwanted(&self, digest: &Digest, allowed: Option<&Allowed>) -> Option<FileRefusal> {
        let (path, digest) = (self.path.clone(), digest.clone());
        // Check this first, even if the digest is not allowed either, because then the previous version can be started.
        if let Some(Rejection { because, former, .. }) = self.rejected.clone() {
            return Some(FileRefusal::Rejected { path, digest, because, former });
        }
        let allowed = allowed.filter(|allowed| !allowed.holds(&digest))?;
        Some(FileRefusal::NotAllowed { path, digest, list: allowed.path().to_owned() })
    }

    /// Reports a refusal, once for each reason.
    pub(super) fn refuse(
        &mut self,
        plugin: Arc<str>,
        digest: Option<Digest>,
        refusal: FileRefusal,
    ) -> Option<DirectoryStep<G>> {
        let now = (digest, refusal);
        if self.reported.as_ref() == Some(&now) {
            return None;
        }
        self.reported = Some(now.clone());
        let runs = self.runs.as_ref().is_some_and(|runs| !runs.ends);
        Some(DirectoryStep::Refuse { plugin, digest: now.0, refusal: now.1, runs })
    }
}

impl<G: Clone> RunningFile<G> {
    pub(super) fn started(loaded: LoadedFile<G>) -> Self {
        let (digest, definitions) = (loaded.digest.clone(), loaded.definitions.clone());
        Self { digest, definitions, at_work: loaded, returns: None, instead: None, ends: false, spent: false }
    }

    /// Records that `now` has taken over.
    pub(super) fn took_over(&mut self, now: &LoadedFile<G>) {
        (self.at_work, self.returns) = (now.clone(), None);
        if !self.ends && self.instead.as_ref().is_some_and(|instead| instead.digest == now.digest) {
            self.instead = None;
        }
    }

    /// Records that `rejected` was rolled back, and that `to` will take over again. Until then, the rejected one still
    /// runs.
    pub(super) fn rolled_back(&mut self, rejected: &Digest, to: &LoadedFile<G>) {
        self.returns = Some(to.clone());
        // A newer generation may have been delivered since.
        if self.digest == *rejected {
            self.want_what_stays();
        }
    }

    /// The generation that will run if no newer one is delivered.
    fn stays(&self) -> &LoadedFile<G> {
        self.returns.as_ref().unwrap_or(&self.at_work)
    }

    fn want_what_stays(&mut self) {
        let LoadedFile { digest, definitions, .. } = self.stays().clone();
        (self.digest, self.definitions) = (digest, definitions);
    }

    /// The step that ends or withdraws a generation whose digest `must_go`.
    fn drop_what(
        &mut self,
        plugin: &Arc<str>,
        must_go: impl Fn(&Digest) -> bool,
        why: impl FnOnce(Digest) -> StopReason,
    ) -> Option<DirectoryStep<G>> {
        if self.ends {
            return None;
        }
        let plugin = plugin.clone();
        // A generation that is about to return can only be prevented by stopping the plugin.
        let both = [Some(&self.at_work), self.returns.as_ref()].into_iter().flatten();
        let forbidden = both.map(|it| it.digest.clone()).find(&must_go);
        if let Some(digest) = forbidden {
            (self.ends, self.instead) = (true, self.instead.take().or(self.returns.take()));
            return Some(DirectoryStep::Stop { plugin, why: why(digest) });
        }
        if self.digest == self.stays().digest || !must_go(&self.digest) {
            return None;
        }
        let digest = self.digest.clone();
        self.want_what_stays();
        self.instead = Some(self.stays().clone());
        Some(DirectoryStep::Withdraw { plugin, digest })
    }
}
