//! `writes`: changes, single or in a batch, with all their options.

use serde::Deserialize;
use serde_json::Value;
use windlass_sdk::bindings::windlass::plugin::writes;

use crate::script::read;
use crate::wire::{self, Answer, ObjectKind, ObjectRef};

/// A change, single or in a batch.
#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "camelCase")]
enum Operation {
    Create(ObjectWrite),
    Update(ObjectWrite),
    Patch(PatchWrite),
    Apply(ObjectWrite),
    Delete(DeleteWrite),
}

/// The object may be JSON or any text.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ObjectWrite {
    object: Value,
    #[serde(default)]
    options: WriteOptions,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PatchWrite {
    target: ObjectRef,
    patch_type: PatchType,
    patch: Value,
    #[serde(default)]
    options: WriteOptions,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DeleteWrite {
    target: ObjectRef,
    #[serde(default)]
    options: DeleteOptions,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct WriteOptions {
    subresource: Option<Subresource>,
    resource_version: Option<String>,
    owned: bool,
    force: bool,
    dry_run: bool,
    field_validation: FieldValidation,
    manager_suffix: Option<String>,
    fields: Option<Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct DeleteOptions {
    resource_version: Option<String>,
    propagation: Propagation,
    grace_period_ms: Option<u32>,
    dry_run: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Subresource {
    name: String,
    parent: Option<ObjectRef>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum FieldValidation {
    #[default]
    Strict,
    Warn,
    Ignore,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum PatchType {
    Merge,
    Json,
    Strategic,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Propagation {
    #[default]
    Background,
    Foreground,
    Orphan,
}

impl From<WriteOptions> for writes::WriteOptions {
    fn from(options: WriteOptions) -> Self {
        let subresource = |it: Subresource| writes::Subresource { name: it.name, parent: it.parent.map(Into::into) };
        Self {
            subresource: options.subresource.map(subresource),
            resource_version: options.resource_version,
            owned: options.owned,
            force: options.force,
            dry_run: options.dry_run,
            field_validation: match options.field_validation {
                FieldValidation::Strict => writes::FieldValidation::Strict,
                FieldValidation::Warn => writes::FieldValidation::Warn,
                FieldValidation::Ignore => writes::FieldValidation::Ignore,
            },
            manager_suffix: options.manager_suffix,
            fields: options.fields,
        }
    }
}

impl From<DeleteOptions> for writes::DeleteOptions {
    fn from(options: DeleteOptions) -> Self {
        Self {
            resource_version: options.resource_version,
            propagation: match options.propagation {
                Propagation::Background => writes::Propagation::Background,
                Propagation::Foreground => writes::Propagation::Foreground,
                Propagation::Orphan => writes::Propagation::Orphan,
            },
            grace_period_ms: options.grace_period_ms,
            dry_run: options.dry_run,
        }
    }
}

impl From<ObjectWrite> for writes::ObjectWrite {
    fn from(write: ObjectWrite) -> Self {
        Self { object: body(write.object), options: write.options.into() }
    }
}

impl From<PatchWrite> for writes::PatchWrite {
    fn from(write: PatchWrite) -> Self {
        let patch_type = match write.patch_type {
            PatchType::Merge => writes::PatchType::Merge,
            PatchType::Json => writes::PatchType::Json,
            PatchType::Strategic => writes::PatchType::Strategic,
        };
        Self { target: write.target.into(), patch_type, patch: body(write.patch), options: write.options.into() }
    }
}

impl From<DeleteWrite> for writes::DeleteWrite {
    fn from(write: DeleteWrite) -> Self {
        Self { target: write.target.into(), options: write.options.into() }
    }
}

impl From<Operation> for writes::Operation {
    fn from(operation: Operation) -> Self {
        match operation {
            Operation::Create(write) => Self::Create(write.into()),
            Operation::Update(write) => Self::Update(write.into()),
            Operation::Patch(write) => Self::Patch(write.into()),
            Operation::Apply(write) => Self::Apply(write.into()),
            Operation::Delete(write) => Self::Delete(write.into()),
        }
    }
}

/// A text is sent unchanged, and any other value as JSON.
fn body(value: Value) -> String {
    match value {
        Value::String(text) => text,
        value => value.to_string(),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Batch {
    operations: Vec<Operation>,
}

/// As `writes.collection`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Collection {
    kind: ObjectKind,
    namespace: Option<String>,
    label_selector: Option<String>,
    field_selector: Option<String>,
    #[serde(default)]
    all: bool,
}

impl From<Collection> for writes::Collection {
    fn from(collection: Collection) -> Self {
        let Collection { kind, namespace, label_selector, field_selector, all } = collection;
        Self { kind: kind.into(), namespace, label_selector, field_selector, all }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeleteCollection {
    collection: Collection,
    #[serde(default)]
    options: DeleteOptions,
}

pub(crate) fn call(function: &str, arguments: Value) -> Option<Answer> {
    Some(match function {
        "create" => {
            let write = writes::ObjectWrite::from(read::<ObjectWrite>("writes.create", arguments));
            wire::object(writes::create(&write.object, &write.options))
        }
        "update" => {
            let write = writes::ObjectWrite::from(read::<ObjectWrite>("writes.update", arguments));
            wire::object(writes::update(&write.object, &write.options))
        }
        "apply" => {
            let write = writes::ObjectWrite::from(read::<ObjectWrite>("writes.apply", arguments));
            wire::object(writes::apply(&write.object, &write.options))
        }
        "patch" => {
            let write = writes::PatchWrite::from(read::<PatchWrite>("writes.patch", arguments));
            wire::object(writes::patch(&write.target, write.patch_type, &write.patch, &write.options))
        }
        "delete" => {
            let write = writes::DeleteWrite::from(read::<DeleteWrite>("writes.delete", arguments));
            wire::optional(writes::delete(&write.target, &write.options))
        }
        "delete-collection" => {
            let DeleteCollection { collection, options } = read("writes.delete-collection", arguments);
            let deleted = writes::delete_collection(&collection.into(), &options.into());
            let shown = |deleted: Vec<_>| deleted.iter().map(wire::object_ref).collect();
            deleted.map(|deleted| deleted.map_or(Value::Null, shown)).map_err(|error| wire::api_error(&error))
        }
        "batch" => {
            let operations = read::<Batch>("writes.batch", arguments).operations;
            let operations: Vec<_> = operations.into_iter().map(Into::into).collect();
            let answers = writes::batch(&operations);
            Ok(answers.into_iter().map(|answer| wire::nested(wire::optional(answer))).collect())
        }
        _ => return None,
    })
}
