//! Cleans up after a plugin that has ended. The host forgets the plugin, but everything that the plugin has created
//! stays in the cluster. Objects that carry its finalizer are reported, because nothing else removes the finalizer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use windlass_core::object::finalizer;
use windlass_core::queue::aggregate::Aggregate;
use windlass_core::rights::grants::resource_name;
use windlass_kube::sweep::{self, Carrier, Sought, SweepScope};
use windlass_wasm::Plugin;

use crate::host::Host;
use crate::observe::status::PluginPhase;
use crate::phases::ControllerEnd;
use crate::plugins::directory::StopReason;
use crate::supervise::caught;

/// How long the search for finalizers may take.
const FINALIZERS_LOOK_TIMEOUT: Duration = Duration::from_mins(5);

/// Cleans up after `plugin`, which has ended. `ran_here` is false if the plugin ran on another replica.
pub(super) fn clean_up(
    host: &Arc<Host>,
    plugin: &Arc<Plugin>,
    why: Option<&StopReason>,
    end: Option<ControllerEnd>,
    ran_here: bool,
    stop: &CancellationToken,
) {
    let name = plugin.name();
    host.policies.unregister(name);
    host.metrics.forget(name);
    host.guards.forget(name);
    let status = host.status.plugin(name);
    // The status already has the reason why it ends.
    let reason = status.reason();
    status.has_ended();
    if let Some(StopReason::NotAllowed { .. } | StopReason::Rejected { .. }) = why {
        status.set(PluginPhase::NotLoaded, reason);
    }
    let cut = end != Some(ControllerEnd::Clean);
    tracing::info!(plugin = %name, digest = plugin.short_digest(), cut, "plugin unloaded: its objects stay in the cluster");
    let keeps = plugin.manifest().controllers.iter().any(|controller| controller.options.finalizer);
    if why == Some(&StopReason::Deleted) && keeps && ran_here {
        let (host, plugin) = (host.clone(), plugin.clone());
        tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
            caught("finalizers", &host.panics, log_finalizers(&host, &plugin)).await;
        }));
    }
}

/// Logs the kinds whose objects carry the plugin's finalizer.
async fn log_finalizers(host: &Host, plugin: &Plugin) {
    let (name, finalizer) = (plugin.name(), finalizer::name(plugin.name()));
    let release = format!(
        "windlass finalizers release {name} {}",
        host.namespace
            .as_ref()
            .map_or_else(|| "--all-namespaces".to_owned(), |namespace| format!("--namespace {namespace}"))
    );
    let kept = plugin.manifest().controllers.iter().filter(|controller| controller.options.finalizer);
    let kinds = kept.map(|controller| controller.primary.object_kind().kind.to_string()).collect();
    let scope = SweepScope { namespace: host.namespace.clone(), kinds, gently: true };
    let carries = |carrier: &Carrier| carrier.finalizers.contains(&finalizer);
    let swept = tokio::time::timeout(
        FINALIZERS_LOOK_TIMEOUT,
        sweep::sweep(&host.discovery, &scope, &Sought::Finalizers, carries),
    );
    let unseen = match swept.await {
        Ok(Ok(swept)) => {
            for (resource, (objects, deleting)) in counted(&swept.carriers) {
                tracing::warn!(
                    plugin = %name, finalizer, resource, objects, deleting,
                    "objects carry the finalizer of the plugin that is gone: once deleted, they stay until it is back, or until \
                     `{release}`"
                );
            }
            let unseen = swept.unseen.into_iter().map(|(kind, error)| Some(format!("{kind}: {error}")));
            Aggregate::of(unseen).map(|unseen| unseen.to_string()).unwrap_or_default()
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("not within {FINALIZERS_LOOK_TIMEOUT:?}"),
    };
    if !unseen.is_empty() {
        tracing::warn!(
            plugin = %name, finalizer, error = unseen,
            "cannot find out which objects carry the finalizer of the plugin that is gone: run `windlass finalizers \
             list --plugin {name}`"
        );
    }
}

/// The number of objects of each kind, and how many of them are being deleted.
fn counted(carriers: &[Carrier]) -> BTreeMap<String, (usize, usize)> {
    let mut counts = BTreeMap::<String, (usize, usize)>::new();
    for carrier in carriers {
        let resource = resource_name(carrier.resource.group(), &carrier.resource.plural, "");
        let count = counts.entry(resource).or_default();
        count.0 += 1;
        count.1 += usize::from(carrier.deleting);
    }
    counts
}
