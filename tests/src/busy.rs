//! Stories that keep the processors busy take turns: as many at once as there are processors. Those that mostly wait
//! run beside them, which is why `tools/test` has more of them begin than there are processors.

use std::sync::LazyLock;
use std::thread::available_parallelism;

use tokio::sync::{Semaphore, SemaphorePermit};

static TURNS: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(available_parallelism().map_or(1, usize::from)));

/// Waits for a turn, which lasts until it is dropped.
pub async fn turn() -> anyhow::Result<SemaphorePermit<'static>> {
    Ok(TURNS.acquire().await?)
}
