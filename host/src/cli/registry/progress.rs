//! Shows the progress of a transfer on a terminal.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use windlass_oci::Progress;

/// Transfers of fewer bytes show no progress.
const SHOWN_BYTES_MIN: u64 = 1 << 20;

/// A line on standard error that shows each per cent, such as `pulling 42 %`. `None` if standard error is no terminal.
pub(crate) fn shown(verb: &'static str) -> Option<Progress> {
    if !std::io::stderr().is_terminal() {
        return None;
    }
    let last = AtomicU64::new(u64::MAX);
    Some(Arc::new(move |done, total| {
        let percent = done.saturating_mul(100) / total.max(1);
        if total >= SHOWN_BYTES_MIN && last.swap(percent, Ordering::Relaxed) != percent {
            let end = if done == total { "\n" } else { "" };
            // A line that cannot be shown must not end the transfer.
            let _ = write!(std::io::stderr(), "\r{verb} {percent:3} % of {} MiB{end}", total >> 20);
        }
    }))
}
