//! The random data that a guest gets in a call. Only `seed` of the interface `runtime` gives the runtime of a guest's
//! language a seed that spoils no call: it is the call's own number, and another call can get it again (ADR 46). All
//! other random data count as data that the plugin itself decides by, also those that a guest asks for when it starts,
//! because it may seed a generator of the plugin with them.

use windlass_core::call::read_tracker::Spoiler;

use crate::limits::{Limit, Overrun};
use crate::state::{CallState, World};

impl CallState {
    /// `length` bytes from the random source of the call, if a guest may have that many at once.
    pub(crate) fn random_bytes(&mut self, length: u64) -> Result<Vec<u8>, Overrun> {
        let limit = self.meter.limits().random_bytes as usize;
        match usize::try_from(length) {
            Ok(length) if length <= limit => {
                self.meter.import_bytes(length);
                let mut bytes = vec![0; length];
                self.world.fill_random(&mut bytes);
                Ok(bytes)
            }
            _ => Err(Overrun::bytes(Limit::RandomBytes, limit)),
        }
    }
}

impl World {
    /// The seed of the call, for the runtime of the guest's language. It is random data like all others if the call has
    /// no number, or if its random data follow from something else: a recording, a replay, the arguments.
    pub(crate) fn seed(&mut self) -> u64 {
        if let Self::Reconcile(world) = &*self {
            match world.call.reads.seed() {
                _ if world.is_repeated() => world.call.reads.spoil(Spoiler::Recorded),
                Some(seed) => return seed,
                None => {}
            }
        }
        let mut bytes = [0; 8];
        self.fill_random(&mut bytes);
        u64::from_le_bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use windlass_core::call::ports::{Absent, CallContext, Ports, Surroundings};
    use windlass_core::call::read_tracker::ReadTracker;
    use windlass_core::object::{ObjectKey, ObjectKind};
    use windlass_core::rights::principal::Principal;

    use super::*;
    use crate::counters::PluginCounters;
    use crate::limits::Limits;
    use crate::request::Replay;
    use crate::state::ReconcileWorld;

    /// The world of a call that notes in `reads`.
    fn world(reads: &ReadTracker, surroundings: Option<Arc<dyn Surroundings>>, replay: Option<Replay>) -> World {
        let plugin = Principal::of_plugin("guest", "0123456789ab", "test");
        let (kind, key) = (ObjectKind::new("v1", "ConfigMap"), ObjectKey::namespaced("prod", "shop"));
        let call = CallContext { reads: reads.clone(), ..CallContext::detached(plugin, "guest", kind, key) };
        let counters = Arc::new(PluginCounters::new(&Limits::default()));
        let ports = Ports { surroundings, ..Absent::ports() };
        World::Reconcile(ReconcileWorld::new(ports, Arc::new(call), counters, replay))
    }

    fn seed(reads: &ReadTracker) -> u64 {
        world(reads, None, None).seed()
    }

    fn spoiler(reads: &ReadTracker) -> Option<Spoiler> {
        reads.end().expect("it is on").spoiled
    }

    /// The random data of a recording: zeros.
    struct Recording;

    impl Surroundings for Recording {
        fn now(&self, really: Duration) -> Duration {
            really
        }

        fn monotonic(&self, really: Duration) -> Duration {
            really
        }

        fn fill_random(&self, bytes: &mut [u8]) {
            bytes.fill(0);
        }

        fn is_simulated(&self) -> bool {
            false
        }

        fn recorded_answers(&self) -> Option<Vec<u32>> {
            None
        }

        fn answered(&self, _: &[u32]) {}

        fn enters(&self, _: Duration) {}
    }

    #[test]
    fn the_seed_of_a_call_is_its_number_and_does_not_spoil_it() {
        let reads = [7, 7, 8].map(ReadTracker::seeded);
        assert_eq!([0, 1, 2].map(|at| seed(&reads[at])), [7, 7, 8]);
        assert_eq!(reads.map(|reads| spoiler(&reads)), [None; 3]);
    }

    #[test]
    fn other_random_data_follow_from_no_number_and_spoil_the_call() {
        let drawn = [(); 2].map(|()| {
            let (reads, mut bytes) = (ReadTracker::seeded(7), [0; 8]);
            world(&reads, None, None).fill_random(&mut bytes);
            assert_eq!(spoiler(&reads), Some(Spoiler::Chance));
            bytes
        });
        assert_ne!(drawn[0], drawn[1]);
    }

    #[test]
    fn a_seed_without_a_number_is_random_data() {
        let reads = ReadTracker::begin();
        assert_ne!(seed(&reads), seed(&reads));
        assert_eq!(spoiler(&reads), Some(Spoiler::Chance));
    }

    #[test]
    fn a_seed_that_is_recorded_or_replayed_belongs_to_that_call_alone() {
        let recording: Arc<dyn Surroundings> = Arc::new(Recording);
        let replay = Replay { now: Duration::ZERO, seed: [1; 32] };
        for (surroundings, replay) in [(Some(recording), None), (None, Some(replay))] {
            let reads = ReadTracker::seeded(7);
            assert_ne!(world(&reads, surroundings, replay).seed(), 7);
            assert_eq!(spoiler(&reads), Some(Spoiler::Recorded));
        }
    }
}
