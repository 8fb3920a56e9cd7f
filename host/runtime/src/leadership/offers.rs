//! The plugins that each replica can serve, which it publishes in its member lease. So each plugin's lease goes to a
//! replica that can serve it, and a plugin that no replica can serve is noticed.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use windlass_core::life::sharing::{Membership, Offer, Unserved};
use windlass_kube::Leases;
use windlass_manifest::is_dns_label;
use windlass_wasm::Plugin;

use super::settings::OFFER_BYTES_MAX;
use super::slots::LeaseSlots;
use super::{Leadership, LeaseMode, LeaseSettings};
use crate::observe::status::ReplicasView;

/// The plugins that were started here, each with the digest of the running version.
pub(crate) type StartedPlugins = BTreeMap<Arc<str>, Arc<str>>;

/// Caches the offers of members, because a member writes the same offer with each renewal.
#[derive(Debug, Default)]
pub(super) struct ReadOffers(BTreeMap<Arc<str>, (String, Arc<Offer>)>);

impl ReadOffers {
    /// The offer of `member` in the lease that was found. `None` if it publishes none.
    pub(super) fn of(
        &mut self,
        member: &Arc<str>,
        found: &windlass_core::life::lease::FoundLease,
        settings: &LeaseSettings,
    ) -> Option<Arc<Offer>> {
        let Some(text) = Leases::serves(found) else {
            self.0.remove(member);
            return None;
        };
        if let Some((_, offer)) = self.0.get(member).filter(|(before, _)| *before == text) {
            return Some(offer.clone());
        }
        // A word that cannot be a plugin's name comes from a newer version of the host. It is not a plugin that other
        // replicas lack.
        let lease_of = |plugin: &str| settings.lease_of(plugin).filter(|_| is_dns_label(plugin));
        let offer = Arc::new(Offer::read(&text, lease_of));
        self.0.insert(member.clone(), (text, offer.clone()));
        Some(offer)
    }
}

impl Leadership {
    /// Records that `plugin` is started here, or has a new digest, until [`Leadership::leave`].
    pub(crate) fn has(&self, plugin: &Plugin) {
        self.started_plugins.send_modify(|started| {
            started.insert(plugin.name().clone(), plugin.short_digest().into());
        });
    }

    /// The plugins that are started here.
    pub(crate) fn started_plugins(&self) -> watch::Receiver<StartedPlugins> {
        self.started_plugins.subscribe()
    }

    /// Publishes that this replica can serve exactly these `plugins`. Other plugins lack something here.
    pub(crate) fn offer(&self, plugins: StartedPlugins) {
        let offer = Offer::of(plugins, |plugin| self.settings.lease_of(plugin));
        let offer = offer.text(OFFER_BYTES_MAX).is_some().then(|| Arc::new(offer));
        if offer.is_none() {
            tracing::warn!(
                "the names of this replica's plugins are longer than {OFFER_BYTES_MAX} bytes: other replicas do not \
                 learn which plugins it can serve, and assume that it can serve all"
            );
        }
        self.offer.send_if_modified(|now| {
            let is_news = *now != offer;
            *now = offer;
            is_news
        });
    }

    /// A view of which replicas can serve which plugin.
    pub(crate) fn view(&self) -> PluginReplicas {
        PluginReplicas {
            settings: self.settings.clone(),
            members: self.membership.subscribe(),
            slots: self.slots.clone(),
            joined: self.joined.clone(),
        }
    }
}

/// Knows which replicas can serve a plugin, and why none runs it.
#[derive(Clone)]
pub(crate) struct PluginReplicas {
    settings: LeaseSettings,
    pub(super) members: watch::Receiver<Membership>,
    slots: LeaseSlots,
    /// Until this is cancelled, this replica does not know what it can serve.
    joined: CancellationToken,
}

impl ReplicasView for PluginReplicas {
    fn unserved(&self, plugin: &str) -> Option<String> {
        if self.settings.mode == LeaseMode::None || !self.joined.is_cancelled() {
            return None;
        }
        let lease = self.settings.lease_of(plugin)?;
        let holder = self.slots.lock().get(&*lease).and_then(super::slots::LeaseSlot::holder);
        let unserved = self.members.borrow().unserved(plugin, &lease, holder.as_ref())?;
        let stability = self.settings.stability;
        Some(match unserved {
            Unserved::ByAll => {
                "no replica runs it: none has both its policy and its file, loaded and allowed".to_owned()
            }
            Unserved::ByHolder { holder, other: Some(other) } => format!(
                "no replica runs it: {holder} holds the lease {lease} and lacks the plugin, its policy or its digest. \
                 {other} can run it, and gets the lease after {stability:?}, or soon if {holder} can run no plugin of \
                 the lease"
            ),
            Unserved::ByHolder { holder, other: None } => {
                format!("no replica runs it: {holder} holds the lease {lease} and cannot run it")
            }
        })
    }

    fn digests(&self, plugin: &str) -> BTreeMap<Arc<str>, Arc<str>> {
        let Some(lease) = self.settings.lease_of(plugin) else { return BTreeMap::new() };
        let members = self.members.borrow();
        members.serving(plugin, &lease).map(|(member, digest)| (member.clone(), digest.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_words_of_a_newer_version_in_an_offer_are_passed_over() {
        let second = std::time::Duration::from_secs(1);
        let settings = LeaseSettings { mode: LeaseMode::Single, stability: second, ..LeaseSettings::default() };
        let found = |serves: &str| {
            let metadata =
                json!({"name": "m", "annotations": {"windlass.dev/serves": serves, "windlass.dev/newer": "1"}});
            Leases::watched(&json!({"metadata": metadata, "spec": {"strategy": "Newer"}}).to_string())
        };
        let mut read = ReadOffers::default();
        let mut plugins = |serves: &str| {
            let offer = read.of(&"m".into(), &found(serves), &settings).expect("it says");
            offer.of_lease("windlass-main-all").map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(plugins("shop webapp@5f2a77"), ["shop", "webapp"], "as the previous version writes it");
        assert_eq!(plugins("#form=2 shop@77 webapp@5f2a@arm64 {x}"), ["shop", "webapp"]);
    }
}
