//! Starts everything in order, and stops everything in the reverse order.

mod first_answer;
mod follow;
mod loaded;

use std::path::Path;
use std::sync::Arc;

use tokio::sync::{Mutex as AsyncMutex, mpsc};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use windlass_core::budget::fair::Fair;
use windlass_core::life::features::{Feature, FeatureState, Features};
use windlass_kube::client::{self, Connection};
use windlass_kube::{ConnectError, LeaseError};
use windlass_wasm::SandboxError;

use self::follow::FirstLook;
pub use self::loaded::run_loaded;
use crate::files::Files;
use crate::hooks::{self, HookEndpoint, HookListenError};
use crate::host::Host;
use crate::leadership::Leadership;
use crate::listening::tls::ServerTlsError;
use crate::object_names::ObjectNames;
use crate::objects::{ObjectsError, OpenedObjects};
use crate::observe::admin::authorization::ServerTokenReviews;
use crate::observe::admin::security::AdminSecurity;
use crate::observe::admin::settings::AdminSettings;
use crate::observe::admin::{self, Admin, ListenError};
use crate::observe::metrics::{Guests, HostMetrics};
use crate::observe::status::Status;
use crate::open_files;
use crate::phases::{self, ControllerEnd, Phases};
use crate::plugins::directory::plugin_files::FileRole;
use crate::plugins::directory::{self, Allowed, AllowedError, DirectoryError};
use crate::plugins::reload::{Reload, Servings};
use crate::plugins::supplies::Supplies;
use crate::policies::{Policies, PoliciesError};
use crate::settings::Settings;
use crate::supervise::{Panics, caught, supervise};
use windlass_egress::tls::{Trust, TrustError};
use windlass_oci::Network;

