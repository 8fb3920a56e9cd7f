//! The store of objects in memory. It has a revision counter, a table per resource with its change log, and indexes for
//! the garbage collector (objects by UID, and dependents by their owner's UID). A clone is cheap: it shares all of this
//! until one of the two is written to.
//!
//! The store does not know HTTP, kinds or rules: `verbs` decides which writes are allowed. The holder of the server's
//! lock is the only writer, so each method sees and leaves a consistent state.

use std::collections::{BTreeMap, BTreeSet, HashMap, vec_deque};
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::object;
use crate::resources::resource::GroupResource;
use crate::storage::agenda::Agenda;
use crate::storage::change_log::{Change, ChangeKind, ChangeLog, Forgotten};

/// The key of one object. `namespace` is empty for cluster-scoped objects.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ObjectKey {
    pub(crate) resource: GroupResource,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl ObjectKey {
    /// The key of an object of this resource.
    pub(crate) fn of(resource: &GroupResource, object: &Value) -> ObjectKey {
        let (namespace, name) = (object::namespace(object).to_owned(), object::name(object).to_owned());
        ObjectKey { resource: resource.clone(), namespace, name }
    }
}

/// The key of an object within its resource. Lists have the order of these keys, as in a real server's storage.
pub(crate) fn place(namespace: &str, name: &str) -> String {
    format!("{}{name}", prefix((!namespace.is_empty()).then_some(namespace)))
}

/// The first key of a namespace, or of all namespaces.
fn prefix(namespace: Option<&str>) -> String {
    namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default()
}

/// The objects of one resource by key.
#[derive(Clone)]
struct Table {
    resource: Arc<GroupResource>,
    objects: Arc<BTreeMap<String, Arc<Value>>>,
    log: ChangeLog,
}

/// A stored object with its resource.
#[derive(Clone)]
struct Identified {
    resource: Arc<GroupResource>,
    object: Arc<Value>,
}

#[derive(Clone)]
pub(crate) struct Store {
    revision: u64,
    history: usize,
    /// The revision up to which no changes of any resource are known.
    known_since: u64,
    tables: BTreeMap<GroupResource, Table>,
    /// Objects by UID. A UID is never used twice.
    by_uid: Arc<HashMap<Box<str>, Identified>>,
    /// For the UID of each owner, the objects that have an owner reference to it, even if the owner does not exist.
    dependents: Arc<HashMap<String, BTreeSet<ObjectKey>>>,
    /// The pending work of the controllers. Every change adds to it.
    pub(crate) agenda: Agenda,
    /// Wakes the controllers.
    changed: Arc<Notify>,
}

impl Store {
    pub(crate) fn new(history: usize) -> Store {
        Store {
            revision: 1,
            history,
            known_since: 0,
            tables: BTreeMap::new(),
            by_uid: Arc::default(),
            dependents: Arc::default(),
            agenda: Agenda::default(),
            changed: Arc::default(),
        }
    }

    /// Lets a restored store continue now: work that was due some time after `then` is due the same time after now.
    pub(crate) fn begin_anew(&mut self, then: Instant, changed: Arc<Notify>) {
        self.agenda = self.agenda.begun_anew(then);
        self.changed = changed;
    }

    /// The signal that is notified of every change.
    pub(crate) fn changed(&self) -> Arc<Notify> {
        Arc::clone(&self.changed)
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&Arc<Value>> {
        self.tables.get(&key.resource)?.objects.get(&place(&key.namespace, &key.name))
    }

    /// The objects of a resource in list order, in one namespace or in all.
    pub(crate) fn list<'a>(
        &'a self,
        resource: &GroupResource,
        namespace: Option<&str>,
    ) -> impl Iterator<Item = &'a Arc<Value>> + use<'a> {
        let inside = prefix(namespace);
        let objects = self.tables.get(resource).map(|table| table.objects.range(inside.clone()..));
        let objects = objects.into_iter().flatten().take_while(move |(place, _)| place.starts_with(&inside));
        objects.map(|(_, object)| object)
    }

