//! `writes`: changes to the API.

use starlark::collections::SmallMap;
use starlark::environment::GlobalsBuilder;
use starlark::starlark_module;
use starlark::values::dict::{AllocDict, DictRef};
use starlark::values::list::AllocList;
use starlark::values::structs::AllocStruct;
use starlark::values::{Heap, Value};
use windlass_sdk::Error;
use windlass_sdk::bindings::windlass::plugin::types::{ApiError, ApiReason, ObjectRef};
use windlass_sdk::bindings::windlass::plugin::writes::{
    self, Collection, DeleteOptions, DeleteWrite, FieldValidation, ObjectWrite, Operation, PatchType, PatchWrite,
    Propagation, Subresource, WriteOptions,
};
use windlass_sdk::writes::Ensured;

use super::cache::settled;
use super::{in_call, object, optional_object};
use crate::arguments::{
    Options, elements, json, kind as kind_of, misfit, number, object as object_of, reference, reference_value, text,
    wrong,
};
use crate::failures::throw;

type Given<'v> = SmallMap<String, Value<'v>>;

#[starlark_module]
pub(crate) fn functions(builder: &mut GlobalsBuilder) {
    fn create<'v>(
        #[starlark(require = pos)] object: Value<'v>,
        #[starlark(kwargs)] options: SmallMap<String, Value<'v>>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let ObjectWrite { object, options } = object_write("writes.create", object, options)?;
        written(heap, writes::create(&object, &options))
    }

    fn update<'v>(
        #[starlark(require = pos)] object: Value<'v>,
        #[starlark(kwargs)] options: SmallMap<String, Value<'v>>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let ObjectWrite { object, options } = object_write("writes.update", object, options)?;
        written(heap, writes::update(&object, &options))
    }

    fn apply<'v>(
        #[starlark(require = pos)] object: Value<'v>,
        #[starlark(kwargs)] options: SmallMap<String, Value<'v>>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let ObjectWrite { object, options } = object_write("writes.apply", object, options)?;
        written(heap, writes::apply(&object, &options))
    }

    // Follows the Rust SDK's rules (sdk/rust/src/writes/ensure.rs).
    fn ensure<'v>(#[starlark(require = pos)] object: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        in_call("writes.ensure")?;
        let desired = object_of(object, "the object of writes.ensure")?;
        let desired: serde_json::Value = serde_json::from_str(&desired).map_err(wrong)?;
        let ensured = windlass_sdk::writes::ensure(&desired).map_err(|error| match error {
            Error::Api(error) => throw(ApiError::from(*error)),
            Error::Json(error) => wrong(error),
        })?;
        let (effect, now) = match &ensured {
            Ensured::Unchanged(now) => ("unchanged", now),
            Ensured::Created(now) => ("created", now),
            Ensured::Patched(now) => ("patched", now),
        };
        Ok(heap.alloc(AllocStruct([("object", super::object(heap, now.json())?), ("effect", heap.alloc(effect))])))
    }

    fn apply_status<'v>(
        #[starlark(require = pos)] target: Value<'v>,
        #[starlark(require = pos)] status: Value<'v>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        in_call("writes.apply_status")?;
        let target = reference(target, "the target of writes.apply_status")?;
        let status = object_of(status, "the status of writes.apply_status")?;
        let object = named(&target, &format!("\"status\":{status}"));
        let subresource = Some(Subresource { name: "status".to_owned(), parent: None });
        written(heap, writes::apply(&object, &WriteOptions { subresource, force: true, ..plain() }))
    }

    fn patch<'v>(
        #[starlark(require = pos)] target: Value<'v>,
        #[starlark(require = pos)] patch: Value<'v>,
        #[starlark(kwargs)] options: SmallMap<String, Value<'v>>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        in_call("writes.patch")?;
        let PatchWrite { target, patch_type, patch, options } =
            patch_write(target, patch, Options::new("writes.patch", options))?;
        written(heap, writes::patch(&target, patch_type, &patch, &options))
    }

    fn scale<'v>(
        #[starlark(require = pos)] target: Value<'v>,
        #[starlark(require = pos)] replicas: Value<'v>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        in_call("writes.scale")?;
        let target = reference(target, "the target of writes.scale")?;
        let replicas = number(replicas, "the replicas of writes.scale")?;
        let subresource = Some(Subresource { name: "scale".to_owned(), parent: None });
        let patch = format!("{{\"spec\":{{\"replicas\":{replicas}}}}}");
        written(heap, writes::patch(&target, PatchType::Merge, &patch, &WriteOptions { subresource, ..plain() }))
    }

    fn delete<'v>(
        #[starlark(require = pos)] target: Value<'v>,
        #[starlark(kwargs)] options: SmallMap<String, Value<'v>>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        in_call("writes.delete")?;
        let DeleteWrite { target, options } = delete_write(target, Options::new("writes.delete", options))?;
        optional_object(heap, writes::delete(&target, &options).map_err(throw)?)
    }

    fn delete_collection<'v>(
        #[starlark(require = pos)] api_version: &str,
        #[starlark(require = pos)] kind: &str,
        #[starlark(kwargs)] options: SmallMap<String, Value<'v>>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        in_call("writes.delete_collection")?;
        let mut options = Options::new("writes.delete_collection", options);
        let collection = Collection {
            kind: kind_of(api_version, kind),
            namespace: options.text("namespace")?,
            label_selector: options.text("label_selector")?,
            field_selector: options.text("field_selector")?,
            all: options.flag("all")?,
        };
        let deletion = delete_options(&mut options, None)?;
        options.end()?;
        let Some(deleted) = writes::delete_collection(&collection, &deletion).map_err(throw)? else {
            return Ok(Value::new_none());
        };
        Ok(heap.alloc(AllocList(deleted.iter().map(|target| reference_value(heap, target)))))
    }

    fn evict<'v>(
        #[starlark(require = pos)] pod: Value<'v>,
        #[starlark(kwargs)] options: SmallMap<String, Value<'v>>,
    ) -> starlark::Result<Value<'v>> {
        in_call("writes.evict")?;
        let mut options = Options::new("writes.evict", options);
        let dry_run = options.flag("dry_run")?;
        options.end()?;
        let pod = reference(pod, "the Pod of writes.evict")?;
        match evicted(&pod, dry_run) {
            // If the server does not serve evictions, the error names no Pod.
            Err(error) if error.reason != ApiReason::NotFound || error.object.is_none() => Err(throw(error)),
            _ => Ok(Value::new_none()),
        }
    }

    fn batch<'v>(#[starlark(require = pos)] operations: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        in_call("writes.batch")?;
        let operations = elements(operations, "the operations of writes.batch")?;
        let operations: starlark::Result<Vec<_>> = operations.into_iter().map(operation).collect();
        settled(heap, writes::batch(&operations?))
    }

    fn op_create<'v>(
        #[starlark(require = pos)] object: Value<'v>,
        #[starlark(kwargs)] options: SmallMap<String, Value<'v>>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        Ok(operation_value(heap, "create", &[("object", object)], options))
    }

    fn op_update<'v>(
        #[starlark(require = pos)] object: Value<'v>,
        #[starlark(kwargs)] options: SmallMap<String, Value<'v>>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        Ok(operation_value(heap, "update", &[("object", object)], options))
    }

    fn op_apply<'v>(
        #[starlark(require = pos)] object: Value<'v>,
        #[starlark(kwargs)] options: SmallMap<String, Value<'v>>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        Ok(operation_value(heap, "apply", &[("object", object)], options))
    }

    fn op_patch<'v>(
        #[starlark(require = pos)] target: Value<'v>,
        #[starlark(require = pos)] patch: Value<'v>,
        #[starlark(kwargs)] options: SmallMap<String, Value<'v>>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        Ok(operation_value(heap, "patch", &[("target", target), ("patch", patch)], options))
    }

    fn op_delete<'v>(
        #[starlark(require = pos)] target: Value<'v>,
        #[starlark(kwargs)] options: SmallMap<String, Value<'v>>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        Ok(operation_value(heap, "delete", &[("target", target)], options))
    }
}

