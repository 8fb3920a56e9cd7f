//! Waits for conditions, never for a fixed time.

use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use anyhow::bail;

/// How long a condition may take on a busy machine.
pub const CONDITION_TIMEOUT: Duration = Duration::from_mins(3);

/// The pause before the next look after this wait: a tenth of it. So quick results are seen at once, and slow ones are
/// not slowed further by frequent looks.
fn pause(waited: Duration) -> Duration {
    (waited / 10).clamp(Duration::from_millis(25), Duration::from_millis(500))
}

/// Calls `look` repeatedly until it returns a value. Fails after [`CONDITION_TIMEOUT`] with what was awaited and what
/// was seen last.
pub async fn until<T, E, F, Fut>(what: &str, look: F) -> anyhow::Result<T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, E>>,
    E: Debug,
{
    until_within(CONDITION_TIMEOUT, what, look).await
}

/// The same with another time limit.
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
