//! Plans the request for an [`Operation`]. Everything that can be refused without asking the server is refused here:
//! malformed bodies, unknown kinds, wrong scopes, missing grants, impossible owners.

use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use windlass_core::call::ports::CallContext;
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::object::owner::{self, OwnerError};
use windlass_core::object::{ObjectKey, ObjectRef};
use windlass_core::write::{DeleteOptions, FieldValidation, Operation, PatchType, Propagation, WriteOptions};

use crate::client::api_error::RequestSubject;
use crate::client::headers;
use crate::client::request::{Mutation, Query, SERVER_TIMEOUT_QUERY};
use crate::discovery::{Discovery, Resource};
use crate::target::{ResolvedTarget, Resolver};
use crate::writer::body::{Body, BodyError, JsonPatch};

pub(super) const JSON: &str = "application/json";
const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// The API server's alphabet: without vowels, so that no words result, and without characters that look alike.
const NAME_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// The number of random characters in a generated name (`apiserver/pkg/storage/names/generate.go`, `randomLength`).
pub(super) const RANDOM_LENGTH: usize = 5;
/// The part of the prefix that a generated name keeps, so that it has at most 63 characters, the limit for many names.
const NAME_PREFIX_KEPT_BYTES_MAX: usize = 63 - RANDOM_LENGTH;

/// A mutation that may be sent.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) subject: RequestSubject,
    pub(crate) mutation: Mutation,
    pub(crate) how: How,
    pub(crate) resource: Arc<Resource>,
    pub(crate) key: ObjectKey,
    /// Empty for the object itself.
    pub(crate) subresource: Arc<str>,
    /// The field manager of the write.
    pub(crate) manager: String,
    /// The host generated the name. If this name is taken, another one is tried.
    pub(crate) generated: bool,
    /// Whether the server will change nothing.
    pub(crate) dry_run: bool,
    /// Whether the write is a dry run only because the host is read-only. The call then treats it as committed.
    pub(crate) withheld: bool,
}

/// Plans `operation` for `call`. Uses discovery only.
pub(crate) async fn plan(discovery: &Discovery, call: &CallContext, operation: &Operation) -> Result<Plan, ApiError> {
    let subject = RequestSubject { verb: operation.verb(), resource: String::new(), object: None };
    let planner = Planner { discovery, call, subject };
    match operation {
        Operation::Create { object, options } => planner.object(How::Create, object, options).await,
        Operation::Update { object, options } => planner.object(How::Update, object, options).await,
        Operation::Apply { object, options } => planner.object(How::Apply, object, options).await,
        Operation::Patch { target, patch_type, patch, options } => {
            planner.patch(target, *patch_type, patch, options).await
        }
        Operation::Delete { target, options } => planner.delete(target, options).await,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Create,
    Update,
    Apply,
    Patch(PatchType),
    Delete,
}

struct Wire {
    method: Method,
    uri: String,
    content_type: &'static str,
    body: String,
}

impl Plan {
    /// Whether the plan creates an object, and not a subresource.
    pub(crate) fn creates(&self) -> bool {
        self.how == How::Create && self.subresource.is_empty()
    }

    /// Whether the plan creates something that is not stored. Its answer is the only result, so nothing is settled,
    /// expected or added to the overlay.
    pub(crate) fn is_unstored(&self) -> bool {
        self.creates() && !self.resource.is_stored()
    }
}

struct Planner<'a> {
    discovery: &'a Discovery,
    call: &'a CallContext,
    subject: RequestSubject,
}

