//! Tests pruning with random answers, random failures and random children. A child that ADR 9 protects is never pruned,
//! and a child that ADR 9 condemns is pruned once there are no failures.
//!
//! The rules are written here a second time, from the design and not from the code under test.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_core::call::compose::{
    Applied, CREATED_BY, ChildStep, CompositeParent, Composition, ObservedChildren, OwnedKind, UpdateStrategy, Wanted,
    Withheld, prune, step,
};
use windlass_core::object::{ObjectKey, ObjectKind};
use windlass_core::queue::outcome::Failure;

const PLUGIN: &str = "webapp";
const KINDS: [&str; 2] = ["ConfigMap", "Secret"];

fn parent() -> CompositeParent {
    CompositeParent {
        plugin: PLUGIN.into(),
        kind: ObjectKind::new("example.com/v1", "Parent"),
        key: ObjectKey::namespaced("prod", "parent"),
        uid: "ours".into(),
    }
}

fn owns(strategy: UpdateStrategy) -> Vec<OwnedKind> {
    let owned = |kind| OwnedKind { kind: ObjectKind::new("v1", kind), namespaced: true, namespaces: None, strategy };
    KINDS.map(owned).into()
}

/// A child that the host finds: its owner, its origin, and whether it is terminating.
#[derive(Clone, Debug)]
struct Found {
    kind: &'static str,
    name: u8,
    controller: Option<&'static str>,
    created_by: Option<&'static str>,
    deleting: bool,
}

impl Found {
    fn observed(&self) -> ObservedChildren {
        let owners =
            self.controller.map(|uid| json!([{"kind": "Parent", "name": "p", "uid": uid, "controller": true}]));
        let labels = self.created_by.map(|plugin| json!({CREATED_BY: plugin}));
        let object = json!({"metadata": {
            "name": format!("c{}", self.name), "namespace": "prod", "uid": self.uid(), "resourceVersion": "7",
            "ownerReferences": owners, "labels": labels,
            "deletionTimestamp": self.deleting.then_some("2026-01-01T00:00:00Z"),
        }});
        ObservedChildren::read(&ObjectKind::new("v1", self.kind), object.to_string().into()).expect("an object")
    }

    fn uid(&self) -> String {
        format!("{}-{}", self.kind, self.name)
    }
}

fn found() -> impl Strategy<Value = Vec<Found>> {
    let controller = prop_oneof![4 => Just(Some("ours")), 1 => Just(Some("theirs")), 1 => Just(None)];
    let created_by = prop_oneof![4 => Just(Some(PLUGIN)), 1 => Just(Some("another")), 1 => Just(None)];
    let one = (prop::sample::select(&KINDS[..]), 0_u8..6, controller, created_by, prop::bool::weighted(0.2));
    let one = one.prop_map(|(kind, name, controller, created_by, deleting)| Found {
        kind,
        name,
        controller,
        created_by,
        deleting,
    });
    prop::collection::vec(one, 0..12).prop_map(|mut found: Vec<Found>| {
        let mut seen = std::collections::HashSet::new();
        found.retain(|it| seen.insert((it.kind, it.name)));
        found
    })
}

/// A child in an answer: mostly valid, sometimes invalid.
fn composed() -> impl Strategy<Value = String> {
    let named = |(kind, name): (&str, u8)| {
        json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": format!("c{name}")}}).to_string()
    };
    let right = (prop::sample::select(&KINDS[..]), 0_u8..6).prop_map(named);
    let wrong = prop_oneof![
        Just("nonsense".to_owned()),
        Just("[]".to_owned()),
        Just(r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}"#.to_owned()),
        Just(r#"{"apiVersion":"v1","kind":"Secret","metadata":{"generateName":"n"}}"#.to_owned()),
        Just(r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"n","namespace":"other"}}"#.to_owned()),
    ];
    prop_oneof![30 => right, 1 => wrong]
}

fn answer() -> impl Strategy<Value = Composition> {
    let answer =
        (prop::collection::vec(composed(), 0..6), any::<bool>(), prop::option::weighted(0.1, Just("3".to_owned())));
    answer.prop_map(|(children, allow_empty, status)| Composition {
        children,
        status,
        allow_empty,
        ..Composition::default()
    })
}

fn strategy() -> impl Strategy<Value = UpdateStrategy> {
    prop_oneof![Just(UpdateStrategy::InPlace), Just(UpdateStrategy::Recreate), Just(UpdateStrategy::OnDelete)]
}

