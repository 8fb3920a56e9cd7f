//! The host's engine in a run: it is begun, crashes, and is begun again.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use windlass_kube::client::Connection;
use windlass_runtime::{HostError, Settings, run_loaded};

use super::CheckSubject;
use super::wire::{ServerHandle, Wire};
use crate::fault::CrashPoint;
use crate::trace::{Happening, Record};

/// The URL of the server, for messages.
const SERVER: &str = "http://localhost";

/// How long calls of a dead process may go on after it has stopped, until each has met its deadline.
const LAST_CALLS: Duration = Duration::from_mins(2);

/// The parts of a process of the host.
#[derive(Clone)]
struct Process {
    server: ServerHandle,
    subject: CheckSubject,
    record: Record,
}

/// A host with the plugin.
pub(super) struct Engine {
    process: Process,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Engine {
    /// Begins. If it crashes, it begins again when the old process is gone.
    pub(super) fn start(
        server: ServerHandle,
        subject: CheckSubject,
        record: Record,
        crash: Option<CrashPoint>,
    ) -> Engine {
        Engine::of(Process { server, subject, record }, crash)
    }

    fn of(process: Process, crash: Option<CrashPoint>) -> Engine {
        let stop = CancellationToken::new();
        let task = tokio::spawn(keep_up(process.clone(), crash, stop.clone()));
        Engine { process, stop, task }
    }

    /// Stops in order.
    pub(super) async fn stop(self) {
        self.stop.cancel();
        self.task.await.expect("the engine has no panic of its own");
    }

    /// Stops in order, and begins again, without a crash.
    pub(super) async fn restart(&mut self) {
        self.stop.cancel();
        (&mut self.task).await.expect("the engine has no panic of its own");
        self.process.record.note(Happening::Restart);
        *self = Engine::of(self.process.clone(), None);
    }
}

async fn keep_up(process: Process, mut crash: Option<CrashPoint>, stop: CancellationToken) {
    loop {
        let wire = Wire::new(process.server.clone(), process.record.clone(), crash.take());
        let (dead, own_stop) = (wire.dead().clone(), stop.child_token());
        let running = tokio::spawn(run(wire, process.subject.clone(), own_stop.clone()));
        let mut running = std::pin::pin!(running);
        let crashed = tokio::select! {
            biased;
            () = dead.cancelled() => true,
            ended = &mut running => {
                if let Ok(Err(error)) = ended {
                    process.record.note(Happening::Warning(error.to_string()));
                }
                false
            }
        };
        if !crashed {
            return;
        }
        // Nobody sees what is left of it, and the next one begins when nothing is.
        process.record.mute(true);
        own_stop.cancel();
        let _ = running.await;
        sleep(LAST_CALLS).await;
        process.record.mute(false);
    }
}

async fn run(
    wire: Wire,
    CheckSubject { plugin, features }: CheckSubject,
    stop: CancellationToken,
) -> Result<(), HostError> {
    let connection = Connection::in_process(wire, &SERVER.parse().expect("a URL"));
    let settings = Settings { features, ..Settings::in_process() };
    run_loaded(connection, settings, &[plugin], stop).await
}
