//! The order in which everything starts and, the other way round, stops.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use futures::StreamExt;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use windlass_core::fair::Fair;
use windlass_core::grants::DenialCount;
use windlass_kube::client::{self, Connection};
use windlass_kube::{
    Budget, Discovery, InformerError, InformerOptions, Informers, Recorder, RequestError, Selector, Writer,
};
use windlass_wasm::{Manifest, Plugin, Sandbox, SandboxOptions};

use crate::cli::PluginArgs;
use crate::controller::Controller;
use crate::kinds::{self, Kinds};
use crate::outage::Outages;
use crate::policies::{GrantMode, Policies, PolicyFiles, PolicySettings};
use crate::reviews::ServerReviews;
use crate::running::End;
use crate::supervise::{Panics, caught, supervise};
use crate::{directory, telemetry};

/// How long Kubernetes Events may take to be sent when the host stops (§3.9).
const FLUSH: Duration = Duration::from_secs(2);

/// How soon a denial that goes on is told of again.
const DENIALS_AGAIN: Duration = Duration::from_mins(10);

/// The weight of each plugin's share of the permits.
const EQUAL: NonZeroU32 = NonZeroU32::MIN;

/// What the host is told to do.
#[derive(Debug)]
pub(crate) struct Settings {
    plugins: PathBuf,
    namespace: Option<String>,
    concurrent_calls: u32,
    /// The most that the caches of one plugin may hold together, in bytes.
    plugin_cache: usize,
    /// The most that any one cache may hold, in bytes.
    cache: usize,
    policies: PolicySettings,
    /// Nothing is changed in the cluster.
    read_only: bool,
}

impl Settings {
    /// What the command line says; `mode` is what it means without `--grants`.
    pub(crate) fn new(arguments: PluginArgs, mode: GrantMode) -> Self {
        Self {
            read_only: arguments.read_only,
            policies: PolicySettings {
                mode: arguments.grants.unwrap_or(mode),
                directory: arguments.policy_dir.unwrap_or_else(|| arguments.plugins.clone()),
                ceiling: arguments.ceiling,
                host_namespace: arguments.host_namespace.or_else(pod_namespace),
            },
            plugins: arguments.plugins,
            namespace: arguments.namespace,
            concurrent_calls: arguments.concurrent_calls.map_or(2 * processors(), u32::from),
            plugin_cache: arguments.plugin_cache_limit.0,
            cache: arguments.cache_limit.0,
        }
    }
}

fn processors() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(1))
}

/// What all controllers share.
pub(crate) struct Host {
    pub(crate) discovery: Discovery,
    pub(crate) informers: Informers,
    pub(crate) writer: Arc<Writer>,
    pub(crate) recorder: Arc<Recorder>,
    /// Nothing is changed in the cluster, so no Kubernetes Event is sent either.
    pub(crate) read_only: bool,
    pub(crate) outages: Outages,
    pub(crate) kinds: Kinds,
    pub(crate) panics: Panics,
    pub(crate) policies: Policies,
    pub(crate) reviews: ServerReviews,
    /// The only namespace that this host may watch.
    pub(crate) namespace: Option<String>,
    /// The most that the caches of one plugin may hold together, in bytes.
    plugin_cache: usize,
    /// What holding a permit for a second keeps from others, in seconds of CPU.
    pub(crate) permit_worth: f64,
    /// Which process this is, for those who read its writes in an audit log.
    pub(crate) replica: Arc<str>,
}

/// Runs the plugins of a directory against a cluster until `stop`. An error says why the host cannot do its job at all,
/// or that it did not stop cleanly.
pub(crate) async fn run(connection: Connection, settings: Settings, stop: CancellationToken) -> anyhow::Result<()> {
    settings.policies.check(settings.namespace.as_deref())?;
    let sandbox =
        Sandbox::new(SandboxOptions { concurrent_calls: settings.concurrent_calls, ..SandboxOptions::default() })?;
    // A server that does not answer and a plugin that compiles for minutes must not hold up a stop.
    let Some(plugins) = stop.run_until_cancelled(prepare(&connection, &sandbox, &settings.plugins)).await else {
        tracing::info!("stopped before the first controller started");
        return Ok(());
    };
    let plugins = plugins?;
    if plugins.is_empty() {
        bail!("none of the plugins in {} can be loaded: the log says why for each", settings.plugins.display());
    }
    if settings.read_only {
        tracing::warn!(
            "read-only: plugins are called, and whatever they write is refused; no Kubernetes Events are sent"
        );
    }
    let (policies, files) = Policies::read(settings.policies.clone()).await?;
    policies.register(&plugins);
    let host = Arc::new(Host::new(connection, &settings, policies));
    let kinds = tokio::spawn(follow_kinds(host.clone(), stop.clone()));
    let followed = tokio::spawn(follow_policies(host.clone(), files, stop.clone()));
    let told: Vec<_> = plugins.iter().map(|plugin| tell_denials(&host, plugin.name(), &stop)).collect();
    let fair = Fair::new(settings.concurrent_calls);
    let mut controllers = start(&host, &fair, &plugins, &stop);
    let mut clean = true;
    while let Some(ended) = controllers.join_next().await {
        // One that could never run has been told of, and has left nothing behind.
        clean &= ended? != End::Cut;
        if controllers.is_empty() && !stop.is_cancelled() {
            bail!("no controller can run: the log says why for each");
        }
    }
    // They have nothing to say any more, and a panic in them has been told of.
    let _ = kinds.await;
    let _ = followed.await;
    for told in told {
        let _ = told.await;
    }
    caught("flush", &host.panics, host.recorder.flush(FLUSH)).await;
    tracing::info!(clean, "stopped");
    if clean { Ok(()) } else { bail!("not everything ended cleanly: the log says what") }
}

