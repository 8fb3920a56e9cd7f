//! The types of the built-in kinds, with the properties of each field from a real server's OpenAPI documents and Go
//! types.
//!
//! `tools/build-schemas` writes them to `kubernetes/types.gz`. The file is decompressed when a type is needed for the
//! first time, and each type is parsed when it is first used. So a server with only custom resources spends little on
//! them. `merge` uses list types and patch strategies, `rules` and `verbs` decode objects, and `server` publishes
//! OpenAPI.

mod decode;
mod describe;
mod library;
mod moment;
mod parse;
pub(crate) mod quantity;

use std::collections::BTreeMap;

use serde_json::Value;

use super::ListKind;
pub(crate) use decode::{Reading, TypeError, check_metadata, decode, decode_metadata, fill_zeros};
pub(crate) use describe::openapi;
pub(crate) use library::{TypeEntry, entry, shape, unpack};

/// The type of the metadata of every object.
pub(crate) const METADATA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// A Go struct.
#[derive(Debug)]
pub(crate) struct StructType {
    /// The short name, such as `DeploymentSpec`. Messages use it.
    pub(crate) go: &'static str,
    pub(crate) fields: BTreeMap<String, Field>,
    /// Whether the whole struct is one value with one owner.
    pub(crate) is_atomic: bool,
}

/// A field of a struct.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) shape: ValueShape,
    /// The name of the Go type, such as `[]v1.Container`.
    pub(crate) go: String,
    pub(crate) zero: Zero,
    /// For a list: the way in which items are identified.
    pub(crate) list: ListKind,
    /// Whether the map is one value with one owner. `None` if its type decides.
    pub(crate) is_atomic: Option<bool>,
    pub(crate) patch: PatchStrategy,
    /// A default other than the zero value of the type.
    pub(crate) default: Option<Value>,
}

/// How the Go type treats a missing field and a zero value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Zero {
    /// The field is a pointer: missing and zero are different, and both stay as they are.
    Distinct,
    /// A zero value is not written.
    Omitted,
    /// A zero value is written, even for a missing field.
    Written,
    /// The field is a pointer, and is written as null if it is missing.
    Null,
}

/// How a strategic merge patch applies to a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PatchStrategy {
    /// The patch replaces the value. Maps are merged nevertheless.
    Replace,
    /// For a list of scalars: the values in the patch are added.
    MergeScalars,
    /// For a list of maps: each item of the patch is merged with the item that has the same value in this field.
    MergeBy(String),
}

/// The form of a value.
#[derive(Debug)]
pub(crate) enum ValueShape {
    Struct(&'static TypeEntry),
    List(Box<ValueShape>),
    Map(Box<ValueShape>),
    Text,
    Bytes,
    Bool,
    Int32,
    Int64,
    Float,
    IntOrString,
    Quantity,
    Time,
    MicroTime,
    /// A struct, a list of structs, or a scalar, such as `items` in the schema of a definition.
    OneOrMany(&'static str),
    /// Any JSON.
    Any,
}

impl ValueShape {
    /// The struct, if the value is a struct.
    pub(crate) fn fields(&self) -> Option<&'static StructType> {
        match self {
            ValueShape::Struct(entry) => Some(entry.read()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::library::entries;
    use super::*;

    #[test]
    fn every_type_and_every_reference_can_be_parsed() {
        let unknown: Vec<String> = entries()
            .flat_map(|entry| entry.read().fields.iter().map(move |(name, field)| (entry.name, name, field)))
            .filter(|(_, name, field)| field.go.is_empty() && !name.starts_with('$'))
            .map(|(kind, name, _)| format!("{kind}.{name}"))
            .filter(|path| !path.contains(".version.Info."))
            .collect();
        assert_eq!(unknown, Vec::<String>::new(), "fields of which Go knows nothing");
    }

    #[test]
    fn a_field_has_its_merge_strategy_and_zero_treatment() {
        let pod = entry("io.k8s.api.core.v1.PodSpec").expect("pods are built in").read();
        let containers = &pod.fields["containers"];
        assert_eq!(containers.list, ListKind::Map(vec!["name".to_owned()]));
        assert_eq!(containers.patch, PatchStrategy::MergeBy("name".to_owned()));
        assert_eq!((containers.zero, containers.go.as_str()), (Zero::Written, "[]v1.Container"));
        assert_eq!(pod.fields["hostNetwork"].zero, Zero::Omitted);
        assert_eq!(pod.fields["priority"].zero, Zero::Distinct);
        assert!(
            pod.fields["nodeSelector"].is_atomic == Some(true)
                && matches!(pod.fields["nodeSelector"].shape, ValueShape::Map(_))
        );
        let port = entry("io.k8s.api.core.v1.ContainerPort").expect("ports are built in").read();
        assert_eq!(port.fields["protocol"].default, Some(Value::from("TCP")));
    }
}
