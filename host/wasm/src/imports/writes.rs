//! `writes`: mutations, each handed to the port and carried out on the caller's runtime.

use windlass_core::error::ApiReason;
use windlass_core::write::Operation;

use crate::abi::v0_1_0::bindings::windlass::plugin::types::{ApiError, ObjectRef};
use crate::abi::v0_1_0::bindings::windlass::plugin::writes::{
    self as wit, DeleteOptions, Host, PatchType, WriteOptions,
};
use crate::abi::v0_1_0::convert::{self, Malformed};
use crate::imports::{malformed, not_implemented, refused, too_large};
use crate::limits::Value;
use crate::state::CallState;

/// What the guest gets back: the new object, none if nothing is left.
type Answer = Result<Option<String>, ApiError>;

impl Host for CallState {
    async fn create(&mut self, object: String, options: WriteOptions) -> wasmtime::Result<Result<String, ApiError>> {
        let operation = convert::write_options(options).map(|options| Operation::Create { object, options });
        write(self, "writes.create", "create", operation).await.map(|answer| returned("create", answer))
    }

    async fn update(&mut self, object: String, options: WriteOptions) -> wasmtime::Result<Result<String, ApiError>> {
        let operation = convert::write_options(options).map(|options| Operation::Update { object, options });
        write(self, "writes.update", "update", operation).await.map(|answer| returned("update", answer))
    }

    async fn patch(
        &mut self,
        target: ObjectRef,
        patch_type: PatchType,
        patch: String,
        options: WriteOptions,
    ) -> wasmtime::Result<Result<String, ApiError>> {
        let patch_type = convert::patch_type(patch_type);
        let operation = convert::object_ref(target).and_then(|target| {
            convert::write_options(options).map(|options| Operation::Patch { target, patch_type, patch, options })
        });
        write(self, "writes.patch", "patch", operation).await.map(|answer| returned("patch", answer))
    }

    async fn apply(&mut self, object: String, options: WriteOptions) -> wasmtime::Result<Result<String, ApiError>> {
        let operation = convert::write_options(options).map(|options| Operation::Apply { object, options });
        write(self, "writes.apply", "patch", operation).await.map(|answer| returned("patch", answer))
    }

    async fn delete(&mut self, target: ObjectRef, options: DeleteOptions) -> wasmtime::Result<Answer> {
        let operation = convert::object_ref(target)
            .and_then(|target| convert::delete_options(options).map(|options| Operation::Delete { target, options }));
        write(self, "writes.delete", "delete", operation).await
    }

    async fn batch(&mut self, operations: Vec<wit::Operation>) -> wasmtime::Result<Vec<Answer>> {
        self.enter("writes.batch")?;
        Ok(operations.iter().map(|operation| Err(not_implemented(verb(operation), "writes.batch"))).collect())
    }
}

fn verb(operation: &wit::Operation) -> &'static str {
    match operation {
        wit::Operation::Create(_) => "create",
        wit::Operation::Update(_) => "update",
        wit::Operation::Patch(_) | wit::Operation::Apply(_) => "patch",
        wit::Operation::Delete(_) => "delete",
    }
}

async fn write(
    state: &mut CallState,
    import: &'static str,
    verb: &'static str,
    operation: Result<Operation, Malformed>,
) -> wasmtime::Result<Answer> {
    let limit = state.meter.limits().write_bytes;
    let world = state.enter(import)?;
    let operation = match operation {
        Ok(operation) => operation,
        Err(reason) => return Ok(Err(malformed(verb, reason))),
    };
    let size = body_size(&operation);
    if size > limit {
        let limit = Value::Bytes(limit);
        return Ok(Err(too_large(verb, format!("the body has {size} bytes, the API server takes at most {limit}"))));
    }
    let (writes, call) = (world.ports.writes.clone(), world.call.clone());
    // On the caller's runtime: a busy guest thread must not delay it. Detached: when this call is cancelled, what has
    // been sent must still be settled (§3.4).
    let task = world.caller.spawn(async move { writes.write(call, operation).await });
    state.waiting_in = Some(import);
    let answer = task.await;
    state.waiting_in = None;
    // A panic of the writer's: whether it had sent anything is not known here, so the call must not go on.
    let answer = answer.map_err(|error| wasmtime::format_err!("the host failed in {import}: {error}"))?;
    Ok(answer.map(|object| object.as_deref().map(str::to_owned)).map_err(convert::api_error))
}

fn body_size(operation: &Operation) -> usize {
    match operation {
        Operation::Create { object, .. } | Operation::Update { object, .. } | Operation::Apply { object, .. } => {
            object.len()
        }
        Operation::Patch { patch, .. } => patch.len(),
        Operation::Delete { .. } => 0,
    }
}

/// The object of a write that always returns one.
fn returned(verb: &'static str, answer: Answer) -> Result<String, ApiError> {
    answer?.ok_or_else(|| {
        let message = "the server answered without the object";
        refused(ApiReason::ServerError, verb, message.to_owned())
    })
}
