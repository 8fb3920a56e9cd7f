//! The order in which everything starts and, the other way round, stops.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use futures::StreamExt;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::{CancellationToken, DropGuard};
use windlass_core::fair::Fair;
use windlass_core::grants::{DenialCount, LiveGrants};
use windlass_core::principal::{Principal, Role};
use windlass_kube::client::{self, Connection};
use windlass_kube::{
    Budget, Discovery, InformerError, InformerOptions, Informers, LiveBudget, LiveReader, Recorder, RequestError,
    Secrets, Selector, Writer,
};
use windlass_wasm::{Manifest, Plugin, Sandbox, SandboxOptions};

use crate::admin::{self, Admin};
use crate::cli::PluginArgs;
use crate::config::{self, Configured};
use crate::controller::Controller;
use crate::egress::tls::Trust;
use crate::egress::{ApiServer, Egress, HttpLimits, SystemResolver};
use crate::install::{self, Installer, Ready, Rivalry};
use crate::kinds::{self, Kinds};
use crate::metrics::{HostMetrics, Sources};
use crate::outage::Outages;
use crate::policies::{GrantMode, Policies, PolicyFiles, PolicySettings};
use crate::reviews::ServerReviews;
use crate::running::End;
use crate::status::{PluginState, Status};
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
    config_dir: Option<PathBuf>,
    namespace: Option<String>,
    concurrent_calls: u32,
    /// The most that the caches of one plugin may hold together, in bytes.
    plugin_cache: usize,
    /// The most that any one cache may hold, in bytes.
    cache: usize,
    admin_address: Option<SocketAddr>,
    /// Authorities that plugins' HTTPS requests trust too.
    http_ca: Option<PathBuf>,
    /// How often one plugin may read the API server itself.
    live: LiveBudget,
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
            config_dir: arguments.config_dir,
            namespace: arguments.namespace,
            concurrent_calls: arguments.concurrent_calls.map_or(2 * processors(), u32::from),
            plugin_cache: arguments.plugin_cache_limit.0,
            cache: arguments.cache_limit.0,
            admin_address: arguments.admin_address,
            http_ca: arguments.http_ca,
            live: LiveBudget {
                per_second: arguments.live_reads_per_second.into(),
                burst: arguments.live_reads_burst.into(),
            },
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
    pub(crate) status: Status,
    pub(crate) metrics: HostMetrics,
    pub(crate) egress: Egress,
    pub(crate) policies: Policies,
    pub(crate) reviews: ServerReviews,
    /// The only namespace that this host may watch.
    pub(crate) namespace: Option<String>,
    pub(crate) definitions: windlass_kube::Definitions,
    secrets: Arc<Secrets>,
    /// Where configurations are. None: beside their plugins.
    config_dir: Option<PathBuf>,
    /// The most that the caches of one plugin may hold together, in bytes.
    plugin_cache: usize,
    /// Reads of the API server itself; each plugin has such with a budget of its own.
    live: LiveReader,
    /// What holding a permit for a second keeps from others, in seconds of CPU.
    pub(crate) permit_worth: f64,
    /// Which process this is, for those who read its writes in an audit log.
    pub(crate) replica: Arc<str>,
}

