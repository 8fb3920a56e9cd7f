//! Reads the file that `tools/build-descriptors` writes, a `google.protobuf.FileDescriptorSet`, into the table of
//! messages. The field numbers are those in `google/protobuf/descriptor.proto` and `tools/descriptors/src/go.proto`.
//! Only needed parts are kept; a general library would keep ten MiB.

use std::collections::HashMap;

use super::messages::{Cardinality, FieldKind, FieldType, MessageType};
use super::shape::Shape;
use super::wire::{self, Content, WireError};

/// The numbers of fields in `FileDescriptorSet`, `FileDescriptorProto`, `DescriptorProto` and `FieldDescriptorProto`.
const SET_FILE: u32 = 1;
const FILE_PACKAGE: u32 = 2;
const FILE_MESSAGE: u32 = 4;
const FILE_OPTIONS: u32 = 8;
const MESSAGE_NAME: u32 = 1;
const MESSAGE_FIELD: u32 = 2;
const MESSAGE_NESTED: u32 = 3;
const MESSAGE_OPTIONS: u32 = 7;
const FIELD_NAME: u32 = 1;
const FIELD_NUMBER: u32 = 3;
const FIELD_LABEL: u32 = 4;
const FIELD_TYPE: u32 = 5;
const FIELD_TYPE_NAME: u32 = 6;
const FIELD_OPTIONS: u32 = 8;
const FIELD_JSON_NAME: u32 = 10;

/// `FieldDescriptorProto.Label.LABEL_REPEATED`.
const REPEATED: i64 = 3;

/// The numbers of options. `MAP_ENTRY` is a standard option; the others are our own, in `go.proto`.
const MAP_ENTRY: u32 = 7;
const GO_GROUP: u32 = 50001;
const GO_ITEMS: u32 = 50001;
const GO_POINTER: u32 = 50001;
const GO_INLINE: u32 = 50002;
const GO_OMITEMPTY: u32 = 50003;
const GO_OMITZERO: u32 = 50004;

/// Why the file cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum DescriptorError {
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("field {0} has a type that Kubernetes does not use")]
    Type(String),
}

/// Packages that describe descriptors and options, and not Kubernetes' messages.
const PROTOBUF_ITSELF: [&str; 2] = ["google.protobuf", "windlass.go"];

/// All messages except map entries.
pub(super) struct Described {
    pub(super) types: Vec<MessageType>,
    /// The index of each kind's message, by group, version and kind.
    pub(super) kinds: HashMap<(String, String, String), usize>,
}

/// A message that was found. Its fields are read later, when the names of all messages are known.
struct Found<'a> {
    name: String,
    group: Option<&'a str>,
    bytes: &'a [u8],
}

/// Reads the file.
pub(super) fn read(set: &[u8]) -> Result<Described, DescriptorError> {
    let (mut messages, mut entries) = (Vec::new(), HashMap::new());
    for file in all(set, SET_FILE)? {
        let package = wire::last_text(file, FILE_PACKAGE)?;
        if PROTOBUF_ITSELF.contains(&package) {
            continue;
        }
        let of_file = options(file, FILE_OPTIONS)?;
        let group = wire::last_bytes(of_file, GO_GROUP)?.map(|_| wire::last_text(of_file, GO_GROUP)).transpose()?;
        for message in all(file, FILE_MESSAGE)? {
            let name = format!("{package}.{}", wire::last_text(message, MESSAGE_NAME)?);
            for nested in all(message, MESSAGE_NESTED)? {
                if is_set(options(nested, MESSAGE_OPTIONS)?, MAP_ENTRY)? {
                    entries.insert(format!("{name}.{}", wire::last_text(nested, MESSAGE_NAME)?), nested);
                }
            }
            messages.push(Found { name, group, bytes: message });
        }
    }
    let by_name: HashMap<String, usize> =
        messages.iter().enumerate().map(|(index, message)| (message.name.clone(), index)).collect();
    let kinds = messages.iter().enumerate().filter_map(|(index, message)| {
        let mut parts = message.name.rsplit('.');
        let (name, version) = (parts.next()?, parts.next()?);
        Some(((message.group?.to_owned(), version.to_owned(), name.to_owned()), index))
    });
    let kinds = kinds.collect();
    let reader = DescriptorReader { by_name: &by_name, entries };
    let types = messages.into_iter().map(|message| reader.message(message)).collect::<Result<_, _>>()?;
    Ok(Described { types, kinds })
}

