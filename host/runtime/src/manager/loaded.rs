//! Runs plugins that are loaded already: the engine, and nothing that follows files or serves people.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use windlass_kube::client::Connection;
use windlass_wasm::Plugin;

use super::{Begun, HostError, begin, end, unique};
use crate::egress::tls::Trust;
use crate::observe::admin::Admin;
use crate::observe::metrics::HostMetrics;
use crate::observe::status::Status;
use crate::plugins::reload::Servings;
use crate::plugins::serve::Serving;
use crate::policies::Policies;
use crate::settings::Settings;
use crate::supervise::caught;

/// Runs `plugins` until `stop`, as [`run`](super::run) runs those of a directory. It reads no file but the plugins'
/// configurations, so `settings` of files are without effect. In a runtime of one thread whose time is paused, and with a told
/// world ([`windlass_world`]), the same seed gives the same requests in the same order.
///
/// # Errors
///
/// Says why the plugins cannot be run at all, or that they did not stop cleanly.
pub async fn run_loaded(
    connection: Connection,
    settings: Settings,
    plugins: &[Arc<Plugin>],
    stop: CancellationToken,
) -> Result<(), HostError> {
    let shown = Admin { status: Status::new(stop.clone()), metrics: HostMetrics::new() };
    let trust = Trust::with(settings.http_ca.as_deref())?;
    let policies = Policies::without_files(settings.policies.clone());
    let replica: Arc<str> = unique("process", windlass_world::random()).into();
    let Begun { host, supplies, phases, followers } =
        begin(&connection, &settings, policies, replica, shown, trust, &stop)?;
    // What becomes of a newer generation is told to nobody: there is none.
    let (reports, _told) = mpsc::unbounded_channel();
    let mut servings = Servings::new();
    let mut newest = Vec::with_capacity(plugins.len());
    for plugin in plugins {
        let of_plugin = phases.of_plugin(stop.child_token());
        let (serving, wanted) = Serving::new(&host, &supplies, plugin, reports.clone(), of_plugin);
        newest.push(wanted);
        host.policies.register(plugin, &host.status.plugin(plugin.name()));
        let (name, panics, serving) = (plugin.name().clone(), host.panics.clone(), serving.run());
        servings.spawn(async move { (name, caught("serving", &panics, serving).await) });
    }
    host.policies.registered_all();
    host.status.loaded();
    host.leadership.join();
    stop.cancelled().await;
    let clean = end(&host, servings, &phases).await;
    followers.wait().await;
    if clean { Ok(()) } else { Err(HostError::NotClean) }
}
