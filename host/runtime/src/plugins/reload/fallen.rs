//! Plugins that do not run any more though nobody has ended them: the host's own task panicked that ran them, or was
//! about to start them. Nothing of them is lost but time: they are started again, like by a host that starts.

use std::sync::Arc;
use std::time::Duration;

use super::{DirectoryNews, Reload};
use crate::plugins::tell;
use crate::supervise::jittered;

/// The least pause before one is started again: calls that were cut off from the host have ended by then, and what
/// fails each time keeps nobody busy.
const RESTART_DELAY_MIN: Duration = Duration::from_mins(1);

impl Reload {
    /// The running generation of `plugin` is no more. Its lease is let go of meanwhile, so that another replica may run
    /// it.
    pub(super) fn fell(&mut self, plugin: &Arc<str>) {
        self.catalog.fell(plugin);
        self.host.leadership.leave(plugin);
        let pause = jittered(RESTART_DELAY_MIN);
        tell::fell(&self.host, plugin, pause);
        let (tell, plugin) = (self.tell.clone(), plugin.clone());
        tokio::spawn(self.phases.stop.clone().run_until_cancelled_owned(async move {
            tokio::time::sleep(pause).await;
            // Whoever listens ends with the host.
            let _ = tell.send(DirectoryNews::Again { plugin });
        }));
    }

    /// After a panic of this task: what was about to be started then may not have been.
    pub(super) fn find_fallen(&mut self) {
        for plugin in
            self.catalog.at_work().filter(|plugin| !self.handles.contains_key(*plugin)).cloned().collect::<Vec<_>>()
        {
            self.fell(&plugin);
        }
    }
}
