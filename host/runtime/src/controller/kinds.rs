//! Controllers of kinds that the plugin's configuration names (`kindsFrom` in the manifest).
//!
//! If these are primaries, each kind has a controller of its own, with its own queue, status and metrics. Controllers
//! come and go with their kinds ([`plugins::serve`](crate::plugins) compares [`identities`]), and the controllers of
//! other kinds go on. As long as the configuration names no kind, one controller stands for all, and shows why nothing
//! runs. If the configuration names the kinds of other watches, their controller begins another round when the kinds
//! change.

use std::sync::Arc;

use windlass_core::object::ObjectKind;
use windlass_manifest::{ConfiguredKinds, Controller as Declared, Manifest};

use super::Controller;
use crate::dispatch::configured::kinds;
use crate::observe::status::ControllerState;

/// Tells the controllers of a generation apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ControllerIdentity {
    /// The index of the controller in the manifest.
    pub(crate) index: usize,
    /// Its name in logs, metrics and status.
    pub(crate) name: Arc<str>,
    /// The kind of its primaries, if the configuration names it.
    pub(crate) kind: Option<ObjectKind>,
}

/// The controllers of `manifest` if the configuration names these `kinds`; `kinds` is `None` while the configuration is
/// not known.
pub(crate) fn identities(manifest: &Manifest, kinds: Option<&ConfiguredKinds>) -> Vec<ControllerIdentity> {
    let nothing = ConfiguredKinds::default();
    let kinds = kinds.unwrap_or(&nothing);
    let of = |(index, declared): (usize, &Declared)| -> Vec<ControllerIdentity> {
        match declared.configured_primaries(kinds) {
            None | Some([]) => vec![ControllerIdentity { index, name: declared.name.as_str().into(), kind: None }],
            Some(primaries) => primaries
                .iter()
                .map(|kind| ControllerIdentity {
                    index,
                    name: declared.name_for(kind).into(),
                    kind: Some(kind.clone()),
                })
                .collect(),
        }
    };
    manifest.controllers.iter().enumerate().flat_map(of).collect()
}

impl Controller {
    pub(crate) fn identity(&self) -> &ControllerIdentity {
        &self.identity
    }

    /// Whether this controller only stands for controllers whose kinds the configuration does not name yet.
    pub(super) fn stands_for_kinds(&self) -> bool {
        self.identity.kind.is_none() && self.declared().primary.kinds_from.is_some()
    }

    /// Whether the configuration is known and names no kind for the primaries.
    pub(super) fn has_no_kinds(&self) -> bool {
        self.kinds().is_some_and(|kinds| self.declared().configured_primaries(&kinds).is_some_and(<[_]>::is_empty))
    }

    /// Shows that the controller waits for a configuration that names a kind.
    pub(super) fn say_no_kinds(&self) {
        if self.has_no_kinds() {
            let pointer = self.declared().primary.kinds_from.as_deref().unwrap_or_default();
            self.report_state(ControllerState::Waiting, Some(format!("its configuration names no kind at {pointer}")));
        }
    }

    /// The controller as the manifest declares it, with the kinds that the configuration names now.
    pub(super) fn with_kinds(&self) -> Declared {
        self.declared().of_kinds(self.identity.kind.as_ref(), &self.kinds().unwrap_or_default())
    }

    fn kinds(&self) -> Option<ConfiguredKinds> {
        kinds(self.parts.plugin.manifest(), &self.parts.configured)
    }

    /// Completes when the configuration names other kinds for the controller's watches than `declared` has. The kind of
    /// the primaries does not count, because another kind of primaries has another controller.
    pub(super) fn watches_others(&self, declared: Arc<Declared>) -> impl Future<Output = ()> + Send + 'static {
        let controller = self.clone();
        async move {
            let mut configured = controller.parts.configured.clone();
            let has_fixed_kinds = controller.declared().watches.iter().all(|watch| watch.kinds_from.is_none());
            while has_fixed_kinds || controller.with_kinds().watches == declared.watches {
                if has_fixed_kinds || configured.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn manifest() -> Manifest {
        let by_metadata = json!({"kindsFrom": "/kinds", "projection": {"type": "metadata"}});
        let manifest = json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "PluginManifest", "name": "a", "version": "0.1.0",
            "controllers": [
                {"name": "janitor", "primary": by_metadata},
                {"name": "plain", "primary": {"apiVersion": "v1", "kind": "ConfigMap"}},
            ],
            "config": {"schema": {"type": "object"}},
        });
        Manifest::from_json(&manifest.to_string()).expect("valid")
    }

    fn names(kinds: Option<&serde_json::Value>) -> Vec<String> {
        let manifest = manifest();
        let kinds = kinds.map(|kinds| {
            ConfiguredKinds::read(&manifest.controllers, &json!({"kinds": kinds})).expect("a list of kinds")
        });
        identities(&manifest, kinds.as_ref()).iter().map(|it| format!("{} {}", it.index, it.name)).collect()
    }

    #[test]
    fn each_kind_of_the_configuration_has_a_controller_of_its_own() {
        let kinds = json!([{"apiVersion": "apps/v1", "kind": "Deployment"}, {"apiVersion": "v1", "kind": "Pod"}]);
        assert_eq!(names(Some(&kinds)), ["0 janitor.deployment.apps", "0 janitor.pod", "1 plain"]);
    }

    #[test]
    fn without_a_kind_one_controller_shows_why_nothing_runs() {
        assert_eq!(names(None), ["0 janitor", "1 plain"]);
        assert_eq!(names(Some(&json!([]))), ["0 janitor", "1 plain"]);
    }
}