/// Runs the plugins of a directory against a cluster until `stop`. An error says why the host cannot do its job at all,
/// or that it did not stop cleanly.
pub(crate) async fn run(connection: Connection, settings: Settings, stop: CancellationToken) -> anyhow::Result<()> {
    settings.policies.check(settings.namespace.as_deref())?;
    let shown = Admin { status: Status::new(stop.clone()), metrics: HostMetrics::new() };
    // To the very end: how it stops is shown too.
    let _admin = start_admin(&shown, settings.admin_address).await?;
    let trust = Trust::with(settings.http_ca.as_deref())?;
    let sandbox =
        Sandbox::new(SandboxOptions { concurrent_calls: settings.concurrent_calls, ..SandboxOptions::default() })?;
    // A server that does not answer and a plugin that compiles for minutes must not hold up a stop.
    let Some(plugins) = stop.run_until_cancelled(prepare(&connection, &sandbox, &settings.plugins, &shown)).await
    else {
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
    policies.register(&plugins, &shown.status);
    let host = Arc::new(Host::new(connection, &settings, policies, shown, trust));
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
async fn prepare(
    connection: &Connection,
    sandbox: &Sandbox,
    directory: &Path,
    shown: &Admin,
) -> anyhow::Result<Vec<Arc<Plugin>>> {
    let files = directory::plugins(directory)?;
    let version = client::check(connection).await?;
    tracing::info!(server = connection.server, version = version.git_version, source = connection.source, "connected");
    Ok(without_rivals(load(sandbox, &files, shown).await))
}

/// Serves the admin endpoint, if there is to be one, until the result is dropped.
async fn start_admin(shown: &Admin, address: Option<SocketAddr>) -> anyhow::Result<Option<DropGuard>> {
    let Some(address) = address else { return Ok(None) };
    let listener = admin::listen(address).await?;
    let (stop, shown) = (CancellationToken::new(), shown.clone());
    let until = stop.clone();
    tokio::spawn(async move {
        supervise("admin", &Panics::default(), &until, || shown.clone().serve(&listener, &until)).await;
    });
    Ok(Some(stop.drop_guard()))
}

impl Host {
    fn new(connection: Connection, settings: &Settings, policies: Policies, shown: Admin, trust: Trust) -> Self {
        let Admin { status, metrics } = shown;
        let replica: Arc<str> = replica().into();
        let discovery = Discovery::new(connection.client.clone());
        let live = LiveReader::new(connection.client.clone(), discovery.clone(), settings.live);
        let options = InformerOptions {
            most_bytes: settings.cache,
            reachability: connection.reachability.clone(),
            ..InformerOptions::default()
        };
        let informers = Informers::with_options(connection.client.clone(), discovery.clone(), options);
        let api_server = ApiServer::at(&connection.server);
        let totals = metrics.http().clone();
        let egress = Egress::new(HttpLimits::default(), trust, Arc::new(SystemResolver), api_server, totals);
        let recorder = Recorder::new(connection.client.clone()).read_only(settings.read_only);
        let panics = Panics::default();
        metrics.show(Sources {
            status: status.clone(),
            panics: panics.clone(),
            informers: informers.clone(),
            recorder: recorder.clone(),
        });
        Self {
            informers,
            writer: Arc::new(Writer::new(connection.client.clone(), discovery.clone()).read_only(settings.read_only)),
            definitions: windlass_kube::Definitions::new(connection.client.clone(), discovery.clone()),
            secrets: Arc::new(Secrets::new(connection.client.clone())),
            recorder: Arc::new(recorder),
            outages: Outages::new(connection.reachability.watch()),
            kinds: Kinds::default(),
            panics,
            policies,
            reviews: ServerReviews::new(connection, &replica),
            read_only: settings.read_only,
            status,
            metrics,
            egress,
            discovery,
            namespace: settings.namespace.clone(),
            config_dir: settings.config_dir.clone(),
            plugin_cache: settings.plugin_cache,
            live,
            permit_worth: f64::from(processors()) / f64::from(settings.concurrent_calls.max(1)),
            replica,
        }
    }
}

/// Loads what can be loaded, each file by itself: a broken one is told of and left out.
async fn load(sandbox: &Sandbox, files: &[PathBuf], shown: &Admin) -> Vec<Arc<Plugin>> {
    let side_by_side = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let loading = files.iter().map(async |file| (file, sandbox.load(file).await));
    let mut loading = futures::stream::iter(loading).buffered(side_by_side);
    let mut plugins = Vec::new();
    while let Some((file, loaded)) = loading.next().await {
        let status = shown.status.plugin(&file.file_stem().unwrap_or_default().to_string_lossy());
        match loaded.map_err(anyhow::Error::from).and_then(whole) {
            Ok(plugin) => {
                tracing::info!(
                    plugin = %plugin.name(), version = plugin.manifest().version, digest = plugin.short_digest(),
                    bytes = plugin.size(), "plugin loaded"
                );
                shown.metrics.plugins().declare(plugin.name(), &plugin.manifest().metrics);
                status.runs(plugin.clone());
                plugins.push(plugin);
            }
            Err(error) => {
                let error = telemetry::explained(&error);
                tracing::error!(error, "plugin not loaded");
                status.set(PluginState::NotLoaded, Some(error));
            }
        }
    }
    plugins
}

/// Refuses a plugin that no server would understand: half of a plugin would be worse than none.
fn whole(plugin: Arc<Plugin>) -> anyhow::Result<Arc<Plugin>> {
    let path = plugin.path().display();
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
        let (Some(configured), Some(ready)) = (configure(host, plugin, stop), install(host, plugin, stop)) else {
            continue;
        };
        let share = fair.share(EQUAL);
        let budget = Budget::new(host.plugin_cache);
        let live = host.live.for_another();
        for index in 0..plugin.manifest().controllers.len() {
            let controller =
                Controller::new(host.clone(), plugin.clone(), share.clone(), budget.clone(), live.clone(), index)
                    .after(ready.clone(), configured.clone());
            let stop = stop.clone();
            controllers.spawn(async move { controller.run(&stop).await });
        }
    }
    host.status.loaded();
    controllers
}

/// Has the definitions of `plugin` installed. None: they are no definitions, which was told of when it was loaded.
fn install(host: &Arc<Host>, plugin: &Plugin, stop: &CancellationToken) -> Option<Ready> {
    let definitions = install::definitions(plugin).ok()?;
    let (sender, ready) = watch::channel(definitions.is_empty());
    if definitions.is_empty() {
        return Some(ready);
    }
    let names = definitions.iter().map(|definition| definition.name().to_owned()).collect();
    let keeping = Role::Definitions.grants("apiextensions.k8s.io", "customresourcedefinitions", vec![], names);
    let installer = Installer {
        host: host.clone(),
        asked: plugin.manifest().asked(vec![]),
        definitions,
        role: Principal {
            role: Role::Definitions,
            plugin: plugin.name().clone(),
            digest: plugin.short_digest().into(),
            replica: host.replica.clone(),
            grants: LiveGrants::new(keeping),
            impersonate: None,
        },
        ready: sender,
    };
    let (panics, stop) = (host.panics.clone(), stop.clone());
    tokio::spawn(async move {
        stop.run_until_cancelled(supervise("definitions", &panics, &stop, || installer.run())).await;
    });
    Some(ready)
}

/// The plugins without those that bring a definition which one before them brings.
fn without_rivals(plugins: Vec<Arc<Plugin>>) -> Vec<Arc<Plugin>> {
    let rivals = install::rivalries(plugins.iter().map(|it| (&**it.name(), it.manifest().crd_names().collect())));
    for Rivalry { definition, first, second } in &rivals {
        tracing::error!(
            plugin = second,
            definition,
            "plugin not started: it brings a definition that the plugin {first} brings already; remove one of the two"
        );
    }
    plugins.into_iter().filter(|plugin| !rivals.iter().any(|rival| rival.second == **plugin.name())).collect()
}

/// Has the configuration of `plugin` followed until `stop`. None: nothing could ever fit its schema, which was told of when
/// it was loaded.
fn configure(host: &Arc<Host>, plugin: &Plugin, stop: &CancellationToken) -> Option<Configured> {
    let schema = config::Schema::of(plugin.manifest()).ok()?;
    let (sender, configured) = watch::channel(None);
    let follower = config::Follower {
        plugin: plugin.name().clone(),
        path: config::path_of(plugin.path(), host.config_dir.as_deref()),
        schema,
        source: host.secrets.clone(),
        configured: sender,
    };
    let (panics, stop) = (host.panics.clone(), stop.clone());
    tokio::spawn(async move {
        stop.run_until_cancelled(supervise("config", &panics, &stop, || follower.run())).await;
    });
    Some(configured)
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
    let follow = async || {
        let mut files = files.lock().await;
        tokio::join!(host.policies.follow(&mut files), host.policies.show(&host.status));
    };
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
