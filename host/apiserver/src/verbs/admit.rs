//! Admission of a write: the reviews that webhooks get, and the effects of their responses.

use std::sync::Arc;

use serde_json::{Value, json};

use super::prepare;
use crate::admission::{self, AdmissionPlugins, AdmissionRequest, StoredObjects, WriteOperation};
use crate::clock::Chance;
use crate::consultation::Consultation;
use crate::object;
use crate::request::delete_options::{DeleteOptions, Propagation};
use crate::request::{FieldValidation, Target, WriteOptions, decode};
use crate::resources::resource::ResourceType;
use crate::resources::{builtin, convert};
use crate::status_error::ApiError;
use crate::storage::ObjectKey;
use crate::storage::state::State;
use crate::warnings::Warnings;

/// A write that needs admission.
pub(super) struct Admitted<'a> {
    target: &'a Target,
    operation: WriteOperation,
    name: String,
    old: Option<&'a Value>,
    options: GivenOptions<'a>,
}

#[derive(Clone, Copy)]
enum GivenOptions<'a> {
    Write(&'a WriteOptions),
    Delete(&'a DeleteOptions),
}

impl<'a> GivenOptions<'a> {
    fn consultation(self) -> &'a Consultation {
        match self {
            GivenOptions::Write(options) => &options.consultation,
            GivenOptions::Delete(options) => &options.consultation,
        }
    }

    fn warnings(self) -> &'a Warnings {
        match self {
            GivenOptions::Write(options) => &options.warnings,
            GivenOptions::Delete(options) => &options.warnings,
        }
    }

    fn is_dry_run(self) -> bool {
        match self {
            GivenOptions::Write(options) => options.dry_run,
            GivenOptions::Delete(options) => options.dry_run,
        }
    }

    /// The options as webhooks see them.
    fn shown(self, operation: WriteOperation) -> Value {
        match self {
            GivenOptions::Write(options) => write_options(operation, options),
            GivenOptions::Delete(options) => delete_options(options),
        }
    }
}

