//! `writes`: mutations, which are sent to the port. A mutation that was sent continues when the call ends (ADR 5). The
//! port answers with whole objects, because the code behind it needs them. The guest gets only the fields that it has
//! asked for.

use windlass_core::call::ports::CollectionDeletion;
use windlass_core::error::{ApiError as CoreError, ApiReason};
use windlass_core::object::ObjectRef as CoreRef;
use windlass_core::object::pointer_tree::PointerTree;
use windlass_core::write::Operation;

use crate::abi::v0_3_0::bindings::windlass::plugin::types::{ApiError, ObjectRef};
use crate::abi::v0_3_0::bindings::windlass::plugin::writes::{
    self as wit, Collection, DeleteOptions, DeleteWrite, Host, ObjectWrite, PatchType, PatchWrite, WriteOptions,
};
use crate::abi::v0_3_0::{convert, live};
use crate::imports::{HostWork, RAISE_RESPONSE, ask, malformed, refused, too_large};
use crate::limits::Value;
use crate::state::CallState;

/// The guest's answer: the new object, or `None` if nothing is left.
type WriteAnswer = Result<Option<String>, ApiError>;

impl Host for CallState {
    async fn create(&mut self, object: String, options: WriteOptions) -> wasmtime::Result<Result<String, ApiError>> {
        let operation = wit::Operation::Create(ObjectWrite { object, options });
        write(self, "writes.create", operation).await.map(|answer| returned("create", answer))
    }

    async fn update(&mut self, object: String, options: WriteOptions) -> wasmtime::Result<Result<String, ApiError>> {
        let operation = wit::Operation::Update(ObjectWrite { object, options });
        write(self, "writes.update", operation).await.map(|answer| returned("update", answer))
    }

    async fn patch(
        &mut self,
        target: ObjectRef,
        patch_type: PatchType,
        patch: String,
        options: WriteOptions,
    ) -> wasmtime::Result<Result<String, ApiError>> {
        let operation = wit::Operation::Patch(PatchWrite { target, patch_type, patch, options });
        write(self, "writes.patch", operation).await.map(|answer| returned("patch", answer))
    }

    async fn apply(&mut self, object: String, options: WriteOptions) -> wasmtime::Result<Result<String, ApiError>> {
        let operation = wit::Operation::Apply(ObjectWrite { object, options });
        write(self, "writes.apply", operation).await.map(|answer| returned("patch", answer))
    }

    async fn delete(&mut self, target: ObjectRef, options: DeleteOptions) -> wasmtime::Result<WriteAnswer> {
        write(self, "writes.delete", wit::Operation::Delete(DeleteWrite { target, options })).await
    }

    async fn delete_collection(
        &mut self,
        collection: Collection,
        options: DeleteOptions,
    ) -> wasmtime::Result<Result<Option<Vec<ObjectRef>>, ApiError>> {
        const IMPORT: &str = "writes.delete-collection";
        const VERB: &str = "deletecollection";
        self.enter(IMPORT)?;
        self.meter.writes(1)?;
        let (collection, options) = match live::collection(collection, options) {
            Ok(asked) => asked,
            Err(reason) => return Ok(Err(malformed(VERB, reason))),
        };
        let (deleted, size) = ask(self, IMPORT, CollectionDeletion { collection, options }).await?;
        if size > self.meter.limits().response_bytes {
            let message = "the deletion was carried out, but the objects' names exceed what one import call may return";
            return Ok(Err(too_large(VERB, format!("{message} ({RAISE_RESPONSE})"))));
        }
        let named = |deleted: Vec<CoreRef>| deleted.iter().map(convert::reference).collect();
        Ok(deleted.map(|deleted| deleted.map(named)).map_err(convert::api_error))
    }

