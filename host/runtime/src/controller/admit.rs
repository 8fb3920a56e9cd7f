//! How a controller comes by its grants: it waits until the policies, and the account that it acts as, admit all that
//! it watches; and it begins anew when they change.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::Notify;
use windlass_core::rights::grants::LiveGrants;

use super::Controller;
use crate::admission::reviews;
use crate::admission::{self, Admitted, Needed, Terms};
use crate::observe::status::ControllerState;
use crate::policies::{Bounds, Standing};

impl Controller {
    /// Waits until the operator's policies allow all that the controller watches, and all kinds are served. None: it
    /// will never be.
    pub(super) async fn admitted(&self) -> Option<Admitted> {
        let (policies, plugin) = (&self.parts.host.policies, self.parts.plugin.name());
        let (mut changes, mut told, mut retries) = (policies.changes(), String::new(), reviews::REVIEW_BACKOFF.begin());
        loop {
            if matches!(policies.standing(plugin), Standing::Waiting(_)) {
                self.say(ControllerState::Waiting, Some("for a policy".to_owned()));
                changes.next().await;
                continue;
            }
            let resolved = self.resolve().await?;
            let Standing::Granted(bounds) = policies.standing(plugin) else { continue };
            let only = self.parts.host.namespace.as_deref();
            let grants = bounds.grants(resolved.asked.clone(), only);
            let wanted = admission::wanted(&resolved);
            let resolved = admission::narrowed(&grants, resolved);
            let needed = admission::needed(&resolved);
            // What a policy denies, another policy allows; what the cluster denies changes without a word.
            let (why, again) = if let Some(denial) = admission::denied(&grants, &needed) {
                (denial.to_string(), None)
            } else if let Some(why) = self.refused(&bounds, &needed).await {
                (why, Some(retries.pause(windlass_world::random())))
            } else {
                let asked = resolved.asked.clone();
                let (impersonate, only) = (bounds.impersonate, only.map(str::to_owned));
                let live = LiveGrants::counting(grants, policies.denials(plugin));
                if wanted.len() != needed.len()
                    || wanted.iter().zip(&needed).any(|(it, is)| it.1.namespace.as_deref() != is.namespace())
                {
                    let namespaces: BTreeSet<_> = needed.iter().filter_map(Needed::namespace).collect();
                    let namespaces = namespaces.into_iter().collect::<Vec<_>>().join(", ");
                    let controller = &self.declared().name;
                    tracing::info!(%plugin, controller, namespaces, "its watches of all namespaces are narrowed to what is granted");
                }
                let terms = Terms { changes, asked, wanted, needed, impersonate, only, regranted: Arc::default() };
                return Some(Admitted { resolved, live, terms });
            };
            // Also if it is not new: something else may have been said meanwhile.
            self.say(ControllerState::Waiting, Some(why.clone()));
            if told != why {
                let controller = &self.declared().name;
                tracing::warn!(%plugin, controller, error = why, "waiting: the controller starts when it is granted");
                told = why;
            }
            match again {
                None => changes.next().await,
                // Whether the time is up or something has changed does not matter.
                Some(pause) => drop(tokio::time::timeout(pause, changes.next()).await),
            }
        }
    }

    /// Why the account that the plugin acts as may not watch all that is `needed`, or that it is not known to.
    async fn refused(&self, bounds: &Bounds, needed: &[Needed]) -> Option<String> {
        match reviews::refused(&self.parts.host.reviews, bounds.impersonate.as_ref()?, needed).await {
            Ok(refusal) => refusal.map(|refusal| refusal.to_string()),
            Err(error) => Some(error.to_string()),
        }
    }
}

/// Has `requeue` done each time that the grants have changed: what failed for want of a rule must not wait for its
/// backoff, which may have grown to a quarter of an hour.
pub(super) async fn again(regranted: &Notify, requeue: impl Fn()) {
    loop {
        regranted.notified().await;
        requeue();
    }
}
