//! One host process: the engine of `windlass run` with the plugin, behind its own connection.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use windlass_core::life::lease::Timing;
use windlass_kube::client::Connection;
use windlass_runtime::{LeaseMode, LeaseSettings, Settings, run_loaded};
use windlass_wasm::Plugin;

use super::CheckSubject;
use super::swap::HotSwap;
use super::wire::{ProcessEnd, ServerHandle, Wire};
use crate::trace::{Happening, Record};

/// The server's URL in messages.
const SERVER: &str = "http://localhost";

/// The durations of a lease in a check. They are six times the defaults (for renewals, ten times), so that all calls of
/// an unreachable process have ended when its lease expires: a disconnected call waits 20 s for its write, and a
/// composer's call then waits 30 s more for its status. Leases are renewed a tenth as often as by default, because
/// renewals cost more than anything else in a run.
fn timing() -> Timing {
    let [duration, renew_deadline, retry_period] = [90, 60, 20].map(Duration::from_secs);
    Timing::new(duration, renew_deadline, retry_period).expect("they fit together")
}

/// The parts of a host process.
#[derive(Clone)]
pub(super) struct Process {
    pub(super) server: ServerHandle,
    pub(super) subject: CheckSubject,
    pub(super) record: Record,
}

impl Process {
    /// Creates a connection of one process to the server.
    pub(super) fn wire(&self, end: ProcessEnd, swap: Option<HotSwap>) -> Wire {
        Wire::new(self.server.clone(), self.record.clone(), end, swap)
    }

    /// Receives the newest generation of the plugin. A swap changes it.
    pub(super) fn newest(&self, swap: Option<&HotSwap>) -> watch::Receiver<Arc<Plugin>> {
        swap.map_or_else(|| watch::channel(self.subject.plugin.clone()).1, |swap| swap.newest.subscribe())
    }

    /// Runs the plugin until `stop`, alone or with other processes that share a lease.
    pub(super) async fn run(
        self,
        wire: Wire,
        newest: watch::Receiver<Arc<Plugin>>,
        mode: LeaseMode,
        stop: CancellationToken,
    ) {
        let connection = Connection::in_process(wire, &SERVER.parse().expect("a URL"));
        let usual = Settings::in_process();
        let leases = LeaseSettings { mode, timing: timing(), warm_standby: true, ..usual.leases };
        let config_dir = Some(self.subject.configs);
        let settings = Settings { features: self.subject.features, config_dir, leases, ..usual };
        if let Err(error) = run_loaded(connection, settings, &[newest], stop).await {
            self.record.note(Happening::Warning(error.to_string()));
        }
    }
}
