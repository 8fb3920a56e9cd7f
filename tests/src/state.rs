//! The state that an operator has made: its objects, without the values that differ between runs.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::sync::LazyLock;

use anyhow::Context;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use regex::Regex;
use serde_json::{Value, json};

/// A kind of namespaced objects: group, version, kind and plural.
pub type KindOf = (&'static str, &'static str, &'static str, &'static str);

const EVENT: KindOf = ("events.k8s.io", "v1", "Event", "events");

/// Objects by kind and name, or by kind, namespace and name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State(pub BTreeMap<String, Value>);

impl State {
    /// Reads the objects of these kinds.
    pub async fn read(client: &Client, namespace: &str, kinds: &[KindOf]) -> anyhow::Result<Self> {
        let mut objects = BTreeMap::new();
        for kind in kinds {
            let list = api(client, namespace, kind).list(&ListParams::default()).await;
            for object in list.with_context(|| format!("list {}", kind.3))?.items {
                let object = normalized(serde_json::to_value(object)?, Some(namespace));
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                add(&mut objects, &format!("{} {name}", kind.2), object.clone());
            }
        }
        Ok(Self(objects))
    }

    /// Reads the objects of these kinds in all namespaces, except in those of Kubernetes. The namespace `default` is
    /// included. An object is called `KIND NAMESPACE/NAME`, or `KIND NAME` if it has no namespace. Objects whose
    /// generated names are equal once they are normalized are called `NAME`, `NAME #2` and so on.
    pub async fn read_everywhere(client: &Client, kinds: &[ApiResource]) -> anyhow::Result<Self> {
        let mut objects = BTreeMap::new();
        for kind in kinds {
            let list = Api::<DynamicObject>::all_with(client.clone(), kind).list(&ListParams::default()).await;
            for object in list.with_context(|| format!("list {}", kind.plural))?.items {
                let namespace = object.metadata.namespace.as_ref();
                if namespace.is_some_and(|it| it.starts_with("kube-")) {
                    continue;
                }
                let place = namespace.map(|it| format!("{it}/")).unwrap_or_default();
                let object = normalized(serde_json::to_value(object)?, None);
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                let name = format!("{} {place}{name}", kind.kind);
                add_named(&mut objects, &name, object);
            }
        }
        Ok(Self(objects))
    }

    /// Reads the Events about objects of these kinds.
    pub async fn read_events(client: &Client, namespace: &str, kinds: &[KindOf]) -> anyhow::Result<Self> {
        let mut objects = BTreeMap::new();
        for object in api(client, namespace, &EVENT).list(&ListParams::default()).await?.items {
            let object = event(&normalized(serde_json::to_value(object)?, Some(namespace)));
            let about = &object["regarding"];
            if kinds.iter().any(|kind| about["kind"] == kind.2) {
                add(
                    &mut objects,
                    &format!("Event about {} {}: {}", about["kind"], about["name"], object["reason"]),
                    object,
                );
            }
        }
        Ok(Self(objects))
    }

    /// The objects of a kind.
    pub fn of(&self, kind: &str) -> impl Iterator<Item = &Value> {
        let prefix = format!("{kind} ");
        self.0.iter().filter(move |(name, _)| name.starts_with(&prefix)).map(|(_, object)| object)
    }

    /// The differences from another state, for a person.
    #[must_use]
    pub fn difference(&self, expected: &Self) -> String {
        let names = self.0.keys().chain(expected.0.keys().filter(|name| !self.0.contains_key(*name)));
        let differ = names.filter(|name| self.0.get(*name) != expected.0.get(*name));
        let shown = differ.map(|name| {
            let of = |state: &Self| state.0.get(name).map_or_else(|| "none".to_owned(), Value::to_string);
            format!("{name}:\n  is       {}\n  expected {}", of(self), of(expected))
        });
        shown.collect::<Vec<_>>().join("\n")
    }
}

impl Display for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(name, object)| writeln!(formatter, "{name}: {object}"))
    }
}

/// Adds an object under a name of its own: generated names are equal once they are normalized.
fn add(objects: &mut BTreeMap<String, Value>, name: &str, object: Value) {
    let mut names = (1..).map(|number: usize| format!("{name} #{number}"));
    objects.extend(names.find(|name| !objects.contains_key(name)).map(|name| (name, object)));
}

