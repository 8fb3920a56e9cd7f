//! Replays a recorded call without a cluster: the plugin receives the same answers as in the recording.

mod answers;
mod ports;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use windlass_core::call::ports::CallContext;
use windlass_core::object::{ObjectKey, ObjectKind};
use windlass_core::queue::trigger::{Trigger, TriggerReason, Triggers};
use windlass_core::rights::principal::Principal;
use windlass_manifest::EntryPoint;
use windlass_wasm::{CallLimits, Called, Composed, CompositionRequest, Plugin, Replay, Request};

use self::answers::Answers;
pub use self::answers::Stuck;
use self::ports::ReplayedWorld;
use crate::capture::microseconds;
use crate::document::{RecordedCall, RecordedImport, RecordedRequest, RecordedTrigger};
use crate::redact::Redactor;
use crate::{decode, encode};

/// A recorded call that was made again.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayedCall {
    /// The call's imports, redacted like the recording.
    pub imports: Vec<RecordedImport>,
    /// The result. `None` if the call did not end.
    pub result: Option<Value>,
    /// The reason why the call could not continue.
    pub stuck: Option<Stuck>,
    /// CPU time that the call used, in microseconds.
    pub cpu_us: u64,
}

/// The reason why a call cannot be replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CannotReplay {
    /// The plugin has another export.
    #[error("the recorded call is a call of `{export}`, an export that this plugin does not have")]
    Export { export: String },
    /// The call's secrets cannot be redacted.
    #[error("the call has too many secret values, or too much text to search for them")]
    Secrets,
}

/// Replays `call` with `plugin`, which may be another version than the recorded one. `pointers` lists values that the
/// recording redacted in addition to Secrets.
pub async fn replay(
    plugin: &Arc<Plugin>,
    call: &RecordedCall,
    pointers: &[String],
) -> Result<ReplayedCall, CannotReplay> {
    let is_composer = plugin.entry() == EntryPoint::Composer;
    if is_composer != (call.export == "compose") {
        return Err(CannotReplay::Export { export: call.export.clone() });
    }
    let redactor = Redactor::of_replay(pointers.to_vec());
    let world = ReplayedWorld::new(Answers::of(call, redactor.clone()), &call.surroundings);
    let context = context(plugin, &call.request);
    let (result, cpu) = if is_composer {
        let Composed { answer, cpu, .. } = composed(plugin, call, context).await;
        (Some(answer.map_or_else(|failed| encode::result(&failed), |answer| encode::composition(&answer))), cpu)
    } else {
        let ports = world.ports();
        let limits = CallLimits::default();
        tokio::select! {
            biased;
            Called { result, cpu, .. } = plugin.reconcile(request(&call.request), &ports, context, limits) => {
                (Some(encode::result(&result)), cpu)
            }
            () = world.stuck() => (None, Duration::ZERO),
        }
    };
    let (imports, stuck) = world.take();
    let result = result.filter(|_| stuck.is_none());
    let (imports, result) = redacted(&redactor, call, imports, result).ok_or(CannotReplay::Secrets)?;
    Ok(ReplayedCall { imports, result, stuck, cpu_us: microseconds(cpu) })
}

async fn composed(plugin: &Arc<Plugin>, call: &RecordedCall, context: Arc<CallContext>) -> Composed {
    let texts = |texts: &[String]| texts.iter().map(|text| Arc::from(text.as_str())).collect();
    let RecordedRequest { object, children, related, config, .. } = &call.request;
    let asked = CompositionRequest {
        request: Request { object: None, ..request(&call.request) },
        parent: object.as_deref().unwrap_or_default().into(),
        children: texts(children),
        related: texts(related),
        config: config.as_str().into(),
    };
    let now = call.surroundings.now.first().copied().unwrap_or_default();
    // The sandbox derives the seed of a composer's call from the request.
    let replay = Some(Replay { now: Duration::from_nanos(now), seed: [0; 32] });
    plugin.compose(asked, context, CallLimits { replay, ..CallLimits::default() }).await
}

/// The imports and the result of the replay, redacted together with the recorded request, as in a recording. `None` if
/// that is not possible.
fn redacted(
    redactor: &Redactor,
    call: &RecordedCall,
    imports: Vec<RecordedImport>,
    result: Option<Value>,
) -> Option<(Vec<RecordedImport>, Option<Value>)> {
    let had_result = result.is_some();
    let replayed = RecordedCall { imports, result: result.unwrap_or_default(), ..call.clone() };
    let mut document = serde_json::to_value(&replayed).ok()?;
    if !redactor.redact(&mut document, &[]) {
        return None;
    }
    let RecordedCall { imports, result, .. } = serde_json::from_value(document).ok()?;
    Some((imports, had_result.then_some(result)))
}

fn key(request: &RecordedRequest) -> ObjectKey {
    ObjectKey { namespace: request.namespace.as_deref().map(Arc::from), name: request.name.as_str().into() }
}

fn request(recorded: &RecordedRequest) -> Request {
    Request {
        controller: recorded.controller.as_str().into(),
        key: key(recorded),
        uid: recorded.uid.as_deref().map(Arc::from),
        object: recorded.object.as_deref().map(Arc::from),
        deleting: recorded.deleting,
        attempt: recorded.attempt,
        trace_id: recorded.trace_id.as_str().into(),
    }
}

fn context(plugin: &Plugin, recorded: &RecordedRequest) -> Arc<CallContext> {
    let mut triggers = Triggers::default();
    for RecordedTrigger { reason, watch, object } in &recorded.triggers {
        if let Some(reason) = TriggerReason::ALL.into_iter().find(|it| it.as_str() == reason) {
            let (watch, object) = (watch.as_deref().map(Arc::from), decode::reference(object));
            triggers.note(&Arc::new(Trigger { reason, watch, object }));
        }
    }
    Arc::new(CallContext {
        triggers,
        trace_id: recorded.trace_id.as_str().into(),
        config: recorded.config.as_str().into(),
        ..CallContext::detached(
            Principal::of_plugin(plugin.name().clone(), plugin.short_digest(), "replay"),
            recorded.controller.as_str(),
            ObjectKind::new(recorded.api_version.as_str(), recorded.kind.as_str()),
            key(recorded),
        )
    })
}
