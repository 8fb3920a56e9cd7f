//! Plugins that should run but do not, because the host's task that ran or started them has panicked. They start again
//! as when a host starts, so only time is lost.

use std::sync::Arc;
use std::time::Duration;

use super::{DirectoryNews, Reload};
use crate::plugins::announce;
use crate::supervise::jittered;

/// The shortest pause before such a plugin starts again. By then its interrupted calls have ended, and a plugin that
/// fails each time uses few resources.
const RESTART_DELAY_MIN: Duration = Duration::from_mins(1);

impl Reload {
    /// Handles the loss of the running generation of `plugin`. Its lease is released meanwhile, so that another replica
    /// may run it.
    pub(super) fn fell(&mut self, plugin: &Arc<str>) {
        self.catalog.fell(plugin);
        self.host.leadership.leave(plugin);
        let pause = jittered(RESTART_DELAY_MIN);
        announce::fell(&self.host, plugin, pause);
        let (sender, plugin) = (self.sender.clone(), plugin.clone());
        tokio::spawn(self.phases.stop.clone().run_until_cancelled_owned(async move {
            tokio::time::sleep(pause).await;
            // The receiver ends with the host.
            let _ = sender.send(DirectoryNews::Again { plugin });
        }));
    }

    /// Called after a panic of this task, which may have lost a start.
    pub(super) fn find_fallen(&mut self) {
        for plugin in
            self.catalog.at_work().filter(|plugin| !self.handles.contains_key(*plugin)).cloned().collect::<Vec<_>>()
        {
            self.fell(&plugin);
        }
    }
}
