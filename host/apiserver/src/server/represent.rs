//! Brings objects into the form of a response: whole objects, only metadata, or a Table with rows for people.

use std::sync::Arc;

use serde::ser::{Serialize, SerializeStruct as _, Serializer};
use serde_json::{Value, json};

use crate::clock::Moment;
use crate::object;
use crate::pieces::{self, Pieces};
use crate::protobuf::{self, ProtobufError};
use crate::request::Query;
use crate::request::media::Form;
use crate::resources::resource::ResourceType;
use crate::schema::typed;
use crate::server::table;
use crate::status_error::ApiError;
use crate::verbs::list::Page;

const PARTIAL: &str = "PartialObjectMetadata";
const META_VERSION: &str = "meta.k8s.io/v1";

/// The part of the object that a row of a Table has in addition to its cells.
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

/// Represents one object. Only the first Table of a watch has the columns.
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

/// The object of a bookmark: it has only its type and a resource version.
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

/// A list whose items are written directly from the store, without copies. Serializing it writes the complete list.
pub(crate) struct List<'a> {
    pub(crate) kind: &'a str,
    pub(crate) api_version: String,
    pub(crate) metadata: Value,
    objects: &'a [Arc<Value>],
    items: ItemForm,
}

/// The part of an object that a list item contains.
#[derive(Clone, Copy)]
enum ItemForm {
    /// The whole object. In lists of custom resources, each item has its type.
    Whole,
    /// The object without its type, because the Go types of built-in lists leave it out.
    Untyped,
    Metadata,
}

impl List<'_> {
    pub(crate) fn to_json(&self) -> serde_json::Result<Pieces> {
        let mut begin = serde_json::to_vec(&ListHead(self))?;
        // Removes the closing brace, so that the items can follow.
        begin.pop();
        begin.extend_from_slice(br#","items":["#);
        let items = pieces::write(self.objects, |index, object, bytes| {
            object::read_ahead(match self.items {
                ItemForm::Metadata => &object["metadata"],
                ItemForm::Whole | ItemForm::Untyped => object,
            });
            if index > 0 {
                bytes.push(b',');
            }
            serde_json::to_writer(bytes, &ListItem { object, form: self.items })
        })?;
        Ok([begin].into_iter().chain(items).chain([b"]}".to_vec()]).collect())
    }

    pub(crate) fn to_protobuf(&self) -> Result<Pieces, ProtobufError> {
        protobuf::encode_list(&self.api_version, self.kind, &self.metadata, self.objects)
    }
}

/// The part of a list before its items.
struct ListHead<'a>(&'a List<'a>);

impl Serialize for ListHead<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_struct("List", 3)?;
        list.serialize_field("kind", self.0.kind)?;
        list.serialize_field("apiVersion", &self.0.api_version)?;
        list.serialize_field("metadata", &self.0.metadata)?;
        list.end()
    }
}

impl Serialize for List<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_struct("List", 4)?;
        list.serialize_field("kind", self.kind)?;
        list.serialize_field("apiVersion", &self.api_version)?;
        list.serialize_field("metadata", &self.metadata)?;
        list.serialize_field("items", &Items(self))?;
        list.end()
    }
}

struct Items<'a>(&'a List<'a>);

impl Serialize for Items<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Items(list) = self;
        serializer.collect_seq(list.objects.iter().map(|object| ListItem { object, form: list.items }))
    }
}

struct ListItem<'a> {
    object: &'a Value,
    form: ItemForm,
}

impl Serialize for ListItem<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = self.object.as_object().into_iter().flatten();
        match self.form {
            ItemForm::Whole => self.object.serialize(serializer),
            ItemForm::Untyped => {
                serializer.collect_map(fields.filter(|(key, _)| *key != "apiVersion" && *key != "kind"))
            }
            ItemForm::Metadata => Partial(self.object).serialize(serializer),
        }
    }
}

/// An object's metadata as an object of kind `PartialObjectMetadata`.
struct Partial<'a>(&'a Value);

impl Serialize for Partial<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut partial = serializer.serialize_struct("PartialObjectMetadata", 3)?;
        partial.serialize_field("kind", PARTIAL)?;
        partial.serialize_field("apiVersion", META_VERSION)?;
        match self.0.get("metadata") {
            Some(metadata) => partial.serialize_field("metadata", metadata)?,
            None => partial.serialize_field("metadata", &json!({}))?,
        }
        partial.end()
    }
}

/// Makes a list of a page. Its items are written one by one.
pub(crate) fn list<'a>(resource: &'a ResourceType, of_metadata: bool, page: &'a Page) -> List<'a> {
    let metadata = list_metadata(resource, !of_metadata, page);
    let (kind, api_version, items) = if of_metadata {
        ("PartialObjectMetadataList", META_VERSION.to_owned(), ItemForm::Metadata)
    } else {
        let items = if resource.custom.is_none() { ItemForm::Untyped } else { ItemForm::Whole };
        (&*resource.list_kind, resource.api_version(), items)
    };
    List { kind, api_version, metadata, objects: &page.objects, items }
}

/// Makes a Table of a page.
pub(crate) fn table(resource: &ResourceType, include: IncludeObject, page: &Page, now: Moment) -> Value {
    let metadata = list_metadata(resource, false, page);
    table_of(resource, include, true, &metadata, page.objects.iter().map(|object| &**object), now)
}

fn list_metadata(resource: &ResourceType, is_whole: bool, page: &Page) -> Value {
    let mut metadata = json!({ "resourceVersion": page.revision.to_string() });
    if let Some(token) = &page.continuation {
        metadata["continue"] = json!(token);
    } else if is_whole && resource.custom.is_some() {
        // Lists of custom resources have no Go type that would leave out an empty `continue`.
        metadata["continue"] = json!("");
    }
    if let Some(remaining) = page.remaining {
        metadata["remainingItemCount"] = json!(remaining);
    }
    metadata
}

fn partial(object: &Value) -> Value {
    json!({
        "kind": PARTIAL,
        "apiVersion": META_VERSION,
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
