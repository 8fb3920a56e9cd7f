//! Saves calls of `compose`. The plugin is a function of its request, so a request that equals the last one about its
//! key has the same answer, and the plugin need not be called (ADR 46). All the host's work around that call is done
//! each time.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::call::ports::CallContext;
use windlass_core::call::read_set::{AnswerDigest, REREAD_BYTES_MAX, REREADS_MAX};
use windlass_core::call::read_tracker::{ReadTracker, Spoiler};
use windlass_core::object::pointer_tree::PointerTree;
use windlass_core::queue::outcome::Requeue;
use windlass_wasm::{CallLimits, Composed, CompositionRequest};

use super::Compose;
use crate::dispatch::LOG;
use crate::dispatch::call_record::CallRecord;
use crate::dispatch::saving::{CallBasis, KeptCall, KeptComposition, SavedCalls};
use crate::observe::status::ControllerStatus;

/// The longest request that is compared with the last one, in bytes: as much as is read again for a reconciler.
const COMPARED_REQUEST_BYTES_MAX: usize = REREADS_MAX * REREAD_BYTES_MAX;

/// Makes only the calls of `compose` whose answer may differ from the last one about their key.
pub(crate) struct CompositionSaver {
    pub(crate) calls: Arc<SavedCalls>,
    /// The part of the parent that calls receive. `None` for all of it.
    pub(crate) call_part: Option<PointerTree>,
    /// Knows whether calls of the plugin may be saved.
    pub(crate) record: Arc<CallRecord>,
    pub(crate) status: Arc<ControllerStatus>,
}

impl CompositionSaver {
    /// Calls `plugin`, or returns its last answer if the `request` is the same.
    pub(super) async fn compose(
        &self,
        plugin: &impl Compose,
        request: CompositionRequest,
        call: &Arc<CallContext>,
        limits: CallLimits,
        must_be_made: bool,
    ) -> Composed {
        let (key, basis) = (&call.primary_key, CallBasis::of(call));
        // If the call is made, this is forgotten, however the call ends.
        let kept = self.calls.take(key, &basis);
        let Some(asked) = self.digest(&request) else { return plugin.compose(request, call.clone(), limits).await };
        let is_same = |kept: &KeptCall| kept.composition.as_ref().is_some_and(|last| last.request == asked);
        let expected = kept.filter(|kept| !must_be_made && is_same(kept));
        let expected = match (expected, limits.deadline) {
            (Some(kept), Some(left)) if !self.calls.audits() => {
                let answer = kept.composition.as_ref().map(|last| last.answer.clone()).unwrap_or_default();
                self.calls.keep_saved(key.clone(), kept, &basis);
                self.status.metrics.saved.inc();
                tracing::debug!(target: LOG, "not called: the composer has answered the same request before");
                return Composed { answer: Ok(answer), cpu: Duration::ZERO, left, held: None };
            }
            (expected, _) => expected,
        };
        let tracker = ReadTracker::begin();
        let context = Arc::new(CallContext { reads: tracker.clone(), ..(**call).clone() });
        let composed = plugin.compose(request, context, limits).await;
        let spoiled = tracker.end().and_then(|tracked| tracked.spoiled);
        self.made(expected.as_ref(), asked, spoiled, &composed, call);
        composed
    }

    /// Forgets the last answer about the parent of `call`, which has gone.
    pub(super) fn forget(&self, call: &CallContext) {
        self.calls.take(&call.primary_key, &CallBasis::of(call));
    }

    /// The digest of a request whose answer may be kept. It has all that the plugin gets, except what may differ from
    /// call to call without a meaning: the trace id.
    fn digest(&self, request: &CompositionRequest) -> Option<AnswerDigest> {
        let CompositionRequest { request, parent, children, related, config } = request;
        if request.attempt != 0 || request.deleting || !self.record.may_keep() {
            return None;
        }
        let parent = match &self.call_part {
            Some(part) => part.select(parent).ok()?.into(),
            None => parent.clone(),
        };
        let uid = request.uid.as_deref().unwrap_or_default();
        let texts = [uid, &**config, &*parent].into_iter().chain(children.iter().chain(related).map(|text| &**text));
        let is_short = texts.clone().map(str::len).sum::<usize>() <= COMPARED_REQUEST_BYTES_MAX;
        is_short.then(|| AnswerDigest::of(texts, children.len() as u64))
    }

    /// Compares a call that was made with what was `expected` of it, and keeps its answer.
    fn made(
        &self,
        expected: Option<&KeptCall>,
        request: AnswerDigest,
        spoiled: Option<Spoiler>,
        composed: &Composed,
        call: &CallContext,
    ) {
        let Ok(answer) = &composed.answer else { return };
        if spoiled == Some(Spoiler::ReusedInstance) {
            return;
        }
        if let Some(expected) = expected.and_then(|expected| expected.composition.as_ref())
            && (expected.answer != *answer || spoiled.is_some())
        {
            self.record.stop_saving();
            self.calls.clear();
            self.status.metrics.mispredicted.inc();
            tracing::warn!(
                key = %call.primary_key, spoiled = spoiled.map(Spoiler::as_str),
                "a composer answered the same request in another way than before: it does not follow from its request, so \
                 all its calls are made until its next generation"
            );
            return;
        }
        let is_repeatable = spoiled.is_none() && answer.events.is_empty() && answer.requeue != Some(Requeue::Backoff);
        if is_repeatable {
            let kept = KeptCall::composed(KeptComposition { request, answer: answer.clone() });
            self.calls.keep(call.primary_key.clone(), kept, &CallBasis::of(call));
        }
    }
}

#[cfg(test)]
mod tests;
