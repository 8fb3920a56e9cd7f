//! The server's state, behind one lock. The holder of the lock, a request or a step of a background task, is the only
//! reader and writer. No task awaits while it holds the lock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::admission::AdmissionPlugins;
use crate::clock::{self, Chance, Clock, Moment, Time};
use crate::object::{self, text};
use crate::request_counts::RequestCounts;
use crate::resources::naming::TakenNames;
use crate::resources::registry::Registry;
use crate::resources::{builtin, crd};
use crate::storage::service_addresses::ServiceAddresses;
use crate::storage::{ObjectKey, Store};
use crate::tokens::TokenKey;

#[derive(Clone)]
pub(crate) struct State {
    pub(crate) store: Store,
    pub(crate) registry: Registry,
    pub(crate) addresses: ServiceAddresses,
    /// The webhooks and policies for writes.
    pub(crate) plugins: AdmissionPlugins,
    pub(crate) time: Time,
    /// The number of times that the whole state was replaced. A watch from an earlier era must end.
    pub(crate) era: u64,
    pub(crate) chance: Chance,
    /// Whether the stored roles authorize requests. Otherwise everything is allowed.
    pub(crate) by_roles: bool,
    pub(crate) token_key: TokenKey,
    /// Whether dependents are deleted with their owners.
    pub(crate) collects: bool,
    /// Whether a deleted namespace is emptied and then removed.
    pub(crate) empties_namespaces: bool,
}

impl State {
    pub(crate) fn new(history: usize, clock: Clock, seed: Option<u64>) -> State {
        State {
            store: Store::new(history),
            registry: Registry::new(),
            addresses: ServiceAddresses::default(),
            plugins: AdmissionPlugins::default(),
            time: Time::start(clock),
            era: 0,
            chance: Chance::new(seed),
            by_roles: false,
            token_key: TokenKey::new(clock::secret(seed)),
            collects: true,
            empties_namespaces: true,
        }
    }

    /// The time for timestamps of objects.
    pub(crate) fn now(&self) -> String {
        self.time.now().text()
    }

    /// Stores an object. If it is a definition, the server then serves its resource.
    pub(crate) fn commit(&mut self, key: &ObjectKey, object: Value) -> Arc<Value> {
        // A new object has no resource version yet, and already fits its schema.
        let is_new = object::resource_version(&object).is_empty();
        let mut object =
            if is_new { object } else { Arc::unwrap_or_clone(self.registry.in_form(&key.resource, Arc::new(object))) };
        let defines = crd::is_definition(&key.resource);
        if defines {
            self.establish(key, &mut object);
        }
        if is_service(key) {
            self.addresses.replace(self.store.get(key).map(|it| &**it), Some(&object));
        }
        let before = self.store.get(key).filter(|_| defines).cloned();
        let stored = self.store.put(key, object);
        self.plugins.define(&key.resource, &stored);
        if defines && crd::is_established(&stored) {
            self.registry.define(&stored);
            if before.is_none_or(|before| !crd::defines_the_same(&before, &stored)) {
                self.end_watches(&stored);
            }
        }
        if defines {
            self.reconsider_names(text(&stored, "/spec/group"));
        }
        stored
    }

    /// Gives a definition the names that no other definition in its group has.
    fn establish(&self, key: &ObjectKey, definition: &mut Value) {
        let group = text(definition, "/spec/group").to_owned();
        let (own, others) = (definition.clone(), self.definitions_of(&group));
        let mut taken = TakenNames::default();
        taken.add(&own);
        self.registry.builtin_of(&group).for_each(|resource| taken.add_builtin(resource));
        for other in others.iter().filter(|other| object::name(other) != key.name) {
            taken.add(other);
        }
        crd::establish(definition, &taken, &self.now());
    }

    fn definitions_of(&self, group: &str) -> Vec<Arc<Value>> {
        let all = self.store.list(&builtin::custom_resource_definitions(), None);
        all.filter(|definition| text(definition, "/spec/group") == group).cloned().collect()
    }

