//! The gauges that a call has set. A series belongs to the plugin, so calls about other keys may set it too. If one has
//! changed it since, a repeated call would set it back, so it must be made (ADR 46).

/// The most gauges of a call that are kept. A call that sets more is made again each time.
pub const KEPT_GAUGES_MAX: usize = 16;

/// The most labels of a gauge that is kept.
const KEPT_GAUGE_LABELS_MAX: usize = 16;

/// The longest name of a gauge that is kept, and the longest name or value of a label, in bytes.
const KEPT_GAUGE_TEXT_BYTES_MAX: usize = 256;

/// A gauge that a call has set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetGauge {
    name: String,
    labels: Box<[(String, String)]>,
    /// The bits of the value, so that gauges can be compared.
    value: u64,
}

impl SetGauge {
    /// The gauge `name` with these `labels`, which has been set to `value`. `None` if it takes more memory than is
    /// kept: the plugin chooses the texts.
    #[must_use]
    pub fn new(name: &str, value: f64, labels: &[(String, String)]) -> Option<Self> {
        let fits = |text: &str| text.len() <= KEPT_GAUGE_TEXT_BYTES_MAX;
        let is_kept = fits(name)
            && labels.len() <= KEPT_GAUGE_LABELS_MAX
            && labels.iter().all(|(name, value)| fits(name) && fits(value));
        is_kept.then(|| Self { name: name.to_owned(), labels: labels.into(), value: value.to_bits() })
    }

    /// Whether both set one series.
    #[must_use]
    pub fn is_of_same_series(&self, other: &Self) -> bool {
        (&self.name, &self.labels) == (&other.name, &other.labels)
    }

    /// Whether the series still has the value that it was set to. `now` returns the value of a series, by its name and
    /// its labels.
    #[must_use]
    pub fn is_unchanged(&self, now: impl FnOnce(&str, &[(String, String)]) -> Option<f64>) -> bool {
        now(&self.name, &self.labels).map(f64::to_bits) == Some(self.value)
    }

    /// Whether the host has dropped the value: `now` knows no such series, or the value is no number. A call that sets
    /// it again changes nothing.
    #[must_use]
    pub fn is_dropped(&self, now: impl FnOnce(&str, &[(String, String)]) -> Option<f64>) -> bool {
        !f64::from_bits(self.value).is_finite() || now(&self.name, &self.labels).is_none()
    }

    /// Its approximate memory, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let labels = self.labels.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        size_of::<Self>() + self.name.len() + size_of_val(&*self.labels) + labels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gauge_with_more_text_than_is_kept_is_not_kept() {
        let label = |bytes: usize| ("a".to_owned(), "b".repeat(bytes));
        assert!(SetGauge::new("size", 1.0, &vec![label(KEPT_GAUGE_TEXT_BYTES_MAX); KEPT_GAUGE_LABELS_MAX]).is_some());
        assert_eq!(SetGauge::new("size", 1.0, &vec![label(0); KEPT_GAUGE_LABELS_MAX + 1]), None);
        assert_eq!(SetGauge::new("size", 1.0, &[label(KEPT_GAUGE_TEXT_BYTES_MAX + 1)]), None);
        assert_eq!(SetGauge::new(&"a".repeat(KEPT_GAUGE_TEXT_BYTES_MAX + 1), 1.0, &[]), None);
    }

    #[test]
    fn values_that_no_series_takes_are_dropped() {
        let gauge = |value: f64| SetGauge::new("size", value, &[]).expect("it is short");
        assert!(!gauge(1.0).is_dropped(|_, _| Some(2.0)));
        assert!(gauge(1.0).is_dropped(|_, _| None));
        assert!(gauge(f64::NAN).is_dropped(|_, _| Some(2.0)));
    }
}