fn written(heap: Heap<'_>, answer: Result<String, ApiError>) -> starlark::Result<Value<'_>> {
    object(heap, &answer.map_err(throw)?)
}

/// The default options of a write.
fn plain() -> WriteOptions {
    WriteOptions {
        subresource: None,
        resource_version: None,
        owned: false,
        force: false,
        dry_run: false,
        field_validation: FieldValidation::Strict,
        manager_suffix: None,
        fields: None,
    }
}

fn write_options(options: &mut Options<'_>) -> starlark::Result<WriteOptions> {
    const VALIDATIONS: [(&str, FieldValidation); 3] =
        [("strict", FieldValidation::Strict), ("warn", FieldValidation::Warn), ("ignore", FieldValidation::Ignore)];
    let (name, parent) = (options.text("subresource")?, options.reference("parent")?);
    let subresource = match (name, parent) {
        (None, Some(_)) => return Err(wrong("`parent` says whose subresource is written: give `subresource`, too")),
        (name, parent) => name.map(|name| Subresource { name, parent }),
    };
    Ok(WriteOptions {
        subresource,
        resource_version: options.text("resource_version")?,
        owned: options.flag("owned")?,
        force: options.flag("force")?,
        dry_run: options.flag("dry_run")?,
        field_validation: options.one_of("field_validation", &VALIDATIONS)?,
        manager_suffix: options.text("manager_suffix")?,
        fields: options.texts("fields")?,
    })
}

fn object_write<'v>(function: &'static str, object: Value<'v>, options: Given<'v>) -> starlark::Result<ObjectWrite> {
    in_call(function)?;
    let mut options = Options::new(function, options);
    let write = ObjectWrite {
        object: object_of(object, &format!("the object of {function}"))?,
        options: write_options(&mut options)?,
    };
    options.end()?;
    Ok(write)
}

