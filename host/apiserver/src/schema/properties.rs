//! The declared fields of a schema, stored compactly.

/// An immutable map by name that has no room for further entries. Even the smallest `BTreeMap` has room for eleven
/// entries, and the nodes of a schema are large.
#[derive(Debug)]
pub(crate) struct Properties<T>(Box<[(Box<str>, T)]>);

impl<T> Properties<T> {
    pub(crate) fn get(&self, name: &str) -> Option<&T> {
        let found = self.0.binary_search_by(|(known, _)| (**known).cmp(name));
        found.ok().map(|place| &self.0[place].1)
    }

    pub(crate) fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates in the order of the names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.0.iter().map(|(name, field)| (&**name, field))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&str, &mut T)> {
        self.0.iter_mut().map(|(name, field)| (&**name, field))
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|(_, field)| field)
    }
}

impl<T> Default for Properties<T> {
    fn default() -> Self {
        Self(Box::default())
    }
}

/// If a name occurs several times, the last field counts, as in any map.
impl<T> FromIterator<(Box<str>, T)> for Properties<T> {
    fn from_iter<I: IntoIterator<Item = (Box<str>, T)>>(fields: I) -> Self {
        let mut sorted: Vec<(Box<str>, T)> = fields.into_iter().collect();
        // The sort is stable, so the last of several fields with one name stays the last.
        sorted.sort_by(|(one, _), (other, _)| one.cmp(other));
        sorted.dedup_by(|later, kept| {
            let is_double = later.0 == kept.0;
            if is_double {
                std::mem::swap(later, kept);
            }
            is_double
        });
        Self(sorted.into())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn properties_behave_like_a_map(fields in vec(("[a-c]{0,2}", any::<u8>()), 0..20), asked in "[a-d]{0,2}") {
            let expected: BTreeMap<String, u8> = fields.iter().cloned().collect();
            let mut found: Properties<u8> = fields.into_iter().map(|(name, field)| (name.into(), field)).collect();
            prop_assert_eq!(found.get(&asked), expected.get(&asked));
            prop_assert_eq!(found.contains_key(&asked), expected.contains_key(&asked));
            prop_assert_eq!(found.is_empty(), expected.is_empty());
            prop_assert!(found.iter().eq(expected.iter().map(|(name, field)| (name.as_str(), field))));
            prop_assert!(found.values().eq(expected.values()));
            let doubled = |field: u8| field.wrapping_mul(2);
            found.iter_mut().for_each(|(_, field)| *field = doubled(*field));
            prop_assert!(found.values().copied().eq(expected.values().map(|field| doubled(*field))));
        }
    }
}