    async fn batch(&mut self, operations: Vec<wit::Operation>) -> wasmtime::Result<Vec<WriteAnswer>> {
        const IMPORT: &str = "writes.batch";
        self.enter(IMPORT)?;
        // Checked before anything is sent, so that a batch that exceeds the limit is not sent in part.
        self.meter.writes(operations.len())?;
        for _ in &operations {
            self.meter.host_call()?;
        }
        self.meter.written(operations.iter().map(body_bytes).sum())?;
        let limits = self.meter.limits();
        let (limit, budget) = (limits.write_bytes, limits.response_bytes);
        // Nothing else of the sent operations is kept here, because bodies are large and calls may wait long.
        let mut to_send = Vec::new();
        let wanted: Vec<_> = operations
            .into_iter()
            .map(|operation| {
                let (operation, wanted) = checked(operation, limit)?;
                to_send.push(operation);
                Ok(wanted)
            })
            .collect();
        self.meter.have_beside(to_send.iter().map(Operation::body_bytes).sum()).await;
        let (written, _) = ask(self, IMPORT, to_send).await?;
        let mut written = written.into_iter();
        let mut left = budget;
        let mut answer = |wanted: Result<WantedAnswer, ApiError>| {
            let wanted = wanted?;
            let result = written.next().unwrap_or_else(|| Err(lost(wanted.verb)));
            wanted.of(result.map_err(convert::api_error)?.as_deref(), &mut left)
        };
        let (mut answers, mut work) = (Vec::with_capacity(wanted.len()), HostWork::begun());
        for wanted in wanted {
            work.pause(&self.meter).await?;
            answers.push(answer(wanted));
        }
        Ok(answers)
    }
}

/// The operation, if it is valid, and the part of its answer that the guest has asked for.
fn checked(operation: wit::Operation, limit: usize) -> Result<(Operation, WantedAnswer), ApiError> {
    let verb = verb(&operation);
    let operation = convert::operation(operation).map_err(|reason| malformed(verb, reason))?;
    let size = operation.body_bytes();
    if size > limit {
        let limit = Value::Bytes(limit);
        return Err(too_large(verb, format!("the body has {size} bytes, but the API server takes at most {limit}")));
    }
    let fields = operation.options().and_then(|options| options.fields.as_deref());
    let fields = fields.map(PointerTree::of_read).transpose();
    let fields = fields.map_err(|error| malformed(verb, error.to_string()))?;
    Ok((operation, WantedAnswer { verb, fields }))
}

/// The part of a write's answer that a guest has asked for.
struct WantedAnswer {
    verb: &'static str,
    /// `None` for the whole object.
    fields: Option<PointerTree>,
}

impl WantedAnswer {
    /// The part of a written object that the guest gets, if it is not larger than `left`, the number of bytes that the
    /// import call may still return.
    fn of(&self, object: Option<&str>, left: &mut usize) -> WriteAnswer {
        let Some(object) = object else { return Ok(None) };
        let answer = match &self.fields {
            Some(fields) => fields.select(object).map_err(|error| {
                let message =
                    format!("the write was carried out, but the answer of the API server cannot be read: {error}");
                refused(ApiReason::ServerError, self.verb, message)
            })?,
            None if object.len() > *left => return Err(self.too_large()),
            None => object.to_owned(),
        };
        if answer.len() > *left {
            return Err(self.too_large());
        }
        *left -= answer.len();
        Ok(Some(answer))
    }

    fn too_large(&self) -> ApiError {
        let message = "the write was carried out, but the object is larger than what one import call may return";
        too_large(self.verb, format!("{message} ({RAISE_RESPONSE})"))
    }
}

/// The length of a body as the guest passed it, including parts without meaning, such as white space.
fn body_bytes(operation: &wit::Operation) -> usize {
    match operation {
        wit::Operation::Create(write) | wit::Operation::Update(write) | wit::Operation::Apply(write) => {
            write.object.len()
        }
        wit::Operation::Patch(write) => write.patch.len(),
        wit::Operation::Delete(_) => 0,
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
    operation: wit::Operation,
) -> wasmtime::Result<WriteAnswer> {
    let limits = state.meter.limits();
    let (limit, mut left) = (limits.write_bytes, limits.response_bytes);
    state.enter(import)?;
    state.meter.writes(1)?;
    state.meter.written(body_bytes(&operation))?;
    state.reconcile(import)?;
    let (operation, wanted) = match checked(operation, limit) {
        Ok(checked) => checked,
        Err(error) => return Ok(Err(error)),
    };
    state.meter.have_beside(operation.body_bytes()).await;
    let (written, _) = ask(state, import, operation).await?;
    Ok(written.map_err(convert::api_error).and_then(|object| wanted.of(object.as_deref(), &mut left)))
}

/// The error for an operation that the port did not answer, which is a bug of the port. The outcome of the operation is
/// not known.
fn lost(verb: &'static str) -> CoreError {
    CoreError::refused(
        ApiReason::UnknownOutcome,
        verb,
        "",
        None,
        "the host lost the result: the operation may have been carried out",
    )
}

/// The object of a write that always returns one.
fn returned(verb: &'static str, answer: WriteAnswer) -> Result<String, ApiError> {
    answer?.ok_or_else(|| {
        let message = "the server answered without the object";
        refused(ApiReason::ServerError, verb, message.to_owned())
    })
}
