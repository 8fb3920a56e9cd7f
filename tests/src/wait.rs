//! Waits for conditions rather than for a fixed time.

use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use anyhow::bail;

/// How long a condition may take on a busy machine.
pub const CONDITION_TIMEOUT: Duration = Duration::from_mins(3);

/// How long to wait before the next look: a tenth of the wait so far. So quick results are seen at once, and frequent
/// looks do not delay slow ones.
fn pause(waited: Duration) -> Duration {
    (waited / 10).clamp(Duration::from_millis(25), Duration::from_millis(500))
}

/// Calls `look` repeatedly until it returns a value. Fails after [`CONDITION_TIMEOUT`] with a description of the
/// condition and the last error.
pub async fn until<T, E, F, Fut>(what: &str, look: F) -> anyhow::Result<T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, E>>,
    E: Debug,
{
    until_within(CONDITION_TIMEOUT, what, look).await
}

/// Like [`until`], with another time limit.
pub async fn until_within<T, E, F, Fut>(patience: Duration, what: &str, mut look: F) -> anyhow::Result<T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, E>>,
    E: Debug,
{
    let began = tokio::time::Instant::now();
    loop {
        match look().await {
            Ok(value) => return Ok(value),
            Err(seen) if began.elapsed() > patience => {
                bail!("{what}: not within {patience:?}; seen last: {seen:?}")
            }
            Err(_) => tokio::time::sleep(pause(began.elapsed())).await,
        }
    }
}
