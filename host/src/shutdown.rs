//! When to stop: Ctrl-C and SIGTERM. The second one does not wait for anything.

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The exit code after a second signal: 128 + SIGINT, as a shell reports it.
const IMPATIENT: i32 = 130;

/// Cancels the returned token at the first signal and ends the process at the second.
pub(crate) fn on_signal() -> anyhow::Result<CancellationToken> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    tokio::spawn(async move {
        loop {
            let name = tokio::select! {
                _ = interrupt.recv() => "SIGINT",
                _ = terminate.recv() => "SIGTERM",
            };
            if stopping.is_cancelled() {
                tracing::warn!(signal = name, "second signal: ending at once");
                std::process::exit(IMPATIENT);
            }
            tracing::info!(signal = name, "stopping; a second signal ends at once");
            stopping.cancel();
        }
    });
    Ok(stop)
}
