//! Compares two ways to the same spec: an object is created and then changed, or it has its final form from the
//! beginning.

use std::time::Duration;

use serde_json::Value;

use super::quiet::QUIET_TIME;
use super::{Run, World};
use crate::scenario::{ObjectName, Step};
use crate::trace::{Entry, Happening};

/// The maximum number of changes of a spec for which the two ways are compared.
const COMPARED_HISTORIES_MAX: usize = 8;

impl World {
    /// The indexes of the steps that change an object, up to the limit.
    pub(crate) fn changes(&self) -> Vec<usize> {
        let steps = self.scenario.steps.iter().enumerate();
        let changes = steps.filter(|(_, step)| matches!(step, Step::Patch(patch) if patch.subresource.is_none()));
        changes.map(|(index, _)| index).take(COMPARED_HISTORIES_MAX).collect()
    }

    /// Two runs: one with all steps up to a change of an object, and one in which the object has its final form from
    /// the beginning. `None` if the object cannot be created in that form, or if the scenario does not create it.
    pub(crate) async fn histories(&self, change: usize, seed: u64) -> Option<(Run, Run)> {
        let Step::Patch(patch) = self.scenario.steps.get(change)? else { return None };
        let steps = &self.scenario.steps[..=change];
        let changed = self.run_steps(steps, &[], seed).await;
        let last = changed.end.asked.iter().find(|object| ObjectName::of(object) == patch.object)?;
        let is_loaded = self.scenario.load.iter().any(|object| ObjectName::of(object) == patch.object);
        let FromStart { given, steps } = FromStart::of(steps, last, is_loaded, &durations(&changed.entries))?;
        let from_start = self.run_from(given.as_ref(), &steps, &[], seed).await;
        (changed.undone.is_none() && from_start.undone.is_none()).then_some((changed, from_start))
    }
}

/// For each step except the last, the time from its beginning to the last change of the world before the next step.
fn durations(entries: &[Entry]) -> Vec<Duration> {
    let steps: Vec<Duration> =
        entries.iter().filter(|it| matches!(it.happened, Happening::Step(_))).map(|it| it.at).collect();
    steps.windows(2).map(|pair| pair[1].saturating_sub(pair[0]).saturating_sub(QUIET_TIME)).collect()
}

/// The steps of a run in which an object has its final form from the beginning.
#[derive(Debug, PartialEq)]
struct FromStart {
    /// The object, if it exists before the host starts.
    given: Option<Value>,
    steps: Vec<Step>,
}

impl FromStart {
    /// Rewrites `steps` so that they create the object in its final form `last`. Steps about other objects stay. If a
    /// step deletes the object, everything up to that step stays as well, because the object before it is a different
    /// one. `None` if neither a step nor the scenario's beginning creates the object.
    fn of(steps: &[Step], last: &Value, is_loaded: bool, durations: &[Duration]) -> Option<FromStart> {
        let name = ObjectName::of(last);
        let deletes = |step: &Step| matches!(step, Step::Delete(it) if *it == name);
        let applies = |step: &Step| matches!(step, Step::Apply(object) if ObjectName::of(object) == name);
        // The status is not part of the final form.
        let is_spec = |subresource: &Option<String>| subresource.as_ref().is_none_or(|it| it == "scale");
        let patches = |step: &Step| matches!(step, Step::Patch(it) if it.object == name && is_spec(&it.subresource));
        let begins = steps.iter().rposition(deletes).map_or(0, |deletion| deletion + 1);
        let creation = steps.iter().skip(begins).position(applies).map(|place| begins + place);
        if creation.is_none() && (begins > 0 || !is_loaded) {
            return None;
        }
        let kept = steps.iter().enumerate().filter_map(|(index, step)| match step {
            _ if creation == Some(index) => Some(Step::Apply(last.clone())),
            step if index >= begins && (applies(step) || patches(step)) => None,
            // The step may wait for another form of the object, so only let the same time pass.
            Step::Wait(_) => Some(Step::Advance(durations.get(index).copied().unwrap_or_default())),
            step => Some(step.clone()),
        });
        Some(FromStart { given: creation.is_none().then(|| last.clone()), steps: kept.collect() })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::scenario::{Expectation, ObjectPatch};

    fn object(name: &str, size: u32) -> Value {
        json!({"apiVersion": "v1", "kind": "Shop", "metadata": {"name": name}, "spec": {"size": size}})
    }

    fn patch(name: &str, size: u32) -> Step {
        let merge = json!({"spec": {"size": size}});
        Step::Patch(ObjectPatch { object: ObjectName::of(&object(name, 0)), merge, subresource: None })
    }

    fn delete(name: &str) -> Step {
        Step::Delete(ObjectName::of(&object(name, 0)))
    }

    fn apply(name: &str, size: u32) -> Step {
        Step::Apply(object(name, size))
    }

    fn from_start(steps: &[Step], is_loaded: bool) -> Option<FromStart> {
        FromStart::of(steps, &object("a", 9), is_loaded, &[Duration::from_secs(1), Duration::from_secs(2)])
    }

    #[test]
    fn all_steps_that_concern_other_objects_remain() {
        let waits = Step::Wait(Expectation::Absent(ObjectName::of(&object("b", 0))));
        let steps = [apply("a", 1), waits, patch("b", 3), delete("c"), patch("a", 9)];
        let waited = Step::Advance(Duration::from_secs(2));
        let expected = vec![apply("a", 9), waited, patch("b", 3), delete("c")];
        assert_eq!(from_start(&steps, false), Some(FromStart { given: None, steps: expected }));
    }

    #[test]
    fn a_loaded_object_has_its_final_form_before_the_host_begins() {
        let expected = FromStart { given: Some(object("a", 9)), steps: vec![patch("b", 3)] };
        assert_eq!(from_start(&[patch("a", 2), patch("b", 3), patch("a", 9)], true), Some(expected));
        assert_eq!(from_start(&[patch("a", 9)], false), None, "the plugin has created it");
    }

    #[test]
    fn an_object_before_its_deletion_is_a_different_one() {
        let before = [apply("a", 1), patch("a", 2), delete("a")];
        let steps = [&before[..], &[apply("a", 3), patch("a", 9)]].concat();
        let expected = [&before[..], &[apply("a", 9)]].concat();
        assert_eq!(from_start(&steps, true), Some(FromStart { given: None, steps: expected }));
        assert_eq!(from_start(&[&before[..], &[patch("a", 9)]].concat(), true), None);
    }
}