    /// The objects of a resource in list order, as they were at a revision. Begins at the key `from` in the namespace.
    pub(crate) fn list_at(
        &self,
        resource: &GroupResource,
        namespace: Option<&str>,
        revision: u64,
        from: &str,
    ) -> Result<Vec<Arc<Value>>, Forgotten> {
        let (inside, mut before) = (prefix(namespace), BTreeMap::<String, Option<Arc<Value>>>::new());
        let first = format!("{inside}{from}");
        for change in self.changes_since(resource, revision)? {
            before
                .entry(place(object::namespace(&change.object), object::name(&change.object)))
                .or_insert_with(|| change.previous.clone());
        }
        let within = |(place, _): &(&String, &Arc<Value>)| place.starts_with(&inside);
        let present = self.tables.get(resource).map(|table| table.objects.range(first.clone()..));
        let present = present.into_iter().flatten();
        if before.is_empty() {
            return Ok(present.take_while(within).map(|(_, object)| Arc::clone(object)).collect());
        }
        let present = present.filter(|(place, _)| !before.contains_key(*place));
        let past = before.range(first..).filter_map(|(place, object)| Some((place, object.as_ref()?)));
        let mut found: Vec<(&String, &Arc<Value>)> =
            present.take_while(within).chain(past.take_while(within)).collect();
        // The list consists of two sorted runs, which this sort merges in one pass.
        found.sort_by_key(|(place, _)| *place);
        Ok(found.into_iter().map(|(_, object)| Arc::clone(object)).collect())
    }

    /// An object as it was at a revision.
    pub(crate) fn get_at(&self, key: &ObjectKey, revision: u64) -> Result<Option<Arc<Value>>, Forgotten> {
        let mut changes = self.changes_since(&key.resource, revision)?;
        let is_of = |object: &Value| object::name(object) == key.name && object::namespace(object) == key.namespace;
        match changes.find(|change| is_of(&change.object)) {
            Some(change) => Ok(change.previous.clone()),
            None => Ok(self.get(key).cloned()),
        }
    }

    /// The revision before the last `count` known changes of a resource. `None` if there are none.
    pub(crate) fn revision_before(&self, resource: &GroupResource, count: u64) -> Option<u64> {
        self.tables.get(resource)?.log.revision_before(count)
    }

