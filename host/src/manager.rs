//! The order in which everything starts and, the other way round, stops.

mod follow;
mod plugins;
mod reload;
mod replicas;
mod tell;
mod unload;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::bail;
use tokio::sync::{Mutex as AsyncMutex, mpsc};
use tokio_util::sync::{CancellationToken, DropGuard};
use windlass_core::fair::Fair;
use windlass_core::features::{Feature, Features, GateState};
use windlass_kube::client::{self, Connection};
use windlass_kube::{
    Discovery, InformerOptions, Informers, LiveBudget, LiveReader, Recorder, Secrets, WriteRate, Writer,
};
use windlass_wasm::{Limits, Sandbox, SandboxOptions};

use self::follow::Seen;
use self::reload::{Reload, Servings};
use crate::admin::{self, Admin};
use crate::cli::{self, PluginArgs};
use crate::config::ConfigFiles;
use crate::directory::{self, Allowed, DirectoryError};
use crate::egress::tls::Trust;
use crate::egress::{ApiServer, Egress, HttpLimits, SystemResolver};
use crate::files::Files;
use crate::guards::{GuardSettings, Guards};
use crate::kinds::Kinds;
use crate::leadership::{Leadership, LeaseMode, LeaseSettings};
use crate::metrics::{Guests, HostMetrics, Sources};
use crate::outage::Outages;
use crate::phases::{self, Phases};
use crate::policies::{GrantMode, Policies, PolicySettings};
use crate::reviews::ServerReviews;
use crate::running::End;
use crate::status::Status;
use crate::supervise::{Panics, caught, supervise};
use crate::turns;

/// What the host is told to do.
#[derive(Debug)]
pub(crate) struct Settings {
    plugins: PathBuf,
    /// The list of digests that may run. None: all may.
    allowed_digests: Option<PathBuf>,
    config_dir: Option<PathBuf>,
    namespace: Option<String>,
    /// How many calls may be at work at once, and how many may have begun.
    concurrent_calls: u32,
    places: u32,
    /// What plugins may use.
    limits: Limits,
    /// Where compiled plugins are kept.
    cache_dir: Option<PathBuf>,
    /// The most that the caches of one plugin may hold together, in bytes.
    plugin_cache: usize,
    /// The most that any one cache may hold, in bytes.
    cache: usize,
    admin_address: Option<SocketAddr>,
    /// Authorities that plugins' HTTPS requests trust too.
    http_ca: Option<PathBuf>,
    /// How often one plugin may read the API server itself.
    live: LiveBudget,
    /// What else one plugin may do, over all its calls.
    guards: GuardSettings,
    policies: PolicySettings,
    /// Nothing is changed in the cluster.
    read_only: bool,
    leases: LeaseSettings,
    features: Features,
}

impl Settings {
    /// What the command line says; `mode` is what it means without `--grants`, and `leases` without `--leases`.
    pub(crate) fn new(arguments: PluginArgs, mode: GrantMode, leases: LeaseMode) -> anyhow::Result<Self> {
        let host_namespace = arguments.host_namespace.or_else(pod_namespace);
        let mut leases = arguments.leases.settings(leases)?;
        leases.namespace = leases.namespace.or_else(|| host_namespace.clone()).or_else(|| arguments.namespace.clone());
        if arguments.read_only {
            // A lease would be a change, and who changes nothing needs none.
            leases.mode = LeaseMode::None;
        }
        let concurrent_calls = arguments.concurrent_calls.map_or(2 * processors(), u32::from);
        Ok(Self {
            leases,
            limits: arguments.limits.limits()?,
            features: arguments.feature_gates.features(),
            read_only: arguments.read_only,
            policies: PolicySettings {
                mode: arguments.grants.unwrap_or(mode),
                directory: arguments.policy_dir.unwrap_or_else(|| arguments.plugins.clone()),
                ceiling: arguments.ceiling,
                host_namespace,
            },
            plugins: arguments.plugins,
            allowed_digests: arguments.allowed_digests,
            config_dir: arguments.config_dir,
            namespace: arguments.namespace,
            concurrent_calls,
            places: turns::places(concurrent_calls),
            cache_dir: arguments.cache_dir.or_else(windlass_wasm::default_cache_dir),
            plugin_cache: arguments.plugin_cache_limit.0,
            cache: arguments.cache_limit.0,
            admin_address: arguments.admin_address,
            http_ca: arguments.http_ca,
            live: LiveBudget {
                per_second: arguments.live_reads_per_second.into(),
                burst: arguments.live_reads_burst.into(),
            },
            guards: GuardSettings {
                writes: WriteRate {
                    per_second: arguments.writes_per_second.into(),
                    burst: arguments.writes_burst.into(),
                },
                hot_loop_writes: arguments.hot_loop_writes.into(),
            },
        })
    }