impl Planner<'_> {
    async fn object(mut self, how: How, text: &str, options: &WriteOptions) -> Result<Plan, ApiError> {
        let mut body = self.sound(Body::read(text))?;
        let creates = how == How::Create && options.subresource.is_none();
        let generated = creates && self.generate_name(&mut body)?;
        let target = if creates && body.name().is_none() {
            self.unnamed(&body).await?
        } else {
            let reference = self.written(&mut body, options)?;
            self.target(reference, options).await?
        };
        let is_locked = body.uid().is_some() || body.version().is_some() || options.resource_version.is_some();
        if how != How::Create && options.subresource.is_none() && !is_locked {
            // The write may create the object if it does not exist. The server checks the same right.
            let access = target.resource.access("create", "", Some(&target.key));
            self.subject.check_grant(&self.call.principal, &access)?;
        }
        if let Some(namespace) = &target.key.namespace
            && body.namespace().as_deref() != Some(&**namespace)
        {
            self.sound(body.set_namespace(namespace))?;
        }
        if let Some(version) = &options.resource_version {
            if how == How::Create {
                return Err(self.invalid("a create cannot be locked to a resource version: there is none yet"));
            }
            self.sound(body.lock_version(version))?;
        }
        if options.owned {
            self.own(&mut body, &target.key, options)?;
        }
        let subresource = name_of(options);
        let path = match how {
            How::Create if subresource.is_empty() => target.resource.collection(target.key.namespace.as_deref()),
            _ => target.resource.object(&target.key, subresource),
        };
        let (method, content_type) = match how {
            How::Apply => (Method::PATCH, APPLY),
            How::Update => (Method::PUT, JSON),
            _ => (Method::POST, JSON),
        };
        let manager = self.manager(options);
        let mut query = Self::query(&manager, options);
        if how == How::Apply && options.force {
            query.add("force", "true");
        }
        let text = self.sound(body.into_text())?;
        let wire = Wire { method, uri: query.onto(&path), content_type, body: text };
        let plan = self.finish(how, target, subresource, manager, wire)?;
        Ok(Plan { generated, dry_run: options.dry_run, ..plan })
    }

    /// The object that `body` is about: the object that it names, or the parent of the subresource.
    fn written(&self, body: &mut Body<'_>, options: &WriteOptions) -> Result<ObjectRef, ApiError> {
        let kind = self.sound(body.kind())?;
        if let Some(parent) = parent_of(options) {
            self.agree_with_parent(body, parent, options)?;
            return Ok(parent.clone());
        }
        let name = self.sound(body.name().ok_or(BodyError::Missing { field: "metadata.name" }))?;
        let key = ObjectKey { namespace: body.namespace().map(|it| Arc::from(&*it)), name: Arc::from(&*name) };
        Ok(ObjectRef { kind, key, uid: body.uid().map(|it| Arc::from(&*it)) })
    }

    async fn patch(
        mut self,
        target: &ObjectRef,
        patch_type: PatchType,
        patch: &str,
        options: &WriteOptions,
    ) -> Result<Plan, ApiError> {
        let reference = parent_of(options).unwrap_or(target);
        let resolved = self.target(reference.clone(), options).await?;
        if options.owned && patch_type != PatchType::Strategic {
            return Err(self.invalid(
                "a merge or JSON patch cannot make the primary the controller, as it replaces the list of owners: use \
                 apply or a strategic patch",
            ));
        }
        let (text, content_type) = match patch_type {
            PatchType::Json => (self.lock_json_patch(patch, reference, options)?, JSON_PATCH),
            PatchType::Merge => (self.lock_patch(patch, reference, &resolved.key, options)?, MERGE),
            PatchType::Strategic => (self.lock_patch(patch, reference, &resolved.key, options)?, STRATEGIC),
        };
        let manager = self.manager(options);
        let uri = Self::query(&manager, options).onto(&resolved.resource.object(&resolved.key, name_of(options)));
        let wire = Wire { method: Method::PATCH, uri, content_type, body: text };
        let plan = self.finish(How::Patch(patch_type), resolved, name_of(options), manager, wire)?;
        Ok(Plan { dry_run: options.dry_run, ..plan })
    }

    async fn delete(mut self, target: &ObjectRef, options: &DeleteOptions) -> Result<Plan, ApiError> {
        let resolved = self.target(target.clone(), &WriteOptions::default()).await?;
        let mut body = delete_options(options);
        for (field, value) in [("uid", &target.uid), ("resourceVersion", &options.resource_version)] {
            if let Some(value) = value {
                body["preconditions"][field] = Value::from(&**value);
            }
        }
        let mut query = Query::default();
        query.add("timeout", SERVER_TIMEOUT_QUERY);
        let uri = query.onto(&resolved.resource.object(&resolved.key, ""));
        let wire = Wire { method: Method::DELETE, uri, content_type: JSON, body: body.to_string() };
        let manager = self.call.principal.field_manager();
        let plan = self.finish(How::Delete, resolved, "", manager, wire)?;
        Ok(Plan { dry_run: options.dry_run, ..plan })
    }

    fn finish(
        self,
        how: How,
        target: ResolvedTarget,
        subresource: &str,
        manager: String,
        wire: Wire,
    ) -> Result<Plan, ApiError> {
        let headers = headers::of_call(self.call).map_err(|error| self.invalid(error.to_string()))?;
        let Wire { method, uri, content_type, body } = wire;
        Ok(Plan {
            subject: self.subject,
            mutation: Mutation { method, uri, content_type, body: Bytes::from(body), headers },
            how,
            resource: target.resource,
            key: target.key,
            subresource: subresource.into(),
            manager,
            generated: false,
            dry_run: false,
            withheld: false,
        })
    }

    /// Finds the resource, determines the namespace and checks the grants.
    async fn target(&mut self, reference: ObjectRef, options: &WriteOptions) -> Result<ResolvedTarget, ApiError> {
        let resolver = Resolver { discovery: self.discovery, call: self.call, subject: &mut self.subject };
        resolver.object(reference, name_of(options)).await
    }

    /// As [`Self::target`], for an object without a name. Only objects that are not stored may lack one.
    async fn unnamed(&mut self, body: &Body<'_>) -> Result<ResolvedTarget, ApiError> {
        let (kind, namespace) = (self.sound(body.kind())?, body.namespace().map(|it| Arc::from(&*it)));
        let resolver = Resolver { discovery: self.discovery, call: self.call, subject: &mut self.subject };
        let target = resolver.collection_beside(&kind, namespace, None).await?;
        if target.resource.is_stored() {
            return Err(self.invalid(BodyError::Missing { field: "metadata.name" }.to_string()));
        }
        Ok(target)
    }

    fn manager(&self, options: &WriteOptions) -> String {
        self.call.principal.field_manager_with(options.manager_suffix.as_deref())
    }

    /// Sets a name that begins with `generateName`, if the body has no name. The host generates it, so that it can look
    /// up the object if the answer to the create is lost.
    fn generate_name(&self, body: &mut Body<'_>) -> Result<bool, ApiError> {
        let (None, Some(prefix)) = (body.name(), body.generate_name()) else { return Ok(false) };
        let kept: String = prefix.chars().take(NAME_PREFIX_KEPT_BYTES_MAX).collect();
        let random =
            (0..RANDOM_LENGTH).map(|_| char::from(NAME_ALPHABET[windlass_world::random_range(0..NAME_ALPHABET.len())]));
        let name: String = kept.chars().chain(random).collect();
        self.sound(body.set_name(&name))?;
        Ok(true)
    }

    /// Checks that the body of a subresource names its parent. The body may be of another kind than the parent.
    fn agree_with_parent(
        &self,
        body: &mut Body<'_>,
        parent: &ObjectRef,
        options: &WriteOptions,
    ) -> Result<(), ApiError> {
        match body.name() {
            Some(name) if *name != *parent.key.name => {
                return Err(
                    self.invalid(format!("the body has the name {name}, but its parent is named {}", parent.key.name))
                );
            }
            Some(_) => {}
            None => self.sound(body.set_name(&parent.key.name))?,
        }
        match &parent.uid {
            Some(_) if name_of(options) == "eviction" => Err(self.invalid(
                "the server does not check the uid of an eviction's parent: set deleteOptions.preconditions.uid in the body instead",
            )),
            Some(uid) => self.sound(body.lock_uid(uid)),
            None => Ok(()),
        }
    }

    fn own(&self, body: &mut Body<'_>, key: &ObjectKey, options: &WriteOptions) -> Result<(), ApiError> {
        if options.subresource.is_some() {
            return Err(self.invalid("a subresource cannot be owned; own the object"));
        }
        if key.name.is_empty() {
            return Err(self.invalid("an object that is not stored cannot be owned"));
        }
        let primary = self.call.primary_ref();
        let reference = owner::controller_reference(&primary, key).map_err(|error| match error {
            // The missing object is the primary, so there is nothing left to do for its key.
            OwnerError::Gone(_) => {
                let subject = RequestSubject { object: Some(primary.clone()), ..self.subject.clone() };
                subject.refuse(ApiReason::NotFound, error.to_string())
            }
            OwnerError::ClusterScopedChild { .. } | OwnerError::OtherNamespace { .. } => {
                self.invalid(error.to_string())
            }
        })?;
        self.sound(body.set_controller(reference))
    }

    /// Adds the locks in the options to a merge or strategic patch.
    fn lock_patch(
        &self,
        patch: &str,
        reference: &ObjectRef,
        key: &ObjectKey,
        options: &WriteOptions,
    ) -> Result<String, ApiError> {
        let mut body = self.sound(Body::read(patch))?;
        if let Some(uid) = &reference.uid {
            self.sound(body.lock_uid(uid))?;
        }
        if let Some(version) = &options.resource_version {
            self.sound(body.lock_version(version))?;
        }
        if options.owned {
            self.own(&mut body, key, options)?;
        }
        self.sound(body.into_text())
    }

    /// Adds the locks in the options to a JSON patch.
    fn lock_json_patch(&self, patch: &str, reference: &ObjectRef, options: &WriteOptions) -> Result<String, ApiError> {
        let mut patch = self.sound(JsonPatch::read(patch))?;
        for (path, value) in
            [("/metadata/uid", &reference.uid), ("/metadata/resourceVersion", &options.resource_version)]
        {
            if let Some(value) = value {
                self.sound(patch.replace(path, value))?;
            }
        }
        self.sound(patch.into_text())
    }

    fn query(manager: &str, options: &WriteOptions) -> Query {
        let mut query = Query::default();
        query.add("fieldManager", manager);
        let validation = match options.field_validation {
            FieldValidation::Strict => "Strict",
            FieldValidation::Warn => "Warn",
            FieldValidation::Ignore => "Ignore",
        };
        query.add("fieldValidation", validation);
        if options.dry_run {
            query.add("dryRun", "All");
        }
        query.add("timeout", SERVER_TIMEOUT_QUERY);
        query
    }

    fn invalid(&self, message: impl Into<String>) -> ApiError {
        self.subject.refuse(ApiReason::Invalid, message)
    }

    fn sound<T>(&self, result: Result<T, BodyError>) -> Result<T, ApiError> {
        result.map_err(|error| self.invalid(error.to_string()))
    }
}

/// The body of a deletion, without preconditions.
pub(super) fn delete_options(options: &DeleteOptions) -> Value {
    let propagation = match options.propagation {
        Propagation::Background => "Background",
        Propagation::Foreground => "Foreground",
        Propagation::Orphan => "Orphan",
    };
    let mut body = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation});
    if let Some(seconds) = options.grace_period_seconds {
        body["gracePeriodSeconds"] = seconds.into();
    }
    if options.dry_run {
        body["dryRun"] = json!(["All"]);
    }
    body
}

/// The subresource. Empty for the object itself.
fn name_of(options: &WriteOptions) -> &str {
    options.subresource.as_ref().map_or("", |subresource| &subresource.name)
}

/// The parent of the subresource, if the options name it.
fn parent_of(options: &WriteOptions) -> Option<&ObjectRef> {
    options.subresource.as_ref()?.parent.as_ref()
}