/// All that comes before the first controller: looks at the directory, asks the server for its version, loads.
async fn prepare(connection: &Connection, sandbox: &Sandbox, directory: &Path) -> anyhow::Result<Vec<Arc<Plugin>>> {
    let files = directory::plugins(directory)?;
    let version = client::check(connection).await?;
    tracing::info!(server = connection.server, version = version.git_version, source = connection.source, "connected");
    Ok(load(sandbox, &files).await)
}

impl Host {
    fn new(connection: Connection, settings: &Settings, policies: Policies) -> Self {
        let replica: Arc<str> = replica().into();
        let discovery = Discovery::new(connection.client.clone());
        let options = InformerOptions {
            most_bytes: settings.cache,
            reachability: connection.reachability.clone(),
            ..InformerOptions::default()
        };
        Self {
            informers: Informers::with_options(connection.client.clone(), discovery.clone(), options),
            writer: Arc::new(Writer::new(connection.client.clone(), discovery.clone()).read_only(settings.read_only)),
            read_only: settings.read_only,
            recorder: Arc::new(Recorder::new(connection.client.clone())),
            outages: Outages::new(connection.reachability.watch()),
            kinds: Kinds::default(),
            panics: Panics::default(),
            policies,
            reviews: ServerReviews::new(connection, &replica),
            discovery,
            namespace: settings.namespace.clone(),
            plugin_cache: settings.plugin_cache,
            permit_worth: f64::from(processors()) / f64::from(settings.concurrent_calls.max(1)),
            replica,
        }
    }
}

/// Loads what can be loaded, each file by itself: a broken one is told of and left out.
async fn load(sandbox: &Sandbox, files: &[PathBuf]) -> Vec<Arc<Plugin>> {
    let side_by_side = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let loading = files.iter().map(|file| sandbox.load(file));
    let mut loading = futures::stream::iter(loading).buffered(side_by_side);
    let mut plugins = Vec::new();
    while let Some(loaded) = loading.next().await {
        match loaded.map_err(anyhow::Error::from).and_then(whole) {
            Ok(plugin) => {
                tracing::info!(
                    plugin = %plugin.name(), version = plugin.manifest().version, digest = plugin.short_digest(),
                    bytes = plugin.size(), "plugin loaded"
                );
                plugins.push(plugin);
            }
            Err(error) => tracing::error!(error = telemetry::explained(&error), "plugin not loaded"),
        }
    }
    plugins
}

/// Refuses a plugin that needs what this version does not have, or that no server would understand: half of a plugin
/// would be worse than none.
fn whole(plugin: Arc<Plugin>) -> anyhow::Result<Arc<Plugin>> {
    let path = plugin.path().display();
    let missing = plugin.manifest().unimplemented();
    if !missing.is_empty() {
        bail!("{path}: its manifest asks for what this version does not implement: {}", missing.join(", "));
    }
    if let Some(problem) = unreadable_selector(plugin.manifest()) {
        bail!("{path}: {problem}");
    }
    Ok(plugin)
}

/// The first label selector that cannot be read. The server would refuse it at each watch, and the controller would wait
/// for ever.
fn unreadable_selector(manifest: &Manifest) -> Option<String> {
    let controllers = manifest.controllers.iter();
    let watches = controllers.flat_map(|it| std::iter::once(&it.primary).chain(&it.owns).chain(&it.watches));
    let mut selectors = watches.filter_map(|watch| Some((watch, watch.label_selector.as_deref()?)));
    selectors.find_map(|(watch, text)| {
        let error = text.parse::<Selector>().err()?;
        Some(format!("its manifest selects {} by {text:?}, which is no label selector: {error}", watch.object_kind()))
    })
}

