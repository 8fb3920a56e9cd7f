//! Random histories with random predicates: exactly those keys are queued that a simple model names.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use windlass_core::queue::trigger::TriggerReason;

use super::scene::{FINALIZER, Scene};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
/// The number of different contents that an object can have. The code fails about the last.
const CONTENTS: usize = 5;
const FAILING: usize = CONTENTS - 1;
/// So few failures that the feeder never stops asking the code.
const MODEL_FAILURES_MAX: usize = 5;

/// A step of a history.
#[derive(Clone, Debug)]
enum Step {
    /// The object is created, or changes.
    Set {
        name: usize,
        content: usize,
        has_finalizer: bool,
    },
    BeginDeletion {
        name: usize,
    },
    Remove {
        name: usize,
    },
    Rescan,
    /// The caches are filled, if they were not.
    Fill,
    /// The feeder handles everything until now.
    Poll,
}

fn step() -> impl Strategy<Value = Step> {
    let name = || 0..NAMES.len();
    prop_oneof![
        8 => (name(), 0..CONTENTS, any::<bool>())
            .prop_map(|(name, content, has_finalizer)| Step::Set { name, content, has_finalizer }),
        2 => name().prop_map(|name| Step::BeginDeletion { name }),
        2 => name().prop_map(|name| Step::Remove { name }),
        1 => Just(Step::Rescan),
        1 => Just(Step::Fill),
        4 => Just(Step::Poll),
    ]
}

/// Whether a change between two contents counts: one bit for each pair. The first row is of new objects.
#[derive(Clone, Copy, Debug)]
struct Table(u64);

impl Table {
    fn counts(self, old: Option<usize>, new: usize) -> bool {
        let row = old.map_or(0, |old| old + 1);
        new == FAILING || (self.0 >> (row * CONTENTS + new)) & 1 == 1
    }
}

#[derive(Clone, Copy)]
struct ModelObject {
    content: usize,
    has_finalizer: bool,
    deleting: bool,
}

impl ModelObject {
    fn text(self) -> String {
        let finalizers = if self.has_finalizer { format!("{FINALIZER:?}") } else { String::new() };
        format!(r#"{{"content":{},"metadata":{{"finalizers":[{finalizers}]}}}}"#, self.content)
    }
}

fn content(text: &str) -> usize {
    let object: serde_json::Value = serde_json::from_str(text).expect("JSON");
    object["content"].as_u64().and_then(|content| content.try_into().ok()).expect("a content")
}

/// The objects, and the keys that are to be queued.
struct Model {
    is_filled: bool,
    table: Table,
    objects: BTreeMap<usize, ModelObject>,
    expected: BTreeSet<usize>,
    rescans: bool,
    failures: usize,
}

impl Model {
    fn set(&mut self, name: usize, new: ModelObject) {
        let old = self.objects.insert(name, new);
        let (was_deleting, begins) = (old.is_some_and(|old| old.deleting), new.deleting);
        let counts = if begins && (!was_deleting || new.has_finalizer) {
            true
        } else if !self.is_filled {
            // The rescan will ask about the state that the object has then.
            false
        } else {
            self.failures += usize::from(new.content == FAILING);
            self.table.counts(old.map(|old| old.content), new.content)
        };
        if counts {
            self.expected.insert(name);
        }
    }

    fn remove(&mut self, name: usize) {
        if self.objects.remove(&name).is_some() {
            self.expected.insert(name);
        }
    }

    /// The names of the keys that the feeder has queued once it has handled everything.
    fn poll(&mut self) -> Vec<String> {
        if !self.is_filled {
            return vec![];
        }
        if std::mem::take(&mut self.rescans) {
            self.failures += self.objects.values().filter(|object| object.content == FAILING).count();
            let matching = |object: &ModelObject| object.deleting || self.table.counts(None, object.content);
            let found = self.objects.iter().filter(|(_, object)| matching(object)).map(|(name, _)| *name);
            self.expected.extend(found);
        }
        std::mem::take(&mut self.expected).into_iter().map(|name| NAMES[name].to_owned()).collect()
    }
}

fn play(table: Table, is_filled: bool, steps: Vec<Step>) {
    let mut scene = Scene::new(move |(old, new)| match content(new) {
        FAILING => Err("no idea".to_owned()),
        new => Ok(table.counts(old.map(content), new)),
    });
    let (objects, expected) = (BTreeMap::new(), BTreeSet::new());
    let mut model = Model { is_filled, table, objects, expected, rescans: false, failures: 0 };
    scene.fill(is_filled);
    for step in steps.into_iter().chain([Step::Fill, Step::Poll]) {
        let few_failures = model.failures < MODEL_FAILURES_MAX;
        match step {
            Step::Set { name, content, has_finalizer } => {
                let content = if few_failures { content } else { content % FAILING };
                let deleting = model.objects.get(&name).is_some_and(|object| object.deleting);
                let object = ModelObject { content, has_finalizer, deleting };
                model.set(name, object);
                scene.set(NAMES[name], &object.text(), deleting);
            }
            Step::BeginDeletion { name } => {
                let Some(object) = model.objects.get(&name).copied() else { continue };
                let object = ModelObject { deleting: true, ..object };
                if !few_failures && object.content == FAILING {
                    continue;
                }
                model.set(name, object);
                scene.set(NAMES[name], &object.text(), true);
            }
            Step::Remove { name } => {
                model.remove(name);
                scene.remove(NAMES[name]);
            }
            Step::Rescan => {
                model.rescans |= few_failures && model.is_filled;
                if few_failures {
                    scene.rescan(TriggerReason::Resync);
                }
            }
            Step::Fill => {
                if !std::mem::replace(&mut model.is_filled, true) {
                    // It has seen everything until now.
                    scene.goes_on();
                    model.rescans = true;
                    scene.fill(true);
                    scene.rescan(TriggerReason::Start);
                }
            }
            Step::Poll => {
                scene.goes_on();
                assert_eq!(scene.queued(), model.poll());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_queued_keys_are_those_of_the_model(
        table in any::<u64>(),
        is_filled in any::<bool>(),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(async { play(Table(table), is_filled, steps) });
    }
}