    fn sandbox(&self) -> anyhow::Result<Sandbox> {
        if self.cache_dir.is_none() {
            tracing::warn!("compiled plugins are not kept: there is no home directory; name one with --cache-dir");
        }
        let options = SandboxOptions {
            limits: self.limits.clone(),
            concurrent_calls: self.places,
            compiler: cli::compiler()?,
            cache: self.cache_dir.clone(),
            ..SandboxOptions::default()
        };
        let sandbox = Sandbox::with_at_least(self.concurrent_calls, options)?;
        if sandbox.concurrent_calls() < self.places {
            tracing::warn!(
                calls = sandbox.concurrent_calls(),
                wanted = self.places,
                "the address space is limited (`ulimit -v`): fewer calls may have begun at once, and plugins that wait hold up others sooner"
            );
        }
        Ok(sandbox)
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
    /// Which plugins run here, and which elsewhere.
    pub(crate) leadership: Leadership,
    /// What is carried out and what is not.
    pub(crate) features: Features,
    secrets: Arc<Secrets>,
    configs: ConfigFiles,
    /// The most that the caches of one plugin may hold together, in bytes.
    plugin_cache: usize,
    /// Reads of the API server itself; each plugin has such with a budget of its own.
    live: LiveReader,
    /// What is kept of each plugin over all its calls.
    pub(crate) guards: Guards,
    /// What holding a permit for a second keeps from others, in seconds of CPU.
    pub(crate) place_worth: f64,
    /// Which process this is, for those who read its writes in an audit log.
    pub(crate) replica: Arc<str>,
}

/// Runs the plugins of a directory against a cluster until `stop`. An error says why the host cannot do its job at all,
/// or that it did not stop cleanly.
pub(crate) async fn run(connection: Connection, settings: Settings, stop: CancellationToken) -> anyhow::Result<()> {
    settings.policies.check(settings.namespace.as_deref())?;
    let shown = Admin { status: Status::new(stop.clone()), metrics: HostMetrics::new() };
    tell_features(&settings.features, &shown.metrics);
    // To the very end: how it stops is shown too.
    let _admin = start_admin(&shown, settings.admin_address).await?;
    let trust = Trust::with(settings.http_ca.as_deref())?;
    let sandbox = settings.sandbox()?;
    let settings = Settings { places: sandbox.concurrent_calls(), ..settings };
    shown.metrics.collect(Box::new(Guests(sandbox.clone())));
    // A server that does not answer must not hold up a stop.
    let Some(seen) = stop.run_until_cancelled(prepare(&connection, &settings)).await else {
        tracing::info!("stopped before the first controller started");
        return Ok(());
    };
    let seen = seen?;
    if settings.read_only {
        tracing::warn!(
            "read-only: plugins are called, and whatever they write is refused; no Kubernetes Events are sent"
        );
    }
    let (policies, files) = Policies::read(settings.policies.clone()).await?;
    let replica: Arc<str> = replica().into();
    let leadership = Leadership::new(settings.leases.clone(), &connection, &replica, &stop)?;
    shown.metrics.collect(leadership.collector());
    let host = Arc::new(Host::new(connection, &settings, policies, leadership, replica, shown, trust));
    host.leadership.start(&host.informers, &host.panics);
    let phases = Phases::of(stop.clone());
    let kinds = tokio::spawn(follow::kinds(host.clone(), stop.clone()));
    // What binds calls is followed until the last of them has ended.
    let followed = tokio::spawn(follow::policies(host.clone(), files, phases.over.clone()));
    let configs = tokio::spawn(follow::configs(host.clone(), phases.over.clone()));
    let (leave, left) = mpsc::unbounded_channel();
    let leftovers = tokio::spawn(follow::leftovers(host.clone(), left, stop.clone()));
    let fair = fair(&host.features, settings.concurrent_calls, settings.places);
    let reload = Reload::new(
        host.clone(),
        sandbox,
        fair,
        phases.clone(),
        seen.allowed.clone(),
        leave,
        settings.cache_dir.as_deref(),
    );
    let seeing = tokio::spawn(follow::plugins(host.clone(), seen, reload.teller(), stop.clone()));
    let reload = AsyncMutex::new(reload);
    supervise("plugins", &host.panics, &stop, async || reload.lock().await.run().await).await;
    let (servings, tellers) = reload.into_inner().into_rest();
    let clean = end(&host, servings, &phases).await;
    // They have nothing to say any more, and a panic in them has been told of.
    let _ = kinds.await;
    let _ = configs.await;
    let _ = followed.await;
    let _ = leftovers.await;
    let _ = seeing.await;
    tellers.join_all().await;
    if clean { Ok(()) } else { bail!("not everything ended cleanly: the log says what") }
}

/// Stops, and says whether that was clean.
async fn end(host: &Host, mut servings: Servings, phases: &Phases) -> bool {
    if !host.outages.is_over() {
        tracing::warn!("the API server cannot be reached: no call is begun, and what is queued is dropped");
    }
    let ended = async {
        let mut cut = 0;
        while let Some(ended) = servings.join_next().await {
            // A panic has been told of.
            if !matches!(ended, Ok((_, Some(End::Clean | End::Impossible)))) {
                cut += 1;
            }
        }
        cut
    };
    let flushed = async { caught("flush", &host.panics, host.recorder.flush(phases::EVENTS)).await == Some(true) };
    let release = host.leadership.has_started().then(|| host.leadership.end());
    phases.end(ended, flushed, release, || host.informers.stop()).await
}

/// All that comes before the first plugin: looks at the directory, asks the server for its version.
async fn prepare(connection: &Connection, settings: &Settings) -> anyhow::Result<Seen> {
    let mut files = Files::follow(&settings.plugins, directory::is_plugin).at_most(settings.limits.file_bytes);
    let first = files.changes().await;
    if let Some(problem) = files.problem() {
        let (path, problem) = (settings.plugins.clone(), problem.to_owned());
        return Err(DirectoryError::Unreadable { path, problem }.into());
    }
    let allowed = settings.allowed_digests.as_deref().map(Allowed::read).transpose()?;
    if first.is_empty() {
        tracing::warn!(
            "no plugin in {} yet: put a component there, as NAME.wasm, and it is started",
            settings.plugins.display()
        );
    }
    let version = client::check(connection).await?;
    tracing::info!(server = connection.server, version = version.git_version, source = connection.source, "connected");
    Ok(Seen { files, first, allowed })
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
    fn new(
        connection: Connection,
        settings: &Settings,
        policies: Policies,
        leadership: Leadership,
        replica: Arc<str>,
        shown: Admin,
        trust: Trust,
    ) -> Self {
        let Admin { status, metrics } = shown;
        let discovery = Discovery::new(connection.client.clone())
            .compare_versions(settings.features.enabled(Feature::ComparableResourceVersions));
        let live = LiveReader::new(connection.client.clone(), discovery.clone(), settings.live);
        let defaults = InformerOptions::default();
        let options = InformerOptions {
            streaming_lists: settings.features.enabled(Feature::WatchList),
            cold_after: defaults.cold_after.filter(|_| settings.features.enabled(Feature::ColdCompression)),
            most_bytes: settings.cache,
            silence: defaults.silence,
            reachability: connection.reachability.clone(),
        };
        let informers = Informers::with_options(connection.client.clone(), discovery.clone(), options);
        let api_server = ApiServer::at(&connection.server);
        let totals = metrics.http().clone();
        let egress = Egress::new(HttpLimits::default(), trust, Arc::new(SystemResolver), api_server, totals);
        let recorder = Recorder::new(connection.client.clone()).read_only(settings.read_only);
        let guards = Guards::new(settings.guards);
        metrics.collect(Box::new(guards.clone()));
        let panics = Panics::default();
        let writer = Writer::new(connection.client.clone(), discovery.clone()).read_only(settings.read_only);
        metrics.show(Sources {
            status: status.clone(),
            panics: panics.clone(),
            informers: informers.clone(),
            recorder: recorder.clone(),
            writer: writer.clone(),
        });
        Self {
            informers,
            writer: Arc::new(writer),
            definitions: windlass_kube::Definitions::new(connection.client.clone(), discovery.clone()),
            secrets: Arc::new(Secrets::new(connection.client.clone())),
            recorder: Arc::new(recorder),
            outages: Outages::new(connection.reachability.watch()),
            kinds: Kinds::default(),
            panics,
            policies,
            leadership,
            reviews: ServerReviews::new(connection, &replica),
            read_only: settings.read_only,
            status,
            metrics,
            egress,
            discovery,
            features: settings.features.clone(),
            namespace: settings.namespace.clone(),
            // Unless they have a directory of their own, they are beside their plugins.
            configs: ConfigFiles::of(settings.config_dir.as_deref().unwrap_or(&settings.plugins)),
            plugin_cache: settings.plugin_cache,
            live,
            guards,
            place_worth: f64::from(processors()) / f64::from(settings.places),
            replica,
        }
    }
}

/// The permits for calls.
fn fair(features: &Features, turns: u32, places: u32) -> Fair {
    let new = if features.enabled(Feature::FairDispatch) { Fair::new } else { Fair::first_come };
    new(turns, places)
}

/// Shows what is enabled, and warns of what should not have been set.
fn tell_features(features: &Features, metrics: &HostMetrics) {
    metrics.show_features(features);
    let unusual = features.states().iter().filter(|state| state.enabled != state.gate.default);
    for state in unusual {
        tracing::info!(gate = %state, about = state.gate.description, "a feature gate is not at its default");
    }
    for warning in features.states().iter().filter_map(GateState::warning) {
        tracing::warn!("{warning}");
    }
}

/// The namespace of the Pod that this is, as far as the process can know.
fn pod_namespace() -> Option<String> {
    let mounted = std::fs::read_to_string("/var/run/secrets/kubernetes.io/serviceaccount/namespace").ok();
    mounted.map(|namespace| namespace.trim().to_owned()).filter(|namespace| !namespace.is_empty())
}

/// The Pod's name, where one says it, else the machine's; and something that no other process has, not even the Pod's next:
/// what it was told, and what it may still be about to do, is not the next one's.
fn replica() -> String {
    let said = std::env::var("POD_NAME").or_else(|_| std::env::var("HOSTNAME")).ok().filter(|name| !name.is_empty());
    unique(&said.unwrap_or_else(|| "process".to_owned()), rand::random())
}

/// `name` as it may stand in an object's name, and something random.
fn unique(name: &str, random: u32) -> String {
    const MOST: usize = 63;
    let plain = |character: char| if character.is_ascii_alphanumeric() { character.to_ascii_lowercase() } else { '-' };
    let name: String = name.chars().take(MOST).map(plain).collect();
    format!("{}-{random:08x}", name.trim_matches('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_processes_of_one_pod_are_two_replicas() {
        assert_eq!(unique("windlass-7d4b9c-x2x", 0xab), "windlass-7d4b9c-x2x-000000ab");
        assert_eq!(unique("Host.Example.", 1), "host-example-00000001");
        assert!(unique(&"a".repeat(300), 1).len() <= 72);
    }
}
