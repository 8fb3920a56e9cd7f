//! Follows while the host runs: the files of plugins and the list of allowed ones, the definitions of kinds,
//! configurations, the operator's policies, and the leftovers of plugins.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;
use windlass_kube::{InformerError, RequestError};
use windlass_policy::SecretKeyRef;
use windlass_wasm::Plugin;

use crate::admission::kinds;
use crate::files::{Change, Files};
use crate::host::Host;
use crate::plugins::attention;
use crate::plugins::current_files::CurrentFiles;
use crate::plugins::directory::Allowed;
use crate::plugins::leftovers;
use crate::plugins::reload::DirectoryNews;
use crate::plugins::supplies::Supplies;
use crate::policies::{PolicyFiles, Standing};
use crate::supervise::{caught, supervise};

/// The host looks for leftovers only when no other plugin has started for this long. A look covers the whole cluster,
/// and a directory is often filled at once.
const START_QUIET_TIME: Duration = Duration::from_secs(1);

/// The directory of plugins as first seen.
pub(super) struct FirstLook {
    pub(super) files: Files,
    pub(super) first: Vec<Change>,
    /// The digests that may run. `None` if all may.
    pub(super) allowed: Option<Allowed>,
}

/// Reports changes in the directory of plugins, and in the list of allowed digests, until `stop`.
pub(super) async fn plugins(
    host: Arc<Host>,
    seen: FirstLook,
    sender: mpsc::UnboundedSender<DirectoryNews>,
    stop: CancellationToken,
) {
    let FirstLook { files, first, allowed } = seen;
    let rejected = host.leadership.rejected();
    let mut current = CurrentFiles::new(host.clone());
    let first = current.take(first).await;
    // Plugins that other replicas have rolled back must not even start here.
    stop.run_until_cancelled(host.leadership.listed()).await;
    // The receiver ends with the host.
    let _ = sender.send(DirectoryNews::Files(first));
    let files = Mutex::new((files, current));
    let of_files = async || {
        let mut files = files.lock().await;
        let (files, current) = &mut *files;
        while sender.send(DirectoryNews::Files(current.changes(files).await)).is_ok() {}
    };
    let list =
        Mutex::new(allowed.map(|allowed| (Files::follow_one(allowed.path(), Allowed::DIGESTS_BYTES_MAX), allowed)));
    let of_list = async || {
        let mut list = list.lock().await;
        let Some((files, known)) = &mut *list else { return std::future::pending().await };
        loop {
            files.changes().await;
            let read = Allowed::read(known.path());
            if read.as_ref().is_ok_and(|read| read == known) {
                continue;
            }
            if let Ok(read) = &read {
                *known = read.clone();
            }
            let _ = sender.send(DirectoryNews::Allowed(read));
        }
    };
    let of_replicas = async || {
        let mut rejected = rejected.clone();
        loop {
            let now = rejected.borrow_and_update().clone();
            let _ = sender.send(DirectoryNews::Rejected(now));
            if rejected.changed().await.is_err() {
                return;
            }
        }
    };
    tokio::join!(
        stop.run_until_cancelled(supervise("directory", &host.panics, &stop, of_files)),
        stop.run_until_cancelled(supervise("allowed", &host.panics, &stop, of_list)),
        stop.run_until_cancelled(supervise("rejected", &host.panics, &stop, of_replicas)),
    );
}

/// Publishes to other replicas which plugins this one can serve, until `stop`: the plugins that were started and have
/// their policies.
pub(super) async fn offers(host: Arc<Host>, stop: CancellationToken) {
    let follow = async || {
        let (mut started, mut policies) = (host.leadership.started_plugins(), host.policies.changes());
        loop {
            let mut plugins = started.borrow_and_update().clone();
            plugins.retain(|plugin, _| matches!(host.policies.standing(plugin), Standing::Granted(_)));
            host.leadership.offer(plugins);
            tokio::select! {
                biased;
                Ok(()) = started.changed() => {}
                () = policies.next() => {}
            }
        }
    };
    stop.run_until_cancelled(supervise("offers", &host.panics, &stop, follow)).await;
}

