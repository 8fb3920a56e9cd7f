//! Asks the plugin's mapper for the primaries that changes concern, and queues them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use windlass_core::cache::mapping::{Primaries as _, Target};
use windlass_core::cache::watch::IndexSource;
use windlass_core::object::ObjectKey;
use windlass_core::object::labels::Labels;
use windlass_core::queue::outcome::{CallResult, Failure};

use super::asked_code::note_result;
use super::{CodeFeeder, MapChanges, Trouble};
use crate::dispatch::feeder::EventSource;
use crate::dispatch::route::Stores;

/// The most keys that one answer queues. Beyond that it is quicker to run every primary, and equally correct.
pub(crate) const ANSWER_KEYS_MAX: usize = 10_000;

impl<S: EventSource, M: MapChanges> CodeFeeder<S, M> {
    /// Queues the keys that the mapper names for the batch in hand.
    pub(super) async fn map_by_code(&mut self) -> Result<(), Trouble> {
        if self.in_hand.is_empty() {
            return Ok(());
        }
        let changes = self.in_hand.iter().filter_map(|taken| taken.change.clone()).collect();
        let call = self.mapper.map(self.batch_of(changes));
        let answer = self.answer(call).await.map_err(Trouble::Code)?;
        let (mut found, mut all) = (HashMap::new(), Vec::new());
        let mut count = 0;
        for targets in answer {
            let keys = existing_primaries(&self.sink.primaries, targets, &mut found)?;
            count += keys.len();
            if count > ANSWER_KEYS_MAX {
                return Err(Trouble::TooMany);
            }
            all.push(keys);
            // Yields, as other tasks wait for this thread.
            tokio::task::consume_budget().await;
        }
        for (taken, keys) in self.in_hand.iter().zip(all) {
            note_result("map", &self.sink.route, taken.event.key(), &CallResult::Done);
            self.queue(keys.into_iter().collect(), &taken.event);
        }
        Ok(())
    }
}

/// The existing primaries among `targets`. A value in an index is looked up once in a batch.
pub(crate) fn existing_primaries(
    primaries: &Stores,
    targets: Vec<Target>,
    found: &mut HashMap<(Arc<str>, String), Vec<ObjectKey>>,
) -> Result<BTreeSet<ObjectKey>, Trouble> {
    let mut keys = BTreeSet::new();
    for target in targets {
        match target {
            Target::Primary(key) => keys.extend(primaries.get(&key).map(|_| key)),
            Target::Indexed { index, value } => {
                let place = (index, value);
                if !found.contains_key(&place) {
                    let indexed = indexed(primaries, &place.0, &place.1).map_err(wrong)?;
                    found.insert(place.clone(), indexed);
                }
                keys.extend(found[&place].iter().cloned());
            }
        }
        if keys.len() > ANSWER_KEYS_MAX {
            return Err(Trouble::TooMany);
        }
    }
    Ok(keys)
}

fn indexed(primaries: &Stores, index: &Arc<str>, value: &str) -> Result<Vec<ObjectKey>, String> {
    let Some(source) = primaries.index(index) else {
        return Err(format!("it names the index `{index}`, and the manifest declares no such index for the primary"));
    };
    if let (IndexSource::Selector { .. }, Err(error)) = (source, value.parse::<Labels>()) {
        return Err(format!("the value for the index over selectors `{index}`: {error}"));
    }
    Ok(primaries.indexed(index, value))
}

/// The failure of a call whose answer is wrong.
fn wrong(what: String) -> Trouble {
    Trouble::Code(CallResult::Failed(vec![Failure::Terminal(what)]))
}
