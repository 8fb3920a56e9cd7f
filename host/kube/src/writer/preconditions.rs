//! Extracts the preconditions of a write from its request, as the server will interpret them. `core::settle` decides
//! whether they fail for good.

use serde::Deserialize;
use serde_json::Value;
use windlass_core::object::compact::Version;
use windlass_core::write::PatchType;
use windlass_core::write::settle::Preconditions;

use crate::writer::plan::{How, Plan};

/// The preconditions of `plan`, as far as it is certain that the server checks them.
pub(crate) fn of(plan: &Plan) -> Preconditions {
    let how = plan.how;
    let named = serde_json::from_slice::<Value>(&plan.mutation.body).map(|body| match (how, &*plan.subresource) {
        (How::Delete, "") => PreconditionFields::of(&body["preconditions"]),
        (How::Create, "eviction") => PreconditionFields::of(&body["deleteOptions"]["preconditions"]),
        (How::Patch(PatchType::Json), "" | "status") => PreconditionFields::by_operations(&body),
        (How::Update | How::Apply | How::Patch(_), "" | "status") => PreconditionFields::of(&body["metadata"]),
        _ => PreconditionFields::default(),
    });
    let PreconditionFields { uid, resource_version } = named.unwrap_or_default();
    // For a patch of a status, the server takes the metadata from the existing object before it compares the UID.
    let tests_uid = how == How::Update || &*plan.subresource != "status";
    let uid = uid.filter(|uid| tests_uid && !uid.is_empty());
    Preconditions {
        uid: uid.as_deref().map(Into::into),
        version: resource_version.as_deref().and_then(|version| Version::from(version).number()),
        may_create: matches!(how, How::Update | How::Apply),
    }
}

/// The UID and the version, as in metadata and `DeleteOptions`.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct PreconditionFields {
    uid: Option<String>,
    resource_version: Option<String>,
}

impl PreconditionFields {
    fn of(value: &Value) -> Self {
        Self::deserialize(value).unwrap_or_default()
    }

    /// Reads the fields from the last operations of a JSON patch. The planner puts them there, so that no later
    /// operation undoes them.
    fn by_operations(patch: &Value) -> Self {
        let mut named = Self::default();
        for operation in patch.as_array().into_iter().flatten().rev() {
            let value = operation["value"].as_str().filter(|_| operation["op"] == "replace").map(str::to_owned);
            match operation["path"].as_str() {
                Some("/metadata/uid") if named.uid.is_none() && value.is_some() => named.uid = value,
                Some("/metadata/resourceVersion") if named.resource_version.is_none() && value.is_some() => {
                    named.resource_version = value;
                }
                _ => break,
            }
        }
        named
    }
}
