//! Records the history of parents and their children as the API server itself reports it. Its watches bypass every
//! proxy, and the history is in the order of the server's versions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use futures::TryStreamExt as _;
use kube::Api;
use kube::api::{DynamicObject, ListParams, WatchEvent, WatchParams};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::objects::Objects;

/// One change of a parent or of a child that it controls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The server's version after the change.
    pub version: u64,
    /// The parent's UID.
    pub parent: String,
    /// The change.
    pub what: What,
}

/// A change of a parent or a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A child was created, or adopted.
    Appeared(String),
    /// A child's deletion has begun, or the parent released the child.
    Went(String),
    /// The spec asks for this many replicas. Generation first, then replicas.
    Asked(i64, u64),
    /// The status reports this many replicas. Observed generation first, then replicas.
    Reported(i64, u64),
}

/// A parent at some version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parent {
    /// The UIDs of the children that exist and are not being deleted.
    pub live: BTreeSet<String>,
    /// The generation.
    pub generation: i64,
    /// The number of replicas that it asks for.
    pub asked: u64,
    /// The generation that its status reports.
    pub observed: i64,
    /// The number of replicas that its status reports.
    pub reported: u64,
}

impl Parent {
    /// Applies one more change.
    pub fn apply(&mut self, what: &What) {
        match what {
            What::Appeared(child) => {
                self.live.insert(child.clone());
            }
            What::Went(child) => {
                self.live.remove(child);
            }
            What::Asked(generation, replicas) => (self.generation, self.asked) = (*generation, *replicas),
            What::Reported(generation, replicas) => (self.observed, self.reported) = (*generation, *replicas),
        }
    }

    /// Whether there are as many children as the spec asks for.
    #[must_use]
    pub fn is_converged(&self) -> bool {
        self.generation > 0 && self.live.len() as u64 == self.asked
    }

    /// Whether the status reports the right number for the current spec.
    #[must_use]
    pub fn is_reported(&self) -> bool {
        self.generation > 0 && self.observed == self.generation && self.reported == self.asked
    }
}

/// Watches the parents of a kind and their children, in one namespace.
pub struct Recorder {
    objects: Objects,
    record: Arc<Record>,
    watches: Vec<AbortHandle>,
}

#[derive(Debug)]
struct Record {
    log: Mutex<Log>,
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Log {
    entries: Vec<Entry>,
    parents: BTreeMap<String, Parent>,
    /// The existing children, by UID.
    children: BTreeMap<String, Child>,
    broken: Option<String>,
}

#[derive(Clone, Debug)]
struct Child {
    name: String,
    parent: String,
}

/// The role of the objects that a watch covers.
#[derive(Clone, Copy, Debug)]
enum Role {
    Parents,
    Children,
}

/// How long the server lets a watch run, in seconds. Then the recorder resumes the watch.
const WATCH_SECONDS: u32 = 290;

impl Recorder {
    /// Records all later changes of the parents, and of children of these kinds.
    pub async fn start(objects: &Objects, parents: &str, children: &[&str]) -> anyhow::Result<Self> {
        let record = Arc::new(Record { log: Mutex::default(), changed: watch::Sender::new(()) });
        let mut recorder = Self { objects: objects.clone(), record, watches: Vec::new() };
        recorder.follow(parents, Role::Parents).await?;
        for kind in children {
            recorder.follow(kind, Role::Children).await?;
        }
        Ok(recorder)
    }

    async fn follow(&mut self, kind: &str, role: Role) -> anyhow::Result<()> {
        let api = self.objects.api(kind)?;
        let list = api.list(&ListParams::default()).await?;
        ensure!(list.items.is_empty(), "there are objects of {kind} already");
        let version = list.metadata.resource_version.context("a list has a version")?;
        let record = Arc::clone(&self.record);
        let followed = async move {
            let Err(error) = follow(&api, version, |event| record.note(role, event)).await;
            record.lock().broken = Some(format!("{error:#}"));
            record.changed.send_replace(());
        };
        self.watches.push(tokio::spawn(followed).abort_handle());
        Ok(())
    }