impl<'a> Admitted<'a> {
    /// The admission of a created object, or of a POST to a subresource. `name` is empty if the server generates the
    /// name.
    pub(super) fn create(target: &'a Target, options: &'a WriteOptions, name: &str) -> Admitted<'a> {
        let (operation, options) = (WriteOperation::Create, GivenOptions::Write(options));
        Admitted { target, operation, name: name.to_owned(), old: None, options }
    }

    /// The replacement of `old`.
    pub(super) fn update(target: &'a Target, options: &'a WriteOptions, old: &'a Value) -> Admitted<'a> {
        let (operation, options) = (WriteOperation::Update, GivenOptions::Write(options));
        Admitted { target, operation, name: target.name().to_owned(), old: Some(old), options }
    }

    /// The deletion of `old`.
    pub(super) fn delete(target: &'a Target, options: &'a DeleteOptions, old: &'a Value) -> Admitted<'a> {
        let (operation, options) = (WriteOperation::Delete, GivenOptions::Delete(options));
        Admitted { target, operation, name: object::name(old).to_owned(), old: Some(old), options }
    }

    /// Calls the mutating and the validating webhooks, with no preparation in between.
    pub(super) fn admit(&self, state: &mut State, mut object: Option<&mut Value>) -> Result<(), ApiError> {
        self.mutate(state, object.as_deref_mut())?;
        self.validate(state, object.as_deref())
    }

    /// Calls the mutating webhooks. Returns whether they changed anything.
    pub(super) fn mutate(&self, state: &mut State, object: Option<&mut Value>) -> Result<bool, ApiError> {
        self.ask(state, |plugins, request, chance| {
            let resource = &self.target.resource;
            // A subresource's object may have a different kind, which a webhook cannot change.
            let is_own = object.as_deref().is_none_or(|object| object["kind"] == json!(resource.kind));
            let complete = |object: &mut Value| {
                if !is_own {
                    return Ok(());
                }
                prepare::complete(resource, object)?;
                decode::check(self.target, object)
            };
            admission::mutate(plugins, request, self.options.consultation(), chance, object, &complete)
        })
    }

    /// Calls the validating webhooks.
    pub(super) fn validate(&self, state: &mut State, object: Option<&Value>) -> Result<(), ApiError> {
        self.ask(state, |plugins, request, chance| {
            admission::validate(plugins, request, self.options.consultation(), chance, object)
        })
    }

    /// Runs `act`, unless there is no webhook to call.
    fn ask<T: Default>(
        &self,
        state: &mut State,
        act: impl FnOnce(&AdmissionPlugins, &AdmissionRequest<'_>, &mut Chance) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        if !self.applies(state) {
            return Ok(T::default());
        }
        let list = |resource: &ResourceType, namespace: Option<&str>| listed(state, resource, namespace);
        let mut chance = state.chance.clone();
        let outcome = act(&state.plugins, &self.request(state, &list), &mut chance);
        state.chance = chance;
        outcome
    }

    fn applies(&self, state: &State) -> bool {
        let is_admitted = matches!(self.options, GivenOptions::Write(options) if options.is_admitted);
        let is_exempt = is_admitted || admission::is_configuration(&self.target.resource.id);
        self.options.consultation().applies() && !is_exempt && !state.plugins.is_empty()
    }

    fn request<'s>(&'s self, state: &'s State, list: &'s StoredObjects<'s>) -> AdmissionRequest<'s> {
        let is_namespace = self.target.resource.id == builtin::namespaces();
        let namespace = if is_namespace { &self.name } else { self.target.namespace.as_deref().unwrap_or_default() };
        let key = ObjectKey { resource: builtin::namespaces(), namespace: String::new(), name: namespace.to_owned() };
        AdmissionRequest {
            operation: self.operation,
            resource: &self.target.resource,
            subresource: self.target.subresource(),
            namespace,
            name: &self.name,
            old: self.old,
            options: self.options.shown(self.operation),
            dry_run: self.options.is_dry_run(),
            warnings: self.options.warnings(),
            namespace_object: state.store.get(&key).map(Arc::clone),
            registry: &state.registry,
            list,
        }
    }
}

fn listed(state: &State, resource: &ResourceType, namespace: Option<&str>) -> Vec<Arc<Value>> {
    let stored = state.store.list(&resource.storage, namespace);
    stored.map(|object| convert::for_reader(resource, object)).collect()
}

/// `CreateOptions` or `UpdateOptions`; a patch has one or the other.
fn write_options(operation: WriteOperation, options: &WriteOptions) -> Value {
    let kind = if operation == WriteOperation::Create { "CreateOptions" } else { "UpdateOptions" };
    let mut shown = json!({ "kind": kind, "apiVersion": "meta.k8s.io/v1" });
    if options.dry_run {
        shown["dryRun"] = json!(["All"]);
    }
    if let Some(manager) = &options.explicit_manager {
        shown["fieldManager"] = json!(manager);
    }
    match options.field_validation {
        FieldValidation::Ignore => shown["fieldValidation"] = json!("Ignore"),
        FieldValidation::Strict => shown["fieldValidation"] = json!("Strict"),
        FieldValidation::Warn => {}
    }
    shown
}

fn delete_options(options: &DeleteOptions) -> Value {
    let mut shown = json!({ "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1" });
    if options.dry_run {
        shown["dryRun"] = json!(["All"]);
    }
    if let Some(propagation) = options.propagation {
        shown["propagationPolicy"] = json!(match propagation {
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
            Propagation::Orphan => "Orphan",
        });
    }
    for (key, value) in [("uid", &options.uid), ("resourceVersion", &options.resource_version)] {
        if let Some(value) = value {
            shown["preconditions"][key] = json!(value);
        }
    }
    shown
}
