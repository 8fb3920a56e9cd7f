//! Follows the plugin directory and carries out what `directory` decides: loads files in the background, starts plugins
//! as soon as they are loaded, gives running ones their newer generations, and ends those whose files have gone.
//!
//! One task, [`Reload::run`], does this for all plugins. Anything that takes time runs in a separate task and reports
//! back. [`load`] loads files, [`next`] handles next versions, [`started`] handles running plugins, and [`fallen`]
//! those that a failure of the host has ended. `announce` reports to operators, and `unload` cleans up after a plugin
//! that has gone.

mod fallen;
mod load;
mod next;
mod started;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use windlass_wasm::{Plugin, Sandbox};

use self::next::NextFiles;
use self::started::PluginHandle;
pub(crate) use self::started::runs;
use super::supplies::Supplies;
use super::{announce, replicas};
use crate::files::Change;
use crate::host::Host;
use crate::leadership::RejectedPlugins;
use crate::phases::{ControllerEnd, Phases};
use crate::plugins::directory::plugin_files::PluginFiles;
use crate::plugins::directory::{Allowed, AllowedError, Catalog, DirectoryStep, FileRefusal, LoadedFile};
use crate::plugins::reports::{Reports, Swapped};
use crate::rejections::{Digest, Rejection, Rejections};

/// News for [`Reload::run`].
pub(crate) enum DirectoryNews {
    /// Files have changed.
    Files(Vec<Change>),
    /// The list of allowed digests has changed.
    Allowed(Result<Allowed, AllowedError>),
    /// A replica has rolled something back, or allows it to be tried again.
    Rejected(RejectedPlugins),
    /// The result of loading a file. `None` if the file had changed by then.
    Loaded { plugin: Arc<str>, digest: Digest, result: Option<Result<Arc<Plugin>, FileRefusal>> },
    /// The result of loading the next version of a plugin. `None` if the file had changed by then.
    NextLoaded { plugin: Arc<str>, digest: Digest, result: Option<Result<Arc<Plugin>, String>> },
    /// The generation before the rejected file was loaded from the cache.
    Revived { rejection: Rejection, former: Arc<Plugin> },
    /// A file has not changed for a while.
    Settled { plugin: Arc<str>, digest: Digest },
    /// A loaded file that could not be kept as the current version may be loaded again.
    Kept { plugin: Arc<str>, digest: Digest },
    /// A plugin that a failure of the host has ended may be started again.
    Again { plugin: Arc<str> },
}

/// The services of running plugins, each until it ends.
pub(crate) type Servings = JoinSet<(Arc<str>, Option<ControllerEnd>)>;

/// The task that acts on the directory, and its state.
pub(crate) struct Reload {
    host: Arc<Host>,
    sandbox: Sandbox,
    supplies: Arc<Supplies>,
    phases: Phases,
    catalog: Catalog<Arc<Plugin>>,
    /// Steps that the catalog considers taken. They are kept here so that a panic in one step does not lose the other
    /// steps.
    steps: VecDeque<DirectoryStep<Arc<Plugin>>>,
    rejections: Rejections,
    news: mpsc::UnboundedReceiver<DirectoryNews>,
    sender: mpsc::UnboundedSender<DirectoryNews>,
    swapped: mpsc::UnboundedReceiver<(Arc<str>, Swapped)>,
    reports: Reports,
    handles: BTreeMap<Arc<str>, PluginHandle>,
    /// The files of each plugin as last seen.
    files: BTreeMap<Arc<str>, PluginFiles>,
    next: NextFiles,
    servings: Servings,
    /// The tasks that log denials.
    denial_loggers: JoinSet<()>,
    /// Receives the verdicts to be published to other replicas.
    replicas: mpsc::UnboundedSender<replicas::VerdictNews>,
    /// Receives the plugins whose leftovers are to be searched for.
    leftovers: mpsc::UnboundedSender<Arc<Plugin>>,
    /// Whether the files were seen at least once.
    has_looked: bool,
    /// Whether every file of the first look was started or refused.
    is_settled: bool,
}

