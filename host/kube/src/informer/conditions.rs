//! The conditions of objects: read from a status, and counted over the objects of a store.
//!
//! Any client that may write a status can put any text into its conditions, so the host limits how much it keeps and
//! shows.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;
use serde::Deserialize;
use serde_json::value::RawValue;
use windlass_core::deceptive::is_deceptive;
use windlass_core::object::Object;
use windlass_core::object::conditions::{ConditionStatus, Conditions};

/// The maximum number of conditions that are kept per object. Well-known kinds have about a dozen at most.
const OBJECT_CONDITIONS_MAX: usize = 32;
/// Kubernetes' limit for the type of a condition.
const CONDITION_TYPE_BYTES_MAX: usize = 316;

/// Some conditions, sorted by type, and the number of further conditions.
pub(crate) type ReadConditions<'a> = (Vec<(Cow<'a, str>, ConditionStatus)>, usize);

#[derive(Deserialize)]
struct ParsedStatus<'a> {
    #[serde(borrow)]
    conditions: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ParsedCondition<'a> {
    #[serde(borrow, default)]
    r#type: Cow<'a, str>,
    #[serde(borrow, default)]
    status: Cow<'a, str>,
}

/// The conditions of `status`. Anything that does not have the form of Kubernetes' conditions is ignored, because a
/// kind may have any status. If a type appears twice, the last condition counts.
pub(crate) fn read(status: &str) -> ReadConditions<'_> {
    // serde would take the items of an array for the fields of a status. Many kinds have no conditions, and searching
    // for the word is faster than parsing.
    let may_have = |text: &&str| text.starts_with('{') && text.contains("\"conditions\"");
    let Some(text) = Some(status).filter(may_have) else { return (vec![], 0) };
    let listed = serde_json::from_str::<ParsedStatus<'_>>(text).ok().and_then(|status| status.conditions);
    let Some(all) = listed.and_then(|list| serde_json::from_str::<Vec<ParsedCondition<'_>>>(list.get()).ok()) else {
        return (vec![], 0);
    };
    let (mut kept, mut left_out) = (Vec::with_capacity(all.len().min(OBJECT_CONDITIONS_MAX)), 0);
    for ParsedCondition { r#type, status } in all {
        let is_type = !r#type.is_empty() && r#type.len() <= CONDITION_TYPE_BYTES_MAX && !r#type.contains(is_deceptive);
        let Some(status) = ConditionStatus::of(&status).filter(|_| is_type) else { continue };
        match kept.binary_search_by(|(known, _): &(Cow<'_, str>, _)| known.cmp(&r#type)) {
            Ok(at) => kept[at].1 = status,
            Err(_) if kept.len() == OBJECT_CONDITIONS_MAX => left_out += 1,
            Err(at) => kept.insert(at, (r#type, status)),
        }
    }
    (kept, left_out)
}

/// Counts objects by condition. It is updated with every change, so that reading the counts does not depend on the
/// number of objects.
#[derive(Debug, Default)]
pub(crate) struct ConditionTally {
    objects: HashMap<(Arc<str>, ConditionStatus), u64>,
    left_out: u64,
}

/// The number of objects with each condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConditionCounts {
    /// The number of objects with each type of condition, in the order of [`ConditionStatus::ALL`].
    pub types: BTreeMap<Arc<str>, [u64; 3]>,
    /// The number of conditions of objects that are not counted in `types`.
    pub left_out: u64,
}

impl ConditionCounts {
    /// Adds the counts of other objects.
    pub fn add(&mut self, others: Self) {
        for (name, more) in others.types {
            let counts = self.types.entry(name).or_default();
            *counts = std::array::from_fn(|at| counts[at] + more[at]);
        }
        self.left_out += others.left_out;
    }

    /// Keeps the `most` types that most objects have, and only counts the others, because a type that few objects have
    /// may be arbitrary text. If several types are equally frequent, the first by name are kept.
    #[must_use]
    pub fn bounded(self, most: usize) -> Self {
        let sum = |counts: &[u64; 3]| counts.iter().sum::<u64>();
        let mut ranked: Vec<_> = self.types.into_iter().collect();
        ranked.sort_by_key(|(_, counts)| Reverse(sum(counts)));
        let beyond = ranked.split_off(most.min(ranked.len()));
        let left_out = self.left_out + beyond.iter().map(|(_, counts)| sum(counts)).sum::<u64>();
        Self { types: ranked.into_iter().collect(), left_out }
    }
}

impl ConditionTally {
    /// Replaces `old` by `new` in the counts; either may be missing.
    pub(crate) fn update(&mut self, old: Option<&Object>, new: Option<&Object>) {
        let of = |object: Option<&Object>| object.map(|object| object.header.conditions.clone()).unwrap_or_default();
        let (before, after) = (of(old), of(new));
        // The common case: a change elsewhere in the object.
        if before.is_shared_with(&after) {
            return;
        }
        self.add(&after);
        self.remove(&before);
    }

    fn add(&mut self, conditions: &Conditions) {
        for condition in conditions.iter() {
            *self.objects.entry(condition.clone()).or_default() += 1;
        }
        self.left_out += conditions.left_out() as u64;
    }

    fn remove(&mut self, conditions: &Conditions) {
        for condition in conditions.iter() {
            if let Some(objects) = self.objects.get_mut(condition) {
                *objects -= 1;
                if *objects == 0 {
                    self.objects.remove(condition);
                }
            }
        }
        self.left_out -= conditions.left_out() as u64;
    }

    /// The counts of all types.
    pub(crate) fn counts(&self) -> ConditionCounts {
        let mut counts = ConditionCounts { left_out: self.left_out, ..ConditionCounts::default() };
        for ((name, status), objects) in &self.objects {
            counts.types.entry(Arc::clone(name)).or_default()[*status as usize] += objects;
        }
        counts
    }
}

#[cfg(test)]
mod tests;
