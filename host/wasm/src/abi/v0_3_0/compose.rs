//! Converts a composer's request and answer between the types of WIT and those of `windlass-core`. The children are not
//! checked here: `windlass_core::call::compose` checks an answer as a whole.

use windlass_core::call::compose::Composition;
use windlass_core::queue::outcome::CallResult;

use super::bindings::windlass::plugin::types as wit;
use super::composer_bindings::exports::windlass::plugin::composer;
use super::convert;
use crate::request::CompositionRequest;

/// The maximum number of Events of a call. The recorder has additional limits per object.
const EVENTS_MAX: usize = 64;

pub(crate) fn request(request: &CompositionRequest) -> composer::CompositionRequest {
    let texts = |texts: &[std::sync::Arc<str>]| texts.iter().map(ToString::to_string).collect();
    composer::CompositionRequest {
        request: convert::request(&request.request),
        parent: request.parent.to_string(),
        children: texts(&request.children),
        related: texts(&request.related),
        config: request.config.to_string(),
    }
}

pub(crate) fn answer(answer: Result<composer::Composition, Vec<wit::Failure>>) -> Result<Composition, CallResult> {
    let composer::Composition { children, status, events, requeue, allow_empty, finalized } =
        answer.map_err(convert::failed)?;
    // An Event that no server would accept is dropped: an Event never fails a call.
    let events = events.into_iter().take(EVENTS_MAX).filter_map(|event| convert::event(event).ok()).collect();
    let requeue = requeue.map(convert::requeue);
    Ok(Composition { children, status, events, requeue, allow_empty, finalized })
}
