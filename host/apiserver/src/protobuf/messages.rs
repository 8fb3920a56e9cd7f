//! The table of messages in Kubernetes' API modules: their fields, the JSON properties of their Go types, and their
//! kinds. `tools/build-descriptors` writes the file `messages.bin`, which is read when the first client asks for
//! protobuf.

use std::collections::HashMap;
use std::io::Read as _;
use std::sync::LazyLock;

use flate2::read::GzDecoder;
use serde_json::{Map, Value};

use super::ProtobufError;
use super::descriptors::{self, Described};
use super::shape::Shape;

/// The messages of `k8s.io/api`, `apimachinery`, `apiextensions-apiserver` and `kube-aggregator`, v0.36.3.
const DESCRIPTORS: &[u8] = include_bytes!("messages.bin");

/// The package of kinds that belong to every group, such as `Status` and `DeleteOptions`.
const META: (&str, &str) = ("meta.k8s.io", "v1");

static MESSAGES: LazyLock<Result<Messages, String>> = LazyLock::new(Messages::load);

/// A message, and the JSON form of its Go type.
pub(super) struct MessageType {
    /// The full name, with the package.
    pub(super) name: String,
    pub(super) shape: Shape,
    /// The fields in the order of their numbers. They are also written in this order.
    pub(super) fields: Vec<FieldType>,
    /// The indexes of the inlined fields in `fields`.
    pub(super) inlined: Vec<usize>,
    /// The JSON names of the fields that are not inlined, sorted, with their indexes in `fields`.
    names: Vec<(Box<str>, usize)>,
}

/// A field, with the properties from its Go struct.
#[expect(clippy::struct_excessive_bools, reason = "independent facts that encoding/json combines")]
pub(super) struct FieldType {
    pub(super) number: u32,
    /// The name in protobuf.
    pub(super) name: Box<str>,
    /// The name in JSON.
    pub(super) json: Box<str>,
    pub(super) cardinality: Cardinality,
    /// The kind of the value; for a list or map, the kind of its items or values.
    pub(super) kind: FieldKind,
    /// True if the Go field is a pointer: then a zero value is written, too.
    pub(super) pointer: bool,
    /// True if the field is inlined: its own fields are written into the parent's JSON object.
    pub(super) inline: bool,
    /// True if an empty value is not written, unless it is a struct.
    pub(super) omitempty: bool,
    /// True if an empty struct is not written.
    pub(super) omitzero: bool,
}

/// How many values a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cardinality {
    One,
    List,
    Map,
}

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldKind {
    Bool,
    Int32,
    Int64,
    Double,
    String,
    Bytes,
    /// The message at this index in [`Messages`].
    Message(usize),
}

impl FieldType {
    /// The index of the field's message type; for a list or map, that of its items or values.
    pub(super) fn message(&self) -> Option<usize> {
        match self.kind {
            FieldKind::Message(index) => Some(index),
            _ => None,
        }
    }
}

impl MessageType {
    pub(super) fn new(name: String, shape: Shape, mut fields: Vec<FieldType>) -> MessageType {
        fields.sort_unstable_by_key(|field| field.number);
        let places = || fields.iter().enumerate();
        let inlined = places().filter(|(_, field)| field.inline).map(|(place, _)| place).collect();
        let others = places().filter(|(_, field)| !field.inline);
        let mut names: Vec<(Box<str>, usize)> = others.map(|(place, field)| (field.json.clone(), place)).collect();
        names.sort_unstable();
        MessageType { name, shape, fields, inlined, names }
    }

    /// Calls `found` for each entry of an object that is a known field, with the field's index in `fields`. Names and
    /// entries are both sorted, so each search continues where the previous one ended.
    pub(super) fn places<'a>(&self, entries: &'a Map<String, Value>, mut found: impl FnMut(usize, &'a Value)) {
        let mut rest = self.names.as_slice();
        for (key, value) in entries {
            // A comparison for equality is faster than one for order, because most names differ in length.
            if let Some(at) = rest.iter().position(|(name, _)| **name == **key) {
                found(rest[at].1, value);
                rest = &rest[at + 1..];
            }
        }
    }

    /// The field, which the message must have.
    pub(super) fn field(&self, name: &str) -> Result<&FieldType, ProtobufError> {
        let missing = || ProtobufError::Descriptions(format!("{} has no {name}", self.name));
        self.named(name).ok_or_else(missing)
    }

    /// The field with this name in protobuf.
    pub(super) fn named(&self, name: &str) -> Option<&FieldType> {
        self.fields.iter().find(|field| *field.name == *name)
    }

    /// The index in `fields` of the field with this number.
    pub(super) fn numbered(&self, number: u32) -> Option<usize> {
        self.fields.binary_search_by_key(&number, |field| field.number).ok()
    }
}

/// All messages.
pub(super) struct Messages {
    types: Vec<MessageType>,
    /// The index of each kind's message, by group, version and kind.
    kinds: HashMap<(String, String, String), usize>,
}

impl Messages {
    pub(super) fn get() -> Result<&'static Messages, ProtobufError> {
        MESSAGES.as_ref().map_err(|error| ProtobufError::Descriptions(error.clone()))
    }

    pub(super) fn at(&self, index: usize) -> &MessageType {
        &self.types[index]
    }

    /// The message with this full name.
    #[cfg(test)]
    pub(super) fn named(&self, name: &str) -> Option<&MessageType> {
        self.types.iter().find(|found| found.name == name)
    }

    pub(super) fn of_kind(&self, api_version: &str, kind: &str) -> Result<&MessageType, ProtobufError> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let find = |group: &str, version: &str| {
            self.kinds.get(&(group.to_owned(), version.to_owned(), kind.to_owned())).map(|index| self.at(*index))
        };
        let is_meta = matches!(group, "" | "meta.k8s.io") || kind.ends_with("Options");
        let found = find(group, version).or_else(|| if is_meta { find(META.0, META.1) } else { None });
        found.ok_or_else(|| ProtobufError::UnknownKind { api_version: api_version.to_owned(), kind: kind.to_owned() })
    }

    fn load() -> Result<Messages, String> {
        let mut bytes = Vec::new();
        GzDecoder::new(DESCRIPTORS).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        let Described { types, kinds } = descriptors::read(&bytes).map_err(|error| error.to_string())?;
        Ok(Messages { types, kinds })
    }
}
