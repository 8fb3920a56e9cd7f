//! Compares a recorded call with a replay of it. If the plugin is the same, this finds the first import in which the
//! two diverge. If it is another version, this finds the writes that differ.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use windlass_core::object::difference::{Difference, Disclosure};

use crate::document::{RecordedCall, RecordedImport};
use crate::intent::{Intent, of_composition, of_import};
use crate::redact::same;
use crate::replay::{ReplayedCall, Stuck};

/// The level of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Compares each import, in order. For a replay of the recorded plugin.
    EachImport,
    /// Compares the intended writes, by object. For a replay of another version.
    Writes,
}

/// The result of comparing a replayed call with the recorded one.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", tag = "verdict")]
pub enum CallVerdict {
    /// No difference.
    Same,
    /// The same plugin behaved differently.
    #[serde(rename_all = "camelCase")]
    Diverged {
        /// The first import that differs, counted from 1. `None` if only the result differs.
        import: Option<usize>,
        /// The recorded import. `None` if the recorded call made no further import.
        recorded: Option<Value>,
        /// The replayed import. `None` if the replay made no further import.
        replayed: Option<Value>,
    },
    /// The other version wants other writes or ends differently.
    Differs {
        writes: Vec<WriteDifference>,
        /// The recorded and the replayed result, if they differ.
        result: Option<(Value, Value)>,
    },
    /// The other version makes an import that was not recorded, so the replay cannot continue.
    #[serde(rename_all = "camelCase")]
    NotRecorded {
        asks: Box<RecordedImport>,
        /// The differing writes before that import. Recorded writes that the replay lacks are not listed, because the
        /// replay might have made them later.
        writes: Vec<WriteDifference>,
    },
}

/// A difference between two intended writes of one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteDifference {
    /// `create`, `apply`, ….
    pub verb: String,
    /// Such as `apps/v1 Deployment prod/shop`.
    pub object: String,
    /// How the write differs.
    pub change: WriteChange,
    /// The differing fields, such as `spec.replicas: 2 → 3`.
    pub fields: Vec<String>,
}

/// How a write differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum WriteChange {
    /// Only the new version wants the write.
    Added,
    /// Only the recorded version wanted the write.
    Removed,
    /// Both want the write, with different bodies.
    Changed,
}

/// Compares `recorded` with `replayed`.
#[must_use]
pub fn compare(recorded: &RecordedCall, replayed: &ReplayedCall, comparison: Comparison) -> CallVerdict {
    match comparison {
        Comparison::EachImport => each_import(recorded, replayed),
        Comparison::Writes => writes(recorded, replayed),
    }
}

fn each_import(recorded: &RecordedCall, replayed: &ReplayedCall) -> CallVerdict {
    let most = recorded.imports.len().max(replayed.imports.len());
    // If a time limit stopped the recorded call, each replay stops at another point, or not at all.
    let was_stopped = recorded.result.get("trapped").is_some_and(is_of_time);
    for place in 0..most {
        let (then, now) = (recorded.imports.get(place), replayed.imports.get(place));
        if then.is_none() && was_stopped {
            break;
        }
        let is_same =
            matches!((then, now), (Some(then), Some(now)) if then.import == now.import && same(&then.args, &now.args));
        if !is_same {
            let as_json = |import: Option<&RecordedImport>| import.and_then(|it| serde_json::to_value(it).ok());
            return CallVerdict::Diverged { import: Some(place + 1), recorded: as_json(then), replayed: as_json(now) };
        }
    }
    if was_stopped || matches!(replayed.stuck, Some(Stuck::NotAnswered(_))) {
        return CallVerdict::Same;
    }
    match &replayed.result {
        Some(result) if same_result(&recorded.result, result) => CallVerdict::Same,
        result => {
            let (recorded, replayed) = (Some(recorded.result.clone()), result.clone());
            CallVerdict::Diverged { import: None, recorded, replayed }
        }
    }
}

fn is_of_time(trapped: &Value) -> bool {
    ["deadline", "cpu", "waited", "host"].iter().any(|reason| trapped["reason"] == *reason)
}

