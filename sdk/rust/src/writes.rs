//! Changes to the API. The host resolves the outcome of each change, and holds the key until its caches show it.
//!
//! Each function creates a change, options complete it, and `send` carries it out:
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
//! A conflict means that the object has changed since it was read: return the error, and the host runs the key again
//! with a newer cache. Do not retry within the call.

mod collection;
mod ensure;
mod eviction;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bindings::windlass::plugin::{types, writes};
use crate::error::{Error, JsonError};
use crate::json;
use crate::native::writes as host;
use crate::object::ObjectRef;

pub use collection::DeleteCollection;
pub use ensure::{Ensured, ensure};
pub use eviction::Eviction;
pub use writes::{FieldValidation, Propagation};

/// Applies a set of fields, server-side and as the plugin's field manager. The object must have `apiVersion`, `kind`,
/// `metadata.name` and, if it is namespaced, `metadata.namespace`.
pub fn apply<T: Serialize + ?Sized>(object: &T) -> Write {
    Write::new(Change::Apply, object)
}

/// Applies the status of an object, with force, because no other client writes it.
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

/// Creates an object. `metadata.generateName` is allowed. If the kind is not stored, such as a `SubjectAccessReview`,
/// the object needs no name, and the result is the server's response.
pub fn create<T: Serialize + ?Sized>(object: &T) -> Write {
    Write::new(Change::Create, object)
}

/// Replaces an object.
pub fn update<T: Serialize + ?Sized>(object: &T) -> Write {
    Write::new(Change::Update, object)
}

/// Patches an object with a JSON merge patch (RFC 7386): a null removes its field, and lists are replaced as a whole.
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

/// Deletes an object. Its dependents are deleted in the background unless set otherwise.
pub fn delete(target: ObjectRef) -> Delete {
    let options = writes::DeleteOptions {
        resource_version: None,
        propagation: Propagation::Background,
        grace_period_ms: None,
        dry_run: false,
    };
    Delete { target, options }
}

/// Deletes the objects of a kind that selectors match, with one request. It needs a selector, or
/// [`all`](DeleteCollection::all).
///
/// ```no_run
/// # use windlass_sdk::{Error, writes};
/// # fn run() -> Result<(), Error> {
/// writes::delete_collection("batch/v1", "Job").labels("run=7").send()?;
/// # Ok(())
/// # }
/// ```
pub fn delete_collection(api_version: &str, kind: &str) -> DeleteCollection {
    DeleteCollection::of(api_version, kind)
}

/// Sets the number of replicas of an object of any kind that has a `scale` subresource.
pub fn scale(target: ObjectRef, replicas: u32) -> Write {
    merge(target, &Scale { spec: Replicas { replicas } }).subresource("scale")
}

#[derive(Serialize)]
struct Scale {
    spec: Replicas,
}

#[derive(Serialize)]
struct Replicas {
    replicas: u32,
}

/// Evicts a Pod: deletes it unless a disruption budget forbids that now. If a budget forbids it, the eviction fails
/// with reason `TooManyRequests`. Evicting a deleted Pod succeeds.
pub fn evict(pod: &ObjectRef) -> Eviction {
    Eviction::of(pod)
}

/// A change that is ready to be sent.
#[derive(Debug)]
#[must_use = "nothing happens before `send`"]
pub struct Write {
    change: Change,
    /// The object or the patch. An error is returned by `send`, so that the options need no error handling.
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
            manager_suffix: None,
            fields: None,
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

    /// Changes a subresource, such as `status`, of the object that the body or the patch's target names.
    pub fn subresource(mut self, name: impl Into<String>) -> Self {
        self.options.subresource = Some(writes::Subresource { name: name.into(), parent: None });
        self
    }

    /// Changes a subresource whose body has another kind, such as `scale`.
    pub fn subresource_of(mut self, parent: ObjectRef, name: impl Into<String>) -> Self {
        self.options.subresource = Some(writes::Subresource { name: name.into(), parent: Some(parent) });
        self
    }

    /// The optimistic lock: fails with a conflict unless the object still has this version.
    pub fn if_version(mut self, resource_version: impl Into<String>) -> Self {
        self.options.resource_version = Some(resource_version.into());
        self
    }