/// Why a host cannot run at all, or did not stop cleanly.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The policies leave nothing to do, or cannot be read.
    #[error(transparent)]
    Policies(#[from] PoliciesError),
    /// The host cannot listen on the admin address.
    #[error(transparent)]
    Admin(#[from] ListenError),
    /// The admin address has no usable certificate.
    #[error(transparent)]
    AdminTls(#[from] ServerTlsError),
    /// The host cannot receive deliveries to hooks.
    #[error(transparent)]
    Hooks(#[from] HookListenError),
    /// The file of certificate authorities cannot be used.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The sandbox cannot be set up on this machine.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The API server does not answer, or the answer is not a Kubernetes API server's.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The names of the leases are not valid.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// The plugin directory cannot be read.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The list of allowed digests cannot be read.
    #[error(transparent)]
    Allowed(#[from] AllowedError),
    /// Plugins cannot be objects.
    #[error(transparent)]
    Objects(#[from] ObjectsError),
    /// Something was cut or lost at the end.
    #[error("not everything ended cleanly: the log says what")]
    NotClean,
}

/// Runs the plugins of a directory against a cluster until `stop`.
///
/// # Errors
///
/// If the host cannot run at all, or did not stop cleanly.
pub async fn run(connection: Connection, settings: Settings, stop: CancellationToken) -> Result<(), HostError> {
    settings.policies.check(settings.namespace.as_deref())?;
    open_files::raise();
    let shown = Admin { status: Status::new(stop.clone()), metrics: HostMetrics::new() };
    log_features(&settings.features, &shown.metrics);
    let replica: Arc<str> = replica().into();
    // Keep the admin endpoint until the very end, so that it shows the shutdown too.
    let _admin = match &settings.admin {
        Some(settings) => {
            Some(start_admin(&shown, settings, ServerTokenReviews::new(connection.clone(), &replica)).await?)
        }
        None => None,
    };
    let hooks = match &settings.hooks {
        Some(settings) => Some(Arc::new(hooks::listen(settings).await?)),
        None => None,
    };
    let trust = Trust::with(settings.http_ca.as_deref())?;
    let sandbox = settings.sandbox()?;
    let settings = Settings { call_slots: sandbox.concurrent_calls(), ..settings };
    shown.metrics.collect(Box::new(Guests(sandbox.clone())));
    let objects = open_objects(&settings, &stop).await?;
    let names = objects.as_ref().map(|objects| objects.names.clone()).unwrap_or_default();
    // A server that does not answer must not delay a stop.
    let Some(seen) = stop.run_until_cancelled(prepare(&connection, &settings, &names)).await else {
        tracing::info!("stopped before the first controller started");
        return Ok(());
    };
    let seen = seen?;
    if settings.read_only {
        tracing::warn!(
            "read-only: plugins are called, and their writes are only tried, as server-side dry runs; the audit log and \
             /plugins show what they would change. No Kubernetes Events are sent"
        );
    }
    let (policies, files) = Policies::read_with(settings.policies.clone(), names).await?;
    let Begun { host, supplies, phases, followers } =
        begin(&connection, &settings, policies, replica, shown, trust, &stop)?;
    if let Some(objects) = objects {
        follow_objects(&followers, &host, objects, &connection, &settings, &stop)?;
    }
    // The policies that bind calls are followed until the last call has ended.
    followers.spawn(follow::policies(host.clone(), files, phases.over.clone()));
    followers.spawn(follow::configs(host.clone(), supplies.clone(), phases.over.clone()));
    if let Some(hooks) = hooks {
        follow_hooks(&followers, &host, &supplies, hooks, &stop);
    }
    followers.spawn(follow::attention(host.clone(), stop.clone()));
    let (leave, left) = mpsc::unbounded_channel();
    followers.spawn(follow::leftovers(host.clone(), left, stop.clone()));
    // A host without rollback also runs what another host has rolled back.
    let cache_dir = settings.cache_dir.as_deref().filter(|_| settings.rollback);
    let reload = Reload::new(host.clone(), sandbox, supplies, phases.clone(), seen.allowed.clone(), leave, cache_dir);
    followers.spawn(follow::plugins(host.clone(), seen, reload.news_sender(), stop.clone()));
    let reload = AsyncMutex::new(reload);
    supervise("plugins", &host.panics, &stop, async || reload.lock().await.run().await).await;
    let (servings, denial_loggers) = reload.into_inner().into_rest();
    let clean = end(&host, servings, &phases).await;
    // The results of the followers do not matter, and their panics were logged already.
    followers.wait().await;
    denial_loggers.join_all().await;
    // The recorder and the tracer end at the same time: their time limits come on top of the limits of the stop's
    // phases.
    let recordings = async {
        if let Some(recordings) = &host.recordings {
            recordings.end().await;
        }
    };
    let traces = async {
        if let Some(tracer) = &host.tracer {
            tracer.end().await;
        }
    };
    tokio::join!(recordings, traces);
    if clean { Ok(()) } else { Err(HostError::NotClean) }
}

/// A running host without plugins.
struct Begun {
    host: Arc<Host>,
    supplies: Arc<Supplies>,
    phases: Phases,
    followers: TaskTracker,
}

/// Builds a host, and starts everything that needs no plugin.
fn begin(
    connection: &Connection,
    settings: &Settings,
    policies: Policies,
    replica: Arc<str>,
    shown: Admin,
    trust: Trust,
    stop: &CancellationToken,
) -> Result<Begun, LeaseError> {
    let leadership = Leadership::new(settings.leases.clone(), connection, &replica, stop)?;
    shown.metrics.collect(leadership.collector());
    let host = Arc::new(Host::new(connection.clone(), settings, policies, leadership, replica, shown, trust));
    let fair = fair(&host.features, settings.concurrent_calls, settings.call_slots);
    let supplies = Supplies::new(connection, &host.discovery, settings, fair, host.policies.names());
    host.leadership.start(&host.informers, &host.panics);
    let followers = phases::tracker();
    followers.spawn(follow::kinds(host.clone(), stop.clone()));
    followers.spawn(follow::offers(host.clone(), stop.clone()));
    Ok(Begun { host, supplies, phases: Phases::of(stop.clone()), followers })
}

/// Stops the host, and returns whether that was clean.
async fn end(host: &Host, mut servings: Servings, phases: &Phases) -> bool {
    if !host.outages.server_answers() {
        tracing::warn!("the API server cannot be reached: no call begins, and queued keys are dropped");
    }
    let ended = async {
        let mut cut = 0;
        while let Some(ended) = servings.join_next().await {
            // A panic was logged already.
            if !matches!(ended, Ok((_, Some(ControllerEnd::Clean | ControllerEnd::Impossible)))) {
                cut += 1;
            }
        }
        cut
    };
    let flushed =
        async { caught("flush", &host.panics, host.recorder.flush(phases::EVENTS_TIMEOUT)).await == Some(true) };
    let release = host.leadership.has_started().then(|| host.leadership.end());
    phases.end(ended, flushed, release, host.informers.stop()).await
}

/// Prepares for the first plugin: reads the directory, and asks the server for its version.
async fn prepare(connection: &Connection, settings: &Settings, names: &ObjectNames) -> Result<FirstLook, HostError> {
    let of = names.clone();
    let counts = move |path: &Path| directory::is_plugin(path) && of.admit(path, &FileRole::of(path).0);
    let mut files = Files::follow(names.with(&settings.plugins), settings.limits.file_bytes, counts);
    let first = files.changes().await;
    if let Some(problem) = files.problem() {
        let (path, problem) = (settings.plugins.clone(), problem.to_owned());
        return Err(DirectoryError::Unreadable { path, problem }.into());
    }
    let allowed = settings.allowed_digests.as_deref().map(Allowed::read).transpose()?;
    if first.is_empty() && settings.objects.is_none() {
        tracing::warn!(
            "no plugin in {} yet: put a component there, as NAME.wasm, and it is started",
            settings.plugins.display()
        );
    }
    let version = first_answer::first_answer(&connection.server, || client::check(connection)).await?;
    let compare = settings.features.enabled(Feature::ComparableResourceVersions);
    connection.restores.compare_leases(compare && version.has_comparable_versions());
    tracing::info!(server = connection.server, version = version.git_version, source = connection.source, "connected");
    Ok(FirstLook { files, first, allowed })
}

/// Opens the directory of objects, if the host follows objects. Breaks off if the host is to `stop`.
async fn open_objects(settings: &Settings, stop: &CancellationToken) -> Result<Option<OpenedObjects>, HostError> {
    let Some(of_objects) = settings.objects.clone() else { return Ok(None) };
    let (plugins, stop) = (settings.plugins.clone(), stop.clone());
    let opening = windlass_world::spawn_blocking(move || OpenedObjects::open(&of_objects, &plugins, &stop));
    match opening.await {
        Ok(opened) => Ok(Some(opened?)),
        Err(ended) => std::panic::resume_unwind(ended.into_panic()),
    }
}

/// Follows objects until `stop`.
fn follow_objects(
    followers: &TaskTracker,
    host: &Arc<Host>,
    objects: OpenedObjects,
    connection: &Connection,
    settings: &Settings,
    stop: &CancellationToken,
) -> Result<(), HostError> {
    let network = Network::of_system(Trust::with(settings.http_ca.as_deref())?);
    let file_bytes = settings.limits.file_bytes;
    let objects = objects.start(host.clone(), connection, network, file_bytes, &settings.plugins, stop)?;
    let (host, until, objects) = (host.clone(), stop.clone(), AsyncMutex::new(objects));
    followers.spawn(async move {
        supervise("objects", &host.panics, &until, async || objects.lock().await.run().await).await;
    });
    Ok(())
}

/// Serves the admin endpoint until the result is dropped. `reviews` authenticates tokens.
async fn start_admin(
    shown: &Admin,
    settings: &AdminSettings,
    reviews: ServerTokenReviews,
) -> Result<DropGuard, HostError> {
    let security = Arc::new(AdminSecurity::of(settings, reviews)?);
    let listener = admin::listen(settings.address).await?;
    let (stop, shown) = (CancellationToken::new(), shown.clone());
    let (until, followed) = (stop.clone(), security.clone());
    tokio::spawn(async move {
        let follow = || until.run_until_cancelled(followed.follow());
        supervise("admin-tls", &Panics::default(), &until, follow).await;
    });
    let until = stop.clone();
    tokio::spawn(async move {
        supervise("admin", &Panics::default(), &until, || shown.clone().serve(&listener, &security, &until)).await;
    });
    Ok(stop.drop_guard())
}

/// Receives deliveries to hooks until `stop`.
fn follow_hooks(
    followers: &TaskTracker,
    host: &Arc<Host>,
    supplies: &Arc<Supplies>,
    endpoint: Arc<HookEndpoint>,
    stop: &CancellationToken,
) {
    followers.spawn(follow::hook_secrets(host.clone(), supplies.clone(), stop.clone()));
    let (followed, panics, until) = (endpoint.clone(), host.panics.clone(), stop.clone());
    followers.spawn(async move {
        let follow = || until.run_until_cancelled(followed.follow_certificate());
        supervise("hooks-tls", &panics, &until, follow).await;
    });
    let (host, until) = (host.clone(), stop.clone());
    followers.spawn(async move {
        supervise("hooks", &host.panics, &until, || endpoint.serve(&host.hooks, &until)).await;
    });
}

/// The permits for calls.
fn fair(features: &Features, cpu_permits: u32, call_slots: u32) -> Fair {
    let new = if features.enabled(Feature::FairDispatch) { Fair::new } else { Fair::first_come };
    new(cpu_permits, call_slots)
}

/// Shows which gates are on, and warns about those that should not be set.
fn log_features(features: &Features, metrics: &HostMetrics) {
    metrics.show_features(features);
    let unusual = features.states().iter().filter(|state| state.enabled != state.gate.spec().default);
    for state in unusual {
        tracing::info!(gate = %state, about = state.gate.description, "a feature gate is not at its default");
    }
    for warning in features.states().iter().filter_map(FeatureState::warning) {
        tracing::warn!("{warning}");
    }
}

/// The Pod's name if it is known, else the machine's, with a random suffix. Not even the Pod's next process has this
/// name, because that process must not receive messages for this one, or be taken for the author of this one's last
/// writes.
fn replica() -> String {
    let name = std::env::var("POD_NAME").or_else(|_| std::env::var("HOSTNAME")).ok().filter(|name| !name.is_empty());
    unique(&name.unwrap_or_else(|| "process".to_owned()), windlass_world::random())
}

/// `name` in the form of an object's name, with a random suffix.
fn unique(name: &str, random: u32) -> String {
    const NAME_CHARACTERS_MAX: usize = 63;
    let plain = |character: char| if character.is_ascii_alphanumeric() { character.to_ascii_lowercase() } else { '-' };
    let name: String = name.chars().take(NAME_CHARACTERS_MAX).map(plain).collect();
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
