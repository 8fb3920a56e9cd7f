//! The plugin directory, live: carries out what `directory` decides. Loads files beside everything else, starts plugins as soon
//! as they are loaded, gives those that run their newer generations, and ends those whose files go.
//!
//! One task, [`Reload::run`], does it for all plugins; whatever takes time runs on tasks of its own and reports back. What is told of it
//! is in `tell`, what is left of a plugin that goes in `unload`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use windlass_core::fair::Fair;
use windlass_wasm::{Plugin, Sandbox};

use super::{Host, plugins, tell, unload};
use crate::directory::{Allowed, AllowedError, Catalog, Digest, Loaded, Refusal, Rejection, Rejections, Step, Why};
use crate::files::Change;
use crate::generation::{Reports, Swapped};
use crate::leadership::Rejected;
use crate::phases::Phases;
use crate::running::End;
use crate::status::{NotTaken, PluginState};
use crate::supervise::caught;

/// How long a file that does not load must have stayed as it is before that is told: somebody may still be writing it.
const SETTLED: Duration = Duration::from_secs(1);
/// How soon a file is loaded again that was not what it had been when it was looked at.
const READ_AGAIN: Duration = Duration::from_millis(500);

/// What this task is told.
pub(super) enum News {
    /// Files have changed.
    Files(Vec<Change>),
    /// The list of allowed digests has changed.
    Allowed(Result<Allowed, AllowedError>),
    /// A replica has rolled something back, or tries it again.
    Rejected(Rejected),
    /// A file was loaded, or was not. None: it was another one by then.
    Loaded { plugin: Arc<str>, digest: Digest, result: Option<Result<Arc<Plugin>, Refusal>> },
    /// What ran before the rejected file is in the cache.
    Revived { rejection: Rejection, former: Arc<Plugin> },
    /// A file has been as it is for a while.
    Settled { plugin: Arc<str>, digest: Digest },
}

/// Plugins that run, and end.
pub(super) type Servings = JoinSet<(Arc<str>, Option<End>)>;

/// All that follows from the directory.
pub(super) struct Reload {
    host: Arc<Host>,
    sandbox: Sandbox,
    fair: Fair,
    phases: Phases,
    catalog: Catalog<Arc<Plugin>>,
    rejections: Rejections,
    /// What all replicas know to be rejected.
    elsewhere: Rejected,
    news: mpsc::UnboundedReceiver<News>,
    tell: mpsc::UnboundedSender<News>,
    swapped: mpsc::UnboundedReceiver<(Arc<str>, Swapped)>,
    reports: Reports,
    handles: BTreeMap<Arc<str>, Handle>,
    servings: Servings,
    /// What tells of denials.
    tellers: JoinSet<()>,
    /// What other replicas are to know.
    replicas: mpsc::UnboundedSender<(Arc<str>, Option<Rejection>)>,
    /// Whose leftovers are to be looked for.
    leftovers: mpsc::UnboundedSender<Arc<Plugin>>,
    /// The files have been seen once.
    has_looked: bool,
    /// Something has come of all files that there were at first.
    is_settled: bool,
}

/// A plugin that was started.
struct Handle {
    /// What runs.
    runs: Arc<Plugin>,
    /// What comes back in the place of that, which was rolled back.
    returns: Option<Arc<Plugin>>,
    /// The newest generation, which does not run yet.
    delivered: Option<Arc<Plugin>>,
    /// Where it is delivered.
    newest: watch::Sender<Arc<Plugin>>,
    /// Ends it.
    stop: CancellationToken,
    /// It has ended.
    over: CancellationToken,
    /// Why it ends.
    why: Option<Why>,
}

