//! The facts from which the status of a plugin object follows.

use windlass_core::life::plugin_state::PluginState;

use crate::plan::ObjectPlan;

/// The facts about a plugin that has files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineFacts {
    /// The state that the status page and the metrics show.
    pub state: PluginState,
    /// Why it is in this state, or what is wrong with the running version.
    pub why: Option<String>,
    /// Whether the running version does its work.
    pub is_well: bool,
    /// The version in the manifest of the running file.
    pub version: Option<String>,
    /// The SHA-256 of the running file, in hexadecimal.
    pub digest: Option<String>,
    /// The last file that was refused, which may be an earlier one than the installed one.
    pub refused: Option<RefusedFile>,
    /// The last version that was rolled back, which may be an earlier one too.
    pub rolled_back: Option<RefusedFile>,
    /// Whether a newer version is to take over.
    pub is_swapping: bool,
    /// Why the newest configuration is not in force, if so.
    pub refused_config: Option<String>,
    /// Whether a newer version waits, and is called as a shadow if it can be.
    pub has_next: bool,
    /// The figures of its controllers.
    pub controllers: Vec<ControllerFigures>,
    /// The controller and the object of the last failure.
    pub last_failure: Option<(String, String)>,
}

/// A file that does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedFile {
    /// Its SHA-256 in hexadecimal, if it could be read.
    pub digest: Option<String>,
    /// Why it does not run.
    pub reason: String,
}

/// The figures of one controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerFigures {
    /// The controller's name.
    pub name: String,
    /// Its state, in `kebab-case`.
    pub state: &'static str,
    /// Objects that wait.
    pub queued: u64,
    /// Objects that fail.
    pub failing: u64,
}

/// Everything on which a status depends.
#[derive(Clone, Copy, Debug)]
pub struct ObjectFacts<'a> {
    /// The plan for the object.
    pub plan: &'a ObjectPlan,
    /// The facts about the plugin. `None` if it has no file of it.
    pub engine: Option<&'a EngineFacts>,
    /// The replica that holds the plugin's lease.
    pub holder: Option<&'a str>,
    /// Why the files of the plan could not be written, if so. The host tries again.
    pub install_error: Option<&'a str>,
}

impl ObjectFacts<'_> {
    /// Whether another file runs than the one that should, and neither was it refused nor does it wait as a shadow. The
    /// host then has not loaded it yet.
    pub(crate) fn is_awaited(&self) -> bool {
        let Some(engine) = self.engine else { return false };
        engine.digest.as_deref().is_some_and(|digest| !self.is_wanted(digest))
            && self.refused().is_none()
            && self.rolled_back().is_none()
            && !engine.has_next
    }

    /// Whether this is the digest of the file that should run. Without such a file, each one is meant.
    fn is_wanted(&self, digest: &str) -> bool {
        let wanted = self.plan.files.as_ref().map(|files| &*files.artefact.file_digest);
        wanted.is_none_or(|wanted| wanted.strip_prefix("sha256:") == Some(digest))
    }

    /// Why the file that should run was refused, if it was.
    pub(crate) fn refused(&self) -> Option<&str> {
        self.of_wanted(self.engine?.refused.as_ref())
    }

    /// Why the file that should run was rolled back, if it was.
    pub(crate) fn rolled_back(&self) -> Option<&str> {
        self.of_wanted(self.engine?.rolled_back.as_ref())
    }

    /// The reason in `file`, unless it is about an earlier file: it says nothing about the one that should run.
    fn of_wanted<'a>(&self, file: Option<&'a RefusedFile>) -> Option<&'a str> {
        let file = file.filter(|file| file.digest.as_deref().is_none_or(|digest| self.is_wanted(digest)));
        file.map(|file| &*file.reason)
    }
}
