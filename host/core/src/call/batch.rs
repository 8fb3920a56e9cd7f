//! How many operations of a batch are sent at a time: few at first, more while they succeed. A batch that is bound to
//! fail (a used-up quota, an admission webhook that refuses) then costs the server a few requests instead of all of
//! them.
//!
//! As `slowStartBatch` of Kubernetes' controllers, which gives up at the first round with a failure. Here the
//! operations of a batch may be unrelated, so one failure only slows the batch down. The batch ends after three
//! rounds in which every operation failed.

use std::ops::Range;

/// The most operations under way at once.
const CONCURRENT_OPERATIONS_MAX: usize = 64;
/// The batch ends after this many rounds in a row in which every operation failed.
const FAILED_ROUNDS_MAX: u32 = 3;

/// The rounds of one batch. Ask for a round, send it, and report its failures.
#[derive(Clone, Debug)]
pub struct SlowStart {
    operations: usize,
    sent: usize,
    size: usize,
    failed_rounds: u32,
}

impl SlowStart {
    /// A batch of `operations` operations.
    #[must_use]
    pub fn new(operations: usize) -> Self {
        Self { operations, sent: 0, size: 1, failed_rounds: 0 }
    }

    /// The operations to send next, all at once. `None` if none are left or the batch has been given up.
    pub fn next_round(&mut self) -> Option<Range<usize>> {
        if self.sent == self.operations || self.failed_rounds == FAILED_ROUNDS_MAX {
            return None;
        }
        let begin = self.sent;
        self.sent = (begin + self.size).min(self.operations);
        Some(begin..self.sent)
    }

    /// Records that `failures` operations failed in `round`, the last round sent.
    pub fn ended(&mut self, round: &Range<usize>, failures: usize) {
        self.size = if failures == 0 { (self.size * 2).min(CONCURRENT_OPERATIONS_MAX) } else { 1 };
        self.failed_rounds = if failures == round.len() { self.failed_rounds + 1 } else { 0 };
    }

    /// The operations that were not sent.
    #[must_use]
    pub fn unsent(&self) -> Range<usize> {
        self.sent..self.operations
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The rounds of a batch whose operations fail as in `fails`.
    fn rounds(fails: &[bool]) -> (Vec<Range<usize>>, Range<usize>) {
        let mut start = SlowStart::new(fails.len());
        let mut rounds = Vec::new();
        while let Some(round) = start.next_round() {
            let failures = fails[round.clone()].iter().filter(|fails| **fails).count();
            start.ended(&round, failures);
            rounds.push(round);
        }
        (rounds, start.unsent())
    }

    fn sizes(fails: &[bool]) -> Vec<usize> {
        rounds(fails).0.iter().map(Range::len).collect()
    }

    #[test]
    fn rounds_double_up_to_a_bound_while_all_succeed() {
        assert_eq!(sizes(&[false; 10]), [1, 2, 4, 3]);
        assert_eq!(sizes(&[false; 300]), [1, 2, 4, 8, 16, 32, 64, 64, 64, 45]);
        assert!(sizes(&[]).is_empty());
    }

    #[test]
    fn a_failure_begins_again_with_one() {
        let mut fails = [false; 12];
        fails[4] = true;
        assert_eq!(sizes(&fails), [1, 2, 4, 1, 2, 2]);
    }

    #[test]
    fn three_rounds_of_failures_end_the_batch() {
        assert_eq!(rounds(&[true; 100]), (vec![0..1, 1..2, 2..3], 3..100));
        // The operation that succeeds is in the third round.
        assert_eq!(rounds(&[true, true, false, true, true]).1, 5..5);
        assert_eq!(rounds(&[false, true, true, true, true, true]), (vec![0..1, 1..3, 3..4, 4..5], 5..6));
    }

    proptest! {
        #[test]
        fn each_operation_is_sent_once_in_order_or_not_at_all(fails in prop::collection::vec(any::<bool>(), 0..400)) {
            let (rounds, unsent) = rounds(&fails);
            let sent: Vec<_> = rounds.iter().cloned().flatten().chain(unsent.clone()).collect();
            prop_assert_eq!(sent, (0..fails.len()).collect::<Vec<_>>());
            prop_assert!(rounds.iter().all(|round| (1..=64).contains(&round.len())));
            if !unsent.is_empty() {
                let last = &rounds[rounds.len() - 3..];
                prop_assert!(last.iter().all(|round| fails[round.clone()].iter().all(|fails| *fails)));
            }
        }

        #[test]
        fn a_batch_that_only_fails_costs_three_requests(count in 3_usize..500) {
            let (rounds, unsent) = rounds(&vec![true; count]);
            prop_assert_eq!((rounds.len(), unsent), (3, 3..count));
        }
    }
}
