//! The started controllers of a generation. They come and go with the kinds that the plugin's configuration names.

use tokio_util::sync::CancellationToken;
use windlass_core::object::finalizer;

use super::Swaps;
use crate::controller::{Controller, Ready};
use crate::plugins::serve::Generation;

/// The controllers of one generation, started.
pub(super) struct StartedGeneration {
    controllers: Vec<StartedController>,
    /// Whether the generation's definitions are installed.
    ready: Ready,
    /// Cancelled once the generation may begin. `None` if it began at once.
    may_begin: Option<CancellationToken>,
    /// Ends the controllers.
    pub(super) stop: CancellationToken,
    /// Ends the installation of the definitions. If cancelled, nothing installs them.
    pub(super) installing: CancellationToken,
}

struct StartedController {
    controller: Controller,
    /// Ends only this controller.
    stop: CancellationToken,
}

impl StartedGeneration {
    pub(super) fn controllers(&self) -> impl Iterator<Item = &Controller> {
        self.controllers.iter().map(|started| &started.controller)
    }
}

impl Drop for StartedGeneration {
    /// Also runs after a panic. Otherwise a waiting installation could replace the definitions of a later attempt.
    fn drop(&mut self) {
        self.installing.cancel();
    }
}

impl Swaps<'_> {
    pub(super) fn begin_with(
        &mut self,
        generation: &Generation,
        may_begin: Option<&CancellationToken>,
        ready: &Ready,
        stop: CancellationToken,
        installing: CancellationToken,
    ) -> StartedGeneration {
        let (ready, may_begin) = (ready.clone(), may_begin.cloned());
        let mut begun = StartedGeneration { controllers: vec![], ready, may_begin, stop, installing };
        self.start_missing(generation, &mut begun);
        begun
    }

    /// Starts those controllers of `generation` that are not in `begun`.
    fn start_missing(&mut self, generation: &Generation, begun: &mut StartedGeneration) {
        for controller in &generation.controllers {
            if begun.controllers().any(|started| started.identity() == controller.identity()) {
                continue;
            }
            let ready = begun.ready.clone();
            let controller = match begun.may_begin.as_ref().filter(|may_begin| !may_begin.is_cancelled()) {
                None => controller.under(self.term, ready, &self.changed),
                Some(may_begin) => controller.after(self.term, ready, may_begin, &self.changed),
            };
            let stop = begun.stop.child_token();
            let (running, phases) = (controller.clone(), self.phases.of_generation(stop.clone()));
            self.running.spawn(async move { running.run(&phases).await });
            begun.controllers.push(StartedController { controller, stop });
        }
    }

    /// Starts and stops controllers, as the configuration of `generation` names kinds now. Controllers whose kind is
    /// still named go on.
    pub(super) fn follow_kinds(&mut self, generation: &mut Generation, begun: &mut StartedGeneration) {
        self.serving.follow_kinds(self.past, generation);
        // Stop these first, so that a controller of the same name waits for their calls.
        begun.controllers.retain(|StartedController { controller, stop }| {
            let stays = generation.controllers.iter().any(|it| it.identity() == controller.identity());
            if !stays {
                stop.cancel();
            }
            stays
        });
        self.start_missing(generation, begun);
    }

    /// Forgets controllers that have ended for good.
    pub(super) fn forget_unused(&mut self, current: &Generation) {
        let wanted: Vec<_> = current.controllers.iter().map(|controller| controller.identity().clone()).collect();
        self.serving.forget_unused(self.past, &current.plugin, &wanted);
    }
}

/// Why objects would keep a finalizer for ever if `next` took over.
pub(super) fn stranded(current: &StartedGeneration, next: &StartedGeneration) -> Option<String> {
    current.controllers().find_map(|controller| {
        let (objects, example) = controller.strands(next.controllers().find(|it| it.name() == controller.name()))?;
        let (plugin, name) = (controller.plugin_name(), controller.name());
        Some(format!(
            "{objects} objects, {example} among them, carry the finalizer {}, which the controller {name} would not keep any \
             more: once deleted, they would stay for ever. Remove the plugin's file, take the finalizer off with `windlass \
             finalizers release {plugin}`, and put the file back",
            finalizer::name(plugin)
        ))
    })
}
