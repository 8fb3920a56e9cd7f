//! Time and chance of a call that is recorded, or made again from a recording.

use std::time::Duration;

/// Time and chance as one call sees them. Whoever records a call notes here what it was told; whoever makes it again tells
/// it the same.
pub trait Surroundings: Send + Sync {
    /// The time since 1970 that the guest is told, where it `really` is this.
    fn now(&self, really: Duration) -> Duration;

    /// The same of a clock that never goes back, whose beginning means nothing.
    fn monotonic(&self, really: Duration) -> Duration;

    /// Fills `bytes` with chance.
    fn fill_random(&self, bytes: &mut [u8]);

    /// Whether time passes at once where the guest waits.
    fn is_told(&self) -> bool;

    /// The numbers of the HTTP requests that the guest finds answered when it looks next, where time passes at once. Each call
    /// counts its requests from 0 on. `None` if it looks more often than was noted.
    fn told_answers(&self) -> Option<Vec<u32>>;

    /// The same where it is real: the guest learns now that these have been answered, or that none has.
    fn answered(&self, requests: &[u32]);

    /// The guest calls an import that a port answers, having used `cpu` so far.
    fn enters(&self, cpu: Duration);
}
