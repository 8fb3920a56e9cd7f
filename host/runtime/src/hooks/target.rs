//! Maps a delivery to existing primaries of a controller, and queues them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use windlass_core::cache::mapping::Mapping;
use windlass_core::object::{Header, Object, ObjectKey};
use windlass_manifest::Hook;
use windlass_wasm::{ChangeBatch, ObjectChange};

use crate::dispatch::Dispatch;
use crate::dispatch::code_feeder::{ANSWER_KEYS_MAX, MapChanges, Trouble, existing_primaries};
use crate::dispatch::map_calls::PluginMapper;

/// Receives authentic deliveries to one hook.
pub(crate) trait DeliveryTarget: Send + Sync {
    /// The hook's name.
    fn hook(&self) -> Arc<str>;

    /// Queues the existing primaries to which `delivery` leads, and returns their number. Cancel safe.
    fn deliver(&self, delivery: Arc<str>) -> BoxFuture<'_, Result<usize, DeliveryFailure>>;
}

/// Why nothing was queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeliveryFailure {
    /// The controller is beginning or ending.
    NotReady,
    /// The plugin's mapper failed, or its answer is wrong.
    Mapper,
}

/// A hook of a controller at work.
pub(crate) struct ControllerHook {
    hook: Hook,
    dispatch: Arc<Dispatch>,
    mapper: PluginMapper,
}

impl ControllerHook {
    pub(crate) fn new(hook: Hook, dispatch: Arc<Dispatch>, mapper: PluginMapper) -> Self {
        Self { hook, dispatch, mapper }
    }

    /// The primaries that `delivery` names, or `None` for all.
    async fn keys(&self, delivery: Arc<str>) -> Result<Option<BTreeSet<ObjectKey>>, DeliveryFailure> {
        let keys = &self.dispatch.keys;
        match &self.hook.mapping {
            Mapping::All => Ok(None),
            Mapping::Mapper => self.mapped_by_code(delivery).await,
            mapping => {
                let named: BTreeSet<_> = mapping
                    .keys(&object(&self.hook.name, delivery), &keys.primary, &keys.primaries)
                    .into_iter()
                    .collect();
                Ok(Some(named.into_iter().filter(|key| keys.primaries.get(key).is_some()).collect()))
            }
        }
    }

    async fn mapped_by_code(&self, delivery: Arc<str>) -> Result<Option<BTreeSet<ObjectKey>>, DeliveryFailure> {
        let change = ObjectChange { old: None, new: Some(delivery) };
        let controller = self.dispatch.callee.requested_as.clone();
        let batch = ChangeBatch { controller, watch: self.hook.name.as_str().into(), changes: vec![change] };
        let answer = match self.mapper.map(batch).await {
            Ok(answer) => answer.into_iter().flatten().collect(),
            Err(result) => return Err(self.failed(&result.failure())),
        };
        match existing_primaries(&self.dispatch.keys.primaries, answer, &mut HashMap::new()) {
            Ok(keys) if keys.len() <= ANSWER_KEYS_MAX => Ok(Some(keys)),
            Ok(_) | Err(Trouble::TooMany) => Ok(None),
            Err(Trouble::Code(result)) => Err(self.failed(&result.failure())),
        }
    }

    /// Reports that the mapper has failed. Unlike for a watch, other primaries do not run: the sender may try again.
    fn failed(&self, error: &str) -> DeliveryFailure {
        let (plugin, controller) = (&self.dispatch.callee.principal.plugin, &self.dispatch.callee.controller);
        tracing::warn!(%plugin, %controller, hook = self.hook.name, error, "the mapper failed about a delivery: nothing runs for it");
        DeliveryFailure::Mapper
    }

    /// Whether the controller cannot queue keys that will run.
    fn is_idle(&self) -> bool {
        let Dispatch { keys, shutdown, caches_filled, .. } = &*self.dispatch;
        keys.queue.is_shutting_down() || shutdown.stop.is_cancelled() || !caches_filled.is_cancelled()
    }
}

impl DeliveryTarget for ControllerHook {
    fn hook(&self) -> Arc<str> {
        self.hook.name.as_str().into()
    }

    fn deliver(&self, delivery: Arc<str>) -> BoxFuture<'_, Result<usize, DeliveryFailure>> {
        async move {
            let found = self.keys(delivery).await?;
            if self.is_idle() {
                return Err(DeliveryFailure::NotReady);
            }
            let keys = &self.dispatch.keys;
            let Some(mut found) = found else { return Ok(keys.queue_all_delivered(&self.hook.name)) };
            found.retain(|key| !self.mapper.hides(key));
            let queued = found.len();
            keys.queue_delivered(found, &self.hook.name);
            Ok(queued)
        }
        .boxed()
    }
}

/// The delivery as an object without a namespace.
fn object(hook: &str, text: Arc<str>) -> Object {
    Object::new(Header::bare(ObjectKey::cluster(hook), "", ""), text)
}
