//! Runs plugins that are already loaded, without following files or serving an admin endpoint.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use windlass_kube::client::Connection;
use windlass_wasm::Plugin;

use super::{Begun, HostError, begin, end, unique};
use crate::host::Host;
use crate::observe::admin::Admin;
use crate::observe::metrics::HostMetrics;
use crate::observe::status::Status;
use crate::plugins::reload::{Servings, runs};
use crate::plugins::reports::Swapped;
use crate::plugins::serve::Serving;
use crate::policies::Policies;
use crate::settings::Settings;
use crate::supervise::caught;
use windlass_egress::tls::Trust;

/// Runs `plugins` until `stop`, as [`run`](super::run) runs those of a directory. Each channel holds the newest
/// generation of one plugin; sending another replaces the running one, as if its file had changed. It reads no files
/// except the plugins' configurations, so other settings about files have no effect. In a runtime of one thread whose
/// time is paused, and with a simulated world ([`windlass_world`]), the same seed gives the same requests in the same
/// order.
///
/// # Errors
///
/// If the plugins cannot run at all, or did not stop cleanly.
pub async fn run_loaded(
    connection: Connection,
    settings: Settings,
    plugins: &[watch::Receiver<Arc<Plugin>>],
    stop: CancellationToken,
) -> Result<(), HostError> {
    let shown = Admin { status: Status::new(stop.clone()), metrics: HostMetrics::new() };
    let trust = Trust::with(settings.http_ca.as_deref())?;
    let policies = Policies::without_files(settings.policies.clone());
    let replica: Arc<str> = unique("process", windlass_world::random()).into();
    let Begun { host, supplies, phases, followers } =
        begin(&connection, &settings, policies, replica, shown, trust, &stop)?;
    let (reports, swapped) = mpsc::unbounded_channel();
    let mut servings = Servings::new();
    for newest in plugins {
        let plugin = newest.borrow().clone();
        let of_plugin = phases.of_plugin(stop.child_token());
        let (serving, _) = Serving::new(&host, &supplies, &plugin, reports.clone(), of_plugin);
        let serving = Serving { wanted: newest.clone(), ..serving };
        runs(&host, &plugin);
        let (name, panics, serving) = (plugin.name().clone(), host.panics.clone(), serving.run());
        servings.spawn(async move { (name, caught("serving", &panics, serving).await) });
    }
    // `follow_swaps` ends once no plugin holds a sender.
    drop(reports);
    followers.spawn(follow_swaps(host.clone(), swapped));
    host.policies.registered_all();
    host.status.loaded();
    host.leadership.join();
    stop.cancelled().await;
    let clean = end(&host, servings, &phases).await;
    followers.wait().await;
    if clean { Ok(()) } else { Err(HostError::NotClean) }
}

/// Records each generation that takes over as the running one.
async fn follow_swaps(host: Arc<Host>, mut swapped: mpsc::UnboundedReceiver<(Arc<str>, Swapped)>) {
    while let Some((_, swapped)) = swapped.recv().await {
        if let Swapped::Runs(plugin) = swapped {
            runs(&host, &plugin);
        }
    }
}