    /// Makes the server check the change and respond as if it had made it, without making it.
    pub fn dry_run(mut self) -> Self {
        self.options.dry_run = true;
        self
    }

    /// Sets how the server treats unknown and duplicate fields. By default it refuses them.
    pub fn field_validation(mut self, validation: FieldValidation) -> Self {
        self.options.field_validation = validation;
        self
    }

    /// Uses another field manager: the plugin's, followed by `/` and this suffix of at most 32 lower-case letters,
    /// digits and dashes. This way two controllers can apply two parts of one object, and neither drops what the other
    /// has applied.
    pub fn manager_suffix(mut self, suffix: impl Into<String>) -> Self {
        self.options.manager_suffix = Some(suffix.into());
        self
    }

    /// Returns only the object's identity and the values at these JSON pointers, in their places. Without this call,
    /// the whole object is returned.
    pub fn fields(mut self, pointers: &[&str]) -> Self {
        self.options.fields = Some(pointers.iter().map(|&pointer| pointer.to_owned()).collect());
        self
    }

    /// Sends the change.
    pub fn send(self) -> Result<Written, Error> {
        let body = self.body?;
        let written = match self.change {
            Change::Apply => host::apply(&body, &self.options),
            Change::Create => host::create(&body, &self.options),
            Change::Update => host::update(&body, &self.options),
            Change::Patch(target, patch_type) => host::patch(&target, patch_type, &body, &self.options),
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
    /// Sets what happens to the object's dependents.
    pub fn propagation(mut self, propagation: Propagation) -> Self {
        self.options.propagation = propagation;
        self
    }

    /// Sets the grace period in milliseconds, rounded up to whole seconds.
    pub fn grace_period_ms(mut self, milliseconds: u32) -> Self {
        self.options.grace_period_ms = Some(milliseconds);
        self
    }

    /// The optimistic lock: fails with a conflict unless the object still has this version.
    pub fn if_version(mut self, resource_version: impl Into<String>) -> Self {
        self.options.resource_version = Some(resource_version.into());
        self
    }

    /// Makes the server check the deletion and respond as if it had made it, without making it.
    pub fn dry_run(mut self) -> Self {
        self.options.dry_run = true;
        self
    }

    /// Sends the deletion. Returns the object if it still exists, because it waits for finalizers or its grace period.
    pub fn send(self) -> Result<Option<Written>, Error> {
        Ok(host::delete(&self.target, &self.options)?.map(Written))
    }
}

/// Runs operations concurrently, in no order. The host starts slowly and speeds up while they succeed.
///
/// The results are in the order of the operations, each as `send` would have returned it:
///
/// ```no_run
/// # use windlass_sdk::{Failures, ObjectRef, writes};
/// # fn run(pods: &[serde_json::Value], old: ObjectRef) -> Result<(), Failures> {
/// let creations = pods.iter().map(|pod| writes::create(pod).owned().into());
/// let results = writes::batch(creations.chain([writes::delete(old).into()]));
/// let failures: Failures = results.into_iter().filter_map(Result::err).collect();
/// failures.or(())
/// # }
/// ```
///
/// # Panics
/// Never in the real host, which returns a result for each operation.
#[must_use = "each operation may have failed"]
pub fn batch(operations: impl IntoIterator<Item = Operation>) -> Vec<Result<Option<Written>, Error>> {
    let mut sent = Vec::new();
    let mut results = Vec::new();
    for operation in operations {
        results.push(operation.0.map(|operation| sent.push(operation)));
    }
    in_order(results, host::batch(&sent))
}

/// Pairs each operation that was sent with its result. An operation that failed to serialize was not sent, and has no
/// result.
fn in_order(
    sent: Vec<Result<(), JsonError>>,
    answers: Vec<Result<Option<String>, types::ApiError>>,
) -> Vec<Result<Option<Written>, Error>> {
    let mut answers = answers.into_iter();
    let mut result = |sent: Result<(), JsonError>| {
        sent?;
        let answer = answers.next().expect("the host answers each operation");
        Ok(answer?.map(Written))
    };
    sent.into_iter().map(&mut result).collect()
}

/// One operation of a [`batch`]: a [`Write`] or a [`Delete`].
#[derive(Debug)]
pub struct Operation(Result<writes::Operation, JsonError>);

impl From<Write> for Operation {
    fn from(Write { change, body, options }: Write) -> Self {
        Self(body.map(|body| match change {
            Change::Apply => writes::Operation::Apply(writes::ObjectWrite { object: body, options }),
            Change::Create => writes::Operation::Create(writes::ObjectWrite { object: body, options }),
            Change::Update => writes::Operation::Update(writes::ObjectWrite { object: body, options }),
            Change::Patch(target, patch_type) => {
                writes::Operation::Patch(writes::PatchWrite { target, patch_type, patch: body, options })
            }
        }))
    }
}

impl From<Delete> for Operation {
    fn from(Delete { target, options }: Delete) -> Self {
        Self(Ok(writes::Operation::Delete(writes::DeleteWrite { target, options })))
    }
}

/// An object as the server returned it after a write. Use it instead of reading the object again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written(String);

impl Written {
    /// The object as any type.
    pub fn object<T: DeserializeOwned>(&self) -> Result<T, JsonError> {
        json::read("a written object", &self.0)
    }

    /// The object as JSON text.
    #[must_use]
    pub fn json(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use serde_json::{Value, json};

    fn pod() -> ObjectRef {
        ObjectRef::namespaced("v1", "Pod", "prod", "p")
    }

    fn body(write: &Write) -> Value {
        serde_json::from_str(write.body.as_ref().unwrap()).unwrap()
    }

    #[test]
    fn a_status_is_applied_with_force() {
        let write = apply_status(&pod(), &json!({"phase": "Running"}));
        let expected = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "prod"},
            "status": {"phase": "Running"},
        });
        assert_eq!(body(&write), expected);
        assert!(
            write.options.force && write.options.subresource.is_some_and(|subresource| subresource.name == "status")
        );
    }

