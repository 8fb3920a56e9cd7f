//! Limits how many stories that keep the processors busy run at once: at most as many as there are processors. Stories
//! that mostly wait run beside them, so `tools/test` starts more stories than there are processors.

use std::sync::LazyLock;
use std::thread::available_parallelism;

use tokio::sync::{Semaphore, SemaphorePermit};

static TURNS: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(available_parallelism().map_or(1, usize::from)));

/// Waits for a turn. The turn lasts until the permit is dropped.
pub async fn turn() -> anyhow::Result<SemaphorePermit<'static>> {
    Ok(TURNS.acquire().await?)
}
