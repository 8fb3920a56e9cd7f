//! Waits for the API server's first answer, so that a replica can start while the server is unavailable. If it exited
//! at once, the kubelet would wait longer and longer before each restart.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::sleep;
use windlass_core::retry::RetryPolicy;
use windlass_kube::client::ConnectError;

use crate::supervise::jittered_policy;

/// The pauses before further attempts: 15 to 30 seconds in total. A server that does not answer by then may be the
/// wrong one.
const FIRST_ANSWER_BACKOFF: RetryPolicy = jittered_policy(Duration::from_secs(1), Duration::from_secs(8)).steps(4);

/// Calls `ask` until there is an answer, or an error that is not temporary.
pub(super) async fn first_answer<T, A>(server: &str, ask: impl FnMut() -> A) -> Result<T, ConnectError>
where
    A: Future<Output = Result<T, ConnectError>>,
{
    let has_warned = Cell::new(false);
    let passes = |error: &ConnectError| {
        let may_pass = error.may_pass();
        if may_pass && !has_warned.replace(true) {
            tracing::warn!(server, %error, "the API server does not answer yet; it is asked again for half a minute");
        }
        may_pass
    };
    FIRST_ANSWER_BACKOFF.run(windlass_world::random, sleep, passes, ask).await
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use tokio::time::Instant;
    use windlass_kube::RequestError;

    use super::*;

    fn unreachable() -> ConnectError {
        let source = RequestError::TimedOut { after: Duration::from_secs(15) };
        ConnectError::Unreachable { server: "https://a".to_owned(), origin: "a test".to_owned(), source }
    }

    /// How often a server is asked if `failures` attempts fail, for how long, and whether it has answered.
    async fn asked(failures: u32, error: fn() -> ConnectError) -> (u32, Duration, bool) {
        let (began, mut asked) = (Instant::now(), 0);
        let answer = first_answer("https://a", || {
            asked += 1;
            ready(if asked > failures { Ok(()) } else { Err(error()) })
        })
        .await;
        (asked, began.elapsed(), answer.is_ok())
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_fails_at_first_is_asked_again_for_half_a_minute() {
        assert!(matches!(asked(3, unreachable).await, (4, _, true)));
        let (times, lasted, answered) = asked(u32::MAX, unreachable).await;
        assert!((15..=31).contains(&lasted.as_secs()) && times == 5 && !answered, "{times} times in {lasted:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_with_a_wrong_configuration_is_not_asked_again() {
        let no_context = || ConnectError::NoConfig { default: "config".into() };
        assert_eq!(asked(1, no_context).await, (1, Duration::ZERO, false));
    }
}
