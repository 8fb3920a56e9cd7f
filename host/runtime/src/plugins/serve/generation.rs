//! One generation of a plugin, and its controllers, which follow the kinds that the configuration names.

use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use windlass_kube::Budget;
use windlass_wasm::Plugin;

use super::{Serving, ServingState};
use crate::controller::kinds::{ControllerIdentity, identities};
use crate::controller::{Controller, GenerationParts, Handover};
use crate::dispatch::call_record::CallRecord;
use crate::dispatch::configured;
use crate::observe::status::ControllerStatus;
use crate::plugins::prepare::{self, FollowedConfig};
use crate::suspension::Suspension;

/// One generation, ready to run.
pub(crate) struct Generation {
    pub(crate) plugin: Arc<Plugin>,
    pub(crate) controllers: Vec<Controller>,
    pub(crate) record: Arc<CallRecord>,
    /// Why the newest configuration is not in force, if so.
    pub(super) refused_config: watch::Receiver<Option<String>>,
    parts: GenerationParts,
    /// Dropping this ends the task that follows the plugin's configuration.
    _following: DropGuard,
}

impl Generation {
    /// The controllers that the generation should have.
    fn wanted(&self) -> Vec<ControllerIdentity> {
        let manifest = self.plugin.manifest();
        identities(manifest, configured::kinds(manifest, &self.parts.configured).as_ref())
    }

    /// Completes when the generation should have other controllers, because its configuration names other kinds.
    pub(in crate::plugins) async fn kinds_change(&self) {
        let mut configured = self.parts.configured.clone();
        while self.wanted().iter().eq(self.controllers.iter().map(Controller::identity)) {
            if self.plugin.manifest().kind_pointers().is_empty() || configured.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Serving {
    /// A generation of `plugin`, whose controllers keep the state of earlier ones.
    pub(crate) fn generation(&self, plugin: Arc<Plugin>, past: &mut ServingState) -> Option<Generation> {
        self.generation_of(plugin, CallRecord::new(), past)
    }

    pub(in crate::plugins) fn generation_of(
        &self,
        plugin: Arc<Plugin>,
        record: Arc<CallRecord>,
        past: &mut ServingState,
    ) -> Option<Generation> {
        let over = CancellationToken::new();
        let FollowedConfig { configured, refused } = prepare::configure(&self.host, &self.supplies, &plugin, &over)?;
        let budget = Budget::new(self.supplies.plugin_cache);
        let parts = GenerationParts {
            host: self.host.clone(),
            plugin: plugin.clone(),
            share: self.share.clone(),
            suspension: Suspension::new(&budget),
            budget,
            live: self.live.clone(),
            record: record.clone(),
            configured,
        };
        let mut generation = Generation {
            plugin,
            controllers: vec![],
            record,
            refused_config: refused,
            parts,
            _following: over.drop_guard(),
        };
        self.follow_kinds(past, &mut generation);
        Some(generation)
    }

    /// Gives `generation` a controller for each kind that its configuration names now, and removes the controllers of
    /// other kinds. Controllers whose kind is still named stay.
    pub(in crate::plugins) fn follow_kinds(&self, past: &mut ServingState, generation: &mut Generation) {
        let wanted = generation.wanted();
        let mut before = std::mem::take(&mut generation.controllers);
        before.retain(|controller| wanted.contains(controller.identity()));
        self.forget_unused(past, &generation.plugin, &wanted);
        let declared = &generation.plugin.manifest().controllers;
        for identity in wanted {
            let stays = before.iter().position(|controller| *controller.identity() == identity);
            let controller = stays.map(|at| before.swap_remove(at));
            let controller = controller.unwrap_or_else(|| {
                let handover = past.handover.entry(identity.name.to_string()).or_insert_with(|| {
                    let (plugin, name) = (generation.plugin.name(), &*identity.name);
                    let workers = declared[identity.index].options.workers;
                    let metrics = self.host.metrics.controller(plugin, name);
                    Handover::new(ControllerStatus::unlisted(plugin, name, workers, metrics))
                });
                Controller::new(generation.parts.clone(), handover.clone(), identity)
            });
            generation.controllers.push(controller);
        }
    }

    /// Forgets controllers of which nothing runs any more, except for the metrics of `wanted` controllers. A controller
    /// that was removed and comes back must wait for its earlier calls.
    pub(in crate::plugins) fn forget_unused(
        &self,
        past: &mut ServingState,
        plugin: &Plugin,
        wanted: &[ControllerIdentity],
    ) {
        past.handover.retain(|name, handover| {
            let is_in_use = handover.is_in_use();
            if !is_in_use && !wanted.iter().any(|wanted| *wanted.name == **name) {
                self.host.metrics.forget_controller(plugin.name(), name);
            }
            is_in_use
        });
    }

    /// Shows only the controllers of `generation`.
    pub(in crate::plugins) fn show_controllers(&self, generation: &Generation) {
        let shown = generation.controllers.iter();
        let shown = shown.map(|controller| (controller.name().to_owned(), controller.handover().status().clone()));
        self.host.status.plugin(generation.plugin.name()).shows(shown.collect());
    }
}
