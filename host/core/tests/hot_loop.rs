//! Tests the hot-loop detector against a model that counts everything.

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;
use windlass_core::clock::Moment;
use windlass_core::queue::hot_loop::LoopDetector;

const WRITES_LIMIT: u32 = 20;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Writes to a few hot objects among many others, as from a plugin that tries not to be detected.
    #[test]
    fn only_objects_with_too_many_writes_are_reported_and_none_is_missed(
        writes in prop::collection::vec((prop_oneof![1 => 0..3_u32, 8 => 3..2_000_u32], 0..40_u64), 1..4_000),
    ) {
        let mut tally = LoopDetector::new(WRITES_LIMIT);
        let (mut now, mut window) = (Duration::ZERO, Duration::ZERO);
        // In this window: all writes of each object, its writes since it was last reported, and the writes of all
        // objects.
        let (mut since_found, mut all) = (HashMap::<u32, u32>::new(), 0_usize);
        for (object, pause) in writes {
            now += Duration::from_millis(pause);
            if now >= window + Duration::from_mins(1) {
                (window, all) = (now, 0);
                since_found.clear();
            }
            all += 1;
            let own = since_found.entry(object).or_default();
            *own += 1;
            let found = tally.wrote(&object, None, Moment(now));
            prop_assert!(!found || *own >= WRITES_LIMIT, "{object} was named after {own} writes");
            let lost = u32::try_from(all / 256).expect("few writes");
            prop_assert!(found || *own < WRITES_LIMIT + lost, "{object} was missed with {own} writes of {all}");
            if found {
                *own = 0;
            }
        }
    }
}
