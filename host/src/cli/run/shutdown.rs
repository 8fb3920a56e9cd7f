//! Stops the host on Ctrl-C and SIGTERM. A second signal ends it without waiting.

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Cancels the returned token at the first signal and ends the process at the second.
pub(crate) fn on_signal() -> anyhow::Result<CancellationToken> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    tokio::spawn(async move {
        loop {
            let (name, kind) = tokio::select! {
                biased;
                _ = interrupt.recv() => ("SIGINT", SignalKind::interrupt()),
                _ = terminate.recv() => ("SIGTERM", SignalKind::terminate()),
            };
            if stopping.is_cancelled() {
                tracing::warn!(signal = name, "second signal: ending at once");
                // The exit code with which a shell reports a process ended by a signal.
                std::process::exit(128 + kind.as_raw_value());
            }
            // Log first, so that messages about the shutdown come after this one.
            tracing::info!(signal = name, "stopping; a second signal ends at once");
            stopping.cancel();
        }
    });
    Ok(stop)
}
