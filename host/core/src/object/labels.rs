//! An object's labels, kept compactly: the Pods of one template share one set.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Labels in key order. Shared and cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Labels(Arc<[(Arc<str>, Arc<str>)]>);

impl Labels {
    /// The value of the label `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Arc<str>> {
        // Objects have a handful of labels: a linear search is faster than a binary one.
        self.0.iter().find(|(name, _)| **name == *key).map(|(_, value)| value)
    }

    /// All labels in key order.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    /// Whether no other object holds this set, so that the pool of shared sets may drop it.
    #[must_use]
    pub fn is_unshared(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}

/// A text that is not a set of labels.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a set of labels, which is like \"app=web,tier=front\"")]
pub struct LabelsError(String);

/// As `app=web,tier=front`, in key order.
impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (key, value)) in self.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{key}={value}")?;
        }
        Ok(())
    }
}

impl FromStr for Labels {
    type Err = LabelsError;

    fn from_str(text: &str) -> Result<Self, LabelsError> {
        let label = |pair: &str| -> Option<(Arc<str>, Arc<str>)> {
            let (key, value) = pair.split_once('=')?;
            Some((key.trim().into(), value.trim().into()))
        };
        let pairs = text.split(',').filter(|_| !text.trim().is_empty()).map(label);
        pairs.collect::<Option<Self>>().ok_or_else(|| LabelsError(text.to_owned()))
    }
}

/// If a key occurs twice, the last value wins, as in JSON.
impl FromIterator<(Arc<str>, Arc<str>)> for Labels {
    fn from_iter<I: IntoIterator<Item = (Arc<str>, Arc<str>)>>(labels: I) -> Self {
        let labels: Vec<_> = labels.into_iter().collect();
        // Servers send labels sorted.
        if labels.is_sorted_by(|one, next| one.0 < next.0) {
            return Self(labels.into());
        }
        let sorted: std::collections::BTreeMap<_, _> = labels.into_iter().collect();
        Self(sorted.into_iter().collect())
    }
}

impl<const N: usize> From<[(Arc<str>, Arc<str>); N]> for Labels {
    fn from(labels: [(Arc<str>, Arc<str>); N]) -> Self {
        labels.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_found_and_equal_in_whatever_order_they_came() {
        let labels = Labels::from([("b".into(), "2".into()), ("a".into(), "1".into()), ("b".into(), "3".into())]);
        assert_eq!(labels.get("b").map(|value| &**value), Some("3"));
        assert_eq!(labels.get("c"), None);
        assert_eq!(labels, Labels::from([("a".into(), "1".into()), ("b".into(), "3".into())]));
        assert_eq!(labels.iter().collect::<Vec<_>>(), [("a", "1"), ("b", "3")]);
    }

    #[test]
    fn labels_are_written_and_read_as_a_list_of_equations() {
        let labels = Labels::from([("b/c".into(), "2".into()), ("a".into(), "".into())]);
        assert_eq!(labels.to_string(), "a=,b/c=2");
        assert_eq!("a=, b/c=2".parse(), Ok(labels));
        assert_eq!("".parse(), Ok(Labels::default()));
        assert!("a".parse::<Labels>().is_err() && "a=1,".parse::<Labels>().is_err());
    }
}
