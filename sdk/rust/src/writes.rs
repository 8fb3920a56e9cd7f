//! Changes to the API. The host settles each one, and holds the key until its caches have seen it.
//!
//! Each function makes a change, options complete it, `send` carries it out:
//!
//! ```no_run
//! # use windlass_sdk::{Error, writes};
//! # fn run(deployment: serde_json::Value) -> Result<(), Error> {
//! let applied = writes::apply(&deployment).owned().force().send()?;
//! let deployment: serde_json::Value = applied.object()?;
//! # Ok(())
//! # }
//! ```
//!
//! A conflict means that the object has changed since it was read: return the error, and the host runs the key again on
//! a newer cache. Do not retry within the call.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bindings::windlass::plugin::writes;
use crate::error::{Error, JsonError};
use crate::native::needs_host;
use crate::object::ObjectRef;

pub use writes::{FieldValidation, Propagation};

/// Applies a set of fields, server-side and as the plugin's field manager. The object names itself: `apiVersion`,
/// `kind`, `metadata.name`, `metadata.namespace`.
pub fn apply<T: Serialize + ?Sized>(object: &T) -> Write {
    Write::new(Change::Apply, object)
}

/// Applies the status of an object, by force: it has no other writer.
pub fn apply_status<T: Serialize>(target: &ObjectRef, status: &T) -> Write {
    let object = StatusOf {
        api_version: &target.api_version,
        kind: &target.kind,
        metadata: Name { name: &target.name, namespace: target.namespace.as_deref() },
        status,
    };
    apply(&object).force().subresource("status")
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusOf<'a, T> {
    api_version: &'a str,
    kind: &'a str,
    metadata: Name<'a>,
    status: &'a T,
}

#[derive(Serialize)]
struct Name<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
}

/// Creates an object. `metadata.generateName` is allowed.
pub fn create<T: Serialize + ?Sized>(object: &T) -> Write {
    Write::new(Change::Create, object)
}

/// Replaces an object.
pub fn update<T: Serialize + ?Sized>(object: &T) -> Write {
    Write::new(Change::Update, object)
}

/// Patches an object with a JSON merge patch (RFC 7386): what is null goes, lists are replaced whole.
pub fn merge<T: Serialize + ?Sized>(target: ObjectRef, patch: &T) -> Write {
    Write::new(Change::Patch(target, writes::PatchType::Merge), patch)
}

/// Patches an object with a JSON patch (RFC 6902), a list of operations.
pub fn json_patch<T: Serialize + ?Sized>(target: ObjectRef, patch: &T) -> Write {
    Write::new(Change::Patch(target, writes::PatchType::Json), patch)
}

/// Patches an object of a built-in kind with a strategic merge patch.
pub fn strategic<T: Serialize + ?Sized>(target: ObjectRef, patch: &T) -> Write {
    Write::new(Change::Patch(target, writes::PatchType::Strategic), patch)
}

/// Deletes an object, in the background unless said otherwise.
pub fn delete(target: ObjectRef) -> Delete {
    let options = writes::DeleteOptions {
        resource_version: None,
        propagation: Propagation::Background,
        grace_period_ms: None,
        dry_run: false,
    };
    Delete { target, options }
}

/// A change that is ready to be sent.
#[derive(Debug)]
#[must_use = "nothing happens before `send`"]
pub struct Write {
    change: Change,
    /// The object or the patch. An error waits here for `send`, so that the options need no error handling.
    body: Result<String, JsonError>,
    options: writes::WriteOptions,
}

#[derive(Debug)]
enum Change {
    Apply,
    Create,
    Update,
    Patch(ObjectRef, writes::PatchType),
}

impl Write {
    fn new<T: Serialize + ?Sized>(change: Change, body: &T) -> Self {
        let options = writes::WriteOptions {
            subresource: None,
            resource_version: None,
            owned: false,
            force: false,
            dry_run: false,
            field_validation: FieldValidation::Strict,
        };
        let body = serde_json::to_string(body).map_err(|error| JsonError::new("an object to write", error));
        Self { change, body, options }
    }

    /// Makes the primary the controller of the object.
    pub fn owned(mut self) -> Self {
        self.options.owned = true;
        self
    }

    /// Apply only: takes over fields that other managers own.
    pub fn force(mut self) -> Self {
        self.options.force = true;
        self
    }

    /// Changes a subresource of the object that the body or the patch's target names, such as `status`.
    pub fn subresource(mut self, name: impl Into<String>) -> Self {
        self.options.subresource = Some(writes::Subresource { name: name.into(), parent: None });
        self
    }

    /// Changes a subresource whose body is of another kind, such as `scale`.
    pub fn subresource_of(mut self, parent: ObjectRef, name: impl Into<String>) -> Self {
        self.options.subresource = Some(writes::Subresource { name: name.into(), parent: Some(parent) });
        self
    }

    /// The optimistic lock: fails with a conflict unless the object still has this version.
    pub fn if_version(mut self, resource_version: impl Into<String>) -> Self {
        self.options.resource_version = Some(resource_version.into());
        self
    }

    /// Has the server check the change and answer as if it were made.
    pub fn dry_run(mut self) -> Self {
        self.options.dry_run = true;
        self
    }

    /// What the server does with unknown and duplicate fields; without this, it refuses them.
    pub fn field_validation(mut self, validation: FieldValidation) -> Self {
        self.options.field_validation = validation;
        self
    }

    /// Carries the change out.
    pub fn send(self) -> Result<Written, Error> {
        needs_host("writes::send");
        let body = self.body?;
        let written = match self.change {
            Change::Apply => writes::apply(&body, &self.options),
            Change::Create => writes::create(&body, &self.options),
            Change::Update => writes::update(&body, &self.options),
            Change::Patch(target, patch_type) => writes::patch(&target, patch_type, &body, &self.options),
        }?;
        Ok(Written(written))
    }
}

/// A deletion that is ready to be sent.
#[derive(Debug)]
#[must_use = "nothing happens before `send`"]
pub struct Delete {
    target: ObjectRef,
    options: writes::DeleteOptions,
}

impl Delete {
    /// What happens to the objects that this one owns.
    pub fn propagation(mut self, propagation: Propagation) -> Self {
        self.options.propagation = propagation;
        self
    }

    /// How long the object may take to end, in milliseconds, rounded up to whole seconds.
    pub fn grace_period_ms(mut self, milliseconds: u32) -> Self {
        self.options.grace_period_ms = Some(milliseconds);
        self
    }

    /// The optimistic lock: fails with a conflict unless the object still has this version.
    pub fn if_version(mut self, resource_version: impl Into<String>) -> Self {
        self.options.resource_version = Some(resource_version.into());
        self
    }

    /// Has the server check the deletion and answer as if it were made.
    pub fn dry_run(mut self) -> Self {
        self.options.dry_run = true;
        self
    }

    /// Carries the deletion out. The object is returned if it still exists, waiting for finalizers or its grace period.
    pub fn send(self) -> Result<Option<Written>, Error> {
        needs_host("writes::send");
        Ok(writes::delete(&self.target, &self.options)?.map(Written))
    }
}

/// An object as the server returned it after a write. Use it instead of reading the object again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written(String);

impl Written {
    /// The object as any type.
    pub fn object<T: DeserializeOwned>(&self) -> Result<T, JsonError> {
        serde_json::from_str(&self.0).map_err(|error| JsonError::new("a written object", error))
    }

    /// The object as JSON text.
    #[must_use]
    pub fn json(&self) -> &str {
        &self.0
    }
}
