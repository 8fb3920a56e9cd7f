//! The types of the built-in kinds: what a real server's OpenAPI documents and Go types say of each field.
//!
//! `kubernetes/types.gz` has them, made by `tools/build-schemas`. It is unpacked when the first type is needed, and
//! each type is read when it is first met, so a server that serves custom resources only pays for little.
//! Called by `merge` (list types, patch strategies), `rules` and `verbs` (decoding), and `server` (OpenAPI).

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
    /// The name that messages use: `DeploymentSpec`.
    pub(crate) go: &'static str,
    pub(crate) fields: BTreeMap<String, Field>,
    /// All of it is one value, with one owner.
    pub(crate) is_atomic: bool,
}

/// A field of a struct.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) shape: ValueShape,
    /// The name of its Go type: `[]v1.Container`.
    pub(crate) go: String,
    pub(crate) zero: Zero,
    /// How items are told apart, where the field is a list.
    pub(crate) list: ListKind,
    /// Whether the map is one value, with one owner; none: as its type says.
    pub(crate) is_atomic: Option<bool>,
    pub(crate) patch: PatchStrategy,
    /// A default other than the type's zero.
    pub(crate) default: Option<Value>,
}

/// Whether the Go type tells a field's absence from its zero, and writes either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Zero {
    /// A pointer: absent and zero are different, and both stay what they are.
    Distinct,
    /// Zero is not written.
    Omitted,
    /// Zero is written, also for an absent field.
    Written,
    /// A pointer that is written as null if it is absent.
    Null,
}

/// How a strategic merge patch of a field is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PatchStrategy {
    /// As its whole new value; maps are merged all the same.
    Replace,
    /// A list of scalars: as values to add.
    MergeScalars,
    /// A list of maps: as items to merge with those that have the same key.
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
    /// A struct, a list of them, or a scalar: `items` in the schema of a definition.
    OneOrMany(&'static str),
    /// Any JSON.
    Any,
}

impl ValueShape {
    /// The struct that it is, if it is one.
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
    fn every_type_is_read_and_every_reference_leads_somewhere() {
        let unknown: Vec<String> = entries()
            .flat_map(|entry| entry.read().fields.iter().map(move |(name, field)| (entry.name, name, field)))
            .filter(|(_, name, field)| field.go.is_empty() && !name.starts_with('$'))
            .map(|(kind, name, _)| format!("{kind}.{name}"))
            .filter(|path| !path.contains(".version.Info."))
            .collect();
        assert_eq!(unknown, Vec::<String>::new(), "fields of which Go knows nothing");
    }

    #[test]
    fn a_field_knows_its_merge_strategy_and_the_meaning_of_its_zero() {
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