    /// Returns all changes so far, in order.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        let mut entries = self.record.lock().entries.clone();
        // Parents and children arrive on different watches, so sort the changes.
        entries.sort_by_key(|entry| entry.version);
        entries
    }

    /// The current state of a parent.
    #[must_use]
    pub fn parent(&self, uid: &str) -> Parent {
        self.record.lock().parents.get(uid).cloned().unwrap_or_default()
    }

    /// The name of a child, if the child exists.
    #[must_use]
    pub fn name(&self, child: &str) -> Option<String> {
        self.record.lock().children.get(child).map(|child| child.name.clone())
    }

    /// Waits until a parent meets `condition`.
    pub async fn until(
        &self,
        what: &str,
        parent: &str,
        patience: Duration,
        condition: impl Fn(&Parent) -> bool,
    ) -> anyhow::Result<()> {
        let mut changed = self.record.changed.subscribe();
        let waited = tokio::time::timeout(patience, async {
            loop {
                changed.borrow_and_update();
                if let Some(broken) = &self.record.lock().broken {
                    bail!("the recorder has stopped: {broken}");
                }
                if condition(&self.parent(parent)) {
                    return Ok(());
                }
                changed.changed().await?;
            }
        });
        match waited.await {
            Ok(waited) => waited,
            Err(_) => bail!("{what}: not within {patience:?}; the parent {parent} is {:?}", self.parent(parent)),
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.watches.iter().for_each(AbortHandle::abort);
    }
}

/// Watches from a version on, and resumes each watch that the server ends. An error ends this function, because the
/// recorder must not miss a change.
async fn follow(
    api: &Api<DynamicObject>,
    mut version: String,
    note: impl Fn(WatchEvent<DynamicObject>) -> anyhow::Result<()>,
) -> anyhow::Result<std::convert::Infallible> {
    loop {
        let mut events = Box::pin(api.watch(&WatchParams::default().timeout(WATCH_SECONDS), &version).await?);
        while let Some(event) = events.try_next().await? {
            match &event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
                    version = object.metadata.resource_version.clone().context("an object has a version")?;
                }
                WatchEvent::Bookmark(bookmark) => version.clone_from(&bookmark.metadata.resource_version),
                WatchEvent::Error(status) => bail!("{status:?}"),
            }
            note(event)?;
        }
    }
}

impl Record {
    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, role: Role, event: WatchEvent<DynamicObject>) -> anyhow::Result<()> {
        let (object, is_gone) = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
            WatchEvent::Deleted(object) => (object, true),
            WatchEvent::Bookmark(_) | WatchEvent::Error(_) => return Ok(()),
        };
        let object = serde_json::to_value(object)?;
        match role {
            Role::Parents if is_gone => {}
            Role::Parents => self.lock().note_parent(&object)?,
            Role::Children => self.lock().note_child(&object, is_gone)?,
        }
        self.changed.send_replace(());
        Ok(())
    }
}

impl Log {
    fn note_parent(&mut self, object: &Value) -> anyhow::Result<()> {
        let uid = uid(object)?;
        let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_u64);
        let generation = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default();
        let replicas = number("/spec/replicas").context("a parent has spec.replicas")?;
        let (asked, observed) = (generation("/metadata/generation"), generation("/status/observedGeneration"));
        // A PodSet counts all replicas, a WebApp only the ready ones.
        let reported = number("/status/replicas").or(number("/status/readyReplicas")).unwrap_or_default();
        let known = self.parents.get(uid).cloned().unwrap_or_default();
        let version = version(object)?;
        if (known.generation, known.asked) != (asked, replicas) {
            self.enter(version, uid, What::Asked(asked, replicas));
        }
        if (known.observed, known.reported) != (observed, reported) {
            self.enter(version, uid, What::Reported(observed, reported));
        }
        Ok(())
    }

    fn note_child(&mut self, object: &Value, is_gone: bool) -> anyhow::Result<()> {
        let (uid, version) = (uid(object)?, version(object)?);
        let owners = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        let mut controllers = owners.iter().filter(|owner| owner["controller"] == true);
        let controller = controllers.next().and_then(|owner| owner["uid"].as_str());
        ensure!(controllers.next().is_none(), "two controllers: {object}");
        let is_live = !is_gone && object["metadata"]["deletionTimestamp"].is_null();
        let parent = controller.filter(|_| is_live);
        let known = self.children.get(uid).map(|child| child.parent.clone());
        if known.as_deref() == parent {
            return Ok(());
        }
        if let Some(known) = known {
            self.children.remove(uid);
            self.enter(version, &known, What::Went(uid.to_owned()));
        }
        if let Some(parent) = parent {
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            self.children.insert(uid.to_owned(), Child { name, parent: parent.to_owned() });
            self.enter(version, parent, What::Appeared(uid.to_owned()));
        }
        Ok(())
    }

    fn enter(&mut self, version: u64, parent: &str, what: What) {
        self.parents.entry(parent.to_owned()).or_default().apply(&what);
        self.entries.push(Entry { version, parent: parent.to_owned(), what });
    }
}