fn patch_write(target: Value<'_>, patch: Value<'_>, mut options: Options<'_>) -> starlark::Result<PatchWrite> {
    const TYPES: [(&str, PatchType); 3] =
        [("merge", PatchType::Merge), ("json", PatchType::Json), ("strategic", PatchType::Strategic)];
    let write = PatchWrite {
        target: reference(target, "the target of a patch")?,
        patch_type: options.one_of("patch_type", &TYPES)?,
        patch: json(patch, "the patch")?,
        options: write_options(&mut options)?,
    };
    options.end()?;
    Ok(write)
}

fn delete_options(options: &mut Options<'_>, resource_version: Option<String>) -> starlark::Result<DeleteOptions> {
    const PROPAGATIONS: [(&str, Propagation); 3] = [
        ("background", Propagation::Background),
        ("foreground", Propagation::Foreground),
        ("orphan", Propagation::Orphan),
    ];
    Ok(DeleteOptions {
        resource_version,
        propagation: options.one_of("propagation", &PROPAGATIONS)?,
        grace_period_ms: options.milliseconds("grace_period_ms")?,
        dry_run: options.flag("dry_run")?,
    })
}

fn delete_write(target: Value<'_>, mut options: Options<'_>) -> starlark::Result<DeleteWrite> {
    let version = options.text("resource_version")?;
    let write = DeleteWrite {
        target: reference(target, "the target of a deletion")?,
        options: delete_options(&mut options, version)?,
    };
    options.end()?;
    Ok(write)
}

/// An object with the reference's name and one more field.
fn named(target: &ObjectRef, field: &str) -> String {
    let quoted = |text: &str| serde_json::to_string(text).unwrap_or_default();
    let namespace = target.namespace.as_deref().map(|namespace| format!(",\"namespace\":{}", quoted(namespace)));
    format!(
        "{{\"apiVersion\":{},\"kind\":{},\"metadata\":{{\"name\":{}{}}},{field}}}",
        quoted(&target.api_version),
        quoted(&target.kind),
        quoted(&target.name),
        namespace.unwrap_or_default()
    )
}

fn evicted(pod: &ObjectRef, dry_run: bool) -> Result<String, ApiError> {
    let uid = pod.uid.as_deref().map(|uid| serde_json::json!({"preconditions": {"uid": uid}}).to_string());
    let eviction =
        ObjectRef { api_version: "policy/v1".to_owned(), kind: "Eviction".to_owned(), uid: None, ..pod.clone() };
    let body = match uid {
        Some(uid) => named(&eviction, &format!("\"deleteOptions\":{uid}")),
        None => named(&eviction, "").replace(",}", "}"),
    };
    let parent = Some(ObjectRef { uid: None, ..pod.clone() });
    let subresource = Some(Subresource { name: "eviction".to_owned(), parent });
    writes::create(&body, &WriteOptions { subresource, dry_run, ..plain() })
}

/// An operation for `writes.batch`, as a script represents it.
fn operation_value<'v>(heap: Heap<'v>, op: &str, fields: &[(&str, Value<'v>)], options: Given<'v>) -> Value<'v> {
    let mut all = vec![("op", heap.alloc(op))];
    all.extend_from_slice(fields);
    all.push(("options", heap.alloc(AllocDict(options))));
    heap.alloc(AllocDict(all))
}

fn operation(value: Value<'_>) -> starlark::Result<Operation> {
    let wanted = "the result of writes.op_create or a similar function";
    let what = "an operation of writes.batch";
    let dict = DictRef::from_value(value).ok_or_else(|| misfit(what, value, wanted))?;
    let field = |name: &str| dict.get_str(name).ok_or_else(|| misfit(what, value, wanted));
    let options = DictRef::from_value(field("options")?).ok_or_else(|| misfit(what, value, wanted))?;
    let mut options = Options::of(what, &options)?;
    let op = text(field("op")?, what)?;
    if op == "patch" {
        return Ok(Operation::Patch(patch_write(field("target")?, field("patch")?, options)?));
    }
    if op == "delete" {
        return Ok(Operation::Delete(delete_write(field("target")?, options)?));
    }
    let write = ObjectWrite { object: object_of(field("object")?, what)?, options: write_options(&mut options)? };
    options.end()?;
    match op.as_str() {
        "create" => Ok(Operation::Create(write)),
        "update" => Ok(Operation::Update(write)),
        "apply" => Ok(Operation::Apply(write)),
        _ => Err(misfit(what, value, wanted)),
    }
}
