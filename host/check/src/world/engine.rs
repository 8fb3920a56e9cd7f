//! The host's engine in a run. It is started, may crash, and is started again.

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use windlass_runtime::LeaseMode;

use super::CheckSubject;
use super::failover::share_a_lease;
use super::process::Process;
use super::swap::HotSwap;
use super::wire::{ProcessEnd, ServerHandle};
use crate::fault::{Failover, Fault, WritePoint};
use crate::trace::{Happening, Record};

/// The time that calls of a dead process may still run. By then each call has reached its deadline.
const LAST_CALLS_TIMEOUT: Duration = Duration::from_mins(2);

/// The faults of a run that affect host processes.
#[derive(Clone, Debug, Default)]
pub(super) struct HostFaults {
    crash: Option<WritePoint>,
    failover: Option<Failover>,
    swap: Option<WritePoint>,
}

impl HostFaults {
    pub(super) fn of(faults: &[Fault]) -> Self {
        Self {
            crash: faults.iter().find_map(|fault| fault.crash),
            failover: faults.iter().find_map(|fault| fault.failover.clone()),
            swap: faults.iter().find_map(|fault| fault.swap),
        }
    }
}

/// A host with the plugin.
pub(super) struct Engine {
    process: Process,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Engine {
    /// Starts the host. If it crashes, it starts again once the old process is gone.
    pub(super) fn start(server: ServerHandle, subject: CheckSubject, record: Record, faults: HostFaults) -> Engine {
        Engine::of(Process { server, subject, record }, faults)
    }

    fn of(process: Process, faults: HostFaults) -> Engine {
        let stop = CancellationToken::new();
        let task = tokio::spawn(keep_up(process.clone(), faults, stop.clone()));
        Engine { process, stop, task }
    }

    pub(super) async fn stop(self) {
        self.stop.cancel();
        self.task.await.expect("the engine has no panic of its own");
    }

    /// Stops the host gracefully and starts it again without faults.
    pub(super) async fn restart(&mut self) {
        self.stop.cancel();
        (&mut self.task).await.expect("the engine has no panic of its own");
        self.process.record.note(Happening::Restart);
        *self = Engine::of(self.process.clone(), HostFaults::default());
    }
}

async fn keep_up(process: Process, faults: HostFaults, stop: CancellationToken) {
    let HostFaults { mut crash, failover, swap } = faults;
    let newest = watch::Sender::new(process.subject.plugin.clone());
    let mut swap = swap.map(|at| HotSwap { at, newest });
    if let Some(failover) = failover {
        return share_a_lease(process, failover, swap, stop).await;
    }
    loop {
        let end = crash.take().map_or(ProcessEnd::None, ProcessEnd::Crash);
        let swap = swap.take();
        let wire = process.wire(end, swap.clone());
        let (dead, own_stop) = (wire.dead().clone(), stop.child_token());
        let newest = process.newest(swap.as_ref());
        let running = process.clone().run(wire, newest, LeaseMode::None, own_stop.clone());
        let mut running = std::pin::pin!(tokio::spawn(running));
        let crashed = tokio::select! {
            biased;
            () = dead.cancelled() => true,
            _ = &mut running => false,
        };
        if !crashed {
            return;
        }
        // The remaining actions of the old process are not recorded. The next process starts when nothing of the old
        // process is left.
        process.record.mute(true);
        own_stop.cancel();
        let _ = running.await;
        sleep(LAST_CALLS_TIMEOUT).await;
        process.record.mute(false);
    }
}
