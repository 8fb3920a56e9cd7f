//! Obtains a controller's grants: waits until the policies, and the account that the plugin acts as, admit all its
//! watches, and starts again when they change.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::Notify;
use windlass_core::rights::grants::LiveGrants;
use windlass_manifest::Controller as Declared;

use super::Controller;
use crate::admission::reviews;
use crate::admission::{self, Admitted, DeclaredWatch, Needed, Terms, left_out};
use crate::observe::status::ControllerState;
use crate::policies::{Bounds, Standing};

impl Controller {
    /// Waits until the operator's policies allow everything that the controller watches, and all kinds are served,
    /// except for the kinds without which it can run. `None` if that will never happen.
    pub(super) async fn admitted(&self) -> Option<Admitted> {
        loop {
            let declared = Arc::new(self.with_kinds());
            tokio::select! {
                biased;
                () = self.watches_others(declared.clone()) => {}
                admitted = self.admitted_as(&declared) => return admitted,
            }
        }
    }

    /// As [`Self::admitted`], with the kinds that `declared` has.
    async fn admitted_as(&self, declared: &Arc<Declared>) -> Option<Admitted> {
        let (policies, plugin) = (&self.parts.host.policies, self.parts.plugin.name());
        let (mut changes, mut logged, mut retries) =
            (policies.changes(), String::new(), reviews::REVIEW_BACKOFF.begin());
        loop {
            if matches!(policies.standing(plugin), Standing::Waiting(_)) {
                self.report_state(ControllerState::Waiting, Some("for a policy".to_owned()));
                changes.next().await;
                continue;
            }
            let resolved = self.resolve(declared).await?;
            let Standing::Granted(bounds) = policies.standing(plugin) else { continue };
            let only = self.parts.host.namespace.as_deref();
            let grants = bounds.grants(resolved.asked.clone(), only);
            let wanted = admission::wanted(&resolved);
            let resolved = admission::narrowed(&grants, resolved);
            self.log_narrowed(&wanted, &admission::needed(&resolved));
            let resolved = left_out::without_denied(&grants, resolved);
            let (reviews, account) = (&self.parts.host.reviews, bounds.impersonate.as_ref());
            let resolved = left_out::without_refused(reviews, account, resolved).await;
            let needed = admission::needed(&resolved);
            // A changed policy wakes this controller. A change of the cluster's roles does not, so a refused watch is
            // reviewed again after a pause.
            let (why, again) = if let Some(denial) = admission::denied(&grants, &needed) {
                (denial.to_string(), None)
            } else if let Some(why) = self.refused(&bounds, &needed).await {
                (why, Some(retries.pause(windlass_world::random())))
            } else {
                let asked = resolved.asked.clone();
                let (impersonate, only) = (bounds.impersonate, only.map(str::to_owned));
                let live = LiveGrants::counting(grants, policies.denials(plugin));
                let refused = resolved.left_out.refused.clone();
                let regranted = Arc::default();
                let terms = Terms { changes, asked, wanted, needed, refused, impersonate, only, regranted };
                return Some(Admitted { resolved, live, terms });
            };
            // Reported even if it is not new, because another state may have been shown meanwhile.
            self.report_state(ControllerState::Waiting, Some(why.clone()));
            if logged != why {
                let controller = self.name();
                tracing::warn!(%plugin, controller, error = why, "waiting: the controller starts when it is granted");
                logged = why;
            }
            match again {
                None => changes.next().await,
                // It does not matter whether the pause is over or a policy has changed.
                Some(pause) => drop(tokio::time::timeout(pause, changes.next()).await),
            }
        }
    }

    /// Logs in which namespaces the controller watches, if it wants to watch all.
    fn log_narrowed(&self, wanted: &[DeclaredWatch], needed: &[Needed]) {
        let is_as_wanted =
            |(wanted, needed): (&DeclaredWatch, &Needed)| wanted.spec.namespace.as_deref() == needed.namespace();
        if wanted.len() != needed.len() || !wanted.iter().zip(needed).all(is_as_wanted) {
            let namespaces: BTreeSet<_> = needed.iter().filter_map(Needed::namespace).collect();
            let namespaces = namespaces.into_iter().collect::<Vec<_>>().join(", ");
            let (plugin, controller) = (self.parts.plugin.name(), self.name());
            tracing::info!(%plugin, controller, namespaces, "its watches of all namespaces are narrowed to what is granted");
        }
    }

    /// Why the account that the plugin acts as may not watch everything in `needed`, or why that is unknown.
    async fn refused(&self, bounds: &Bounds, needed: &[Needed]) -> Option<String> {
        let account = bounds.impersonate.as_ref()?;
        match reviews::refused(&self.parts.host.reviews, Some(account), needed).await {
            Ok(refusal) => refusal.map(|refusal| refusal.to_string()),
            Err(error) => Some(error.to_string()),
        }
    }
}

/// Calls `requeue` each time the grants change. Keys that failed for lack of a rule must not wait for their backoff,
/// which may have grown to a quarter of an hour.
pub(super) async fn again(regranted: &Notify, requeue: impl Fn()) {
    loop {
        regranted.notified().await;
        requeue();
    }
}
