//! Clock and randomness of a call that is recorded or replayed.

use std::time::Duration;

/// Clock and randomness as one call sees them. A recorder notes the values that the guest received; a replay returns
/// the same values.
pub trait Surroundings: Send + Sync {
    /// The time since 1970 that the guest sees. `really` is the actual time.
    fn now(&self, really: Duration) -> Duration;

    /// As [`Self::now`], for a monotonic clock with an arbitrary start.
    fn monotonic(&self, really: Duration) -> Duration;

    /// Fills `bytes` with random data.
    fn fill_random(&self, bytes: &mut [u8]);

    /// Whether waits of the guest end at once because time is simulated.
    fn is_simulated(&self) -> bool;

    /// With simulated time: the indices of the HTTP requests whose answers the guest finds at its next poll. Each call
    /// counts its requests from 0. `None` if the guest polls more often than the recording did.
    fn recorded_answers(&self) -> Option<Vec<u32>>;

    /// With real time: records that the guest learns now that these requests have been answered. `requests` is empty if
    /// no answer has come yet.
    fn answered(&self, requests: &[u32]);

    /// Records that the guest calls an import that a port answers, and that the call has used `cpu` so far.
    fn enters(&self, cpu: Duration);
}