    fn changes_since(&self, resource: &GroupResource, revision: u64) -> Result<vec_deque::Iter<'_, Change>, Forgotten> {
        match self.tables.get(resource) {
            Some(table) => table.log.since(revision),
            None if revision < self.known_since => Err(Forgotten { up_to: self.known_since }),
            None => Ok(vec_deque::Iter::default()),
        }
    }

    /// The resources that hold at least one object.
    pub(crate) fn resources(&self) -> Vec<GroupResource> {
        let used = self.tables.iter().filter(|(_, table)| !table.objects.is_empty());
        used.map(|(resource, _)| resource.clone()).collect()
    }

    pub(crate) fn find(&self, uid: &str) -> Option<ObjectKey> {
        self.by_uid.get(uid).map(|found| ObjectKey::of(&found.resource, &found.object))
    }

    pub(crate) fn dependents(&self, owner: &str) -> Vec<ObjectKey> {
        self.dependents.get(owner).map(|keys| keys.iter().cloned().collect()).unwrap_or_default()
    }

    /// The objects that have an owner reference. Objects with several owners occur several times.
    pub(crate) fn all_dependents(&self) -> impl Iterator<Item = &ObjectKey> {
        self.dependents.values().flatten()
    }

    /// The change log of a resource. It is created if it does not exist.
    pub(crate) fn log(&mut self, resource: &GroupResource) -> &mut ChangeLog {
        &mut self.table(resource).log
    }

    /// Stores the object under a new revision, which becomes its resource version.
    pub(crate) fn put(&mut self, key: &ObjectKey, mut object: Value) -> Arc<Value> {
        self.revision += 1;
        let revision = self.revision;
        object::metadata_mut(&mut object).insert("resourceVersion".to_owned(), json!(revision.to_string()));
        let object = Arc::new(object);
        let place = place(&key.namespace, &key.name);
        let previous = Arc::make_mut(&mut self.table(&key.resource).objects).insert(place, Arc::clone(&object));
        self.forget_links(key, previous.as_deref());
        self.link(key, &object);
        let kind = if previous.is_some() { ChangeKind::Modified } else { ChangeKind::Added };
        self.record(&key.resource, Change::new(revision, kind, Arc::clone(&object), previous));
        object
    }

    /// Removes the object under a new revision, which becomes the resource version of `last`, its last state.
    pub(crate) fn remove(&mut self, key: &ObjectKey, mut last: Value) -> Option<Arc<Value>> {
        let place = place(&key.namespace, &key.name);
        let previous = Arc::make_mut(&mut self.table(&key.resource).objects).remove(&place)?;
        self.revision += 1;
        let revision = self.revision;
        self.forget_links(key, Some(&previous));
        object::metadata_mut(&mut last).insert("resourceVersion".to_owned(), json!(revision.to_string()));
        let object = Arc::new(last);
        let change = Change::new(revision, ChangeKind::Deleted, Arc::clone(&object), Some(previous));
        self.record(&key.resource, change);
        Some(object)
    }

    /// Drops all objects and their history, and continues at this revision.
    pub(crate) fn clear(&mut self, revision: u64) {
        let changed = self.changed();
        *self = Store { revision, known_since: revision, changed, ..Store::new(self.history) };
    }

    /// Inserts an object, which must not exist yet, with its own version. Watches do not see it.
    pub(crate) fn keep(&mut self, key: &ObjectKey, object: Arc<Value>) {
        let place = place(&key.namespace, &key.name);
        Arc::make_mut(&mut self.table(&key.resource).objects).insert(place, Arc::clone(&object));
        self.link(key, &object);
        let change = Change::new(self.revision, ChangeKind::Added, object, None);
        self.agenda.see(key.resource.clone(), change);
        self.changed.notify_one();
    }

    /// Drops all history. From then on, requests for changes since an earlier revision fail.
    pub(crate) fn compact(&mut self) {
        self.revision += 1;
        for table in self.tables.values_mut() {
            table.log.compact(self.revision);
        }
    }

    fn table(&mut self, resource: &GroupResource) -> &mut Table {
        let (history, since) = (self.history, self.known_since);
        self.tables.entry(resource.clone()).or_insert_with(|| Table {
            resource: Arc::new(resource.clone()),
            objects: Arc::default(),
            log: ChangeLog::new(history, since),
        })
    }

    fn record(&mut self, resource: &GroupResource, change: Change) {
        self.agenda.see(resource.clone(), change.clone());
        self.changed.notify_one();
        self.log(resource).record(change);
    }

    fn link(&mut self, key: &ObjectKey, object: &Arc<Value>) {
        let resource = Arc::clone(&self.table(&key.resource).resource);
        let identified = Identified { resource, object: Arc::clone(object) };
        Arc::make_mut(&mut self.by_uid).insert(object::uid(object).into(), identified);
        for owner in object::owner_references(object) {
            Arc::make_mut(&mut self.dependents).entry(owner.uid.to_owned()).or_default().insert(key.clone());
        }
    }

    fn forget_links(&mut self, key: &ObjectKey, previous: Option<&Value>) {
        let Some(previous) = previous else { return };
        Arc::make_mut(&mut self.by_uid).remove(object::uid(previous));
        for owner in object::owner_references(previous) {
            let dependents = Arc::make_mut(&mut self.dependents);
            if let Some(keys) = dependents.get_mut(owner.uid) {
                keys.remove(key);
                if keys.is_empty() {
                    dependents.remove(owner.uid);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey {
            resource: GroupResource::new("", "configmaps"),
            namespace: "default".to_owned(),
            name: name.to_owned(),
        }
    }

    fn owned_by(uid: &str, owner: &str) -> Value {
        json!({ "metadata": { "uid": uid, "ownerReferences": [{ "uid": owner }] } })
    }

    #[test]
    fn every_write_takes_the_next_revision() {
        let mut store = Store::new(10);
        let first = store.put(&key("a"), json!({ "metadata": { "uid": "1" } }));
        let second = store.put(&key("a"), json!({ "metadata": { "uid": "1" } }));
        let last = store.remove(&key("a"), Value::clone(&second)).expect("it was stored");
        let versions: Vec<&str> =
            [&first, &second, &last].map(|object| object::resource_version(object)).into_iter().collect();
        assert_eq!(versions, ["2", "3", "4"]);
        assert_eq!(store.revision(), 4);
    }

    #[test]
    fn dependents_follow_changes_of_owner_references() {
        let mut store = Store::new(10);
        store.put(&key("a"), owned_by("1", "x"));
        assert_eq!(store.dependents("x"), [key("a")]);
        store.put(&key("a"), owned_by("1", "y"));
        assert!(store.dependents("x").is_empty());
        store.remove(&key("a"), owned_by("1", "y"));
        assert!(store.dependents("y").is_empty());
    }

    #[test]
    fn an_object_is_found_by_its_uid_until_it_is_gone() {
        let mut store = Store::new(10);
        let object = json!({ "metadata": { "uid": "1", "name": "a", "namespace": "default" } });
        store.put(&key("a"), object.clone());
        assert_eq!(store.find("1"), Some(key("a")));
        store.put(&key("a"), object.clone());
        assert_eq!(store.find("1"), Some(key("a")), "after a change");
        store.remove(&key("a"), object);
        assert_eq!(store.find("1"), None);
    }

    #[test]
    fn a_list_of_one_namespace_has_only_its_objects() {
        let mut store = Store::new(10);
        for namespace in ["a", "ab", "b"] {
            let place = ObjectKey { namespace: namespace.to_owned(), ..key("x") };
            store.put(&place, json!({ "metadata": { "namespace": namespace, "uid": namespace } }));
        }
        let resource = GroupResource::new("", "configmaps");
        assert_eq!(store.list(&resource, Some("a")).count(), 1);
        assert_eq!(store.list(&resource, None).count(), 3);
    }
}
