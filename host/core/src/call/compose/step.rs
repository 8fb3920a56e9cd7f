//! Decides what to do about one child, and what it means if the server refuses to write the child.

use serde_json::Value;

use super::{Child, CompositeParent, ObservedChildren, UpdateStrategy};
use crate::error::{ApiError, ApiReason};
use crate::queue::outcome::Failure;

/// The step to take about a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildStep<'a> {
    /// The child does not exist: apply it with the created-by label, without forcing conflicts.
    Create,
    /// The parent controls the child: apply it and force conflicts. Keep the created-by label if the child has it.
    Update {
        /// The child to update.
        observed: &'a ObservedChildren,
        /// Whether the child has the created-by label.
        marked: bool,
    },
    /// As [`ChildStep::Update`], but only metadata can change in place. If a dry run shows that anything else would
    /// change, replace the child.
    Replace {
        /// The child that would be replaced.
        observed: &'a ObservedChildren,
        /// Whether the child has the created-by label.
        marked: bool,
    },
    /// The child exists and does not change until it is deleted.
    Keep,
    /// The child exists and has no controller: apply it without the label and without forcing conflicts.
    Adopt {
        /// The child to adopt.
        observed: &'a ObservedChildren,
    },
    /// The child is being deleted, so no change would last.
    Wait {
        /// Whether the event of the child's deletion will run the parent again.
        ours: bool,
    },
    /// Another owner controls the child: leave it alone.
    Leave {
        /// The child, with its controller.
        observed: &'a ObservedChildren,
    },
}

impl ChildStep<'_> {
    /// Whether the step is taken for a parent that is being deleted. Such a parent creates and adopts nothing more:
    /// new children would be deleted with it, or would block its deletion.
    #[must_use]
    pub fn is_for_deleted_parent(&self) -> bool {
        match self {
            Self::Update { .. } | Self::Keep | Self::Wait { .. } => true,
            Self::Create | Self::Replace { .. } | Self::Adopt { .. } | Self::Leave { .. } => false,
        }
    }
}

/// Decides about `child`. `observed` is the child in the cache.
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

/// How the step for a child ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// The child is as composed, or as its update strategy wants it.
    Done,
    /// The child will be as composed after another event, which runs the parent again.
    Pending,
    /// As [`Applied::Pending`], but no event will come: compose again after a delay.
    PendingUnseen,
    Failed(Failure),
    /// The step was not tried, because another child's failure shows that it would fail too.
    NotTried,
}

/// The part of a child that would change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildChange {
    None,
    /// Only metadata, which every kind lets change.
    Metadata,
    Content,
}

/// How `after`, the server's answer to a dry run, differs from `before`, the cached object. Versions and status do
/// not count. Text that cannot be parsed counts as no change, so that nothing is deleted because of it.
#[must_use]
pub fn change(before: &str, after: &str) -> ChildChange {
    let parse = |text: &str| serde_json::from_str::<Value>(text).ok().as_ref().and_then(content);
    match (parse(before), parse(after)) {
        (Some((before, _)), Some((after, _))) if before != after => ChildChange::Content,
        (Some((_, before)), Some((_, after))) if before != after => ChildChange::Metadata,
        _ => ChildChange::None,
    }
}

/// An object's content, and the metadata that people set.
fn content(object: &Value) -> Option<(Value, Value)> {
    let mut rest = object.as_object()?.clone();
    rest.remove("status");
    let mut metadata = rest.remove("metadata")?;
    for field in ["resourceVersion", "generation", "managedFields"] {
        metadata.as_object_mut()?.remove(field);
    }
    Some((Value::Object(rest), metadata))
}

/// The failure of the key if a child that the parent controls could not be applied in place.
///
/// A change to an immutable field is refused every time. So it is reported once, and not retried until another event
/// runs the key.
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

/// Kubernetes reports immutable fields in the message only, without a reason of its own.
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
    fn only_changes_beyond_metadata_and_status_replace_a_child() {
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
    fn an_immutable_change_is_reported_with_a_remedy_and_not_retried() {
        let refusal = |reason, message: &str| {
            let error = ApiError::refused(reason, "patch", "services", None, message);
            refused(&child(UpdateStrategy::InPlace), error)
        };
        let clear = refusal(ApiReason::Invalid, "spec.clusterIPs[0]: Invalid value: may not change once set");
        assert!(matches!(&clear, Failure::Terminal(message) if message.contains("recreate")), "{clear:?}");
        assert!(matches!(refusal(ApiReason::Invalid, "spec.port: out of range"), Failure::Api(_)));
        assert!(matches!(refusal(ApiReason::Conflict, "immutable"), Failure::Api(_)));
    }
}