struct DescriptorReader<'a> {
    by_name: &'a HashMap<String, usize>,
    entries: HashMap<String, &'a [u8]>,
}

impl DescriptorReader<'_> {
    fn message(&self, found: Found<'_>) -> Result<MessageType, DescriptorError> {
        let is_collection = is_set(options(found.bytes, MESSAGE_OPTIONS)?, GO_ITEMS)?;
        let shape = Shape::of(&found.name, is_collection);
        let fields = all(found.bytes, MESSAGE_FIELD)?;
        let fields = fields.into_iter().map(|field| self.field(field)).collect::<Result<_, _>>()?;
        Ok(MessageType::new(found.name, shape, fields))
    }

    fn field(&self, field: &[u8]) -> Result<FieldType, DescriptorError> {
        let facts = options(field, FIELD_OPTIONS)?;
        let entry = self.entries.get(type_name(field)?);
        let (kind, cardinality) = match (entry, wire::last_integer(field, FIELD_LABEL)?) {
            (Some(entry), _) => (self.kind(entry_value(entry)?)?, Cardinality::Map),
            (None, Some(REPEATED)) => (self.kind(field)?, Cardinality::List),
            (None, _) => (self.kind(field)?, Cardinality::One),
        };
        let number = wire::last_integer(field, FIELD_NUMBER)?.and_then(|number| u32::try_from(number).ok());
        Ok(FieldType {
            number: number.ok_or(WireError::Mistyped(FIELD_NUMBER))?,
            name: wire::last_text(field, FIELD_NAME)?.into(),
            json: wire::last_text(field, FIELD_JSON_NAME)?.into(),
            cardinality,
            kind,
            pointer: is_set(facts, GO_POINTER)?,
            inline: is_set(facts, GO_INLINE)?,
            omitempty: is_set(facts, GO_OMITEMPTY)?,
            omitzero: is_set(facts, GO_OMITZERO)?,
        })
    }

    fn kind(&self, field: &[u8]) -> Result<FieldKind, DescriptorError> {
        let refused = || -> Result<DescriptorError, WireError> {
            Ok(DescriptorError::Type(wire::last_text(field, FIELD_NAME)?.to_owned()))
        };
        Ok(match wire::last_integer(field, FIELD_TYPE)? {
            Some(1) => FieldKind::Double,
            Some(3) => FieldKind::Int64,
            Some(5) => FieldKind::Int32,
            Some(8) => FieldKind::Bool,
            Some(9) => FieldKind::String,
            Some(11) => match self.by_name.get(type_name(field)?) {
                Some(index) => FieldKind::Message(*index),
                None => return Err(refused()?),
            },
            Some(12) => FieldKind::Bytes,
            _ => return Err(refused()?),
        })
    }
}

/// The name of a field's type, without the leading dot.
fn type_name(field: &[u8]) -> Result<&str, WireError> {
    wire::last_text(field, FIELD_TYPE_NAME).map(|name| name.trim_start_matches('.'))
}

/// The field for the value of a map entry.
fn entry_value(entry: &[u8]) -> Result<&[u8], WireError> {
    for field in all(entry, MESSAGE_FIELD)? {
        if wire::last_integer(field, FIELD_NUMBER)? == Some(wire::ENTRY_VALUE.into()) {
            return Ok(field);
        }
    }
    Err(WireError::Mistyped(MESSAGE_FIELD))
}

/// The contents of a repeated field.
fn all(bytes: &[u8], number: u32) -> Result<Vec<&[u8]>, WireError> {
    let mut found = Vec::new();
    for field in wire::fields(bytes) {
        match field? {
            (known, Content::Delimited(content)) if known == number => found.push(content),
            _ => {}
        }
    }
    Ok(found)
}

fn options(described: &[u8], number: u32) -> Result<&[u8], WireError> {
    Ok(wire::last_bytes(described, number)?.unwrap_or_default())
}

fn is_set(options: &[u8], option: u32) -> Result<bool, WireError> {
    Ok(wire::last_integer(options, option)? == Some(1))
}