/// Follows the hooks that policies open, and the Secrets of these hooks, until `stop`.
pub(super) async fn hook_secrets(host: Arc<Host>, supplies: Arc<Supplies>, stop: CancellationToken) {
    let read = |reference: SecretKeyRef| {
        let secrets = supplies.secrets.clone();
        async move { secrets.value(&reference.namespace, &reference.name, &reference.key).await }.boxed()
    };
    let follow = || stop.run_until_cancelled(host.hooks.follow(&host.policies, &read));
    supervise("hook-secrets", &host.panics, &stop, follow).await;
}

/// Looks for objects that a plugin left behind, once for each plugin that starts. Runs until `stop`.
pub(super) async fn leftovers(
    host: Arc<Host>,
    mut started: mpsc::UnboundedReceiver<Arc<Plugin>>,
    stop: CancellationToken,
) {
    let look = async {
        while let Some(first) = started.recv().await {
            let mut plugins = vec![first];
            while let Ok(Some(another)) = tokio::time::timeout(START_QUIET_TIME, started.recv()).await {
                plugins.push(another);
            }
            let host = host.clone();
            let stop = stop.clone();
            // A look may wait long for a plugin to start, and must not delay other looks.
            tokio::spawn(stop.run_until_cancelled_owned(async move {
                caught("leftovers", &host.panics, leftovers::report(&host, &plugins)).await;
            }));
        }
    };
    stop.run_until_cancelled(look).await;
}

/// Follows the definitions of kinds until `stop`, from when a controller first needs one.
pub(super) async fn kinds(host: Arc<Host>, stop: CancellationToken) {
    let Host { kinds, informers, discovery, panics, .. } = &*host;
    if stop.run_until_cancelled(kinds.wanted()).await.is_none() {
        return;
    }
    let subscription = informers.subscribe(kinds::definitions());
    let forbidden = subscription.when(|status| {
        let error = status.error.as_deref();
        matches!(error, Some(InformerError::List(RequestError::Refused { status, .. })) if status.code == 403)
    });
    let log_forbidden = async {
        forbidden.await;
        tracing::info!(
            "this host may not list and watch CustomResourceDefinitions: kinds that come and go are noticed later"
        );
        std::future::pending::<()>().await;
    };
    let subscription = tokio::sync::Mutex::new(subscription);
    let follow = async || kinds.follow(&mut *subscription.lock().await, |group| discovery.invalidate(group)).await;
    tokio::select! {
        // The stop comes first: a stopping host ends its watches, which must not look like a cache that has grown too
        // large.
        biased;
        () = stop.cancelled() => {}
        () = log_forbidden => {}
        _ = supervise("kinds", panics, &stop, follow) => tracing::warn!(
            "the cache of CustomResourceDefinitions exceeds the limit of a cache: new and removed kinds are noticed \
             later"
        ),
    }
}

/// Reports plugins that need an operator's attention, until `stop`.
pub(super) async fn attention(host: Arc<Host>, stop: CancellationToken) {
    stop.run_until_cancelled(supervise("attention", &host.panics, &stop, || attention::follow(&host))).await;
}

/// Follows the files of configurations until `stop`.
pub(super) async fn configs(host: Arc<Host>, supplies: Arc<Supplies>, stop: CancellationToken) {
    stop.run_until_cancelled(supervise("configs", &host.panics, &stop, || supplies.configs.follow())).await;
}

/// Follows the files of policies until `stop`.
pub(super) async fn policies(host: Arc<Host>, files: PolicyFiles, stop: CancellationToken) {
    let files = tokio::sync::Mutex::new(files);
    let follow = async || {
        let mut files = files.lock().await;
        tokio::join!(host.policies.follow(&mut files), host.policies.show(&host.status));
    };
    stop.run_until_cancelled(supervise("policies", &host.panics, &stop, follow)).await;
}
