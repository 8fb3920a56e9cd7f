//! Mutations of the API in a plugin's name (invariant 6).
//!
//! A write is planned (`write_plan`), sent once, and ends *committed*, *refused* or with an unknown outcome. It runs as
//! a task of its own: whoever waits for it may stop waiting, but a request that was sent is never cut off (§3.4).

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use kube::Client;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::runtime::Handle;
use tracing::Instrument as _;
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::object::ObjectKind;
use windlass_core::ports::{CallContext, Writes, Written};
use windlass_core::write::Operation;

use crate::discovery::Discovery;
use crate::parse;
use crate::request::{self, Answer, RequestError};
use crate::status::{Subject, concerns_uid};
use crate::write_plan::{Plan, plan};

/// How long the host waits for an answer: longer than the server may work on it, so that the server gives up first.
const ANSWER_LIMIT: Duration = Duration::from_secs(35);
/// How many names are tried for one `generateName`.
const GENERATED_NAMES: usize = 8;

/// Carries out the writes of plugins. Clones share everything.
#[derive(Clone)]
pub struct Writer {
    client: Client,
    discovery: Discovery,
    runtime: Handle,
}

impl Writer {
    /// A writer whose tasks run on the tokio runtime that this is called on.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    #[must_use]
    pub fn new(client: Client, discovery: Discovery) -> Self {
        Self { client, discovery, runtime: Handle::current() }
    }

    async fn carry_out(&self, call: &CallContext, operation: &Operation) -> Result<Option<Arc<str>>, ApiError> {
        for _ in 1..GENERATED_NAMES {
            let plan = plan(&self.discovery, call, operation).await?;
            let generated = plan.generated;
            match self.send(call, plan).await {
                Err(error) if generated && error.reason == ApiReason::AlreadyExists => {}
                settled => return settled,
            }
        }
        self.send(call, plan(&self.discovery, call, operation).await?).await
    }

    async fn send(&self, call: &CallContext, plan: Plan) -> Result<Option<Arc<str>>, ApiError> {
        let Plan { subject, mutation, kind, generated: _, dry_run } = plan;
        let began = Instant::now();
        let result = request::mutate(&self.client, mutation, ANSWER_LIMIT).await;
        audit(call, &subject, dry_run, &result, began.elapsed());
        let answer = result.map_err(|error| failed(&subject, &error))?;
        for warning in &answer.warnings {
            tracing::warn!(
                plugin = %call.principal.plugin, verb = subject.verb, resource = subject.resource,
                object = subject.object.as_ref().map(|object| tracing::field::display(&object.key)),
                "the API server warns: {warning}"
            );
        }
        read(&subject, &answer, &kind)
    }
}

impl Writes for Writer {
    fn write(
        &self,
        call: Arc<CallContext>,
        operation: Operation,
    ) -> BoxFuture<'static, Result<Option<Arc<str>>, ApiError>> {
        let subject = Subject { verb: operation.verb(), resource: String::new(), object: None };
        let writer = self.clone();
        let task = async move { writer.carry_out(&call, &operation).await }.in_current_span();
        let task = self.runtime.spawn(task);
        Box::pin(async move {
            task.await.unwrap_or_else(|error| {
                let message = format!("the host's task for this write ended early ({error}); its outcome is not known");
                Err(subject.refuse(ApiReason::UnknownOutcome, message))
            })
        })
    }

    fn batch(&self, call: Arc<CallContext>, operations: Vec<Operation>) -> BoxFuture<'static, Vec<Written>> {
        let writes: Vec<_> = operations.into_iter().map(|operation| self.write(call.clone(), operation)).collect();
        Box::pin(async move {
            let mut written = Vec::with_capacity(writes.len());
            for write in writes {
                written.push(write.await);
            }
            written
        })
    }
}

fn failed(subject: &Subject, error: &RequestError) -> ApiError {
    let failure = subject.mutation_failed(error);
    match error {
        // That the name has another incarnation is a conflict, whatever the server calls it.
        RequestError::Refused { status, .. } if concerns_uid(status) => {
            ApiError { reason: ApiReason::Conflict, ..failure }
        }
        _ => failure,
    }
}

#[derive(Deserialize)]
struct Left<'a> {
    #[serde(borrow)]
    kind: Option<&'a str>,
    #[serde(borrow)]
    metadata: Option<LeftMetadata<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LeftMetadata<'a> {
    #[serde(borrow)]
    deletion_timestamp: Option<&'a RawValue>,
}

/// The object that the server answered with. A delete that leaves nothing is answered with a Status, or with the last
/// state of the object, which then does not wait for anything.
fn read(subject: &Subject, answer: &Answer, kind: &ObjectKind) -> Result<Option<Arc<str>>, ApiError> {
    let unreadable = |error: parse::ParseError| {
        let message = format!("the API server carried it out (HTTP {}), but its answer is {error}", answer.code);
        subject.refuse(ApiReason::UnknownOutcome, message)
    };
    if subject.verb == "delete" {
        let left: Left<'_> = serde_json::from_str(&answer.text).map_err(|error| unreadable(error.into()))?;
        let waits = left.metadata.is_some_and(|metadata| metadata.deletion_timestamp.is_some());
        if left.kind == Some("Status") || !waits {
            return Ok(None);
        }
    }
    parse::clean(&answer.text, kind).map(Some).map_err(unreadable)
}

/// How a mutation ended, for the audit. A server that fails (5xx) may have carried it out before.
fn outcome(result: &Result<Answer, RequestError>) -> (Option<u16>, &'static str) {
    match result {
        Ok(answer) => (Some(answer.code), "committed"),
        Err(RequestError::Refused { status, .. }) if status.code >= 500 => (Some(status.code), "unknown"),
        Err(RequestError::Refused { status, .. }) => (Some(status.code), "refused"),
        Err(RequestError::NotSent { .. }) => (None, "not sent"),
        Err(RequestError::Broken { .. } | RequestError::TimedOut { .. } | RequestError::NotText(_)) => {
            (None, "unknown")
        }
    }
}

/// One line a mutation: who did what to which object, for whom, and how it ended.
fn audit(call: &CallContext, subject: &Subject, dry_run: bool, result: &Result<Answer, RequestError>, took: Duration) {
    let (code, outcome) = outcome(result);
    tracing::info!(
        target: "windlass::audit",
        plugin = %call.principal.plugin,
        digest = %call.principal.digest,
        replica = %call.principal.replica,
        controller = %call.controller,
        primary = %call.primary_key,
        trace_id = %call.trace_id,
        verb = subject.verb,
        resource = subject.resource,
        object = subject.object.as_ref().map(|object| tracing::field::display(&object.key)),
        dry_run,
        code,
        outcome,
        took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        "mutation"
    );
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn only_a_clear_answer_is_a_refusal() {
        let answered = |code| {
            let status = Box::new(Status { code, ..Status::default() });
            outcome(&Err(RequestError::Refused { status, retry_after: None }))
        };
        assert_eq!(answered(409), (Some(409), "refused"));
        assert_eq!(answered(504), (Some(504), "unknown"));
        assert_eq!(outcome(&Err(RequestError::TimedOut { after: ANSWER_LIMIT })), (None, "unknown"));
    }
}
