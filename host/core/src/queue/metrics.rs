//! Measurements of a queue under client-go's names (`util/workqueue/metrics.go`).

use std::time::Duration;

/// The number of buckets of a [`Histogram`]. The first bound is 10 ns, and each further bound is ten times the previous
/// one, as in client-go.
pub const BUCKETS: usize = 12;

/// A histogram of durations. The bucket bounds are 1e-8, 1e-7, … 1e3 seconds, inclusive. Larger values are only in
/// `count`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Histogram {
    /// How many values fell into each bucket and not into a smaller one.
    pub buckets: [u64; BUCKETS],
    /// The number of values.
    pub count: u64,
    /// Their sum in nanoseconds.
    pub sum: u64,
}

impl Histogram {
    pub(crate) fn observe(&mut self, nanoseconds: u64) {
        self.count += 1;
        self.sum = self.sum.saturating_add(nanoseconds);
        let bucket = nanoseconds.saturating_sub(1).checked_ilog10().unwrap_or(0) as usize;
        if let Some(count) = self.buckets.get_mut(bucket) {
            *count += 1;
        }
    }
}

/// A queue's figures at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QueueMetrics {
    /// `workqueue_depth`: keys that are ready for a worker.
    pub depth: usize,
    /// Keys that the gate holds. client-go has no such state.
    pub parked: usize,
    /// Keys that have failed since they were last forgotten, whether or not the failures count.
    pub failing: usize,
    /// The failing keys that wait for their retry.
    pub backing_off: usize,
    /// `workqueue_adds_total`: additions of keys that were not already queued.
    pub adds: u64,
    /// `workqueue_retries_total`: rate-limited additions.
    pub retries: u64,
    /// `workqueue_queue_duration_seconds`: the time from a key's addition until a worker gets it, including the time
    /// parked.
    pub queue_duration: Histogram,
    /// `workqueue_work_duration_seconds`: the time from when a worker gets a key until the worker
    /// is done with it.
    pub work_duration: Histogram,
    /// `workqueue_unfinished_work_seconds`: total time so far of all work in progress.
    pub unfinished_work: Duration,
    /// `workqueue_longest_running_processor_seconds`.
    pub longest_running: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_at_a_bound_is_within_it() {
        let mut histogram = Histogram::default();
        for nanoseconds in [0, 10, 11, 100, 101] {
            histogram.observe(nanoseconds);
        }
        assert_eq!(histogram.buckets[..3], [2, 2, 1]);
    }

    #[test]
    fn values_above_the_last_bucket_are_still_counted() {
        let mut histogram = Histogram::default();
        histogram.observe(u64::MAX);
        assert_eq!((histogram.count, histogram.buckets.iter().sum::<u64>()), (1, 0));
    }
}
