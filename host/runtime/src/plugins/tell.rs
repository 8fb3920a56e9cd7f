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

/// Something has come of all files that there were when the host started.
pub(super) fn begun(running: usize) {
    if running == 0 {
        tracing::warn!("no plugin runs: the host waits for files in its plugin directory");
    }
}

/// A file was loaded.
pub(super) fn loaded(host: &Host, plugin: &Arc<Plugin>) {
    tracing::info!(
        plugin = %plugin.name(), version = plugin.manifest().version, digest = plugin.short_digest(),
        bytes = plugin.size(), "plugin loaded"
    );
    host.status.plugin(plugin.name()).count_load("loaded");
}

/// A file was not taken. `running`: the generation that goes on, or that returns in the place of one that was rolled
/// back.
///
/// Here as in all that follows, what is shown is set before it is told: who reads a line finds on `/plugins` what it
/// says.
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
        tracing::error!(%plugin, running, error, "plugin file not taken: what ran before goes on");
        return;
    }
    host.policies.refused(plugin, error.clone());
    if status.phase() != PluginPhase::Ending {
        status.set(PluginPhase::NotLoaded, Some(error.clone()));
    }
    match refusal {
        FileRefusal::Rival { .. } => {
            tracing::error!(%plugin, error, "plugin not started; it is looked at again when a file changes");
        }
        FileRefusal::Rejected { .. } => tracing::error!(
            %plugin, error, "plugin not started: put another file in its place, or the one from before"
        ),
        _ => tracing::error!(%plugin, error, "plugin not loaded; it is looked at again when its file changes"),
    }
}

/// In the place of a file that was rejected, what ran before it runs, from the cache.
pub(super) fn revived(host: &Host, former: &Plugin, rejection: &Rejection) {
    let reason = format!("it was rolled back: {}", rejection.because);
    let not_taken = NotTaken { digest: Some(rejection.digest.clone()), reason };
    host.status.plugin(former.name()).has_not_taken(Some(not_taken));
    tracing::warn!(
        plugin = %former.name(), digest = former.short_digest(), rejected = &*rejection.digest,
        "what ran before the file that was rolled back runs again: it was kept with the compiled plugins"
    );
}

/// The generation before a rejected file is at hand, and not started.
pub(super) fn not_revived(former: &Plugin, problem: &NotRevived) {
    let (plugin, digest) = (former.name(), former.short_digest());
    if let NotRevived::Superfluous = problem {
        tracing::debug!(%plugin, digest, %problem, "what ran before the file that was rolled back is not started");
    } else {
        tracing::error!(
            %plugin, digest, %problem,
            "what ran before the file that was rolled back is not started; the plugin waits for another file"
        );
    }
}

/// A file that was refused is the one that runs again.
pub(super) fn agreed(host: &Host, plugin: &Arc<str>) {
    host.status.plugin(plugin).has_not_taken(None);
    tracing::info!(%plugin, "the plugin's file is what runs again");
}

/// The generation that was to replace the running one must not run any more.
pub(super) fn withdrawn(host: &Host, plugin: &Arc<str>, digest: &str) {
    host.status.plugin(plugin).pends(None);
    tracing::warn!(%plugin, digest, "the generation that was to take over must not run any more: what runs goes on");
}

/// The running generation is told to end.
pub(super) fn stopping(host: &Host, plugin: &Arc<str>, why: &StopReason) {
    let reason = match why {
        StopReason::Deleted => "its file is gone".to_owned(),
        StopReason::NotAllowed { digest, list } => format!("its digest {digest} is no longer in {}", list.display()),
        StopReason::Rejected { because, .. } => format!("another replica has rolled it back: {because}"),
    };
    host.status.plugin(plugin).set(PluginPhase::Ending, Some(reason));
    match why {
        StopReason::Deleted => {
            tracing::info!(%plugin, "the plugin's file is gone: what is queued runs, and then it ends");
        }
        StopReason::NotAllowed { digest, list } => {
            let list = list.display();
            tracing::warn!(%plugin, digest = &**digest, %list, "the plugin is no longer allowed: it ends");
        }
        StopReason::Rejected { digest, because } => tracing::error!(
            %plugin, digest = &**digest, because,
            "another replica has rolled the plugin back: it ends here, where no generation before it is known"
        ),
    }
}

/// A plugin runs no more, by a panic of the host's own, which has been reported.
pub(super) fn fell(host: &Host, plugin: &Arc<str>, pause: Duration) {
    let reason =
        format!("the host's own task that runs it has panicked, see the log: it is started again in {pause:.0?}");
    host.status.plugin(plugin).set(PluginPhase::NotLoaded, Some(reason.clone()));
    tracing::error!(%plugin, "the plugin does not run: {reason}");
}

/// The newest generation was rolled back.
pub(super) fn rolled_back(host: &Host, plugin: &Arc<str>, runs: &str, rejection: &Rejection) {
    let Rejection { digest, because, .. } = rejection;
    let status = host.status.plugin(plugin);
    status.count_load("rolled-back");
    status.has_rejected(Some(NotTaken { digest: Some(digest.clone()), reason: because.clone() }));
    tracing::error!(
        %plugin, rejected = &**digest, because, runs,
        "rolled back: the generation before runs again, and this one is not run again before the file changes"
    );
    let note = format!("the generation {digest} was rolled back: {because}");
    event(host, plugin, runs, ("PluginRolledBack", "RollBack"), &note);
}

/// Other replicas know what was rolled back and what is tried again. `late`: it was said that they do not.
pub(super) fn replicas_know(host: &Host, plugin: &Arc<str>, late: bool) {
    if late {
        tracing::info!(%plugin, "other replicas know now which generation was rolled back or is tried again");
    }
    if let Some(status) = host.status.known(plugin) {
        status.is_untold(None);
    }
}

/// Other replicas could not be told that, which is tried again. `say`: for as long as that somebody should know.
pub(super) fn replicas_do_not_know(host: &Host, plugin: &Arc<str>, error: &str, say: bool) {
    if say {
        tracing::error!(
            %plugin, error,
            "other replicas could not be told which generation was rolled back or is tried again: it is tried again until this host \
             stops; until then they find out by themselves"
        );
    }
    if let Some(status) = host.status.known(plugin) {
        status.is_untold(Some(error.to_owned()));
    }
}

/// A plugin has needed a person for a while.
pub(super) fn needs_person(host: &Host, status: &PluginStatus, health: &PluginHealth) {
    let (plugin, state) = (&status.name, health.state.as_str());
    let why = health.why.as_deref().unwrap_or_default();
    tracing::warn!(%plugin, state, why, "the plugin does not do its work: it goes on when somebody has acted");
    let Some(reason) = health.state.event_reason() else { return };
    let generation = status.generation();
    let runs = generation.as_ref().map(|plugin| plugin.short_digest()).unwrap_or_default();
    event(host, plugin, runs, (reason, "Run"), &format!("it is {state}: {why}"));
}

/// A Kubernetes Event about the plugin's lease, which is all that the cluster has of a plugin. `(reason, action)`: of
/// the Event.
fn event(host: &Host, plugin: &Arc<str>, runs: &str, (reason, action): (&str, &str), note: &str) {
    // By its name alone: a plugin that was never loaded has a lease, too, though perhaps none that exists.
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

    /// The part of a plugin that is shown whenever something is reported.
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
