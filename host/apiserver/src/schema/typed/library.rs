//! Decompresses the types, and finds a type by its name.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::{LazyLock, OnceLock};

use flate2::read::GzDecoder;

use super::{StructType, ValueShape, parse};

/// Compressed lines of `NAME JSON`.
const TYPES: &[u8] = include_bytes!("../../../kubernetes/types.gz");

static TEXT: LazyLock<String> = LazyLock::new(|| unpack(TYPES));

static ENTRIES: LazyLock<BTreeMap<&'static str, TypeEntry>> = LazyLock::new(|| {
    let lines = TEXT.lines().filter_map(|line| line.split_once(' '));
    lines.map(|(name, json)| (name, TypeEntry { name, json, read: OnceLock::new(), shape: OnceLock::new() })).collect()
});

/// A type. It is parsed when it is used for the first time.
#[derive(Debug)]
pub(crate) struct TypeEntry {
    /// The full name, such as `io.k8s.api.apps.v1.Deployment`.
    pub(crate) name: &'static str,
    /// The schema, without descriptions.
    pub(crate) json: &'static str,
    read: OnceLock<StructType>,
    shape: OnceLock<ValueShape>,
}

impl TypeEntry {
    pub(crate) fn read(&'static self) -> &'static StructType {
        self.read.get_or_init(|| parse::struct_type(self.name, self.json))
    }
}

/// Finds the type with this name.
pub(crate) fn entry(name: &str) -> Option<&'static TypeEntry> {
    ENTRIES.get(name)
}

/// The shape of the values of this type.
pub(crate) fn shape(name: &str) -> Option<&'static ValueShape> {
    entry(name).map(|entry| entry.shape.get_or_init(|| ValueShape::Struct(entry)))
}

/// All types, by name.
#[cfg(test)]
pub(super) fn entries() -> impl Iterator<Item = &'static TypeEntry> {
    ENTRIES.values()
}

/// Decompresses a file of this crate.
pub(crate) fn unpack(packed: &[u8]) -> String {
    let mut text = String::new();
    if GzDecoder::new(packed).read_to_string(&mut text).is_err() {
        unreachable!("the file was packed by tools/build-schemas and read by this crate's tests");
    }
    text
}
