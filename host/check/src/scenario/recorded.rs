//! Creates scenarios from recordings of production, one for each primary of a recorded call. The steps create the
//! object in its first recorded state, change its spec as it was changed, and delete it if it was deleted. All other
//! objects that the plugin saw exist from the beginning.

mod objects;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_record::{RecordedCall, RecordedImport, is_redacted};

use self::objects::{difference, embedded, leaves, of_kind, parsed, spec, wanted};
use super::document::{ObjectName, ObjectPatch};
use super::draft::field_changes;
use super::{Scenario, Step};

/// The maximum number of scenarios.
const RECORDED_SCENARIOS_MAX: usize = 8;
/// The maximum number of states of one object that become steps.
const RECORDED_STATES_MAX: usize = 24;
/// The maximum number of other objects that exist from the beginning.
const OBJECTS_BESIDE_MAX: usize = 200;
/// The approximate maximum size of the objects and names that are kept. Recordings may be longer.
const KEPT_BYTES_MAX: usize = 64 << 20;

/// The reason why no scenario can be created from recordings.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordedError {
    /// The recordings are of other plugins.
    #[error("the recording has no calls of the plugin {plugin}, only of {}: check one of these", recorded.join(", "))]
    OtherPlugins {
        /// The checked plugin.
        plugin: String,
        /// The recorded plugins.
        recorded: Vec<String>,
    },
    /// All calls are about objects that were already gone.
    #[error(
        "none of the {calls} recorded calls of the plugin {plugin} shows its object: all of them are about deleted objects"
    )]
    NoObjects {
        /// The checked plugin.
        plugin: String,
        /// The number of calls.
        calls: usize,
    },
}

/// The scenarios from recordings.
#[derive(Debug)]
pub struct RecordedScenarios {
    pub scenarios: Vec<RecordedScenario>,
    /// The number of recorded objects.
    pub objects: usize,
    /// The number of the plugin's calls that were left out because the size limit was reached.
    pub left_out: usize,
}

/// The histories in recorded calls: the states of each object, and the objects around it. They are built call by call.
///
/// They keep at most about 64 MiB. Further calls are counted and left out.
#[derive(Debug)]
pub struct RecordedHistories {
    plugin: String,
    /// The number of the plugin's calls.
    calls: usize,
    left_out: usize,
    /// Other plugins in the recordings.
    others: BTreeSet<String>,
    histories: BTreeMap<ObjectName, ObjectHistory>,
    /// The objects that the plugin writes.
    written: BTreeSet<ObjectName>,
    /// The size of everything that is kept, as text.
    kept: usize,
    most: usize,
}

/// The scenario of one recorded object.
#[derive(Debug)]
pub struct RecordedScenario {
    /// Its steps, and the objects that exist beside it.
    pub scenario: Scenario,
    /// The values that were redacted in the recording, such as `Shop prod/web /spec/password`. The scenario contains
    /// markers in their place.
    pub redacted: Vec<String>,
}

impl RecordedHistories {
    /// Empty histories for `plugin`.
    #[must_use]
    pub fn of(plugin: &str) -> Self {
        Self {
            plugin: plugin.to_owned(),
            calls: 0,
            left_out: 0,
            others: BTreeSet::new(),
            histories: BTreeMap::new(),
            written: BTreeSet::new(),
            kept: 0,
            most: KEPT_BYTES_MAX,
        }
    }

    /// Whether the recordings have no call of any plugin.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.calls == 0 && self.others.is_empty()
    }

    /// Adds a call. If two hosts recorded alternately, a call may be older than the previous call about the same
    /// object. Such a call is left out.
    pub fn take(&mut self, call: &RecordedCall) {
        let plugin = &call.component.plugin;
        if *plugin != self.plugin {
            if self.kept < self.most && self.others.insert(plugin.clone()) {
                self.kept += plugin.len();
            }
            return;
        }
        self.calls += 1;
        if self.kept >= self.most {
            self.left_out += 1;
            return;
        }
        let history = self.histories.entry(primary(call)).or_default();
        self.kept += history.take(call);
        for name in made(call) {
            let bytes = name.to_string().len();
            self.kept += if self.written.insert(name) { bytes } else { 0 };
        }
    }
}

