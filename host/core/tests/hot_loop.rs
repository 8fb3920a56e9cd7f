//! The hot-loop detector against one that keeps everything.

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;
use windlass_core::clock::Moment;
use windlass_core::queue::hot_loop::LoopDetector;

const WRITES_LIMIT: u32 = 20;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Writes to a few hot objects among many others, as a plugin may make them that wants not to be found.
    #[test]
    fn no_object_is_named_that_had_too_few_writes_and_none_is_missed_that_had_clearly_too_many(
        writes in prop::collection::vec((prop_oneof![1 => 0..3_u32, 8 => 3..2_000_u32], 0..40_u64), 1..4_000),
    ) {
        let mut tally = LoopDetector::new(WRITES_LIMIT);
        let (mut now, mut window) = (Duration::ZERO, Duration::ZERO);
        // Of this window: of each object all writes, and those since it was last found; and of all objects together.
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