impl Reload {
    /// Nothing is done yet. `leftovers` are looked for behind whatever is sent there; what was rolled back is kept in `cache`.
    /// Must be called within a runtime.
    pub(super) fn new(
        host: Arc<Host>,
        sandbox: Sandbox,
        fair: Fair,
        phases: Phases,
        allowed: Option<Allowed>,
        leftovers: mpsc::UnboundedSender<Arc<Plugin>>,
        cache: Option<&Path>,
    ) -> Self {
        let (tell, news) = mpsc::unbounded_channel();
        let (reports, swapped) = mpsc::unbounded_channel();
        let (replicas, untold) = mpsc::unbounded_channel();
        tokio::spawn(phases.stop.clone().run_until_cancelled_owned(tell::replicas(host.clone(), untold)));
        let slots = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            host,
            sandbox,
            fair,
            phases,
            catalog: Catalog::new(slots, allowed),
            rejections: Rejections::kept_in(cache),
            elsewhere: Rejected::new(),
            news,
            tell,
            swapped,
            reports,
            handles: BTreeMap::new(),
            servings: JoinSet::new(),
            tellers: JoinSet::new(),
            replicas,
            leftovers,
            has_looked: false,
            is_settled: false,
        }
    }

    /// Where news is told.
    pub(super) fn teller(&self) -> mpsc::UnboundedSender<News> {
        self.tell.clone()
    }

    /// Goes on until the host stops.
    pub(super) async fn run(&mut self) {
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

    /// What still runs when the host stops, and what must end after it.
    pub(super) fn into_rest(self) -> (Servings, JoinSet<()>) {
        (self.servings, self.tellers)
    }

    fn take(&mut self, news: News) {
        match news {
            News::Files(changes) => {
                self.catalog.take(&changes);
                self.forget_stale();
                self.reject();
            }
            News::Allowed(Ok(allowed)) => {
                tracing::info!(
                    file = %allowed.path().display(), digests = allowed.len(), "the list of allowed digests is in force"
                );
                self.catalog.allow(allowed);
            }
            News::Allowed(Err(error)) => {
                tracing::error!(%error, "the list of allowed digests cannot be used: the former one stays in force");
            }
            News::Rejected(rejected) => {
                self.elsewhere = rejected;
                self.reject();
            }
            News::Loaded { plugin, digest, result } => self.loaded(&plugin, &digest, result),
            News::Revived { rejection, former } => self.revived(&rejection, &former),
            News::Settled { plugin, digest } => self.catalog.settled(&plugin, &digest),
        }
    }

    /// Once, of what was kept: files that have changed while no host ran may be tried.
    fn forget_stale(&mut self) {
        if std::mem::replace(&mut self.has_looked, true) {
            return;
        }
        let stale = |(plugin, it): &(&Arc<str>, &Rejection)| self.catalog.is_other(plugin, &it.digest);
        let stale: Vec<_> =
            self.rejections.iter().filter(stale).map(|(plugin, it)| (plugin.clone(), it.digest.clone())).collect();
        for (plugin, digest) in stale {
            self.rejections.remove(&plugin, &digest);
        }
    }

    /// Holds what was rolled back against the files as they are now.
    fn reject(&mut self) {
        for (plugin, rejection) in self.rejections.iter() {
            self.catalog.reject(plugin, rejection);
        }
        for (plugin, rejection) in &self.elsewhere {
            if self.catalog.reject(plugin, rejection) {
                // Until this process' own file changes, whatever the others' do.
                self.rejections.add(plugin, rejection);
            }
        }
    }

    fn act(&mut self) {
        loop {
            let steps = self.catalog.next();
            if steps.is_empty() {
                break;
            }
            for step in steps {
                self.carry_out(step);
            }
        }
        if !self.is_settled && self.catalog.is_settled() {
            self.is_settled = true;
            self.host.policies.registered_all();
            self.host.status.loaded();
            self.host.leadership.join();
            tell::begun(self.catalog.running());
        }
    }

    fn carry_out(&mut self, step: Step<Arc<Plugin>>) {
        match step {
            Step::Load { plugin, path, digest } => self.load(plugin, path, digest),
            Step::Start { loaded, .. } => self.start(&loaded.generation),
            Step::Replace { loaded, .. } => self.deliver(loaded.generation),
            Step::Stop { plugin, why } => self.stop(&plugin, why),
            Step::Withdraw { plugin, digest } => self.withdraw(&plugin, &digest),
            Step::Refuse { plugin, digest, refusal, runs } => {
                tell::refused(&self.host, &plugin, digest, &refusal, runs);
                if let Refusal::Rejected { path, digest, because, former: Some(former) } = refusal
                    && !runs
                {
                    self.revive(plugin, path, former.clone(), Rejection::new(digest, because, Some(&former)));
                }
            }
            Step::Agree { plugin } => tell::agreed(&self.host, &plugin),
            Step::Pardon { plugin, digest } => self.pardon(plugin, &digest),
            Step::Forget { plugin } => {
                self.host.policies.unregister(&plugin);
                self.host.status.forget(&plugin);
                tracing::info!(%plugin, "plugin gone");
            }
        }
    }

    fn load(&self, plugin: Arc<str>, path: PathBuf, digest: Digest) {
        let status = self.host.status.plugin(&plugin);
        if status.generation().is_none() && status.state() != PluginState::Ending {
            status.set(PluginState::Loading, None);
        }
        let (sandbox, tell, panics) = (self.sandbox.clone(), self.tell.clone(), self.host.panics.clone());
        let stop = self.phases.stop.clone();
        tokio::spawn(stop.run_until_cancelled_owned(async move {
            let result = match caught("load", &panics, plugins::load(&sandbox, &path)).await {
                Some(Ok(loaded)) if *loaded.digest() != digest => {
                    tokio::time::sleep(READ_AGAIN).await;
                    None
                }
                Some(result) => Some(result),
                None => {
                    let message = format!("{}: the host's loader panicked", path.display());
                    Some(Err(Refusal::NotLoaded { reason: "host", message }))
                }
            };
            let failed = matches!(result, Some(Err(_)));
            let settles = if failed { settles_in(&path).await } else { Duration::ZERO };
            // Whoever listens ends with the host.
            let _ = tell.send(News::Loaded { plugin: plugin.clone(), digest: digest.clone(), result });
            if failed {
                tokio::time::sleep(settles).await;
                let _ = tell.send(News::Settled { plugin, digest });
            }
        }));
    }

    fn loaded(&mut self, plugin: &Arc<str>, digest: &Digest, result: Option<Result<Arc<Plugin>, Refusal>>) {
        let result = result.map(|result| {
            result.map(|generation| {
                tell::loaded(&self.host, &generation);
                as_loaded(&generation)
            })
        });
        self.catalog.loaded(plugin, digest, result);
    }

    /// Looks in the cache of compiled plugins for what ran before the file that was rejected.
    fn revive(&self, plugin: Arc<str>, path: PathBuf, former: String, rejection: Rejection) {
        let (sandbox, tell, panics) = (self.sandbox.clone(), self.tell.clone(), self.host.panics.clone());
        tokio::spawn(self.phases.stop.clone().run_until_cancelled_owned(async move {
            match caught("load", &panics, sandbox.load_digest(&plugin, &path, &former)).await {
                Some(Ok(Some(former))) => {
                    // Whoever listens ends with the host.
                    let _ = tell.send(News::Revived { rejection, former });
                }
                Some(Ok(None)) => tracing::warn!(%plugin, former, "what ran before is not in the cache any more"),
                Some(Err(error)) => tracing::error!(%plugin, former, %error, "what ran before cannot be loaded"),
                None => {}
            }
        }));
    }

    fn revived(&mut self, rejection: &Rejection, former: &Arc<Plugin>) {
        match self.catalog.revive(former.name(), &as_loaded(former)) {
            Ok(()) => {
                self.start(former);
                tell::revived(&self.host, former, rejection);
            }
            Err(problem) => tell::not_revived(former, &problem),
        }
    }

    /// Starts a plugin that does not run.
    fn start(&mut self, plugin: &Arc<Plugin>) {
        let (name, host) = (plugin.name().clone(), &self.host);
        let stop = self.phases.stop.child_token();
        let over = self.phases.over.child_token();
        runs(host, plugin);
        host.status.plugin(&name).has_not_taken(None);
        while self.tellers.try_join_next().is_some() {}
        self.tellers.spawn(plugins::tell_denials(host.clone(), name.clone(), over.clone()));
        let phases = self.phases.of_plugin(stop.clone());
        let (serving, newest) = plugins::serving(host, &self.fair, plugin, self.reports.clone(), phases);
        let (panics, serving) = (host.panics.clone(), serving.run());
        self.servings.spawn(async move { (name, caught("serving", &panics, serving).await) });
        // Whoever listens ends with the host.
        let _ = self.leftovers.send(plugin.clone());
        let handle = Handle { runs: plugin.clone(), returns: None, delivered: None, newest, stop, over, why: None };
        self.handles.insert(plugin.name().clone(), handle);
    }

    /// Gives a plugin that runs its newer generation.
    fn deliver(&mut self, plugin: Arc<Plugin>) {
        let Some(handle) = self.handles.get_mut(plugin.name()) else { return };
        let status = self.host.status.plugin(plugin.name());
        // The file is taken; and what an older one still waited for says nothing of this one.
        status.has_not_taken(None);
        status.pends(None);
        handle.delivered = Some(plugin.clone());
        handle.newest.send_replace(plugin);
    }

    /// What runs is not to be replaced by `digest`.
    fn withdraw(&mut self, plugin: &Arc<str>, digest: &str) {
        tell::withdrawn(&self.host, plugin, digest);
        let Some(handle) = self.handles.get_mut(plugin) else { return };
        handle.delivered = None;
        handle.newest.send_replace(handle.returns.as_ref().unwrap_or(&handle.runs).clone());
    }

    fn stop(&mut self, plugin: &Arc<str>, why: Why) {
        tell::stopping(&self.host, plugin, &why);
        let Some(handle) = self.handles.get_mut(plugin) else { return };
        (handle.why, handle.delivered) = (Some(why), None);
        handle.stop.cancel();
    }

    /// What ran of `plugin` has ended.
    fn ended(&mut self, plugin: &Arc<str>, end: Option<End>) {
        let Some(handle) = self.handles.remove(plugin) else { return };
        handle.over.cancel();
        if self.catalog.ended(plugin) {
            unload::tell(&self.host, &handle.runs, handle.why.as_ref(), end, &self.phases.stop);
        }
        self.host.leadership.leave(plugin);
    }

    /// What became of the newest generation.
    fn swapped(&mut self, plugin: &Arc<str>, swapped: Swapped) {
        let Some(handle) = self.handles.get_mut(plugin) else { return };
        match swapped {
            Swapped::Runs => {
                // It was shown before it was told of, and another may have been delivered since.
                let Some(now) = self.host.status.plugin(plugin).generation() else { return };
                let _ = handle.delivered.take_if(|delivered| delivered.digest() == now.digest());
                handle.returns = None;
                self.catalog.took_over(plugin, &as_loaded(&now));
                if Arc::ptr_eq(&now, &handle.runs) {
                    self.host.status.plugin(plugin).pends(None);
                    return;
                }
                handle.runs = now.clone();
                runs(&self.host, &now);
                let _ = self.leftovers.send(now);
            }
            Swapped::Pending(reason) => {
                let digest = handle.delivered.as_ref().map(|newer| newer.digest().clone());
                self.host.status.plugin(plugin).pends(Some(NotTaken { digest, reason }));
            }
            Swapped::RolledBack { rejected, to, because } => {
                // Another may have been delivered since.
                let _ = handle.delivered.take_if(|delivered| *delivered.digest() == rejected);
                // It is shown when it is at work again, which is told of as of every other.
                handle.returns = Some(to.clone());
                let rejection = Rejection::new(rejected, because, Some(to.digest()));
                tell::rolled_back(&self.host, plugin, to.digest(), &rejection);
                self.catalog.rolled_back(plugin, rejection.clone(), &as_loaded(&to));
                self.rejections.add(plugin, &rejection);
                self.tell_replicas(plugin.clone(), Some(rejection));
            }
        }
    }

    fn pardon(&mut self, plugin: Arc<str>, digest: &str) {
        tracing::info!(%plugin, digest, "the file that was rolled back is another one now: it is forgotten");
        self.rejections.remove(&plugin, digest);
        if let Some(status) = self.host.status.known(&plugin) {
            status.has_rejected(None);
        }
        self.tell_replicas(plugin, None);
    }

    /// In the background: nothing waits for it.
    fn tell_replicas(&self, plugin: Arc<str>, rejection: Option<Rejection>) {
        // Whoever listens ends with the host.
        let _ = self.replicas.send((plugin, rejection));
    }
}

/// How long it takes until nobody can still be writing the file `path`.
async fn settles_in(path: &Path) -> Duration {
    let written = tokio::fs::metadata(path).await.and_then(|it| it.modified());
    let age = written.ok().and_then(|written| written.elapsed().ok()).unwrap_or_default();
    SETTLED.saturating_sub(age)
}

/// `generation` as the catalog knows it.
fn as_loaded(generation: &Arc<Plugin>) -> Loaded<Arc<Plugin>> {
    let definitions = generation.manifest().crd_names().map(str::to_owned).collect();
    Loaded { digest: generation.digest().clone(), definitions, generation: generation.clone() }
}

/// `plugin` runs from now on, and is shown and bound as what it is.
fn runs(host: &Host, plugin: &Arc<Plugin>) {
    host.metrics.plugins().declare(plugin.name(), &plugin.manifest().metrics);
    let status = host.status.plugin(plugin.name());
    status.runs(plugin.clone());
    host.policies.register(plugin, &status);
}
