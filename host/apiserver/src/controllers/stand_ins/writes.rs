//! Carries out the writes of stand-ins. A stand-in itself only looks at objects, and returns its writes as values.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::object;
use crate::request::{Target, WriteOptions};
use crate::resources::resource::GroupResource;
use crate::storage::ObjectKey;
use crate::storage::agenda::Errand;
use crate::storage::state::State;
use crate::verbs::delete::{self, DeleteOptions, Propagation};
use crate::verbs::{create, update};

/// One write to an object of a resource.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Write {
    Create(GroupResource, Value),
    Replace(GroupResource, Value),
    /// Updates the object through its status subresource.
    Status(GroupResource, Value),
    Delete(GroupResource, Arc<Value>),
}

/// The result of a look at an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Outcome {
    pub(super) writes: Vec<Write>,
    /// The delay after which to look again, even if nothing has changed.
    pub(super) again: Option<Duration>,
}

impl Outcome {
    /// An outcome with these writes and no later look.
    pub(super) fn of(writes: Vec<Write>) -> Outcome {
        Outcome { writes, again: None }
    }
}

/// Carries out the result of a look at the object at `key`. The field manager of the writes is `component`.
pub(super) fn carry_out(state: &mut State, key: &ObjectKey, component: &str, outcome: Outcome) {
    let before = state.store.revision();
    for write in outcome.writes {
        carry_out_one(state, component, write);
    }
    // If the look has changed nothing, an earlier look has already scheduled the next one.
    if let Some(pause) = outcome.again.filter(|_| state.store.revision() != before) {
        state.store.agenda.put_off(Errand::LookAgain(key.clone()), pause);
    }
}

fn carry_out_one(state: &mut State, component: &str, write: Write) {
    let options = WriteOptions::of_component(component);
    let (resource, object) = match &write {
        Write::Create(resource, object) | Write::Replace(resource, object) | Write::Status(resource, object) => {
            (resource.clone(), object)
        }
        Write::Delete(resource, object) => (resource.clone(), &**object),
    };
    let key = ObjectKey::of(&resource, object);
    let Some(mut target) = target(state, &key) else { return };
    let result = match write {
        Write::Create(_, object) => {
            target.name = None;
            create::create(state, &target, &options, object).map(|_| ())
        }
        Write::Replace(_, object) => update::update(state, &target, &options, object).map(|_| ()),
        Write::Status(_, object) => {
            target.subresource = Some("status".to_owned());
            update::update(state, &target, &options, object).map(|_| ())
        }
        Write::Delete(..) => {
            let options = DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
            delete::delete(state, &target, &options).map(|_| ())
        }
    };
    if let Err(error) = result {
        tracing::debug!(%resource, name = key.name, %error, "a stand-in's write was refused");
    }
}

/// The target of a request for the object at `key`.
pub(super) fn target(state: &State, key: &ObjectKey) -> Option<Target> {
    Some(Target {
        resource: Arc::clone(state.registry.storage_type(&key.resource)?),
        namespace: (!key.namespace.is_empty()).then(|| key.namespace.clone()),
        name: Some(key.name.clone()),
        subresource: None,
    })
}

/// A copy of the object with this status.
pub(super) fn with_status(object: &Value, status: Value) -> Value {
    let mut object = object.clone();
    object::as_map_mut(&mut object).insert("status".to_owned(), status);
    object
}
