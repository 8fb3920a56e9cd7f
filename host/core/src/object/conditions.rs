//! The conditions of an object's status, kept as compactly as possible: most objects of a kind share one set.
//!
//! They are in the header so that counting them needs no text. Texts that are not read are packed, in a long list even
//! before they reach the store, so looking for conditions in texts would unpack every object. When an object arrives,
//! its text is at hand, and the header grows by eight bytes. Reading the five conditions of a Pod makes parsing it
//! about a third more expensive (measured by callgrind, not optimised); an object without conditions costs nothing. So
//! there is no flag to switch this off. The informers count the conditions for `/metrics`.

use std::sync::Arc;

/// The status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConditionStatus {
    True,
    /// The condition does not hold.
    False,
    /// It is not known whether the condition holds.
    Unknown,
}

impl ConditionStatus {
    pub const ALL: [Self; 3] = [Self::True, Self::False, Self::Unknown];

    /// The status as Kubernetes writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }

    /// Parses Kubernetes' spelling.
    #[must_use]
    pub fn of(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == text)
    }
}

/// The conditions of one object by type. Shared and cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Conditions(Option<Arc<ConditionSet>>);

#[derive(Debug, PartialEq, Eq, Hash)]
struct ConditionSet {
    kept: Vec<(Arc<str>, ConditionStatus)>,
    left_out: usize,
}

impl Conditions {
    /// The set of `kept`. `left_out` is the number of conditions not kept. No type may occur twice.
    #[must_use]
    pub fn new(kept: Vec<(Arc<str>, ConditionStatus)>, left_out: usize) -> Self {
        Self((!kept.is_empty() || left_out > 0).then(|| Arc::new(ConditionSet { kept, left_out })))
    }

    /// Each type with its status.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &(Arc<str>, ConditionStatus)> {
        self.0.as_ref().map(|set| &*set.kept).unwrap_or_default().iter()
    }

    /// How many conditions the object has that are not in this set.
    #[must_use]
    pub fn left_out(&self) -> usize {
        self.0.as_ref().map_or(0, |set| set.left_out)
    }

    /// Whether both are the same set in memory. Equal sets may also be separate.
    #[must_use]
    pub fn is_shared_with(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }

    /// Whether no other object holds this set, so that the pool of shared sets may drop it.
    #[must_use]
    pub fn is_unshared(&self) -> bool {
        self.0.as_ref().is_some_and(|set| Arc::strong_count(set) == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_costs_one_pointer_and_equality_is_by_value() {
        assert_eq!(size_of::<Conditions>(), size_of::<usize>());
        let ready = || Conditions::new(vec![("Ready".into(), ConditionStatus::True)], 0);
        let one = ready();
        assert_eq!(one, ready());
        assert!(one.is_shared_with(&one.clone()) && !one.is_shared_with(&ready()));
        assert!(ready().is_unshared());
        assert!(Conditions::default().is_shared_with(&Conditions::new(vec![], 0)));
        assert_eq!(Conditions::new(vec![], 2).left_out(), 2);
    }

    #[test]
    fn a_status_is_one_of_three() {
        for status in ConditionStatus::ALL {
            assert_eq!(ConditionStatus::of(status.as_str()), Some(status));
        }
        assert_eq!(ConditionStatus::of("true"), None);
    }
}