/// Adds an object under its name, or under the name with a number if another object has it.
fn add_named(objects: &mut BTreeMap<String, Value>, name: &str, object: Value) {
    let further = (2..).map(|number: usize| format!("{name} #{number}"));
    let free = std::iter::once(name.to_owned()).chain(further).find(|name| !objects.contains_key(name));
    objects.extend(free.map(|name| (name, object)));
}

/// The API of a kind.
#[must_use]
pub fn api(client: &Client, namespace: &str, kind: &KindOf) -> Api<DynamicObject> {
    let (group, version, kind, plural) = kind;
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
    Api::namespaced_with(client.clone(), namespace, &resource)
}

/// The patterns of values that differ between two runs, and what replaces them. Compiling one takes milliseconds in a
/// debug build.
static RANDOM: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let patterns = [
        (r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$", "<time>"),
        (r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", "<uid>"),
        (r"^\d{1,3}(\.\d{1,3}){3}$", "<address>"),
        // The time of a Job of the CronJob operator, in seconds.
        (r"-1\d{9}$", "-<seconds>"),
        // A suffix by `k8s.io/apimachinery/pkg/util/rand`.
        (r"-[bcdfghjklmnpqrstvwxz2456789]{5}\b", "-<random>"),
    ];
    patterns.map(|(pattern, text)| (Regex::new(pattern).expect("a pattern"), text)).into()
});

/// Removes the fields that the API server assigns, and replaces times, UIDs, random suffixes and, if it is given, the
/// namespace.
fn normalized(mut object: Value, namespace: Option<&str>) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for assigned in ["uid", "creationTimestamp", "managedFields"] {
            metadata.remove(assigned);
        }
    }
    replace(&mut object, &|text| {
        let text = namespace.map_or_else(|| text.to_owned(), |namespace| text.replace(namespace, "<namespace>"));
        RANDOM.iter().fold(text, |text, (pattern, by)| pattern.replace_all(&text, *by).into_owned())
    });
    object
}

fn replace(value: &mut Value, by: &dyn Fn(&str) -> String) {
    match value {
        Value::String(text) => *text = by(text),
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, by)),
        Value::Object(fields) => {
            // References contain versions too.
            fields.remove("resourceVersion");
            fields.values_mut().for_each(|field| replace(field, by));
        }
        _ => {}
    }
}

/// The part of an Event that a person reads. Recorders name and count Events differently.
fn event(object: &Value) -> Value {
    let regarding = &object["regarding"];
    json!({
        "type": object["type"], "reason": object["reason"], "note": object["note"],
        "regarding": {"kind": regarding["kind"], "name": regarding["name"]},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_uids_and_namespaces_of_two_runs_are_equal() {
        let run = |namespace: &str, second: u32| {
            let owner = json!({"kind": "CronJob", "uid": format!("00000000-0000-0000-0000-{second:012}")});
            let object = json!({
                "metadata": {
                    "name": format!("sample-18000000{second}"), "namespace": namespace, "resourceVersion": second,
                    "ownerReferences": [owner],
                    "annotations": {"at": format!("2026-11-28T16:00:{second}Z")},
                },
                "status": {"active": [{"kind": "Job", "resourceVersion": second.to_string()}]},
            });
            normalized(object, Some(namespace))
        };
        assert_eq!(run("case-1", 10), run("case-2", 11));
    }

    #[test]
    fn objects_with_equal_names_are_all_kept() {
        let mut objects = BTreeMap::new();
        for size in 1..=3 {
            add_named(&mut objects, "Job a/b-<seconds>", json!({"size": size}));
        }
        let names: Vec<_> = objects.keys().map(String::as_str).collect();
        assert_eq!(names, ["Job a/b-<seconds>", "Job a/b-<seconds> #2", "Job a/b-<seconds> #3"]);
    }

    #[test]
    fn a_difference_names_the_object_and_both_values() {
        let of = |size: u32| State([("Memcached a #1".to_owned(), json!({"size": size}))].into());
        let difference = of(1).difference(&of(2));
        assert!(difference.contains("Memcached a #1") && difference.contains(r#"{"size":1}"#), "{difference}");
        assert!(difference.contains(r#"{"size":2}"#), "{difference}");
        assert_eq!(of(1).difference(&of(1)), "");
    }
}
