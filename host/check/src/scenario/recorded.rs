//! Scenarios of what production has shown: each object that recorded calls were made for becomes one. It is created as it was
//! first seen, changed as its spec was, and deleted if it was; what else the plugin was shown is there from the beginning.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use windlass_core::pointer;
use windlass_record::{RecordedCall, RecordedImport, is_redacted};

use super::document::{ObjectName, ObjectPatch};
use super::draft::field_changes;
use super::{Scenario, Step};

/// The most scenarios that are made.
const MOST_SCENARIOS: usize = 8;
/// The most states of one object that become steps: each takes a round of the world.
const MOST_STATES: usize = 24;
/// The most objects that are there beside one from the beginning.
const MOST_BESIDE: usize = 200;

/// Why no scenario can be made of recordings.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordedError {
    /// They are of others.
    #[error("no call of the plugin {plugin} is recorded there, but calls of {}: check one of those", recorded.join(", "))]
    OtherPlugins {
        /// The plugin that is checked.
        plugin: String,
        /// Those that are recorded.
        recorded: Vec<String>,
    },
    /// The calls are all about objects that had gone.
    #[error(
        "none of the {calls} recorded calls of the plugin {plugin} shows its object: they are about objects that had gone"
    )]
    NoObjects {
        /// The plugin that is checked.
        plugin: String,
        /// How many calls there are.
        calls: usize,
    },
}

/// The scenarios of recordings.
#[derive(Debug)]
pub struct RecordedScenarios {
    /// The richest first.
    pub scenarios: Vec<RecordedScenario>,
    /// How many objects were recorded.
    pub objects: usize,
}

/// The scenario of one recorded object.
#[derive(Debug)]
pub struct RecordedScenario {
    /// Its steps, and what is there beside it.
    pub scenario: Scenario,
    /// Values for which markers stand, as the recording does not tell them, such as `Shop prod/web /spec/password`.
    pub redacted: Vec<String>,
}

/// Makes scenarios of `calls` of `plugin`, which are in the order of time. `load` has the definitions of kinds, and what else is to be
/// there.
///
/// The first scenario is of the object with the most states; it also changes each field by its schema, and deletes and creates the
/// object, as a scenario without recordings does. Each further one is of the object with the most values that none before it has. At
/// most 8 are made, and none of an object that has no other values.
pub fn from_recorded(plugin: &str, load: &[Value], calls: &[RecordedCall]) -> Result<RecordedScenarios, RecordedError> {
    let (own, others): (Vec<_>, Vec<_>) = calls.iter().partition(|call| call.component.plugin == plugin);
    if own.is_empty() {
        let recorded: BTreeSet<_> = others.iter().map(|call| call.component.plugin.clone()).collect();
        let recorded = recorded.into_iter().collect();
        return Err(RecordedError::OtherPlugins { plugin: plugin.to_owned(), recorded });
    }
    let mut histories: BTreeMap<ObjectName, ObjectHistory> = BTreeMap::new();
    for call in &own {
        histories.entry(primary(call)).or_default().take(call);
    }
    histories.retain(|_, history| !history.states.is_empty());
    if histories.is_empty() {
        return Err(RecordedError::NoObjects { plugin: plugin.to_owned(), calls: own.len() });
    }
    let written: BTreeSet<ObjectName> = own.iter().flat_map(|call| made(call)).collect();
    let objects = histories.len();
    let chosen = richest(&histories).into_iter().enumerate();
    let scenarios = chosen.map(|(index, name)| histories[&name].scenario(&name, load, &written, index == 0)).collect();
    Ok(RecordedScenarios { scenarios, objects })
}

/// The object that a call was made for.
fn primary(call: &RecordedCall) -> ObjectName {
    let request = &call.request;
    let namespace = request.namespace.as_ref().map(|namespace| json!(namespace));
    let metadata = json!({"namespace": namespace, "name": request.name});
    ObjectName::of(&json!({"apiVersion": request.api_version, "kind": request.kind, "metadata": metadata}))
}

/// The objects that a call makes: the plugin will make them again.
fn made(call: &RecordedCall) -> Vec<ObjectName> {
    let composed = call.result["composed"]["children"].as_array().into_iter().flatten();
    let mut made: Vec<_> = composed.filter_map(embedded).collect();
    let mut of_write = |import: &str, args: &Value| {
        if matches!(import, "writes.create" | "writes.apply") {
            made.extend(embedded(&args["object"]));
        }
    };
    for RecordedImport { import, args, .. } in &call.imports {
        of_write(import, args);
        for operation in args["operations"].as_array().into_iter().flatten() {
            of_write(operation["import"].as_str().unwrap_or_default(), operation);
        }
    }
    made.iter().map(ObjectName::of).collect()
}

