//! The conditions of an object's status, as small as they can be kept: most objects of a kind share one set.
//!
//! They stand in the header so that counting them needs no text. Texts that nobody reads are packed, those of a long
//! list before they reach the store, so that finding conditions in them would unpack every object. When an object comes,
//! its text is at hand, and the object gets eight bytes larger. Reading the five conditions of a Pod makes its parsing
//! about a third dearer (counted by callgrind, not optimised); an object without conditions costs nothing. Hence there is
//! no flag. Called by the informers, which count them for `/metrics`.

use std::sync::Arc;

/// The answer of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConditionStatus {
    True,
    /// It does not hold.
    False,
    /// Nobody can tell.
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

    /// The status that Kubernetes writes so.
    #[must_use]
    pub fn of(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == text)
    }
}

/// The conditions of one object, by type. Shared: cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Conditions(Option<Arc<ConditionSet>>);

#[derive(Debug, PartialEq, Eq, Hash)]
struct ConditionSet {
    kept: Vec<(Arc<str>, ConditionStatus)>,
    left_out: usize,
}

impl Conditions {
    /// The set of `kept`, with `left_out` more that are not kept. No type may come twice.
    #[must_use]
    pub fn new(kept: Vec<(Arc<str>, ConditionStatus)>, left_out: usize) -> Self {
        Self((!kept.is_empty() || left_out > 0).then(|| Arc::new(ConditionSet { kept, left_out })))
    }

    /// Each type with its status.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &(Arc<str>, ConditionStatus)> {
        self.0.as_ref().map(|set| &*set.kept).unwrap_or_default().iter()
    }

    /// How many more the object has.
    #[must_use]
    pub fn left_out(&self) -> usize {
        self.0.as_ref().map_or(0, |set| set.left_out)
    }

    /// Whether both are the same set in memory: equal ones need not be.
    #[must_use]
    pub fn is_shared_with(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }

    /// Whether nobody else holds this set: whoever shares sets may forget it.
    #[must_use]
    pub fn is_unshared(&self) -> bool {
        self.0.as_ref().is_some_and(|set| Arc::strong_count(set) == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_costs_an_object_one_pointer_and_equal_sets_are_equal_wherever_they_are() {
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
