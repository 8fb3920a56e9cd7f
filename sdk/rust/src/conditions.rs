//! Status conditions in Kubernetes' form.

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;

/// Whether a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConditionStatus {
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
    /// It is unknown whether the condition holds.
    Unknown,
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// One aspect of an object's state. A list of conditions contains each type once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// The aspect, such as `Ready`.
    #[serde(rename = "type")]
    pub condition_type: String,
    /// Whether the condition holds.
    pub status: ConditionStatus,
    /// The reason in CamelCase, for machines.
    pub reason: String,
    /// The reason as text, for people.
    #[serde(default)]
    pub message: String,
    /// The generation of the object that the condition is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The time at which `status` got its value. [`set_condition`] sets it.
    #[serde(default)]
    pub last_transition_time: String,
}

impl Condition {
    /// A new condition; [`observed`](Self::observed) completes it, and [`set_condition`] adds it to a list.
    pub fn new(
        condition_type: impl Into<String>,
        status: impl Into<ConditionStatus>,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            condition_type: condition_type.into(),
            status: status.into(),
            reason: reason.into(),
            message: message.into(),
            observed_generation: None,
            last_transition_time: String::new(),
        }
    }

    /// Sets the generation of the object that this condition is about.
    #[must_use]
    pub fn observed(self, generation: Option<i64>) -> Self {
        Self { observed_generation: generation, ..self }
    }
}

/// A time that is read only if it is needed: a [`Timestamp`], or a function such as
/// [`clock::now`](crate::clock::now).
///
/// Prefer the function. The host makes every call of a plugin that reads the time, but may save calls of a plugin that
/// does not.
pub trait Now {
    /// The time.
    fn now(&self) -> Timestamp;
}

impl Now for Timestamp {
    fn now(&self) -> Timestamp {
        *self
    }
}

impl<F: Fn() -> Timestamp> Now for F {
    fn now(&self) -> Timestamp {
        self()
    }
}

/// The condition of this type in a list.
#[must_use]
pub fn find_condition<'a>(conditions: &'a [Condition], condition_type: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.condition_type == condition_type)
}

/// Whether a condition exists and is true.
#[must_use]
pub fn is_condition_true(conditions: &[Condition], condition_type: &str) -> bool {
    find_condition(conditions, condition_type).is_some_and(|condition| condition.status == ConditionStatus::True)
}

/// A list with several conditions set as by [`set_condition`], all for this generation of the object. Conditions of a
/// known type keep their places, and new ones follow in the given order.
#[must_use]
#[expect(clippy::needless_pass_by_value, reason = "callers write a time or `clock::now`, and not a reference to it")]
pub fn updated_conditions(
    known: &[Condition],
    new: impl IntoIterator<Item = Condition>,
    generation: Option<i64>,
    now: impl Now,
) -> Vec<Condition> {
    let mut conditions = known.to_vec();
    new.into_iter().for_each(|condition| set(&mut conditions, condition.observed(generation), &now));
    conditions
}

/// Removes a condition from a list. Other conditions keep their order.
pub fn remove_condition(conditions: &mut Vec<Condition>, condition_type: &str) {
    conditions.retain(|condition| condition.condition_type != condition_type);
}

/// Adds a condition to a list, or replaces the condition of the same type. `lastTransitionTime` becomes `now` if the
/// status changed, and otherwise stays, so setting the same condition again changes nothing and does not read the time.
#[expect(clippy::needless_pass_by_value, reason = "callers write a time or `clock::now`, and not a reference to it")]
pub fn set_condition(conditions: &mut Vec<Condition>, condition: Condition, now: impl Now) {
    set(conditions, condition, &now);
}

fn set(conditions: &mut Vec<Condition>, mut condition: Condition, now: &impl Now) {
    let known = conditions.iter_mut().find(|known| known.condition_type == condition.condition_type);
    condition.last_transition_time = match &known {
        Some(known) if known.status == condition.status && !known.last_transition_time.is_empty() => {
            known.last_transition_time.clone()
        }
        _ => now.now().to_string(),
    };
    match known {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const EARLY: Timestamp = Timestamp { seconds: 60, nanoseconds: 0 };
    const LATE: Timestamp = Timestamp { seconds: 120, nanoseconds: 0 };

    #[test]
    fn the_transition_time_stays_while_the_status_does() {
        let mut conditions = Vec::new();
        set_condition(&mut conditions, Condition::new("Ready", false, "Starting", ""), EARLY);
        set_condition(&mut conditions, Condition::new("Ready", false, "Waiting", "for a node"), LATE);
        let [ready] = conditions.as_slice() else { panic!("{conditions:?}") };
        assert_eq!((ready.reason.as_str(), ready.last_transition_time.as_str()), ("Waiting", "1970-01-01T00:01:00Z"));
    }

    #[test]
    fn the_transition_time_moves_with_the_status_of_its_own_type_only() {
        let mut conditions = Vec::new();
        set_condition(&mut conditions, Condition::new("Ready", false, "Starting", ""), EARLY);
        set_condition(&mut conditions, Condition::new("Progressing", true, "Starting", ""), EARLY);
        set_condition(&mut conditions, Condition::new("Ready", true, "Started", ""), LATE);
        let times: Vec<_> = conditions.iter().map(|c| c.last_transition_time.as_str()).collect();
        assert_eq!(times, ["1970-01-01T00:02:00Z", "1970-01-01T00:01:00Z"]);
    }

    #[test]
    fn the_time_is_read_only_for_a_new_status() {
        let reads = Cell::new(0);
        let now = || {
            reads.set(reads.get() + 1);
            LATE
        };
        let mut conditions = Vec::new();
        set_condition(&mut conditions, Condition::new("Ready", false, "Starting", ""), now);
        assert_eq!((reads.get(), &*conditions[0].last_transition_time), (1, "1970-01-01T00:02:00Z"));
        set_condition(&mut conditions, Condition::new("Ready", false, "Waiting", ""), now);
        assert_eq!(reads.get(), 1);
        let again = updated_conditions(&conditions, [Condition::new("Ready", true, "Ready", "")], None, now);
        assert_eq!((reads.get(), again.len()), (2, 1));
    }

    #[test]
    fn conditions_keep_their_order() {
        let ready = || Condition::new("Ready", true, "Started", "");
        let progressing = || Condition::new("Progressing", false, "RolledOut", "");
        let before = updated_conditions(&[], [ready(), progressing()], Some(1), EARLY);
        let mut conditions = updated_conditions(&before, [progressing(), ready()], Some(1), LATE);
        assert_eq!(conditions, before);
        assert!(conditions.iter().all(|condition| condition.observed_generation == Some(1)));
        remove_condition(&mut conditions, "Ready");
        assert!(find_condition(&conditions, "Ready").is_none() && conditions.len() == 1);
    }

    #[test]
    fn a_missing_condition_is_not_true() {
        let conditions = [Condition::new("A", true, "R", ""), Condition::new("B", ConditionStatus::Unknown, "R", "")];
        let truth = ["A", "B", "C"].map(|condition_type| is_condition_true(&conditions, condition_type));
        assert_eq!(truth, [true, false, false]);
    }

    #[test]
    fn setting_the_same_condition_again_changes_nothing() {
        let mut conditions = Vec::new();
        let ready = Condition::new("Ready", true, "Started", "").observed(Some(3));
        set_condition(&mut conditions, ready.clone(), EARLY);
        let before = conditions.clone();
        set_condition(&mut conditions, ready, LATE);
        assert_eq!(conditions, before);
    }
}
