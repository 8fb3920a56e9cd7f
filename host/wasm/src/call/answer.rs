//! Calls of exports that only answer. Such calls are made like calls of `reconcile`, but in a world without actions.
//! Equal requests lead to equal results there, except for a mapper that reads caches.

use std::sync::Arc;
use std::time::Duration;

use rand::SeedableRng as _;
use rand::rngs::StdRng;
use sha2::{Digest as _, Sha256};
use wasmtime::Store;
use windlass_core::cache::mapping::Target;
use windlass_core::cache::related::RelatedRule;
use windlass_core::call::compose::Composition;
use windlass_core::call::ports::{CallContext, Reads};
use windlass_core::queue::outcome::CallResult;

use super::{Callee, Question, check_size};
use crate::abi::linked::Instance;
use crate::counters::PluginCounters;
use crate::entry::Export;
use crate::memory::Held;
use crate::request::{ChangeBatch, CompositionRequest, Replay, Request};
use crate::state::{AnswerWorld, CallState, World};
use crate::trap::Stopped;

impl Question for CompositionRequest {
    type Answer = Result<Composition, CallResult>;

    async fn ask(&self, instance: &Instance, store: &mut Store<CallState>) -> wasmtime::Result<Self::Answer> {
        instance.compose(store, self).await
    }
}

/// A question to a mapper about a batch of changes.
pub(crate) trait MapperQuestion<A>: Question<Answer = Result<A, String>> {
    fn batch(&self) -> &ChangeBatch;
}

/// The question which primaries each change concerns.
pub(crate) struct TargetsOf(pub(crate) ChangeBatch);

impl Question for TargetsOf {
    type Answer = Result<Vec<Vec<Target>>, String>;

    const EXPORT: Export = Export::Mapper;

    async fn ask(&self, instance: &Instance, store: &mut Store<CallState>) -> wasmtime::Result<Self::Answer> {
        instance.map(store, &self.0).await
    }
}

impl MapperQuestion<Vec<Vec<Target>>> for TargetsOf {
    fn batch(&self) -> &ChangeBatch {
        &self.0
    }
}

/// The question whether each change passes the mapper's predicate.
pub(crate) struct WhichCount(pub(crate) ChangeBatch);

impl Question for WhichCount {
    type Answer = Result<Vec<bool>, String>;

    const EXPORT: Export = Export::Mapper;

    async fn ask(&self, instance: &Instance, store: &mut Store<CallState>) -> wasmtime::Result<Self::Answer> {
        instance.matches(store, &self.0).await
    }
}

impl MapperQuestion<Vec<bool>> for WhichCount {
    fn batch(&self) -> &ChangeBatch {
        &self.0
    }
}

/// A call of `customize`, which returns the objects that are related to a parent.
struct CustomizeCall<'a>(&'a Request);

impl Question for CustomizeCall<'_> {
    type Answer = Result<Vec<RelatedRule>, CallResult>;

    const EXPORT: Export = Export::Customize;

    async fn ask(&self, instance: &Instance, store: &mut Store<CallState>) -> wasmtime::Result<Self::Answer> {
        instance.customize(store, self.0).await
    }
}

/// The memory that a composed object takes while it is parsed, compared and sent, as a multiple of its text's length.
const COMPOSED_MEMORY_FACTOR: usize = 5;

/// Calls `compose` with `request`. The inner error is the plugin's own description of its failure. Also returns the
/// remaining time of the call, and waits for room for the answer in the memory of all guests.
pub(crate) async fn compose(
    callee: &Callee<'_>,
    request: &CompositionRequest,
    world: AnswerWorld,
) -> Result<(Result<Composition, CallResult>, Duration, Held), Stopped> {
    check_size(size(request), &callee.limits)?;
    let cpu_permit = world.call.cpu_permit.clone();
    let (answer, left) = callee.timed_call(request, World::Answer(Box::new(world))).await?;
    let room = callee.room(answer.as_ref().map_or(0, |answer| COMPOSED_MEMORY_FACTOR.saturating_mul(size_of(answer))));
    let held = cpu_permit.without(room).await.into();
    Ok((answer, left, held))
}

