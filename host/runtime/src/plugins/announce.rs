//! Shows an operator the plugin directory: in the log, on `/plugins` and `/metrics`, and in Kubernetes Events.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::call::ports::{CallContext, Event, EventType, Events as _};
use windlass_core::object::{ObjectKey, ObjectKind};
use windlass_core::rights::principal::{Principal, Role};
use windlass_wasm::Plugin;

use crate::host::Host;
use crate::observe::status::{NotTaken, PluginHealth, PluginPhase, PluginStatus};
use crate::plugins::directory::{FileRefusal, NotRevived, StopReason};
use crate::rejections::{Digest, Rejection};

/// Reports that every file that existed when the host started was started or refused.
pub(super) fn begun(running: usize) {
    if running == 0 {
        tracing::warn!("no plugin runs: the host waits for files in its plugin directory");
    }
}

/// Reports that a file was loaded.
pub(super) fn loaded(host: &Host, plugin: &Arc<Plugin>) {
    tracing::info!(
        plugin = %plugin.name(), version = plugin.manifest().version, digest = plugin.short_digest(),
        bytes = plugin.size(), "plugin loaded"
    );
    // Its file may have been removed while it was compiled. It is forgotten then, and must not appear again.
    if let Some(status) = host.status.known(plugin.name()) {
        status.count_load("loaded");
    }
}

/// Reports that a file was not taken. `running` is the generation that continues, or that takes over again after a
/// rollback.
///
/// In this function and the functions below, the status is set before the log line is written, so that `/plugins`
/// already agrees with the line when a user reads it.
pub(super) fn refused(
    host: &Host,
    plugin: &Arc<str>,
    digest: Option<Digest>,
    refusal: &FileRefusal,
    running: Option<&Plugin>,
) {
    let (status, error) = (host.status.plugin(plugin), refusal.to_string());
    status.count_load(refusal.reason());
    status.has_not_taken(Some(NotTaken { digest: digest.clone(), reason: error.clone() }));
    if let (FileRefusal::Rejected { because, .. }, Some(digest)) = (refusal, digest) {
        status.has_rejected(Some(NotTaken { digest: Some(digest), reason: because.clone() }));
    }
    if let Some(running) = running {
        let running = running.short_digest();
        tracing::error!(%plugin, running, error, "plugin file refused: the version that was running keeps running");
        return;
    }
    host.policies.refused(plugin, error.clone());
    if status.phase() != PluginPhase::Ending {
        status.set(PluginPhase::NotLoaded, Some(error.clone()));
    }
    match refusal {
        FileRefusal::Rival { .. } => {
            tracing::error!(%plugin, error, "plugin not started; it is tried again when a file changes");
        }
        FileRefusal::Rejected { .. } => tracing::error!(
            %plugin, error, "plugin not started: replace its file by another one, or by the previous one"
        ),
        _ => tracing::error!(%plugin, error, "plugin not loaded; it is tried again when its file changes"),
    }
}

/// Reports that the version before a rejected file runs in its place, from the cache.
pub(super) fn revived(host: &Host, former: &Plugin, rejection: &Rejection) {
    let reason = format!("it was rolled back: {}", rejection.because);
    let not_taken = NotTaken { digest: Some(rejection.digest.clone()), reason };
    host.status.plugin(former.name()).has_not_taken(Some(not_taken));
    tracing::warn!(
        plugin = %former.name(), digest = former.short_digest(), rejected = &*rejection.digest,
        "the version before the rolled-back one runs again: it was kept with the compiled plugins"
    );
}

/// Reports that the version before a rejected file was found but not started.
pub(super) fn not_revived(former: &Plugin, problem: &NotRevived) {
    let (plugin, digest) = (former.name(), former.short_digest());
    if let NotRevived::Superfluous = problem {
        tracing::debug!(%plugin, digest, %problem, "the version before the rolled-back one is not started");
    } else {
        tracing::error!(
            %plugin, digest, %problem,
            "the version before the rolled-back one is not started; the plugin waits for another file"
        );
    }
}

/// Reports that a file that was refused is now the running one.
pub(super) fn agreed(host: &Host, plugin: &Arc<str>) {
    host.status.plugin(plugin).has_not_taken(None);
    tracing::info!(%plugin, "the plugin's file is the running version again");
}

/// Reports that the generation that was to replace the running one was withdrawn.
pub(super) fn withdrawn(host: &Host, plugin: &Arc<str>, digest: &str) {
    host.status.plugin(plugin).pends(None);
    tracing::warn!(%plugin, digest, "the new generation may not run any more: the running one continues");
}

/// Reports that the running generation must end.
pub(super) fn stopping(host: &Host, plugin: &Arc<str>, why: &StopReason) {
    let reason = match why {
        StopReason::Deleted => "its file is gone".to_owned(),
        StopReason::NotAllowed { digest, list } => format!("its digest {digest} is no longer in {}", list.display()),
        StopReason::Rejected { because, .. } => format!("another replica has rolled it back: {because}"),
    };
    host.status.plugin(plugin).set(PluginPhase::Ending, Some(reason));
    match why {
        StopReason::Deleted => {
            tracing::info!(%plugin, "the plugin's file is gone: its queued keys run, and then it ends");
        }
        StopReason::NotAllowed { digest, list } => {
            let list = list.display();
            tracing::warn!(%plugin, digest = &**digest, %list, "the plugin is no longer allowed: it ends");
        }
        StopReason::Rejected { digest, because } => tracing::error!(
            %plugin, digest = &**digest, because,
            "another replica has rolled the plugin back: it ends here, because this replica knows no earlier generation"
        ),
    }
}

