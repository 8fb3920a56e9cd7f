//! The spans of imports that ask for something outside: each is a part of the call that asks, and what is sent for it is a
//! part of the import.
//!
//! Fetches have their span where they are sent (`egress`). Reads from caches have none: they ask nobody.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use windlass_core::error::ApiError;
use windlass_core::object::ObjectKind;
use windlass_core::ports::{
    CallContext, Claimed, Collections, Deleted, ListPage, Live, LiveGet, LiveQuery, LogQuery, Owners, Ports,
    ServedKind, Writes, Written,
};
use windlass_core::trace::EndedSpan;
use windlass_core::write::{Collection, DeleteOptions, Operation};

/// `ports` with spans, for calls whose spans are collected.
pub(crate) fn traced(ports: Ports) -> Ports {
    Ports {
        live: Arc::new(Traced(ports.live)),
        writes: Arc::new(Traced(ports.writes)),
        collections: Arc::new(Traced(ports.collections)),
        owners: Arc::new(Traced(ports.owners)),
        ..ports
    }
}

/// A port whose work for a call has a span.
struct Traced<P: ?Sized>(Arc<P>);

/// Has `port` do what the import `name` asks for, in a span. `note` says how it ended.
fn import<T: Send + 'static>(
    call: Arc<CallContext>,
    name: &'static str,
    port: impl FnOnce(Arc<CallContext>) -> BoxFuture<'static, T>,
    note: impl FnOnce(&mut EndedSpan, &T) + Send + 'static,
) -> BoxFuture<'static, T> {
    let mut span = call.trace.span(name);
    if !span.is_collected() {
        return port(call);
    }
    let work = port(call.within(&span));
    async move {
        let result = work.await;
        span.ends(|span| {
            note(span, &result);
            // The API server quotes what it refuses.
            if let Some(error) = &mut span.error {
                call.config.redact_in(error);
            }
        });
        result
    }
    .boxed()
}

fn note<T>(span: &mut EndedSpan, result: &Result<T, ApiError>) {
    if let Err(error) = result {
        span.set("error.type", error.reason.as_str());
        span.error = Some(error.to_string());
    }
}

impl Live for Traced<dyn Live> {
    fn get(&self, call: Arc<CallContext>, asked: LiveGet) -> BoxFuture<'static, Written> {
        import(call, "live.get", |call| self.0.get(call, asked), note)
    }

    fn list(&self, call: Arc<CallContext>, query: LiveQuery) -> BoxFuture<'static, Result<ListPage, ApiError>> {
        import(call, "live.list", |call| self.0.list(call, query), note)
    }

    fn log(&self, call: Arc<CallContext>, query: LogQuery) -> BoxFuture<'static, Result<String, ApiError>> {
        import(call, "live.log", |call| self.0.log(call, query), note)
    }

    fn served(
        &self,
        call: Arc<CallContext>,
        kind: ObjectKind,
    ) -> BoxFuture<'static, Result<Option<ServedKind>, ApiError>> {
        import(call, "live.served", |call| self.0.served(call, kind), note)
    }
}

impl Writes for Traced<dyn Writes> {
    fn write(&self, call: Arc<CallContext>, operation: Operation) -> BoxFuture<'static, Written> {
        let name = match &operation {
            Operation::Create { .. } => "writes.create",
            Operation::Update { .. } => "writes.update",
            Operation::Patch { .. } => "writes.patch",
            Operation::Apply { .. } => "writes.apply",
            Operation::Delete { .. } => "writes.delete",
        };
        import(call, name, |call| self.0.write(call, operation), note)
    }

    fn batch(&self, call: Arc<CallContext>, operations: Vec<Operation>) -> BoxFuture<'static, Vec<Written>> {
        let note = |span: &mut EndedSpan, results: &Vec<Written>| {
            span.set("windlass.batch.size", i64::try_from(results.len()).unwrap_or(i64::MAX));
            if let Some(failed) = results.iter().find(|result| result.is_err()) {
                note(span, failed);
            }
        };
        import(call, "writes.batch", |call| self.0.batch(call, operations), note)
    }
}

impl Collections for Traced<dyn Collections> {
    fn delete_collection(
        &self,
        call: Arc<CallContext>,
        collection: Collection,
        options: DeleteOptions,
    ) -> BoxFuture<'static, Deleted> {
        let delete = |call| self.0.delete_collection(call, collection, options);
        import(call, "writes.delete-collection", delete, note)
    }
}

impl Owners for Traced<dyn Owners> {
    fn claim(
        &self,
        call: Arc<CallContext>,
        kind: ObjectKind,
        label_selector: String,
    ) -> BoxFuture<'static, Result<Claimed, Vec<ApiError>>> {
        let note = |span: &mut EndedSpan, result: &Result<Claimed, Vec<ApiError>>| {
            if let Some(error) = result.as_ref().err().and_then(|errors| errors.first()) {
                span.set("error.type", error.reason.as_str());
                span.error = Some(error.to_string());
            }
        };
        import(call, "owners.claim", |call| self.0.claim(call, kind, label_selector), note)
    }
}