/// Whether two results are equal. Traps are compared only by reason, because their messages contain addresses and
/// numbers that differ each time.
fn same_result(recorded: &Value, replayed: &Value) -> bool {
    match (recorded.get("trapped"), replayed.get("trapped")) {
        (Some(then), Some(now)) => then["reason"] == now["reason"],
        _ => same(recorded, replayed),
    }
}

fn writes(recorded: &RecordedCall, replayed: &ReplayedCall) -> CallVerdict {
    let parent = format!("{} {}", recorded.request.kind, recorded.request.key());
    let of = |imports: &[RecordedImport], result: Option<&Value>| {
        let mut intents: Vec<Intent> = imports.iter().flat_map(of_import).collect();
        if let Some(composed) = result.and_then(|result| result.get("composed")) {
            intents.extend(of_composition(composed, &parent));
        }
        intents
    };
    let (then, now) = (of(&recorded.imports, Some(&recorded.result)), of(&replayed.imports, replayed.result.as_ref()));
    let mut writes = differences(&then, &now);
    if let Some(Stuck::NotRecorded(asks)) = &replayed.stuck {
        writes.retain(|it| it.change != WriteChange::Removed);
        return CallVerdict::NotRecorded { asks: Box::new(asks.clone()), writes };
    }
    let (then, now) = (ending(&recorded.result), replayed.result.as_ref().map(ending));
    let result = now.filter(|now| !same_result(&then, now)).map(|now| (then, now));
    if writes.is_empty() && result.is_none() {
        return CallVerdict::Same;
    }
    CallVerdict::Differs { writes, result }
}

/// The result without the children, the status and the events, which are compared by object.
fn ending(result: &Value) -> Value {
    let mut ending = result.clone();
    if let Some(composed) = ending.get_mut("composed").and_then(Value::as_object_mut) {
        for field in ["children", "status", "events"] {
            composed.remove(field);
        }
    }
    ending
}

/// The differences between two lists of intents, sorted by object. If one object has several writes with the same verb,
/// they are compared in order.
fn differences(then: &[Intent], now: &[Intent]) -> Vec<WriteDifference> {
    let mut by_object: BTreeMap<(&str, &str), [Vec<&Intent>; 2]> = BTreeMap::new();
    for (side, intents) in [then, now].into_iter().enumerate() {
        for intent in intents {
            by_object.entry((&intent.object, &intent.verb)).or_default()[side].push(intent);
        }
    }
    let mut found = Vec::new();
    for ((object, verb), [then, now]) in by_object {
        for place in 0..then.len().max(now.len()) {
            let (change, fields) = match (then.get(place), now.get(place)) {
                (Some(then), Some(now)) if same(&then.body, &now.body) => continue,
                (Some(then), Some(now)) => (WriteChange::Changed, changed(then, now)),
                (None, Some(now)) => (WriteChange::Added, body(now)),
                (Some(_), None) => (WriteChange::Removed, vec![]),
                (None, None) => continue,
            };
            found.push(WriteDifference { verb: verb.to_owned(), object: object.to_owned(), change, fields });
        }
    }
    found
}

fn changed(then: &Intent, now: &Intent) -> Vec<String> {
    if then.is_json_patch || now.is_json_patch {
        return vec![format!("{} → {}", body(then).join(", "), body(now).join(", "))];
    }
    let difference = Difference::between(&then.body, &now.body, Disclosure::Values);
    if difference.is_empty() {
        vec!["fields that identify the object, or that only the server sets".to_owned()]
    } else {
        described(&difference)
    }
}

fn body(intent: &Intent) -> Vec<String> {
    if intent.is_json_patch {
        return described(&Difference::of_operations(&intent.body, Disclosure::Values));
    }
    described(&Difference::of_new(&intent.body, Disclosure::Values))
}

fn described(difference: &Difference) -> Vec<String> {
    let mut fields = difference.fields().to_vec();
    if difference.unnamed() > 0 {
        fields.push(format!("and {} more", difference.unnamed()));
    }
    fields
}

#[cfg(test)]
mod tests;
