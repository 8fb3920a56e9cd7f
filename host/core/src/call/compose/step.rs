//! Decides what is done about one child, and what a refusal of it means.

use serde_json::Value;

use super::{Child, CompositeParent, ObservedChildren, UpdateStrategy};
use crate::error::{ApiError, ApiReason};
use crate::queue::outcome::Failure;

/// The step to take about a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildStep<'a> {
    /// It is not there: apply, marked as created by the plugin, taking no field from anybody.
    Create,
    /// The parent controls it: apply, and take its fields from whoever has them. With the mark if it has it.
    Update {
        /// The child to update.
        observed: &'a ObservedChildren,
        /// It carries the mark.
        marked: bool,
    },
    /// As [`ChildStep::Update`], but what is not metadata cannot change: find out whether it would, and if so replace it.
    Replace {
        /// The child that would be replaced.
        observed: &'a ObservedChildren,
        /// It carries the mark.
        marked: bool,
    },
    /// It is there and does not change until somebody deletes it.
    Keep,
    /// It is there and nobody controls it: apply without mark, taking no field from anybody.
    Adopt {
        /// The child to adopt.
        observed: &'a ObservedChildren,
    },
    /// It is being deleted, and takes no changes that would last.
    Wait {
        /// That it has gone will run the parent again.
        ours: bool,
    },
    /// Somebody else controls it.
    Leave {
        /// The child, with its controller.
        observed: &'a ObservedChildren,
    },
}

impl ChildStep<'_> {
    /// Whether it is still taken for a parent that is being deleted. It gets nothing more, and takes nothing on: what came new
    /// would go with it, or keep it.
    #[must_use]
    pub fn is_for_who_goes(&self) -> bool {
        match self {
            Self::Update { .. } | Self::Keep | Self::Wait { .. } => true,
            Self::Create | Self::Replace { .. } | Self::Adopt { .. } | Self::Leave { .. } => false,
        }
    }
}

/// Decides about `child`, of which the cache has `observed`.
#[must_use]
pub fn step<'a>(parent: &CompositeParent, child: &Child, observed: Option<&'a ObservedChildren>) -> ChildStep<'a> {
    let Some(observed) = observed else { return ChildStep::Create };
    let ours = parent.controls(observed);
    match (&observed.controller, child.strategy) {
        (Some(_), _) if !ours => ChildStep::Leave { observed },
        _ if observed.deleting => ChildStep::Wait { ours },
        (None, _) => ChildStep::Adopt { observed },
        (Some(_), UpdateStrategy::InPlace) => ChildStep::Update { observed, marked: parent.created(observed) },
        (Some(_), UpdateStrategy::Recreate) => ChildStep::Replace { observed, marked: parent.created(observed) },
        (Some(_), UpdateStrategy::OnDelete) => ChildStep::Keep,
    }
}

/// How a child's step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It is as it was composed, or as its strategy wants it.
    Done,
    /// It will be, after something else has happened, and the parent runs again then.
    Pending,
    /// As [`Applied::Pending`], but nobody will tell: ask again after a while.
    PendingUnseen,
    Failed(Failure),
    /// It was not tried, because another child's failure says that it would fail too.
    NotTried,
}

/// The part of a child that would change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildChange {
    None,
    /// Nothing but metadata, which every kind lets change.
    Metadata,
    Content,
}

/// How `after`, the server's answer to a dry run, differs from `before`, the cached object. Versions and status do not
/// count. A text that does not parse counts as no change: nothing is deleted for it.
#[must_use]
pub fn change(before: &str, after: &str) -> ChildChange {
    let parse = |text: &str| serde_json::from_str::<Value>(text).ok().as_ref().and_then(content);
    match (parse(before), parse(after)) {
        (Some((before, _)), Some((after, _))) if before != after => ChildChange::Content,
        (Some((_, before)), Some((_, after))) if before != after => ChildChange::Metadata,
        _ => ChildChange::None,
    }
}

/// An object's content, and the part of its metadata that people set.
fn content(object: &Value) -> Option<(Value, Value)> {
    let mut rest = object.as_object()?.clone();
    rest.remove("status");
    let mut metadata = rest.remove("metadata")?;
    for field in ["resourceVersion", "generation", "managedFields"] {
        metadata.as_object_mut()?.remove(field);
    }
    Some((Value::Object(rest), metadata))
}

/// The consequence for the key if a child that the parent controls could not be applied in place.
///
/// A change of what cannot change is refused each time: it is told once, not tried again until something else happens.
#[must_use]
pub fn refused(child: &Child, error: ApiError) -> Failure {
    if error.reason == ApiReason::Invalid && says_immutable(&error.message) {
        return Failure::Terminal(format!(
            "{} cannot be changed in place: {}; delete it, or let the manifest say `updateStrategy: recreate` for {}",
            child.reference(),
            error.message,
            child.kind,
        ));
    }
    Failure::Api(error)
}

