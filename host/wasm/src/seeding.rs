//! The random data that a guest gets in a call. Some of them are seeds of its language's runtime, such as the keys of
//! hash tables: those that it asks for before its export is entered, and those of the functions for seeds. All others
//! count as data that the plugin itself decides by.
//!
//! Seeds follow from the call's own number, if it has one, so that another call can get the same (ADR 46).

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use crate::limits::{Limit, Overrun};
use crate::state::{CallState, World};

/// The seeds of one call.
#[derive(Default)]
pub(crate) struct Seeding {
    /// Whether the export has been entered, so that the plugin itself may ask for random data.
    is_entered: bool,
    /// `None` if the guest has got no seeds that follow from the call's number.
    seeds: Option<StdRng>,
}

impl CallState {
    /// Notes that the export is entered now.
    pub(crate) fn enters_export(&mut self) {
        self.seeding.is_entered = true;
    }

    /// Fills `bytes` from the random source of the call.
    pub(crate) fn fill_random(&mut self, bytes: &mut [u8]) {
        if self.seeding.is_entered {
            self.world.fill_random(bytes);
        } else {
            self.fill_seed(bytes);
        }
    }

    /// Fills `bytes` with data that only seeds a runtime.
    pub(crate) fn fill_seed(&mut self, bytes: &mut [u8]) {
        match self.world.seed() {
            Some(seed) => self.seeding.seeds.get_or_insert_with(|| StdRng::seed_from_u64(seed)).fill_bytes(bytes),
            None => self.world.fill_random(bytes),
        }
    }

    /// `length` bytes from the random source of the call, if a guest may have that many at once.
    pub(crate) fn random_bytes(&mut self, length: u64) -> Result<Vec<u8>, Overrun> {
        let limit = self.meter.limits().random_bytes as usize;
        match usize::try_from(length) {
            Ok(length) if length <= limit => {
                self.meter.import_bytes(length);
                let mut bytes = vec![0; length];
                self.fill_random(&mut bytes);
                Ok(bytes)
            }
            _ => Err(Overrun::bytes(Limit::RandomBytes, limit)),
        }
    }
}

impl World {
    /// The number that seeds follow from. `None` if the call's random data follow from something else: a recording, a
    /// replay, the arguments. Then seeds are random data like all others.
    fn seed(&self) -> Option<u64> {
        match self {
            Self::Reconcile(world) if !world.is_repeated() => world.call.reads.seed(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use windlass_core::call::ports::{Absent, CallContext};
    use windlass_core::call::read_tracker::{ReadTracker, Spoiler};
    use windlass_core::object::{ObjectKey, ObjectKind};
    use windlass_core::rights::principal::Principal;

    use super::*;
    use crate::counters::PluginCounters;
    use crate::limits::Limits;
    use crate::meter::tests::meter;
    use crate::request::Replay;
    use crate::state::ReconcileWorld;

    /// The state of a call that notes in `reads`.
    fn state(reads: &ReadTracker, replay: Option<Replay>) -> CallState {
        let plugin = Principal::of_plugin("guest", "0123456789ab", "test");
        let (kind, key) = (ObjectKind::new("v1", "ConfigMap"), ObjectKey::namespaced("prod", "shop"));
        let call = CallContext { reads: reads.clone(), ..CallContext::detached(plugin, "guest", kind, key) };
        let counters = Arc::new(PluginCounters::new(&Limits::default()));
        let world = World::Reconcile(ReconcileWorld::new(Absent::ports(), Arc::new(call), counters, replay));
        CallState::new(meter(Limits::default()), world, None, wasmtime::Engine::default())
    }

    /// The bytes at the start of a call, and for its hashes.
    fn seeds(reads: &ReadTracker) -> [[u8; 8]; 2] {
        let (mut state, mut seeds) = (state(reads, None), [[0; 8]; 2]);
        state.fill_random(&mut seeds[0]);
        state.enters_export();
        state.fill_seed(&mut seeds[1]);
        seeds
    }

    fn spoiler(reads: &ReadTracker) -> Option<Spoiler> {
        reads.end().expect("it is on").spoiled
    }

    #[test]
    fn calls_with_one_number_get_the_same_seeds_and_are_not_spoiled() {
        let [one, same, other] = [7, 7, 8].map(ReadTracker::seeded);
        assert_eq!(seeds(&one), seeds(&same));
        assert_ne!(seeds(&one), seeds(&other));
        assert_eq!([one, same, other].map(|reads| spoiler(&reads)), [None; 3]);
    }

    #[test]
    fn the_time_of_day_spoils_a_call_before_the_export_too() {
        let reads = ReadTracker::seeded(7);
        let mut state = state(&reads, None);
        state.monotonic();
        assert_eq!(spoiler(&reads), None);
        let reads = ReadTracker::seeded(7);
        self::state(&reads, None).now();
        assert_eq!(spoiler(&reads), Some(Spoiler::Clock));
    }

    #[test]
    fn random_data_within_the_export_follow_from_no_number_and_spoil_the_call() {
        let drawn = [(); 2].map(|()| {
            let (reads, mut bytes) = (ReadTracker::seeded(7), [0; 8]);
            let mut state = state(&reads, None);
            state.enters_export();
            state.fill_random(&mut bytes);
            assert_eq!(spoiler(&reads), Some(Spoiler::Chance));
            bytes
        });
        assert_ne!(drawn[0], drawn[1]);
    }

    #[test]
    fn seeds_without_a_number_are_random_data() {
        let reads = ReadTracker::begin();
        assert_ne!(seeds(&reads), seeds(&reads));
        assert_eq!(spoiler(&reads), Some(Spoiler::Chance));
        let reads = ReadTracker::seeded(7);
        let replay = Replay { now: Duration::ZERO, seed: [1; 32] };
        state(&reads, Some(replay)).fill_seed(&mut [0; 8]);
        assert_eq!(spoiler(&reads), Some(Spoiler::Chance), "a replay has its own");
    }
}
