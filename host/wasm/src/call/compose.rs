//! A call of `compose`: as one of `reconcile`, in a world in which nothing can be done and equal requests are equal.

use std::sync::Arc;
use std::time::Duration;

use rand::SeedableRng as _;
use rand::rngs::StdRng;
use sha2::{Digest as _, Sha256};
use wasmtime::Engine;
use windlass_core::compose::Composition;
use windlass_core::outcome::CallResult;
use windlass_core::ports::CallContext;

use super::{ended, latest_end, report_dropped_lines, store};
use crate::abi::v0_1_0;
use crate::limits::{Limit, Limits, Overrun};
use crate::meter::Meter;
use crate::plugin::{CompositionRequest, Counters, Request};
use crate::state::{ComposeWorld, World, now};
use crate::trap::Stopped;

/// Calls `compose` with `request`, for at most `time`. The inner error is what the plugin says went wrong.
pub(crate) async fn compose(
    engine: &Engine,
    plugin: &v0_1_0::Plugin,
    limits: Arc<Limits>,
    time: Duration,
    request: &CompositionRequest,
    world: ComposeWorld,
) -> Result<Result<Composition, CallResult>, Stopped> {
    check_size(request, &limits)?;
    let meter = Meter::new(limits, (Limit::Deadline, time));
    let mut store = store(engine, meter, World::Compose(Box::new(world)));
    let deadline = latest_end(&store);
    let answer = tokio::time::timeout_at(deadline, async {
        let instance = plugin.instantiate(&mut store).await?;
        instance.compose(&mut store, request).await
    });
    let answer = answer.await;
    report_dropped_lines(store.data());
    ended(answer, store.data())
}

/// The world of a call about `request`.
pub(crate) fn world(request: &Request, call: Arc<CallContext>, counters: Arc<Counters>) -> ComposeWorld {
    ComposeWorld { now: now(), random: StdRng::from_seed(seed(request)), call, counters }
}

/// The same for one parent as long as it lives: what a composer draws would otherwise change with each change of the
/// parent's, its own new status included, and its children with it, for ever.
fn seed(request: &Request) -> [u8; 32] {
    let mut hasher = Sha256::new();
    let namespace = request.key.namespace.as_deref().unwrap_or_default();
    let uid = request.uid.as_deref().unwrap_or_default();
    for part in [&*request.controller, namespace, &*request.key.name, uid] {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().into()
}

/// A guest asks for nothing here, so what it is given is bounded before it is called.
fn check_size(request: &CompositionRequest, limits: &Limits) -> Result<(), Stopped> {
    let lists = request.children.iter().chain(&request.related);
    let texts = lists.map(|text| text.len());
    let size = texts.sum::<usize>() + request.parent.len() + request.config.len();
    if size <= limits.response_bytes {
        return Ok(());
    }
    let overrun = Overrun::bytes(Limit::Request, limits.response_bytes);
    Err(Stopped { reason: overrun.limit.reason(), message: format!("the plugin was not called: {overrun}") })
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
    fn the_seed_is_the_parents_and_of_no_attempt() {
        let first = request("u-1", "shop");
        let again = Request { attempt: 3, trace_id: "1".into(), ..first.clone() };
        assert_eq!(seed(&first), seed(&again));
        assert_ne!(seed(&first), seed(&request("u-2", "shop")));
        assert_ne!(seed(&request("u-1", "shop")), seed(&request("-1", "shopu")));
    }
}
