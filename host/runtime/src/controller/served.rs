//! Waits until the kinds that a controller watches are served.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::object::ObjectKind;
use windlass_core::retry::{Retries, RetryPolicy};
use windlass_kube::DiscoveryError;
use windlass_manifest::Controller as Declared;

use super::{Controller, RESOLVE_BACKOFF_MIN};
use crate::admission::resolve::{self, ResolveError, Resolved};
use crate::host::Host;
use crate::observe::status::ControllerState;
use crate::supervise::jittered_policy;

/// Backoff between attempts to resolve. Discovery asks the server for a group at most every 10 s anyway.
pub(super) const RESOLVE_BACKOFF: RetryPolicy = jittered_policy(RESOLVE_BACKOFF_MIN, Duration::from_secs(10));

impl Controller {
    /// Waits until all kinds of `declared` are served, except for those that the controller works without. `None` if
    /// that will never happen.
    pub(super) async fn resolve(&self, declared: &Arc<Declared>) -> Option<Resolved> {
        let (plugin, controller) = (self.parts.plugin.name(), self.name());
        let mut retries = RESOLVE_BACKOFF.begin();
        let mut logged = String::new();
        loop {
            let mark = self.parts.host.kinds.mark();
            let only = self.parts.host.namespace.as_deref();
            let error = match resolve::resolve(&self.parts.host.discovery, self.parts.plugin.manifest(), declared, only)
                .await
            {
                Ok(resolved) => return Some(resolved),
                Err(error) => error,
            };
            let message = error.to_string();
            let (missing, until) = match error {
                ResolveError::NoNamespace { .. } => {
                    tracing::error!(%plugin, controller, error = message, "the controller cannot run; the plugin's other controllers run");
                    return None;
                }
                ResolveError::Discovery(DiscoveryError::NotServed { kind }) => (Some(kind), "it is served"),
                ResolveError::Discovery(_) => (None, "the API server answers"),
            };
            // Logged once for each reason, so that the operator sees what is missing without repetitions.
            if logged != message {
                self.report_state(ControllerState::Waiting, Some(message.clone()));
                tracing::warn!(%plugin, controller, error = message, "waiting: the controller starts when {until}");
                logged = message;
            }
            self.wait(missing.as_ref(), &mut retries, mark).await;
        }
    }

    /// Waits before the next attempt to resolve, or until a definition in the missing kind's group has changed since
    /// `mark`.
    pub(super) async fn wait(&self, missing: Option<&ObjectKind>, retries: &mut Retries, mark: u64) {
        let Host { kinds, discovery, .. } = &*self.parts.host;
        let is_soon = !retries.are_longest();
        let pause = tokio::time::sleep(retries.pause(windlass_world::random()));
        let Some(group) = missing.map(ObjectKind::group) else { return pause.await };
        kinds.want();
        tokio::select! {
            biased;
            () = kinds.changed(group, mark) => retries.reset(),
            () = pause => {}
        }
        // A kind is served some time after it is defined, so what discovery has just read is soon outdated.
        if is_soon && kinds.defines(group) {
            discovery.invalidate(group);
        }
    }
}
