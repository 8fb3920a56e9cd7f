//! The facts about a plugin for the status of its object, taken from the same values as `/plugins`.

use windlass_objects::{ControllerFigures, EngineFacts, RefusedFile};

use super::super::locked;
use super::{NotTaken, PluginHealth, PluginStatus};

impl PluginStatus {
    /// The SHA-256 of the file that runs.
    pub(crate) fn running_digest(&self) -> Option<String> {
        locked(&self.current).plugin.as_ref().map(|plugin| plugin.digest().to_string())
    }

    /// The facts for the status of the plugin's object.
    pub(in super::super) fn facts(&self, health: PluginHealth) -> EngineFacts {
        let current = locked(&self.current).clone();
        let controllers = self.controllers();
        let figures = controllers.iter().map(|controller| {
            let queue = controller.queue().map(|queue| queue.metrics()).unwrap_or_default();
            ControllerFigures {
                name: controller.own_name().to_owned(),
                state: controller.state().0.as_str(),
                queued: (queue.depth + queue.parked + queue.backing_off) as u64,
                failing: controller.failing(queue.failing) as u64,
            }
        });
        let failures = controllers.iter().flat_map(|controller| {
            let last = controller.calls.last_failures(1).into_iter();
            last.map(|(key, failure)| (failure.at, controller.own_name().to_owned(), key.to_string()))
        });
        let last_failure = failures.max().map(|(_, controller, key)| (controller, key));
        let file = |it: NotTaken| RefusedFile { digest: it.digest.map(|digest| digest.to_string()), reason: it.reason };
        EngineFacts {
            state: health.state,
            is_well: health.is_well,
            why: health.why,
            version: current.plugin.as_ref().map(|plugin| plugin.manifest().version.clone()),
            digest: current.plugin.as_ref().map(|plugin| plugin.digest().to_string()),
            refused: current.not_taken.map(file),
            rolled_back: current.rejected.map(file),
            is_swapping: current.pending.is_some(),
            refused_config: self.refused_config(),
            has_next: locked(&self.next).is_some(),
            controllers: figures.collect(),
            last_failure,
        }
    }
}