/// Starts every controller of every plugin, each to wait by itself for what it needs.
fn start(host: &Arc<Host>, fair: &Fair, plugins: &[Arc<Plugin>], stop: &CancellationToken) -> JoinSet<End> {
    let mut controllers = JoinSet::new();
    for plugin in plugins {
        let share = fair.share(EQUAL);
        let budget = Budget::new(host.plugin_cache);
        for index in 0..plugin.manifest().controllers.len() {
            let controller = Controller::new(host.clone(), plugin.clone(), share.clone(), budget.clone(), index);
            let stop = stop.clone();
            controllers.spawn(async move { controller.run(&stop).await });
        }
    }
    controllers
}

/// Follows the definitions of kinds, from the moment that a controller needs one, until `stop`.
async fn follow_kinds(host: Arc<Host>, stop: CancellationToken) {
    let Host { kinds, informers, discovery, panics, .. } = &*host;
    if stop.run_until_cancelled(kinds.wanted()).await.is_none() {
        return;
    }
    let subscription = informers.subscribe(kinds::definitions());
    let forbidden = subscription.when(|status| {
        let error = status.error.as_deref();
        matches!(error, Some(InformerError::List(RequestError::Refused { status, .. })) if status.code == 403)
    });
    let tell = async {
        forbidden.await;
        tracing::info!(
            "this host may not list and watch CustomResourceDefinitions: kinds that come and go are noticed later"
        );
        std::future::pending::<()>().await;
    };
    let subscription = tokio::sync::Mutex::new(subscription);
    let follow = async || kinds.follow(&mut *subscription.lock().await, |group| discovery.invalidate(group)).await;
    tokio::select! {
        () = stop.cancelled() => {}
        () = tell => {}
        _ = supervise("kinds", panics, &stop, follow) => tracing::warn!(
            "the cache of CustomResourceDefinitions is larger than one may be: kinds that come and go are noticed later"
        ),
    }
}

/// Follows the files of policies until `stop`.
async fn follow_policies(host: Arc<Host>, files: PolicyFiles, stop: CancellationToken) {
    let files = tokio::sync::Mutex::new(files);
    let follow = async || host.policies.follow(&mut *files.lock().await).await;
    stop.run_until_cancelled(supervise("policies", &host.panics, &stop, follow)).await;
}

/// Tells of what the plugin is denied: each kind of denial once in an interval.
fn tell_denials(host: &Arc<Host>, plugin: &Arc<str>, stop: &CancellationToken) -> JoinHandle<()> {
    let (denials, plugin, stop) = (host.policies.denials(plugin), plugin.clone(), stop.clone());
    let mut interval = tokio::time::interval(DENIALS_AGAIN);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = interval.tick() => denials.renew(),
                denied = denials.to_tell() => {
                    for DenialCount { count, last, .. } in denied {
                        tracing::warn!(%plugin, times = count, error = last, "denied");
                    }
                }
            }
        }
    })
}

/// The namespace of the Pod that this is, as far as the process can know.
fn pod_namespace() -> Option<String> {
    let mounted = std::fs::read_to_string("/var/run/secrets/kubernetes.io/serviceaccount/namespace").ok();
    mounted.map(|namespace| namespace.trim().to_owned()).filter(|namespace| !namespace.is_empty())
}

/// The Pod's name, where one says it; else the machine's.
fn replica() -> String {
    let said = std::env::var("POD_NAME").or_else(|_| std::env::var("HOSTNAME")).ok().filter(|name| !name.is_empty());
    said.unwrap_or_else(|| format!("process-{}", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selecting(selector: &str) -> Manifest {
        let manifest = serde_json::json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "PluginManifest", "name": "a", "version": "0.1.0",
            "controllers": [{
                "name": "a",
                "primary": {"apiVersion": "v1", "kind": "ConfigMap"},
                "owns": [{"apiVersion": "v1", "kind": "Secret", "labelSelector": selector}],
            }],
        });
        Manifest::from_json(&manifest.to_string()).expect("valid but for its selector")
    }

    #[test]
    fn a_label_selector_that_no_server_would_read_is_named() {
        assert_eq!(unreadable_selector(&selecting("app=web,tier in (front,back)")), None);
        let problem = unreadable_selector(&selecting("app in front")).expect("no parentheses");
        assert!(problem.contains("v1 Secret") && problem.contains("app in front"), "{problem}");
    }
}