    #[test]
    fn a_scale_patches_the_subresource_alone() {
        let write = scale(ObjectRef::namespaced("apps/v1", "Deployment", "prod", "shop"), 3);
        assert_eq!(body(&write), json!({"spec": {"replicas": 3}}));
        assert_eq!(write.options.subresource.as_ref().map(|subresource| subresource.name.as_str()), Some("scale"));
        assert!(matches!(write.change, Change::Patch(_, writes::PatchType::Merge)));
    }

    #[test]
    fn a_batch_supports_every_change_and_its_options() {
        let object = json!({"kind": "Pod"});
        let options = |write: Write| write.options;
        let Operation(Ok(writes::Operation::Create(create_pod))) = create(&object).owned().into() else { panic!() };
        assert_eq!((create_pod.object, create_pod.options), (object.to_string(), options(create(&object).owned())));
        let Operation(Ok(writes::Operation::Patch(patch))) = strategic(pod(), &object).if_version("7").into() else {
            panic!()
        };
        assert_eq!((patch.target, patch.patch_type), (pod(), writes::PatchType::Strategic));
        assert_eq!(patch.options.resource_version.as_deref(), Some("7"));
        assert!(matches!(Operation::from(apply(&object)).0, Ok(writes::Operation::Apply(_))));
        assert!(matches!(Operation::from(update(&object)).0, Ok(writes::Operation::Update(_))));
        let Operation(Ok(writes::Operation::Delete(deletion))) = delete(pod()).propagation(Propagation::Orphan).into()
        else {
            panic!()
        };
        assert_eq!((deletion.target, deletion.options.propagation), (pod(), Propagation::Orphan));
    }

    #[test]
    fn an_operation_with_an_invalid_body_is_not_sent() {
        // JSON keys must be strings.
        let operation = Operation::from(create(&HashMap::from([((1, 2), 3)])));
        let error = operation.0.unwrap_err();
        assert!(error.to_string().starts_with("an object to write: "));
        let refused = crate::error::tests::refused(crate::ApiReason::Conflict);
        let results = in_order(vec![Ok(()), Err(error), Ok(())], vec![Ok(Some("{}".into())), Err(refused.into())]);
        let [Ok(Some(written)), Err(Error::Json(_)), Err(Error::Api(_))] = results.as_slice() else {
            panic!("{results:?}")
        };
        assert_eq!(written.json(), "{}");
    }
}