/// Reports that a plugin no longer runs because of a panic of the host, which was logged.
pub(super) fn fell(host: &Host, plugin: &Arc<str>, pause: Duration) {
    let reason = format!(
        "the host's task that runs this plugin panicked (see the log): the plugin is started again in {pause:.0?}"
    );
    host.status.plugin(plugin).set(PluginPhase::NotLoaded, Some(reason.clone()));
    tracing::error!(%plugin, "the plugin does not run: {reason}");
}

/// Reports that the newest generation was rolled back.
pub(super) fn rolled_back(host: &Host, plugin: &Arc<str>, runs: &str, rejection: &Rejection) {
    let Rejection { digest, because, .. } = rejection;
    let status = host.status.plugin(plugin);
    status.count_load("rolled-back");
    status.has_rejected(Some(NotTaken { digest: Some(digest.clone()), reason: because.clone() }));
    tracing::error!(
        %plugin, rejected = &**digest, because, runs,
        "rolled back: the previous generation runs again, and this one does not run again until the file changes"
    );
    let note = format!("the generation {digest} was rolled back: {because}");
    event(host, plugin, runs, ("PluginRolledBack", "RollBack"), &note);
}

/// Reports that other replicas have learned of the verdicts. `late` is true if the log has said that they had not.
pub(super) fn replicas_know(host: &Host, plugin: &Arc<str>, late: bool) {
    if late {
        tracing::info!(%plugin, "other replicas know now which generation was rolled back or may be tried again");
    }
    if let Some(status) = host.status.known(plugin) {
        status.is_unpublished(None);
    }
}

/// Reports that publishing to other replicas has failed, and is retried. `late` is true if that has lasted long enough
/// to be logged.
pub(super) fn replicas_do_not_know(host: &Host, plugin: &Arc<str>, error: &str, late: bool) {
    if late {
        tracing::error!(
            %plugin, error,
            "other replicas could not be informed which generation was rolled back or may be tried again: the host retries until \
             it stops; meanwhile they find out by themselves"
        );
    }
    if let Some(status) = host.status.known(plugin) {
        status.is_unpublished(Some(error.to_owned()));
    }
}

/// Reports that a plugin has needed an operator for a while.
pub(super) fn needs_person(host: &Host, status: &PluginStatus, health: &PluginHealth) {
    let (plugin, state) = (&status.name, health.state.as_str());
    let why = health.why.as_deref().unwrap_or_default();
    tracing::warn!(%plugin, state, why, "the plugin does not do its work: an operator must act");
    let Some(reason) = health.state.event_reason() else { return };
    let generation = status.generation();
    let runs = generation.as_ref().map(|plugin| plugin.short_digest()).unwrap_or_default();
    event(host, plugin, runs, (reason, "Run"), &format!("it is {state}: {why}"));
}

/// Emits a Kubernetes Event about the plugin's lease, because no other object in the cluster represents a plugin.
fn event(host: &Host, plugin: &Arc<str>, runs: &str, (reason, action): (&str, &str), note: &str) {
    // Find the lease by its name. A plugin that was never loaded has a lease name too, although the lease may not
    // exist.
    let Some(lease) = host.leadership.lease_of(plugin) else { return };
    let principal = Principal {
        role: Role::Events,
        ..Principal::of_plugin(plugin.clone(), runs.get(..12).unwrap_or(runs), host.replica.clone())
    };
    let call = CallContext {
        trace_id: format!("{:032x}", windlass_world::random::<u128>()).into(),
        ..CallContext::detached(
            principal,
            "windlass",
            ObjectKind::new("coordination.k8s.io/v1", "Lease"),
            ObjectKey::namespaced(&**host.leadership.namespace(), &*lease),
        )
    };
    let event = Event {
        regarding: None,
        related: None,
        event_type: EventType::Warning,
        reason: reason.to_owned(),
        action: action.to_owned(),
        note: format!("plugin {plugin}: {note}"),
    };
    host.recorder.emit(&call, event);
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

    use super::*;
    use crate::tests::stage::Stage;

    /// Records the content of the status at each log line.
    #[derive(Clone)]
    struct Shown {
        status: Arc<PluginStatus>,
        phases: Arc<Mutex<Vec<PluginPhase>>>,
    }

    impl<S: tracing::Subscriber> Layer<S> for Shown {
        fn on_event(&self, _: &tracing::Event<'_>, _: Context<'_, S>) {
            self.phases.lock().expect("not poisoned").push(self.status.phase());
        }
    }

    #[tokio::test]
    async fn a_plugins_new_status_is_shown_before_it_is_logged() {
        let (stage, plugin) = (Stage::new().await, Arc::from("chameleon"));
        let shown = Shown { status: stage.host.status.plugin(&plugin), phases: Arc::default() };
        let refusal = FileRefusal::NotLoaded { reason: "component", message: "it is no plugin".to_owned() };
        tracing::subscriber::with_default(tracing_subscriber::registry().with(shown.clone()), || {
            stopping(&stage.host, &plugin, &StopReason::Deleted);
            fell(&stage.host, &plugin, Duration::from_secs(1));
            shown.status.set(PluginPhase::Loading, None);
            refused(&stage.host, &plugin, None, &refusal, None);
        });
        let phases = shown.phases.lock().expect("not poisoned").clone();
        assert_eq!(phases, [PluginPhase::Ending, PluginPhase::NotLoaded, PluginPhase::NotLoaded]);
    }
}