/// The names of those that become scenarios, in their order.
fn richest(histories: &BTreeMap<ObjectName, ObjectHistory>) -> Vec<ObjectName> {
    let mut left: Vec<_> = histories.iter().map(|(name, history)| (name, history, history.values())).collect();
    let (mut chosen, mut had) = (Vec::new(), BTreeSet::new());
    while chosen.len() < MOST_SCENARIOS {
        let worth = |(_, history, values): &(_, &ObjectHistory, BTreeSet<String>)| {
            let states = if chosen.is_empty() { history.states.len() } else { 0 };
            (states, values.difference(&had).count())
        };
        // Of equal ones the first by name.
        let best = left.iter().enumerate().rev().max_by_key(|(_, it)| worth(it)).map(|(index, it)| (index, worth(it)));
        let Some((index, (_, news))) = best else { break };
        if news == 0 && !chosen.is_empty() {
            break;
        }
        let (name, _, values) = left.remove(index);
        had.extend(values);
        chosen.push(name.clone());
    }
    chosen
}

/// The states of one object, and the objects around it.
#[derive(Debug, Default)]
struct ObjectHistory {
    /// Its states, one other than the one before. None: it was deleted.
    states: Vec<Option<Value>>,
    /// Other objects that the plugin was shown, as they were first.
    beside: BTreeMap<ObjectName, Value>,
}

impl ObjectHistory {
    fn take(&mut self, call: &RecordedCall) {
        let object = call.request.object.as_deref().and_then(parsed).map(wanted);
        let was_there = matches!(self.states.last(), Some(Some(_)));
        let is_going = call.request.deleting || object.is_none();
        if let Some(object) = object.filter(|_| !is_going || self.states.is_empty()) {
            let is_news = self.states.last().is_none_or(|last| last.as_ref().map(spec) != Some(spec(&object)));
            if is_news && self.states.len() < MOST_STATES {
                self.states.push(Some(object));
            }
            if is_going {
                self.states.push(None);
            }
        } else if is_going && was_there {
            self.states.push(None);
        }
        for object in shown(call) {
            let name = ObjectName::of(&object);
            if self.beside.len() < MOST_BESIDE {
                self.beside.entry(name).or_insert_with(|| wanted(object));
            }
        }
    }

    /// All that its states have in values, and whether it was deleted.
    fn values(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for state in &self.states {
            match state {
                Some(object) => leaves(&Value::Object(spec(object)), "", &mut |place, value| {
                    found.insert(format!("{place}={value}"));
                }),
                None => drop(found.insert("deleted".to_owned())),
            }
        }
        found
    }

    fn scenario(
        &self,
        name: &ObjectName,
        load: &[Value],
        made: &BTreeSet<ObjectName>,
        is_first: bool,
    ) -> RecordedScenario {
        let beside = self.beside.iter().filter(|(other, _)| *other != name && !made.contains(other));
        let mut objects: BTreeMap<ObjectName, Value> =
            beside.map(|(name, object)| (name.clone(), object.clone())).collect();
        for namespace in
            objects.keys().chain(made).chain([name]).map(|it| it.namespace.clone()).collect::<BTreeSet<_>>()
        {
            let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            objects.entry(ObjectName::of(&object)).or_insert(object);
        }
        // What the files say has precedence; another object of the plugin's kind there is only a sample.
        let is_primary = |object: &Value| object["apiVersion"] == *name.api_version && object["kind"] == *name.kind;
        objects.extend(load.iter().filter(|it| !is_primary(it)).map(|object| (ObjectName::of(object), object.clone())));
        let mut steps = self.steps(name);
        let last = self.states.iter().rev().flatten().next();
        if let Some(last) = last.filter(|_| is_first) {
            if matches!(self.states.last(), Some(None)) {
                steps.push(Step::Apply(last.clone()));
            }
            steps.extend(field_changes(last, load));
            steps.extend([Step::Delete(name.clone()), Step::Apply(last.clone())]);
        }
        let mut redacted = Vec::new();
        for object in objects.values().chain(self.states.iter().flatten()) {
            leaves(object, "", &mut |place, value| {
                if value.as_str().is_some_and(is_redacted) {
                    redacted.push(format!("{} {place}", ObjectName::of(object)));
                }
            });
        }
        redacted.dedup();
        let ObjectName { kind, namespace, name, .. } = name;
        let name = format!("{}-{namespace}-{name}", kind.to_lowercase());
        let load = objects.into_values().collect();
        RecordedScenario {
            scenario: Scenario { name, load, stand_ins: "default".to_owned(), steps, expect: vec![] },
            redacted,
        }
    }

