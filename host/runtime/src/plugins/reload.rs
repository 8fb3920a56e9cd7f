//! The plugin directory, live: carries out what `directory` decides. Loads files beside everything else, starts plugins
//! as soon as they are loaded, gives those that run their newer generations, and ends those whose files go.
//!
//! One task, [`Reload::run`], does it for all plugins; whatever takes time runs on tasks of its own and reports back.
//! How files are loaded is in [`load`], next versions in [`next`], what is done with those that run in [`started`], and
//! with those that do not any more by the host's own fault in [`fallen`]; what is told of it in `tell`, what is left of
//! a plugin that goes in `unload`.

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
use super::{replicas, tell};
use crate::files::Change;
use crate::host::Host;
use crate::leadership::RejectedPlugins;
use crate::phases::{ControllerEnd, Phases};
use crate::plugins::directory::plugin_files::PluginFiles;
use crate::plugins::directory::{Allowed, AllowedError, Catalog, DirectoryStep, FileRefusal, LoadedFile};
use crate::plugins::reports::{Reports, Swapped};
use crate::rejections::{Digest, Rejection, Rejections};

/// News for this task.
pub(crate) enum DirectoryNews {
    /// Files have changed.
    Files(Vec<Change>),
    /// The list of allowed digests has changed.
    Allowed(Result<Allowed, AllowedError>),
    /// A replica has rolled something back, or tries it again.
    Rejected(RejectedPlugins),
    /// A file was loaded, or was not. None: it was another one by then.
    Loaded { plugin: Arc<str>, digest: Digest, result: Option<Result<Arc<Plugin>, FileRefusal>> },
    /// The next version of a plugin was loaded, or was not, and why. None: the file was another one by then.
    NextLoaded { plugin: Arc<str>, digest: Digest, result: Option<Result<Arc<Plugin>, String>> },
    /// The generation before the rejected file is in the cache.
    Revived { rejection: Rejection, former: Arc<Plugin> },
    /// A file has been as it is for a while.
    Settled { plugin: Arc<str>, digest: Digest },
    /// A file that was loaded and could not be kept as the current version may be loaded again.
    Kept { plugin: Arc<str>, digest: Digest },
    /// A plugin that fell may be started again.
    Again { plugin: Arc<str> },
}

/// Plugins that run, and end.
pub(crate) type Servings = JoinSet<(Arc<str>, Option<ControllerEnd>)>;

/// All that follows from the directory.
pub(crate) struct Reload {
    host: Arc<Host>,
    sandbox: Sandbox,
    supplies: Arc<Supplies>,
    phases: Phases,
    catalog: Catalog<Arc<Plugin>>,
    /// The steps that the catalog takes as done: a panic at one of them must not lose the others.
    steps: VecDeque<DirectoryStep<Arc<Plugin>>>,
    rejections: Rejections,
    news: mpsc::UnboundedReceiver<DirectoryNews>,
    tell: mpsc::UnboundedSender<DirectoryNews>,
    swapped: mpsc::UnboundedReceiver<(Arc<str>, Swapped)>,
    reports: Reports,
    handles: BTreeMap<Arc<str>, PluginHandle>,
    /// The files of each plugin, as they were seen last.
    files: BTreeMap<Arc<str>, PluginFiles>,
    next: NextFiles,
    servings: Servings,
    /// The tasks that report denials.
    tellers: JoinSet<()>,
    /// The verdicts that other replicas are to know.
    replicas: mpsc::UnboundedSender<replicas::VerdictNews>,
    /// Whose leftovers are to be looked for.
    leftovers: mpsc::UnboundedSender<Arc<Plugin>>,
    /// The files have been seen once.
    has_looked: bool,
    /// Something has come of all files that there were at first.
    is_settled: bool,
}

impl Reload {
    /// Nothing is done yet. `leftovers` are looked for behind whatever is sent there; what was rolled back is kept in
    /// `cache`. Must be called within a runtime.
    pub(crate) fn new(
        host: Arc<Host>,
        sandbox: Sandbox,
        supplies: Arc<Supplies>,
        phases: Phases,
        allowed: Option<Allowed>,
        leftovers: mpsc::UnboundedSender<Arc<Plugin>>,
        cache: Option<&Path>,
    ) -> Self {
        let (tell, news) = mpsc::unbounded_channel();
        let (reports, swapped) = mpsc::unbounded_channel();
        let (replicas, untold) = mpsc::unbounded_channel();
        tokio::spawn(phases.stop.clone().run_until_cancelled_owned(replicas::tell(host.clone(), untold)));
        let slots = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            host,
            sandbox,
            supplies,
            phases,
            catalog: Catalog::new(slots, allowed),
            steps: VecDeque::new(),
            rejections: Rejections::kept_in(cache),
            news,
            tell,
            swapped,
            reports,
            handles: BTreeMap::new(),
            files: BTreeMap::new(),
            next: NextFiles::new(),
            servings: JoinSet::new(),
            tellers: JoinSet::new(),
            replicas,
            leftovers,
            has_looked: false,
            is_settled: false,
        }
    }

    /// Where news is told.
    pub(crate) fn teller(&self) -> mpsc::UnboundedSender<DirectoryNews> {
        self.tell.clone()
    }

    /// Goes on until the host stops.
    pub(crate) async fn run(&mut self) {
        // This may have begun before, and panicked.
        self.act();
        self.find_fallen();
        loop {
            tokio::select! {
                biased;
                () = self.phases.stop.cancelled() => return,
                // Before its end, which may follow at once: a later start would be taken for what it tells of.
                Some((plugin, swapped)) = self.swapped.recv() => self.swapped(&plugin, swapped),
                Some(ended) = self.servings.join_next() => {
                    // Its panics are caught within.
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
        (self.servings, self.tellers)
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
                self.rejections.hear(rejected);
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

    /// Once, of what was kept: files that have changed while no host ran may be tried.
    fn forget_stale(&mut self) {
        if std::mem::replace(&mut self.has_looked, true) {
            return;
        }
        for (plugin, digest) in self.rejections.stale(|plugin, digest| self.catalog.is_other(plugin, digest)) {
            self.pardon(plugin, &digest);
        }
    }

    /// Holds what was rolled back against the files as they are now.
    fn reject(&mut self) {
        for (plugin, rejection) in self.rejections.known() {
            if self.catalog.reject(&plugin, &rejection) {
                // Until this process' own file changes, whatever the others' do.
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
            tell::begun(self.catalog.running());
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
                tell::refused(&self.host, &plugin, digest, &refusal, running);
                if let FileRefusal::Rejected { path, digest, because, former: Some(former) } = refusal
                    && !runs
                {
                    self.revive(plugin, path, former.clone(), Rejection::new(digest, because, Some(&former)));
                }
            }
            DirectoryStep::Agree { plugin } => tell::agreed(&self.host, &plugin),
            DirectoryStep::Pardon { plugin, digest } => self.pardon(plugin, &digest),
            DirectoryStep::Forget { plugin } => {
                self.host.policies.unregister(&plugin);
                self.host.status.forget(&plugin);
                tracing::info!(%plugin, "plugin gone");
            }
        }
    }
}

/// `generation` as the catalog knows it.
fn as_loaded(generation: &Arc<Plugin>) -> LoadedFile<Arc<Plugin>> {
    let definitions = generation.manifest().crd_names().map(str::to_owned).collect();
    LoadedFile { digest: generation.digest().clone(), definitions, generation: generation.clone() }
}