/// Kubernetes has no reason of its own for it, only words.
fn says_immutable(message: &str) -> bool {
    const WORDS: [&str; 6] =
        ["immutable", "may not change", "may not be changed", "cannot change", "cannot be changed", "updates to "];
    WORDS.iter().any(|words| message.contains(words))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::call::compose::{CREATED_BY, Composition, OwnedKind, Wanted};
    use crate::object::{ObjectKey, ObjectKind};

    fn parent() -> CompositeParent {
        CompositeParent {
            plugin: "webapp".into(),
            kind: ObjectKind::new("apps.kubedojo.io/v1beta1", "WebApp"),
            key: ObjectKey::namespaced("prod", "shop"),
            uid: "u-1".into(),
        }
    }

    fn kind() -> ObjectKind {
        ObjectKind::new("v1", "ConfigMap")
    }

    fn child(strategy: UpdateStrategy) -> Child {
        let text = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#.to_owned();
        let answer = Composition { children: vec![text], ..Composition::default() };
        let owned = OwnedKind { kind: kind(), namespaced: true, namespaces: None, strategy };
        Wanted::read(&answer, &parent(), &[owned]).expect("valid").children.remove(0)
    }

    fn observed(controller: Option<&str>, created_by: &str, deleting: bool) -> ObservedChildren {
        let owners = controller.map(|uid| json!([{"kind": "WebApp", "name": "x", "uid": uid, "controller": true}]));
        let object = json!({"metadata": {
            "name": "a", "namespace": "prod", "uid": "c-1", "resourceVersion": "7", "ownerReferences": owners,
            "labels": {CREATED_BY: created_by}, "deletionTimestamp": deleting.then_some("2026-01-01T00:00:00Z"),
        }});
        ObservedChildren::read(&kind(), object.to_string().into()).expect("an object")
    }

    #[test]
    fn each_state_of_a_child_has_its_step() {
        use UpdateStrategy::{InPlace, OnDelete, Recreate};
        let decide = |strategy, observed: &ObservedChildren| match step(&parent(), &child(strategy), Some(observed)) {
            ChildStep::Create => "create",
            ChildStep::Update { marked: true, .. } => "update, marked",
            ChildStep::Update { marked: false, .. } => "update",
            ChildStep::Replace { .. } => "replace",
            ChildStep::Keep => "keep",
            ChildStep::Adopt { .. } => "adopt",
            ChildStep::Wait { ours: true } => "wait",
            ChildStep::Wait { ours: false } => "wait, unseen",
            ChildStep::Leave { .. } => "leave",
        };
        for strategy in [InPlace, Recreate, OnDelete] {
            assert_eq!(step(&parent(), &child(strategy), None), ChildStep::Create);
            assert_eq!(decide(strategy, &observed(None, "", false)), "adopt");
            assert_eq!(decide(strategy, &observed(None, "webapp", false)), "adopt");
            assert_eq!(decide(strategy, &observed(Some("u-2"), "webapp", false)), "leave");
            assert_eq!(decide(strategy, &observed(Some("u-2"), "webapp", true)), "leave");
            assert_eq!(decide(strategy, &observed(Some("u-1"), "webapp", true)), "wait");
            assert_eq!(decide(strategy, &observed(None, "", true)), "wait, unseen");
        }
        assert_eq!(decide(InPlace, &observed(Some("u-1"), "webapp", false)), "update, marked");
        assert_eq!(decide(InPlace, &observed(Some("u-1"), "another", false)), "update");
        assert_eq!(decide(OnDelete, &observed(Some("u-1"), "webapp", false)), "keep");
        assert_eq!(decide(Recreate, &observed(Some("u-1"), "webapp", false)), "replace");
    }

    #[test]
    fn only_what_is_not_metadata_nor_status_asks_for_a_replacement() {
        let text = |version: &str, label: &str, data: &str, status: &str| {
            json!({
                "metadata": {"name": "a", "resourceVersion": version, "generation": 1, "labels": {"l": label}},
                "data": data, "status": status,
            })
            .to_string()
        };
        let before = text("1", "a", "x", "old");
        assert_eq!(change(&before, &text("2", "a", "x", "new")), ChildChange::None);
        assert_eq!(change(&before, &text("2", "b", "x", "new")), ChildChange::Metadata);
        assert_eq!(change(&before, &text("2", "b", "y", "new")), ChildChange::Content);
        assert_eq!(change(&before, "nonsense"), ChildChange::None);
    }

    #[test]
    fn a_change_of_what_cannot_change_is_told_with_a_remedy_and_not_retried() {
        let refusal = |reason, message: &str| {
            let error = ApiError::refused(reason, "patch", "services", None, message);
            refused(&child(UpdateStrategy::InPlace), error)
        };
        let clear = refusal(ApiReason::Invalid, "spec.clusterIPs[0]: Invalid value: may not change once set");
        assert!(matches!(&clear, Failure::Terminal(told) if told.contains("recreate")), "{clear:?}");
        assert!(matches!(refusal(ApiReason::Invalid, "spec.port: out of range"), Failure::Api(_)));
        assert!(matches!(refusal(ApiReason::Conflict, "immutable"), Failure::Api(_)));
    }
}
