//! The server's state, behind one lock. Its holder is the only reader and writer: a request, or one step of a
//! background task. Nothing awaits while holding it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::clock::{self, Chance, Clock, Moment, Time};
use crate::object;
use crate::request_counts::RequestCounts;
use crate::resources::registry::Registry;
use crate::resources::resource::ResourceType;
use crate::resources::{convert, crd};
use crate::storage::service_addresses::ServiceAddresses;
use crate::storage::{ObjectKey, Store};
use crate::tokens::TokenKey;

#[derive(Clone)]
pub(crate) struct State {
    pub(crate) store: Store,
    pub(crate) registry: Registry,
    pub(crate) addresses: ServiceAddresses,
    pub(crate) time: Time,
    /// Counts how often the state was replaced as a whole: what a watch knows of an earlier one says nothing of this.
    pub(crate) era: u64,
    pub(crate) chance: Chance,
    /// Requests are authorized by the stored roles; otherwise everything is allowed.
    pub(crate) by_roles: bool,
    pub(crate) token_key: TokenKey,
    /// Dependents go with their owners, and content with its namespace.
    pub(crate) collects: bool,
}

impl State {
    pub(crate) fn new(history: usize, clock: Clock, seed: Option<u64>) -> State {
        State {
            store: Store::new(history),
            registry: Registry::new(),
            addresses: ServiceAddresses::default(),
            time: Time::start(clock),
            era: 0,
            chance: Chance::new(seed),
            by_roles: false,
            token_key: TokenKey::new(clock::secret(seed)),
            collects: true,
        }
    }

    /// The time as objects are stamped with it.
    pub(crate) fn now(&self) -> String {
        self.time.now().text()
    }

    /// Stores an object. If it is a definition, its resource is served from now on.
    pub(crate) fn commit(&mut self, key: &ObjectKey, object: Value) -> Arc<Value> {
        // A new object has no version yet, and the form that its schema asks for.
        let is_new = object::resource_version(&object).is_empty();
        let mut object =
            if is_new { object } else { Arc::unwrap_or_clone(self.registry.in_form(&key.resource, Arc::new(object))) };
        let defines = crd::is_definition(&key.resource);
        if defines {
            let conflict = self.registry.name_conflict(&object);
            crd::establish(&mut object, conflict.as_deref(), &self.now());
        }
        if is_service(key) {
            self.addresses.replace(self.store.get(key).map(|it| &**it), Some(&object));
        }
        let before = self.store.get(key).filter(|_| defines).cloned();
        let stored = self.store.put(key, object);
        if defines && crd::is_established(&stored) {
            self.registry.define(&stored);
            if before.is_none_or(|before| !crd::defines_the_same(&before, &stored)) {
                self.end_watches(&stored);
            }
        }
        stored
    }

    pub(crate) fn erase(&mut self, key: &ObjectKey) -> Option<Arc<Value>> {
        let last = self.registry.in_form(&key.resource, Arc::clone(self.store.get(key)?));
        let removed = self.store.remove(key, Arc::unwrap_or_clone(last))?;
        if is_service(key) {
            self.addresses.replace(Some(&removed), None);
        }
        if crd::is_definition(&key.resource) && crd::is_established(&removed) {
            self.registry.undefine(&removed);
            self.end_watches(&removed);
        }
        Some(removed)
    }

    /// Ends the watches of what a definition defines.
    fn end_watches(&mut self, definition: &Value) {
        let revision = self.store.revision();
        self.store.log(&crd::defined_resource(definition)).redefine(revision);
    }

    /// Forgets everything and takes these objects as they are, with their versions, at a revision. The controllers look at
    /// each of them, as they do when they start.
    pub(crate) fn replace_objects(&mut self, revision: u64, objects: Vec<(ObjectKey, Value)>) {
        self.registry = Registry::new();
        self.addresses = ServiceAddresses::default();
        self.era += 1;
        self.store.clear(revision);
        for (key, object) in objects {
            if is_service(&key) {
                self.addresses.replace(None, Some(&object));
            }
            if crd::is_definition(&key.resource) && crd::is_established(&object) {
                self.registry.define(&object);
            }
            self.store.keep(&key, object);
        }
    }

    /// The stored object in the form of the version that `resource` is.
    pub(crate) fn read(&self, resource: &ResourceType, key: &ObjectKey) -> Option<Arc<Value>> {
        self.store.get(key).map(|object| convert::for_reader(resource, object))
    }

    /// Whether the object is stored in the form that its definition now asks for.
    pub(crate) fn is_in_form(&self, key: &ObjectKey) -> bool {
        self.store.get(key).is_none_or(|stored| self.registry.in_form(&key.resource, Arc::clone(stored)) == *stored)
    }
}

fn is_service(key: &ObjectKey) -> bool {
    key.resource.group.is_empty() && key.resource.plural == "services"
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

    /// The time that clients are shown.
    pub(crate) fn now(&self) -> Moment {
        self.lock().time.now()
    }

    /// A panic of another holder poisons nothing here: every step leaves the state consistent or does not touch it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