/// The result of a step: determined if there was nothing to do, otherwise random.
fn fared(step: ChildStep<'_>, luck: u8) -> Applied {
    match (step, luck) {
        (ChildStep::Keep, _) => Applied::Done,
        (ChildStep::Wait { ours: true }, _) | (ChildStep::Replace { .. }, 1) => Applied::Pending,
        (ChildStep::Wait { ours: false }, _) => Applied::PendingUnseen,
        (ChildStep::Leave { .. }, _) | (_, 0) => Applied::Failed(Failure::Transient("refused".into())),
        (_, 2) => Applied::NotTried,
        (ChildStep::Create | ChildStep::Update { .. } | ChildStep::Replace { .. } | ChildStep::Adopt { .. }, _) => {
            Applied::Done
        }
    }
}

fn names(answer: &Composition) -> Vec<(String, String)> {
    let parse = |text: &String| serde_json::from_str::<Value>(text).expect("it has been checked");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    answer.children.iter().map(parse).map(|it| (text(&it["kind"]), text(&it["metadata"]["name"]))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_024, ..ProptestConfig::default() })]

    #[test]
    fn exactly_the_right_children_are_pruned(
        found in found(),
        answer in answer(),
        strategy in strategy(),
        luck in prop::collection::vec(prop_oneof![1 => Just(0_u8), 1 => Just(1), 1 => Just(2), 30 => Just(9)], 6),
    ) {
        let parent = parent();
        let Ok(wanted) = Wanted::read(&answer, &parent, &owns(strategy)) else {
            // An invalid answer has no further consequences: pruning requires a checked answer.
            return Ok(());
        };
        let observed: Vec<ObservedChildren> = found.iter().map(Found::observed).collect();
        let of = |kind: &ObjectKind, key: &ObjectKey| observed.iter().find(|it| it.kind == *kind && it.key == *key);
        let steps: Vec<_> = wanted.children.iter().map(|it| step(&parent, it, of(&it.kind, &it.key))).collect();
        let applied: Vec<Applied> = steps.iter().zip(&luck).map(|(step, luck)| fared(*step, *luck)).collect();
        // The host sees the children that the parent controls.
        let children: Vec<ObservedChildren> =
            observed.iter().filter(|it| it.controller.as_deref() == Some("ours")).cloned().collect();
        let pruning = prune(&parent, &wanted, &applied, &children);
        // The result must be the same if the host sees other children too.
        prop_assert_eq!(&pruning, &prune(&parent, &wanted, &applied, &observed));

        let composed = names(&answer);
        let may_prune = applied.iter().all(|it| *it == Applied::Done) && (!composed.is_empty() || answer.allow_empty);
        let goes = |it: &Found| {
            it.controller == Some("ours")
                && it.created_by == Some(PLUGIN)
                && !it.deleting
                && !composed.contains(&(it.kind.to_owned(), format!("c{}", it.name)))
        };
        let due: Vec<&Found> = found.iter().filter(|it| goes(it)).collect();
        let mut expected: Vec<Arc<str>> = if may_prune { due.iter().map(|it| it.uid().into()).collect() } else { vec![] };
        let mut doomed: Vec<Arc<str>> = pruning.doomed.iter().filter_map(|it| it.target.uid.clone()).collect();
        expected.sort();
        doomed.sort();
        prop_assert_eq!(doomed, expected);
        prop_assert!(pruning.doomed.iter().all(|it| &*it.version == "7"), "a changed child must be judged again");
        let withheld = match &pruning.withheld {
            None => 0,
            Some(Withheld::Empty(count) | Withheld::Unfinished(count)) => *count,
        };
        prop_assert_eq!(withheld, if may_prune { 0 } else { due.len() }, "withheld children are reported");
    }

    #[test]
    fn children_of_other_parents_are_never_forced_or_labelled(
        found in found(),
        answer in answer(),
        strategy in strategy(),
    ) {
        let parent = parent();
        let Ok(wanted) = Wanted::read(&answer, &parent, &owns(strategy)) else { return Ok(()) };
        let observed: Vec<ObservedChildren> = found.iter().map(Found::observed).collect();
        for child in &wanted.children {
            let there = observed.iter().find(|it| it.kind == child.kind && it.key == child.key);
            let ours = there.is_some_and(|it| it.controller.as_deref() == Some("ours"));
            match step(&parent, child, there) {
                ChildStep::Create => prop_assert!(there.is_none()),
                ChildStep::Update { marked, .. } | ChildStep::Replace { marked, .. } => {
                    prop_assert!(ours && marked == (there.and_then(|it| it.created_by.as_deref()) == Some(PLUGIN)));
                }
                ChildStep::Keep => prop_assert!(ours),
                ChildStep::Adopt { .. } | ChildStep::Leave { .. } => prop_assert!(!ours),
                ChildStep::Wait { ours: told } => prop_assert!(told == ours && there.is_some_and(|it| it.deleting)),
            }
        }
    }
}
