//! Random values and the time of day: from the system, or injected into this thread by `windlass check` or a test.
//!
//! Only this crate asks the system for random values and the time. Timers follow tokio's clock, which tests can pause.
//! With an injected world and a paused clock, a host in one thread behaves exactly the same for the same seed.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rand::distr::uniform::{SampleRange, SampleUniform};
use rand::distr::{Distribution, StandardUniform};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use tokio::task::JoinHandle;

thread_local! {
    static SIMULATED: RefCell<Option<SimulatedWorld>> = const { RefCell::new(None) };
}

/// The random generator and the clock that are injected into a thread.
struct SimulatedWorld {
    chance: Xoshiro256PlusPlus,
    now: Box<dyn Fn() -> Duration>,
}

/// Guard of [`simulate`]: as long as it is held, its thread gets injected random values and an injected time. It cannot
/// be sent to another thread.
#[must_use = "the world is simulated only while this is held"]
pub struct Simulated {
    before: Option<SimulatedWorld>,
    _stays: PhantomData<Rc<()>>,
}

/// Injects random values from `seed` and the time `now` (since 1970) into this thread. Other threads still use the
/// system's, even for work that this thread gives them.
pub fn simulate(seed: u64, now: impl Fn() -> Duration + 'static) -> Simulated {
    let simulated = SimulatedWorld { chance: Xoshiro256PlusPlus::seed_from_u64(seed), now: Box::new(now) };
    Simulated { before: SIMULATED.replace(Some(simulated)), _stays: PhantomData }
}

impl Drop for Simulated {
    fn drop(&mut self) {
        SIMULATED.set(self.before.take());
    }
}

/// Whether random values and the time are injected into this thread.
#[must_use]
pub fn is_simulated() -> bool {
    SIMULATED.with_borrow(Option::is_some)
}

/// The time since 1970. Zero if the system's clock shows an earlier time.
#[must_use]
pub fn now() -> Duration {
    let simulated = SIMULATED.with_borrow(|simulated| simulated.as_ref().map(|simulated| (simulated.now)()));
    simulated.unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// A random value, like that of `rand::random`.
#[must_use]
pub fn random<T>() -> T
where
    StandardUniform: Distribution<T>,
{
    SIMULATED
        .with_borrow_mut(|simulated| simulated.as_mut().map(|simulated| simulated.chance.random()))
        .unwrap_or_else(rand::random)
}

/// A random value in `range`, like that of `rand::random_range`. The range must not be empty.
#[must_use]
pub fn random_range<T: SampleUniform>(range: impl SampleRange<T> + Clone) -> T {
    let simulated = SIMULATED
        .with_borrow_mut(|simulated| simulated.as_mut().map(|simulated| simulated.chance.random_range(range.clone())));
    simulated.unwrap_or_else(|| rand::random_range(range))
}

/// Fills `bytes` with random bytes that cannot be guessed, unless random values are injected.
pub fn fill(bytes: &mut [u8]) {
    let is_simulated = SIMULATED
        .with_borrow_mut(|simulated| simulated.as_mut().map(|simulated| simulated.chance.fill_bytes(bytes)).is_some());
    if !is_simulated {
        rand::rng().fill_bytes(bytes);
    }
}

/// Runs `work` on a thread where it may block. In a simulated world, runs it as a task on this thread instead, so that
/// nothing runs in parallel.
pub fn spawn_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    if is_simulated() { tokio::spawn(async { work() }) } else { tokio::task::spawn_blocking(work) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(seed: u64) -> (u64, u8, [u8; 9]) {
        let _simulated = simulate(seed, || Duration::from_secs(7));
        let mut bytes = [0; 9];
        fill(&mut bytes);
        (random(), random_range(0..10), bytes)
    }

    #[test]
    fn equal_seeds_give_equal_values_and_different_seeds_different_ones() {
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn an_injected_world_ends_with_its_guard_and_with_its_thread() {
        let simulated = simulate(1, || Duration::from_secs(7));
        assert_eq!(now(), Duration::from_secs(7));
        {
            let _inner = simulate(2, || Duration::from_secs(8));
            assert_eq!(now(), Duration::from_secs(8));
        }
        assert_eq!(now(), Duration::from_secs(7));
        let elsewhere = std::thread::spawn(|| (is_simulated(), now())).join().expect("no panic");
        assert!(!elsewhere.0 && elsewhere.1 > Duration::from_hours(24 * 365 * 50));
        drop(simulated);
        assert!(!is_simulated());
    }
}
