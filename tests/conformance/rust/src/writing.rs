//! Changes: `writes`.

use serde::Deserialize;
use serde_json::Value;
use windlass_sdk::writes::{self, Delete, DeleteCollection, FieldValidation, Operation, Propagation, Write, Written};
use windlass_sdk::{Error, ObjectRef};

use crate::arguments::{Kind, Target, error, read, reference, target};
use crate::common::{Answer, shown};

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct Options {
    subresource: Option<Subresource>,
    resource_version: Option<String>,
    owned: bool,
    force: bool,
    dry_run: bool,
    field_validation: Option<String>,
    propagation: Option<String>,
    grace_period_ms: Option<u32>,
    manager_suffix: Option<String>,
    fields: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Collection {
    kind: Kind,
    namespace: Option<String>,
    label_selector: Option<String>,
    field_selector: Option<String>,
    #[serde(default)]
    all: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Subresource {
    name: String,
    parent: Option<Target>,
}

/// Carries out a step. `None` if this file does not know the call.
pub(crate) fn call(call: &str, step: &Value) -> Option<Answer> {
    Some(match call {
        "writes.delete" => optional(deletion(step).send()),
        "writes.delete-collection" => {
            let deleted = collection(step).send().map_err(|refused| error(&refused));
            deleted.map(|deleted| deleted.map_or(Value::Null, |deleted| deleted.iter().map(reference).collect()))
        }
        "writes.evict" => writes::evict(&target(step)).send().map(|()| Value::Null).map_err(|refused| error(&refused)),
        "writes.batch" => {
            let operations = step["operations"].as_array().into_iter().flatten().map(operation);
            Ok(writes::batch(operations).into_iter().map(|answer| shown(optional(answer))).collect())
        }
        _ => optional(write(call.strip_prefix("writes.")?, step)?.send().map(Some)),
    })
}

fn operation(step: &Value) -> Operation {
    let op = step["op"].as_str().unwrap_or_default();
    match write(op, step) {
        Some(write) => write.into(),
        None => deletion(step).into(),
    }
}

fn optional(answer: Result<Option<Written>, Error>) -> Answer {
    let object = answer.and_then(|written| Ok(written.map(|written| written.object()).transpose()?));
    object.map(Option::unwrap_or_default).map_err(|refused| error(&refused))
}

fn options(step: &Value) -> Options {
    read::<Option<Options>>(step, "options").unwrap_or_default()
}

fn write(name: &str, step: &Value) -> Option<Write> {
    let patch = |patch: fn(ObjectRef, &Value) -> Write| patch(target(step), &step["patch"]);
    let write = match (name, step["patchType"].as_str()) {
        ("create", _) => writes::create(&step["object"]),
        ("update", _) => writes::update(&step["object"]),
        ("apply", _) => writes::apply(&step["object"]),
        ("patch", Some("merge")) => patch(writes::merge),
        ("patch", Some("json")) => patch(writes::json_patch),
        ("patch", Some("strategic")) => patch(writes::strategic),
        _ => return None,
    };
    Some(with(options(step), write))
}

fn with(options: Options, mut write: Write) -> Write {
    if let Some(Subresource { name, parent }) = options.subresource {
        write = match parent {
            Some(parent) => write.subresource_of(parent.into(), name),
            None => write.subresource(name),
        };
    }
    if let Some(version) = options.resource_version {
        write = write.if_version(version);
    }
    if options.owned {
        write = write.owned();
    }
    if options.force {
        write = write.force();
    }
    if options.dry_run {
        write = write.dry_run();
    }
    if let Some(suffix) = options.manager_suffix {
        write = write.manager_suffix(suffix);
    }
    if let Some(fields) = options.fields {
        let fields: Vec<_> = fields.iter().map(String::as_str).collect();
        write = write.fields(&fields);
    }
    match options.field_validation.as_deref() {
        Some("warn") => write.field_validation(FieldValidation::Warn),
        Some("ignore") => write.field_validation(FieldValidation::Ignore),
        Some("strict") => write.field_validation(FieldValidation::Strict),
        _ => write,
    }
}

fn deletion(step: &Value) -> Delete {
    let (options, mut deletion) = (options(step), writes::delete(target(step)));
    if let Some(version) = options.resource_version {
        deletion = deletion.if_version(version);
    }
    if let Some(milliseconds) = options.grace_period_ms {
        deletion = deletion.grace_period_ms(milliseconds);
    }
    if options.dry_run {
        deletion = deletion.dry_run();
    }
    match options.propagation.as_deref() {
        Some("foreground") => deletion.propagation(Propagation::Foreground),
        Some("orphan") => deletion.propagation(Propagation::Orphan),
        Some("background") => deletion.propagation(Propagation::Background),
        _ => deletion,
    }
}

fn collection(step: &Value) -> DeleteCollection {
    let (options, of) = (options(step), read::<Collection>(step, "collection"));
    let mut deletion = writes::delete_collection(&of.kind.api_version, &of.kind.kind);
    if let Some(namespace) = of.namespace {
        deletion = deletion.in_namespace(namespace);
    }
    if let Some(selector) = of.label_selector {
        deletion = deletion.labels(selector);
    }
    if let Some(selector) = of.field_selector {
        deletion = deletion.fields(selector);
    }
    if of.all {
        deletion = deletion.all();
    }
    if let Some(milliseconds) = options.grace_period_ms {
        deletion = deletion.grace_period_ms(milliseconds);
    }
    if options.dry_run {
        deletion = deletion.dry_run();
    }
    deletion.propagation(match options.propagation.as_deref() {
        Some("foreground") => Propagation::Foreground,
        Some("orphan") => Propagation::Orphan,
        _ => Propagation::Background,
    })
}