impl Reload {
    /// Does nothing yet. `leftovers` receives the plugins that are started; rejections are kept in `cache`. Must be
    /// called within a runtime.
    pub(crate) fn new(
        host: Arc<Host>,
        sandbox: Sandbox,
        supplies: Arc<Supplies>,
        phases: Phases,
        allowed: Option<Allowed>,
        leftovers: mpsc::UnboundedSender<Arc<Plugin>>,
        cache: Option<&Path>,
    ) -> Self {
        let (sender, news) = mpsc::unbounded_channel();
        let (reports, swapped) = mpsc::unbounded_channel();
        let (replicas, verdicts) = mpsc::unbounded_channel();
        tokio::spawn(phases.stop.clone().run_until_cancelled_owned(replicas::publish_all(host.clone(), verdicts)));
        let objects = host.policies.names();
        let slots = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            host,
            sandbox,
            supplies,
            phases,
            catalog: Catalog::new(slots, allowed).with_objects(objects),
            steps: VecDeque::new(),
            rejections: Rejections::kept_in(cache),
            news,
            sender,
            swapped,
            reports,
            handles: BTreeMap::new(),
            files: BTreeMap::new(),
            next: NextFiles::new(),
            servings: JoinSet::new(),
            denial_loggers: JoinSet::new(),
            replicas,
            leftovers,
            has_looked: false,
            is_settled: false,
        }
    }

    /// A sender of news to this task.
    pub(crate) fn news_sender(&self) -> mpsc::UnboundedSender<DirectoryNews> {
        self.sender.clone()
    }

    /// Runs until the host stops.
    pub(crate) async fn run(&mut self) {
        // An earlier run may have panicked between two steps.
        self.act();
        self.find_fallen();
        loop {
            tokio::select! {
                biased;
                () = self.phases.stop.cancelled() => return,
                // Handle this before the end of a plugin, which may follow at once. Otherwise this report could be
                // taken for one about a later start of the plugin.
                Some((plugin, swapped)) = self.swapped.recv() => self.swapped(&plugin, swapped),
                Some(ended) = self.servings.join_next() => {
                    // Panics are caught inside the task.
                    if let Ok((plugin, end)) = ended {
                        self.ended(&plugin, end);
                    }
                }
                Some(news) = self.news.recv() => self.take(news),
            }
            self.act();
        }
    }

    /// The services that still run when the host stops, and the tasks that must end after them.
    pub(crate) fn into_rest(self) -> (Servings, JoinSet<()>) {
        (self.servings, self.denial_loggers)
    }

    fn take(&mut self, news: DirectoryNews) {
        match news {
            DirectoryNews::Files(changes) => {
                let changes = self.take_files(changes);
                self.catalog.take(&changes);
                self.forget_stale();
                self.reject();
            }
            DirectoryNews::Allowed(Ok(allowed)) => {
                tracing::info!(
                    file = %allowed.path().display(), digests = allowed.len(), "the list of allowed digests is in force"
                );
                self.catalog.allow(allowed);
            }
            DirectoryNews::Allowed(Err(error)) => {
                tracing::error!(%error, "the list of allowed digests cannot be used: the former one stays in force");
            }
            DirectoryNews::Rejected(rejected) => {
                self.rejections.take_shared(rejected);
                self.reject();
            }
            DirectoryNews::Loaded { plugin, digest, result } => self.loaded(&plugin, &digest, result),
            DirectoryNews::NextLoaded { plugin, digest, result } => self.next_loaded(&plugin, digest, result),
            DirectoryNews::Revived { rejection, former } => self.revived(&rejection, &former),
            DirectoryNews::Settled { plugin, digest } => self.catalog.settled(&plugin, &digest),
            DirectoryNews::Kept { plugin, digest } => self.catalog.load_again(&plugin, &digest),
            DirectoryNews::Again { plugin } => self.catalog.again(&plugin),
        }
    }

    /// Pardons files that have changed since a stored rejection, while no host ran. Does this only once.
    fn forget_stale(&mut self) {
        if std::mem::replace(&mut self.has_looked, true) {
            return;
        }
        for (plugin, digest) in self.rejections.stale(|plugin, digest| self.catalog.is_other(plugin, digest)) {
            self.pardon(plugin, &digest);
        }
    }

    /// Compares the rejections with the current files.
    fn reject(&mut self) {
        for (plugin, rejection) in self.rejections.known() {
            if self.catalog.reject(&plugin, &rejection) {
                // The rejection applies until this replica's own file changes, whatever other replicas' files do.
                self.rejections.add(&plugin, &rejection);
            }
        }
    }

    fn act(&mut self) {
        loop {
            while let Some(step) = self.steps.pop_front() {
                self.carry_out(step);
            }
            self.steps.extend(self.catalog.next());
            if self.steps.is_empty() {
                break;
            }
        }
        if !self.is_settled && self.catalog.is_settled() {
            self.is_settled = true;
            self.host.policies.registered_all();
            self.host.status.loaded();
            self.host.leadership.join();
            announce::begun(self.catalog.running());
        }
        self.act_on_next();
    }

    fn carry_out(&mut self, step: DirectoryStep<Arc<Plugin>>) {
        match step {
            DirectoryStep::Load { plugin, path, digest } => self.load(plugin, path, digest),
            DirectoryStep::Start { loaded, .. } => self.start(&loaded.generation),
            DirectoryStep::Replace { loaded, .. } => self.deliver(&loaded.generation),
            DirectoryStep::Stop { plugin, why } => self.stop(&plugin, &why),
            DirectoryStep::Withdraw { plugin, digest } => self.withdraw(&plugin, &digest),
            DirectoryStep::Refuse { plugin, digest, refusal, runs } => {
                let running = self.running(&plugin).filter(|_| runs);
                announce::refused(&self.host, &plugin, digest, &refusal, running);
                if let FileRefusal::Rejected { path, digest, because, former: Some(former) } = refusal
                    && !runs
                {
                    self.revive(plugin, path, former.clone(), Rejection::new(digest, because, Some(&former)));
                }
            }
            DirectoryStep::Agree { plugin } => announce::agreed(&self.host, &plugin),
            DirectoryStep::Pardon { plugin, digest } => self.pardon(plugin, &digest),
            DirectoryStep::Forget { plugin } => {
                self.host.policies.unregister(&plugin);
                self.host.status.forget(&plugin);
                tracing::info!(%plugin, "plugin gone");
            }
        }
    }
}

/// `generation` in the form that the catalog stores.
fn as_loaded(generation: &Arc<Plugin>) -> LoadedFile<Arc<Plugin>> {
    let definitions = generation.manifest().crd_names().map(str::to_owned).collect();
    LoadedFile { digest: generation.digest().clone(), definitions, generation: generation.clone() }
}
