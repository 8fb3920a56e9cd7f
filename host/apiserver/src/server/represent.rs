//! The forms in which objects are answered: whole, as metadata only, or as a Table with rows for people.

use serde_json::{Value, json};

use crate::clock::Moment;
use crate::object;
use crate::request::Query;
use crate::request::media::Form;
use crate::resources::resource::ResourceType;
use crate::schema::typed;
use crate::server::table;
use crate::status_error::ApiError;
use crate::verbs::list::Page;

/// The object that a Table's row carries beside its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    Nothing,
    Metadata,
    Object,
}

impl IncludeObject {
    pub(crate) fn read(query: &Query) -> Result<IncludeObject, ApiError> {
        match query.get("includeObject") {
            "" | "Metadata" => Ok(IncludeObject::Metadata),
            "None" => Ok(IncludeObject::Nothing),
            "Object" => Ok(IncludeObject::Object),
            other => Err(ApiError::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be 'Metadata', \
                 'Object', 'None', or empty"
            ))),
        }
    }
}

/// One object. Of the Tables of a watch only the first has the columns.
pub(crate) fn one(
    resource: &ResourceType,
    form: Form,
    include: IncludeObject,
    with_columns: bool,
    object: &Value,
    now: Moment,
) -> Value {
    match form {
        Form::Full => object.clone(),
        Form::Metadata => partial(object),
        Form::Table => {
            let version = json!({ "resourceVersion": object::resource_version(object) });
            table_of(resource, include, with_columns, &version, std::iter::once(object), now)
        }
    }
}

/// An object of the kind that says nothing but a version.
pub(crate) fn bookmark(resource: &ResourceType, revision: u64) -> Value {
    let mut object = json!({
        "kind": resource.kind,
        "apiVersion": resource.api_version(),
        "metadata": { "resourceVersion": revision.to_string() },
    });
    if let Some(entry) = typed::entry(resource.type_name) {
        typed::fill_zeros(entry, &mut object);
    }
    object
}

/// A page of a list.
pub(crate) fn page(resource: &ResourceType, form: Form, include: IncludeObject, page: &Page, now: Moment) -> Value {
    let mut metadata = json!({ "resourceVersion": page.revision.to_string() });
    if let Some(token) = &page.continuation {
        metadata["continue"] = json!(token);
    } else if form == Form::Full && resource.custom.is_some() {
        // These lists have no Go type that would leave it out.
        metadata["continue"] = json!("");
    }
    if let Some(remaining) = page.remaining {
        metadata["remainingItemCount"] = json!(remaining);
    }
    let listed = |kind: &str, api_version: String, items: Vec<Value>| json!({ "kind": kind, "apiVersion": api_version, "metadata": metadata, "items": items });
    match form {
        Form::Full => {
            let items = page.objects.iter().map(|object| list_item(resource, object)).collect();
            listed(&resource.list_kind, resource.api_version(), items)
        }
        Form::Metadata => {
            let items = page.objects.iter().map(|object| partial(object)).collect();
            listed("PartialObjectMetadataList", "meta.k8s.io/v1".to_owned(), items)
        }
        Form::Table => table_of(resource, include, true, &metadata, page.objects.iter().map(|object| &**object), now),
    }
}

/// Typed lists leave out the type of their items; lists of custom resources name it.
fn list_item(resource: &ResourceType, object: &Value) -> Value {
    let mut item = object.clone();
    if resource.custom.is_none() {
        let fields = object::as_map_mut(&mut item);
        fields.remove("apiVersion");
        fields.remove("kind");
    }
    item
}

fn partial(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object.get("metadata").cloned().unwrap_or_else(|| json!({})),
    })
}

fn table_of<'a>(
    resource: &ResourceType,
    include: IncludeObject,
    with_columns: bool,
    metadata: &Value,
    objects: impl Iterator<Item = &'a Value>,
    now: Moment,
) -> Value {
    let mut objects = objects.peekable();
    let of_scales =
        objects.peek().is_some_and(|first| first["kind"] == "Scale" && first["apiVersion"] == "autoscaling/v1");
    let printer = table::printer(resource, of_scales);
    let rows: Vec<Value> = objects
        .map(|object| {
            let mut row = printer.row(object, now);
            row["object"] = match include {
                IncludeObject::Nothing => Value::Null,
                IncludeObject::Metadata => partial(object),
                IncludeObject::Object => object.clone(),
            };
            row
        })
        .collect();
    let columns = with_columns.then(|| printer.columns());
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": columns,
        "rows": rows,
    })
}