/// Creates at most 8 scenarios. The first scenario is for the object with the most states. Like a scenario without
/// recordings, it also changes each field according to its schema, and deletes and recreates the object. Each further
/// scenario is for the object with the most values that no earlier scenario has. Objects without new values are left
/// out.
pub fn from_recorded(recorded: RecordedHistories, load: &[Value]) -> Result<RecordedScenarios, RecordedError> {
    let RecordedHistories { plugin, calls, left_out, others, mut histories, written, .. } = recorded;
    if calls == 0 {
        return Err(RecordedError::OtherPlugins { plugin, recorded: others.into_iter().collect() });
    }
    histories.retain(|_, history| !history.states.is_empty());
    if histories.is_empty() {
        return Err(RecordedError::NoObjects { plugin, calls });
    }
    let objects = histories.len();
    let mut names = BTreeSet::new();
    let chosen = richest(&histories).into_iter().enumerate();
    let scenarios = chosen.map(|(index, name)| {
        let mut made = histories[&name].scenario(&name, load, &written, index == 0);
        // The names of two objects may become equal if they contain dashes.
        let name_of_object = made.scenario.name.clone();
        for number in 2.. {
            if names.insert(made.scenario.name.clone()) {
                break;
            }
            made.scenario.name = format!("{name_of_object}-{number}");
        }
        made
    });
    Ok(RecordedScenarios { scenarios: scenarios.collect(), objects, left_out })
}

/// The primary of a call.
fn primary(call: &RecordedCall) -> ObjectName {
    let request = &call.request;
    let namespace = request.namespace.as_ref().map(|namespace| json!(namespace));
    let metadata = json!({"namespace": namespace, "name": request.name});
    ObjectName::of(&json!({"apiVersion": request.api_version, "kind": request.kind, "metadata": metadata}))
}

/// The objects that a call writes. They are not loaded, because the plugin will write them again.
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

/// The names of the objects that become scenarios, in order.
fn richest(histories: &BTreeMap<ObjectName, ObjectHistory>) -> Vec<ObjectName> {
    let mut left: Vec<_> = histories.iter().map(|(name, history)| (name, history, history.values())).collect();
    let (mut chosen, mut had) = (Vec::new(), BTreeSet::new());
    while chosen.len() < RECORDED_SCENARIOS_MAX {
        let worth = |(_, history, values): &(_, &ObjectHistory, BTreeSet<String>)| {
            let states = if chosen.is_empty() { history.states.len() } else { 0 };
            (states, values.difference(&had).count())
        };
        // Among equal objects, take the first by name.
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
    /// The distinct states of the object, in order. `None` if it was deleted.
    states: Vec<Option<Value>>,
    /// Other objects that the plugin saw, each in the first state that it saw.
    beside: BTreeMap<ObjectName, Value>,
    /// The time at which the latest call about the object began.
    latest: Option<Timestamp>,
}

impl ObjectHistory {
    /// Adds a call. Returns by how many bytes the kept data has grown.
    fn take(&mut self, call: &RecordedCall) -> usize {
        let began: Option<Timestamp> = call.began.parse().ok();
        if began.is_some() && began < self.latest {
            return 0;
        }
        self.latest = began;
        let mut kept = 0;
        let text = call.request.object.as_deref();
        let object = text.and_then(parsed).map(wanted);
        let was_there = matches!(self.states.last(), Some(Some(_)));
        let is_going = call.request.deleting || object.is_none();
        if let Some(object) = object.filter(|_| !is_going || self.states.is_empty()) {
            let is_news = self.states.last().is_none_or(|last| last.as_ref().map(spec) != Some(spec(&object)));
            if is_news && self.states.len() < RECORDED_STATES_MAX {
                kept += text.map_or(0, str::len);
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
            if self.beside.len() < OBJECTS_BESIDE_MAX {
                self.beside.entry(name).or_insert_with(|| {
                    let object = wanted(object);
                    kept += object.to_string().len();
                    object
                });
            }
        }
        kept
    }

    /// All values in the states, and whether the object was deleted.
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
        // Objects from files take precedence over recorded ones. Objects of the plugin's primary kind in files are only
        // samples, so they are left out.
        let is_primary = |object: &Value| object["apiVersion"] == *name.api_version && object["kind"] == *name.kind;
        objects.extend(load.iter().filter(|it| !is_primary(it)).map(|object| (ObjectName::of(object), object.clone())));
        let (mut steps, mut guessed) = (self.steps(name), 0..0);
        let last = self.states.iter().rev().flatten().next();
        if let Some(last) = last.filter(|_| is_first) {
            if matches!(self.states.last(), Some(None)) {
                steps.push(Step::Apply(last.clone()));
            }
            let changes = field_changes(last, load);
            guessed = steps.len()..steps.len() + changes.len();
            steps.extend(changes);
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
        RecordedScenario { scenario: Scenario { guessed, ..Scenario::new(name, load, steps) }, redacted }
    }

    /// The steps from one state to the next.
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

/// The complete objects that a call saw, except its primary. Objects with an owner are left out, because the owner
/// creates them.
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

#[cfg(test)]
mod tests;
