//! Samples a share of the calls by their trace IDs, as OpenTelemetry's `TraceIdRatioBased` does.

use std::fmt;

/// The share of calls whose spans are collected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sampling {
    share: f64,
    /// A call is sampled if 63 bits of its trace ID are below this.
    below: u64,
}

impl Sampling {
    /// All calls.
    pub(crate) const ALL: Self = Self { share: 1.0, below: 1 << 63 };
    /// No call.
    pub(crate) const NONE: Self = Self { share: 0.0, below: 0 };

    /// A share from 0 to 1. `None` for other numbers.
    pub(crate) fn share(share: f64) -> Option<Self> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is from 0 to 2^63")]
        let below = |share: f64| (share * 9_223_372_036_854_775_808.0) as u64;
        (0.0..=1.0).contains(&share).then(|| Self { share, below: below(share) })
    }

    /// Whether the call with this trace ID is sampled. Other samplers with the same share decide the same.
    #[expect(clippy::cast_possible_truncation, reason = "the low half of an id is random as well")]
    pub(crate) fn samples(self, id: u128) -> bool {
        (id as u64) >> 1 < self.below
    }
}

impl fmt::Display for Sampling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.share.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_all_ids_is_sampled() {
        assert!(Sampling::ALL.samples(u128::MAX) && !Sampling::NONE.samples(0));
        assert_eq!(Sampling::share(1.0), Some(Sampling::ALL));
        let tenth = Sampling::share(0.1).expect("a share");
        let sampled =
            (0..10_000_u128).filter(|id| tenth.samples((id << 64) | (id * (u128::from(u64::MAX) / 10_000)))).count();
        assert!((999..=1001).contains(&sampled), "{sampled}");
    }

    #[test]
    fn an_invalid_share_is_refused() {
        for wrong in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert_eq!(Sampling::share(wrong), None, "{wrong}");
        }
    }
}