    /// From one state to the next.
    fn steps(&self, name: &ObjectName) -> Vec<Step> {
        let before = std::iter::once(&None).chain(&self.states);
        let steps = before.zip(&self.states).filter_map(|states| match states {
            (None, Some(object)) => Some(Step::Apply(object.clone())),
            (Some(before), Some(after)) => {
                let merge = difference(&Value::Object(spec(before)), &Value::Object(spec(after)));
                Some(Step::Patch(ObjectPatch { object: name.clone(), merge, subresource: None }))
            }
            (Some(_), None) => Some(Step::Delete(name.clone())),
            (None, None) => None,
        });
        steps.collect()
    }
}

/// The whole objects that a call was shown, beside its own one. What has an owner comes with that.
fn shown(call: &RecordedCall) -> Vec<Value> {
    let mut found: Vec<Value> = call.request.related.iter().filter_map(|text| parsed(text)).collect();
    for RecordedImport { import, args, answer, .. } in &call.imports {
        let Some(answer) = answer.as_ref().map(|answer| &answer["ok"]) else { continue };
        let is_part = ["fields", "view", "subresource"].iter().any(|part| !args[*part].is_null());
        match import.as_str() {
            "cache.get" | "live.get" if !is_part => {
                found.extend(embedded(answer).map(|it| of_kind(it, &args["target"])));
            }
            "cache.list" | "live.list" if !is_part => {
                let items = answer["items"].as_array().into_iter().flatten().filter_map(embedded);
                found.extend(items.map(|it| of_kind(it, &args["of"])));
            }
            _ => {}
        }
    }
    found.retain(|object| {
        let is_owned = object["metadata"]["ownerReferences"].as_array().is_some_and(|owners| !owners.is_empty());
        let kind = object["kind"].as_str().unwrap_or_default();
        !is_owned
            && !matches!(kind, "CustomResourceDefinition" | "Event" | "Lease")
            && object["metadata"]["name"].is_string()
    });
    found
}

/// An item of a list may not say what it is.
fn of_kind(mut object: Value, kind: &Value) -> Value {
    for field in ["apiVersion", "kind"] {
        if object[field].is_null() {
            object[field] = kind[field].clone();
        }
    }
    object
}

fn parsed(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok().filter(Value::is_object)
}

/// An object that stands as text in a document.
fn embedded(text: &Value) -> Option<Value> {
    parsed(text.as_str()?)
}

/// An object as its user wants it: without what the server, controllers and kubectl have added.
fn wanted(mut object: Value) -> Value {
    const KEPT: [&str; 4] = ["name", "namespace", "labels", "annotations"];
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|field, _| KEPT.contains(&field.as_str()));
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        }
    }
    object
}

/// The fields by which one state of an object is another one: its spec, or its data.
fn spec(object: &Value) -> Map<String, Value> {
    let fields = object.as_object().cloned().unwrap_or_default();
    fields.into_iter().filter(|(field, _)| !matches!(field.as_str(), "apiVersion" | "kind" | "metadata")).collect()
}

/// The merge patch that makes `after` of `before`.
fn difference(before: &Value, after: &Value) -> Value {
    let (Value::Object(of_before), Value::Object(of_after)) = (before, after) else { return after.clone() };
    let gone =
        of_before.keys().filter(|field| !of_after.contains_key(*field)).map(|field| (field.clone(), Value::Null));
    let others = of_after.iter().filter(|(field, value)| of_before.get(*field) != Some(value));
    let others = others
        .map(|(field, value)| (field.clone(), difference(&of_before.get(field).cloned().unwrap_or_default(), value)));
    gone.chain(others).collect::<Map<_, _>>().into()
}

/// Visits each value that has no others in it, with its JSON pointer.
fn leaves(value: &Value, place: &str, visit: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (field, value) in fields {
                leaves(value, &pointer::joined(place, field), visit);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, value) in items.iter().enumerate() {
                leaves(value, &format!("{place}/{index}"), visit);
            }
        }
        value => visit(place, value),
    }
}

#[cfg(test)]
mod tests;
