//! A plugin with many bugs. `spec.bug` of a `Buggy` selects one of them, and README.md says where each comes from.
//! Without a bug the plugin is correct: it keeps a `ConfigMap` with the size for each `Buggy`.

mod bugs;

use serde::Deserialize;
use serde_json::{Value, json};
use windlass_sdk::manifest::{Controller, Manifest, Permission, Watch};
use windlass_sdk::{Error, Failures, ObjectRef, Outcome, Reconciler, Request, cache, writes};

/// The kind.
const API_VERSION: &str = "tests.windlass.dev/v1";
const KIND: &str = "Buggy";

struct Plugin;

#[derive(Deserialize)]
pub(crate) struct Buggy {
    pub(crate) metadata: windlass_sdk::Metadata,
    pub(crate) spec: Spec,
    #[serde(default)]
    pub(crate) status: Value,
}

#[derive(Deserialize)]
pub(crate) struct Spec {
    #[serde(default)]
    pub(crate) bug: String,
    pub(crate) size: u32,
    #[serde(default)]
    pub(crate) note: Option<String>,
}

impl Reconciler for Plugin {
    fn manifest() -> Manifest {
        Manifest::new("buggy", env!("CARGO_PKG_VERSION"))
            .description("Wrong in one way at a time.")
            .controller(Controller::new("buggy", Watch::of(API_VERSION, KIND)).owns(Watch::of("v1", "ConfigMap")))
            .permission(Permission::new("", "secrets", &["get", "create", "patch", "update"]))
    }

    fn reconcile(request: Request) -> Result<Outcome, Failures> {
        match request.object::<Buggy>()? {
            Some(object) if !request.deleting => bugs::reconcile(&object, request.attempt),
            _ => Ok(Outcome::Done),
        }
    }
}

windlass_sdk::plugin!(Plugin);

impl Buggy {
    /// The reference to the child `name`.
    pub(crate) fn child(&self, name: &str) -> ObjectRef {
        ObjectRef { name: name.to_owned(), ..self.metadata.sibling("v1", "ConfigMap") }
    }

    pub(crate) fn own(&self) -> ObjectRef {
        self.metadata.sibling(API_VERSION, KIND)
    }

    pub(crate) fn name(&self) -> &str {
        &self.metadata.name
    }

    /// The desired child.
    pub(crate) fn wanted(&self, name: &str) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": self.metadata.namespace},
            "data": {"size": self.spec.size.to_string()},
        })
    }

    /// Applies the desired child, without a bug.
    pub(crate) fn apply(&self) -> Result<(), Error> {
        writes::apply(&self.wanted(self.name())).owned().force().send().map(|_| ())
    }

    pub(crate) fn cached(&self, name: &str) -> Result<Option<Value>, Error> {
        cache::get(&self.child(name))
    }

    /// Writes the status, if it has changed.
    pub(crate) fn report(&self, status: &Value) -> Result<(), Error> {
        if *status == self.status {
            return Ok(());
        }
        writes::apply_status(&self.own(), status).send().map(|_| ())
    }
}