/// Asks a mapper `question`. The inner error is the plugin's own description of its failure, or says what is wrong with
/// its answer.
pub(crate) async fn of_mapper<A, Q: MapperQuestion<A>>(
    callee: &Callee<'_>,
    question: &Q,
    world: AnswerWorld,
) -> Result<Result<A, String>, Stopped> {
    let texts = question.batch().changes.iter().flat_map(|change| [&change.old, &change.new]).flatten();
    check_size(texts.map(|text| text.len()).sum(), &callee.limits)?;
    callee.call(question, World::Answer(Box::new(world))).await
}

/// Calls `customize` with `request`. The inner error is the plugin's own description of its failure. Also returns the
/// remaining time of the call.
pub(crate) async fn customize(
    callee: &Callee<'_>,
    request: &Request,
    world: AnswerWorld,
) -> Result<(Result<Vec<RelatedRule>, CallResult>, Duration), Stopped> {
    check_size(request.object.as_ref().map_or(0, |object| object.len()), &callee.limits)?;
    callee.timed_call(&CustomizeCall(request), World::Answer(Box::new(world))).await
}

fn size_of(answer: &Composition) -> usize {
    answer.children.iter().chain(&answer.status).map(String::len).sum()
}

/// The world of a call of `export`, with random data from this `seed`. The call may read `reads`, if there are any.
pub(crate) fn world(
    export: &'static str,
    reads: Option<Arc<dyn Reads>>,
    seed: [u8; 32],
    call: Arc<CallContext>,
    counters: Arc<PluginCounters>,
    replay: Option<Replay>,
) -> AnswerWorld {
    let now = replay.map_or_else(windlass_world::now, |replay| replay.now);
    AnswerWorld { export, reads, now, random: StdRng::from_seed(seed), call, counters }
}

/// A seed that is the same for each batch of one watch.
pub(crate) fn seed_of_watch(batch: &ChangeBatch) -> [u8; 32] {
    seed_of(&[&*batch.controller, &*batch.watch])
}

/// A seed that is the same for one parent for its whole life. Otherwise a composer's random data, and with it the
/// children, would differ after each change of the parent. The parent's new status is such a change too, so the calls
/// would never end.
pub(crate) fn seed_of_parent(request: &Request) -> [u8; 32] {
    let namespace = request.key.namespace.as_deref().unwrap_or_default();
    let uid = request.uid.as_deref().unwrap_or_default();
    seed_of(&[&*request.controller, namespace, &*request.key.name, uid])
}

fn seed_of(parts: &[&str]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().into()
}

fn size(request: &CompositionRequest) -> usize {
    let lists = request.children.iter().chain(&request.related);
    lists.map(|text| text.len()).sum::<usize>() + request.parent.len() + request.config.len()
}

#[cfg(test)]
mod tests {
    use windlass_core::object::ObjectKey;

    use super::*;

    fn request(uid: &str, name: &str) -> Request {
        Request {
            controller: "c".into(),
            key: ObjectKey::namespaced("prod", name),
            uid: Some(uid.into()),
            object: None,
            deleting: false,
            attempt: 0,
            trace_id: "0".into(),
        }
    }

    #[test]
    fn the_seed_depends_on_the_parent_and_not_on_the_attempt() {
        let first = request("u-1", "shop");
        let again = Request { attempt: 3, trace_id: "1".into(), ..first.clone() };
        assert_eq!(seed_of_parent(&first), seed_of_parent(&again));
        assert_ne!(seed_of_parent(&first), seed_of_parent(&request("u-2", "shop")));
        assert_ne!(seed_of_parent(&request("u-1", "shop")), seed_of_parent(&request("-1", "shopu")));
    }
}