    /// Gives free names to other definitions that may have waited for them.
    fn reconsider_names(&mut self, group: &str) {
        let mut waiting = self.definitions_of(group);
        waiting.retain(|definition| !object::condition_holds(definition, "NamesAccepted"));
        for definition in waiting {
            let key = ObjectKey::of(&builtin::custom_resource_definitions(), &definition);
            // Another definition may have got names in the meantime.
            let Some(definition) = self.store.get(&key).cloned() else { continue };
            let mut again = Value::clone(&definition);
            self.establish(&key, &mut again);
            if again != *definition {
                self.commit(&key, again);
            }
        }
    }

    pub(crate) fn erase(&mut self, key: &ObjectKey) -> Option<Arc<Value>> {
        let last = self.registry.in_form(&key.resource, Arc::clone(self.store.get(key)?));
        let removed = self.store.remove(key, Arc::unwrap_or_clone(last))?;
        self.plugins.undefine(&key.resource, &key.name);
        if is_service(key) {
            self.addresses.replace(Some(&removed), None);
        }
        if crd::is_definition(&key.resource) && crd::is_established(&removed) {
            self.registry.undefine(&removed);
            self.end_watches(&removed);
        }
        if crd::is_definition(&key.resource) {
            self.reconsider_names(text(&removed, "/spec/group"));
        }
        Some(removed)
    }

    /// Ends the watches of a definition's resource.
    fn end_watches(&mut self, definition: &Value) {
        let revision = self.store.revision();
        self.store.log(&crd::defined_resource(definition)).redefine(revision);
    }

    /// Replaces all objects by these objects with their versions, and continues at `revision`. The controllers look at
    /// each object, as they do when they start.
    pub(crate) fn replace_objects(&mut self, revision: u64, objects: Vec<(ObjectKey, Value)>) {
        self.registry = Registry::new();
        self.addresses = ServiceAddresses::default();
        self.plugins = AdmissionPlugins::default();
        self.era += 1;
        self.store.clear(revision);
        for (key, object) in objects {
            let object = Arc::new(object);
            if is_service(&key) {
                self.addresses.replace(None, Some(&object));
            }
            if crd::is_definition(&key.resource) && crd::is_established(&object) {
                self.registry.define(&object);
            }
            self.plugins.define(&key.resource, &object);
            self.store.keep(&key, object);
        }
    }

    /// Whether the object is stored in the form that its definition requires now.
    pub(crate) fn is_in_form(&self, key: &ObjectKey) -> bool {
        let Some(stored) = self.store.get(key) else { return true };
        // If the conversion needs a webhook, the object is converted at its next write.
        let is_converted = self.registry.storage_type(&key.resource).is_none_or(|storage| {
            storage.converter().is_none() || stored["apiVersion"] == storage.api_version().as_str()
        });
        is_converted && self.registry.in_form(&key.resource, Arc::clone(stored)) == *stored
    }
}

fn is_service(key: &ObjectKey) -> bool {
    key.resource == builtin::services()
}

/// The state that all requests and tasks share.
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Wakes the controllers.
    pub(crate) changed: Arc<Notify>,
    pub(crate) counts: RequestCounts,
    /// Ends watches and background tasks.
    pub(crate) stop: CancellationToken,
}

impl Shared {
    pub(crate) fn new(history: usize, clock: Clock, seed: Option<u64>) -> Shared {
        let state = State::new(history, clock, seed);
        Shared {
            changed: state.store.changed(),
            state: Mutex::new(state),
            counts: RequestCounts::default(),
            stop: CancellationToken::new(),
        }
    }

    /// The time that clients see.
    pub(crate) fn now(&self) -> Moment {
        self.lock().time.now()
    }

    /// Locks the state. Poisoning is ignored, because a step leaves the state consistent even if it panics.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
