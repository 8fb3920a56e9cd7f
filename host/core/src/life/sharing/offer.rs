//! The plugins that a replica can serve, as published in its member lease.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Separates a plugin's name from its digest. No name contains it.
const DIGEST: char = '@';

/// The plugins that one replica can serve, by lease, each with the digest of its file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer(BTreeMap<Arc<str>, BTreeMap<Arc<str>, Arc<str>>>);

impl Offer {
    /// An offer of `plugins`, each with the digest of its file. Plugins that no lease covers are left out.
    pub fn of(
        plugins: impl IntoIterator<Item = (Arc<str>, Arc<str>)>,
        lease_of: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let mut leases = BTreeMap::<Arc<str>, BTreeMap<_, _>>::new();
        for (plugin, digest) in plugins {
            if let Some(lease) = lease_of(&plugin) {
                leases.entry(lease.into()).or_default().insert(plugin, digest);
            }
        }
        Self(leases)
    }

    /// Parses an offer.
    pub fn read(text: &str, lease_of: impl Fn(&str) -> Option<String>) -> Self {
        let plugins = text.split_ascii_whitespace().map(|it| it.split_once(DIGEST).unwrap_or((it, "")));
        Self::of(plugins.map(|(plugin, digest)| (plugin.into(), digest.into())), lease_of)
    }

    /// The offer as text of up to `most` bytes, without digests if it would be longer. `None` if it is too long even
    /// so.
    #[must_use]
    pub fn text(&self, most: usize) -> Option<String> {
        let mut plugins: Vec<_> = self.0.values().flatten().collect();
        plugins.sort();
        let joined = |word: fn(&(&Arc<str>, &Arc<str>)) -> String| {
            let text = plugins.iter().map(word).collect::<Vec<_>>().join(" ");
            (text.len() <= most).then_some(text)
        };
        let full = joined(
            |(plugin, digest)| if digest.is_empty() { plugin.to_string() } else { format!("{plugin}{DIGEST}{digest}") },
        );
        full.or_else(|| joined(|(plugin, _)| plugin.to_string()))
    }

    /// The plugins that `lease` covers.
    pub fn of_lease(&self, lease: &str) -> impl Iterator<Item = &Arc<str>> {
        self.0.get(lease).into_iter().flat_map(BTreeMap::keys)
    }

    /// The digest of the file of `plugin`; empty if not published. `None` if the plugin is not offered.
    #[must_use]
    pub fn digest(&self, lease: &str, plugin: &str) -> Option<&Arc<str>> {
        self.0.get(lease)?.get(plugin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease_of(plugin: &str) -> Option<String> {
        (!plugin.is_empty()).then(|| format!("lease-{}", plugin.len()))
    }

    fn pair(plugin: &str, digest: &str) -> (Arc<str>, Arc<str>) {
        (plugin.into(), digest.into())
    }

    #[test]
    fn a_written_offer_is_parsed_unchanged() {
        let offer = Offer::of([pair("webapp", "5f2a"), pair("b", ""), pair("a", "77")], lease_of);
        let text = offer.text(1000).expect("short");
        assert_eq!(text, "a@77 b webapp@5f2a");
        assert_eq!(Offer::read(&text, lease_of), offer);
        assert_eq!(offer.of_lease("lease-1").map(|it| &**it).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(Offer::read("", lease_of), Offer::default());
        assert_eq!(Offer::default().text(0).as_deref(), Some(""), "an empty offer is written too");
    }

    #[test]
    fn a_long_offer_omits_digests_and_a_too_long_one_is_not_made() {
        let offer = Offer::of((0..100).map(|it| pair(&format!("plugin-{it:03}"), "0123456789ab")), lease_of);
        assert_eq!(offer.text(100 * 24).expect("with digests").len(), 100 * 24 - 1);
        assert_eq!(offer.text(100 * 24 - 2).expect("without").len(), 100 * 11 - 1);
        assert_eq!(offer.text(100 * 11 - 2), None);
    }
}