/// The UID of an object.
pub fn uid(object: &Value) -> anyhow::Result<&str> {
    object["metadata"]["uid"].as_str().context("an object has a UID")
}

/// Parses the version of an object. Versions of different kinds are comparable, because both servers count all changes
/// with one counter.
fn version(object: &Value) -> anyhow::Result<u64> {
    Ok(object["metadata"]["resourceVersion"].as_str().context("an object has a version")?.parse()?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn child(version: u64, owner: Option<&str>, terminating: bool) -> Value {
        let owners: Vec<_> = owner.iter().map(|uid| json!({"uid": uid, "controller": true})).collect();
        let mut object = json!({"metadata": {
            "name": "a", "uid": "c", "resourceVersion": version.to_string(), "ownerReferences": owners,
        }});
        if terminating {
            object["metadata"]["deletionTimestamp"] = json!("2026-11-21T10:48:45Z");
        }
        object
    }

    #[test]
    fn a_child_appears_once_and_disappears_once() {
        let mut log = Log::default();
        for (object, is_gone) in [
            (child(1, Some("p"), false), false),
            (child(2, Some("p"), false), false),
            (child(3, Some("p"), true), false),
            (child(4, Some("p"), true), true),
        ] {
            log.note_child(&object, is_gone).unwrap();
        }
        let entry = |version, what| Entry { version, parent: "p".into(), what };
        assert_eq!(log.entries, [entry(1, What::Appeared("c".into())), entry(3, What::Went("c".into()))]);
    }

    #[test]
    fn an_orphan_that_is_adopted_appears_with_its_owner() {
        let mut log = Log::default();
        for object in [child(1, None, false), child(2, Some("p"), false), child(3, Some("q"), false)] {
            log.note_child(&object, false).unwrap();
        }
        let entry = |version, parent: &str, what| Entry { version, parent: parent.into(), what };
        let appeared = || What::Appeared("c".into());
        let expected = [entry(2, "p", appeared()), entry(3, "p", What::Went("c".into())), entry(3, "q", appeared())];
        assert_eq!(log.entries, expected);
    }

    #[test]
    fn children_and_status_both_show_that_a_parent_converged() {
        let mut log = Log::default();
        let parent = |version: u64, reported: u64| {
            json!({
                "metadata": {"uid": "p", "resourceVersion": version.to_string(), "generation": 1},
                "spec": {"replicas": 1}, "status": {"observedGeneration": reported, "replicas": reported},
            })
        };
        assert!(!Parent::default().is_converged() && !Parent::default().is_reported());
        log.note_parent(&parent(1, 0)).unwrap();
        assert!(!log.parents["p"].is_converged());
        log.note_child(&child(2, Some("p"), false), false).unwrap();
        assert!(log.parents["p"].is_converged() && !log.parents["p"].is_reported());
        log.note_parent(&parent(3, 1)).unwrap();
        assert!(log.parents["p"].is_reported());
        assert_eq!(log.entries.len(), 3);
    }
}
