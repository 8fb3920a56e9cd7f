//! The gauges that a call has set. A series belongs to the plugin, so calls about other keys may set it too. If one has
//! changed it since, a repeated call would set it back, so it must be made (ADR 46).

/// The most gauges of a call that are kept. A call that sets more is made again each time.
pub const KEPT_GAUGES_MAX: usize = 16;

/// A gauge that a call has set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetGauge {
    name: String,
    labels: Box<[(String, String)]>,
    /// The bits of the value, so that gauges can be compared.
    value: u64,
}

impl SetGauge {
    /// The gauge `name` with these `labels`, which has been set to `value`.
    #[must_use]
    pub fn new(name: &str, value: f64, labels: &[(String, String)]) -> Self {
        Self { name: name.to_owned(), labels: labels.into(), value: value.to_bits() }
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

    /// Its approximate memory, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let labels = self.labels.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        size_of::<Self>() + self.name.len() + size_of_val(&*self.labels) + labels
    }
}
