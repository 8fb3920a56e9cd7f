//! Reads the Go side of a package: the fields of its structs by their protobuf numbers. go-to-protobuf has written the
//! numbers into the struct tags. gofmt formats the sources, so reading line by line is enough.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use regex::Regex;

/// A field of a struct, as encoding/json sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GoField {
    /// The JSON name. Empty if the field is inlined.
    pub(crate) json: String,
    pub(crate) pointer: bool,
    pub(crate) omitempty: bool,
    pub(crate) omitzero: bool,
}

/// The types of one package.
#[derive(Debug, Default)]
pub(crate) struct GoPackage {
    /// The API group. `None` if the package has no kinds.
    pub(crate) group: Option<String>,
    /// The fields, by the name of the struct and the protobuf number.
    pub(crate) fields: BTreeMap<(String, u32), GoField>,
    /// The names of types that are slices or maps.
    pub(crate) collections: BTreeSet<String>,
}

/// Reads lines of Go.
struct GoReader {
    group: Regex,
    structure: Regex,
    collection: Regex,
    /// Matches a name (empty for an embedded struct), a type, and tags.
    field: Regex,
    json: Regex,
    number: Regex,
}

impl GoReader {
    fn new() -> Result<GoReader> {
        Ok(GoReader {
            group: Regex::new(r#"^const GroupName = "(.*)"$"#)?,
            structure: Regex::new(r"^type (\w+) struct \{$")?,
            collection: Regex::new(r"^type (\w+) (?:\[\]|map\[)")?,
            field: Regex::new(r"^\t(?:\w+\s+)?(\S+)\s+`(.*)`")?,
            json: Regex::new(r#"json:"([^"]*)""#)?,
            number: Regex::new(r#"protobuf:"\w+,(\d+),"#)?,
        })
    }

    fn read(&self, source: &str, package: &mut GoPackage) -> Result<()> {
        let mut structure = None;
        for line in source.lines() {
            if let Some(found) = self.group.captures(line) {
                package.group = Some(found[1].to_owned());
            } else if let Some(found) = self.structure.captures(line) {
                structure = Some(found[1].to_owned());
            } else if let Some(found) = self.collection.captures(line) {
                package.collections.insert(found[1].to_owned());
            } else if line == "}" {
                structure = None;
            } else if let (Some(name), Some((number, field))) = (&structure, self.field(line)?) {
                package.fields.insert((name.clone(), number), field);
            }
        }
        Ok(())
    }

    fn field(&self, line: &str) -> Result<Option<(u32, GoField)>> {
        let Some(found) = self.field.captures(line) else { return Ok(None) };
        let tags = &found[2];
        let Some(number) = self.number.captures(tags) else { return Ok(None) };
        // A type with its own encoding, such as Duration, has no tags for encoding/json.
        let Some(json) = self.json.captures(tags) else { return Ok(None) };
        let mut words = json[1].split(',');
        let name = words.next().unwrap_or_default().to_owned();
        let words: Vec<&str> = words.collect();
        let field = GoField {
            json: name,
            pointer: found[1].starts_with('*'),
            omitempty: words.contains(&"omitempty"),
            omitzero: words.contains(&"omitzero"),
        };
        Ok(Some((number[1].parse()?, field)))
    }
}

/// Reads the package in `folder`.
pub(crate) fn read(folder: &Path) -> Result<GoPackage> {
    let reader = GoReader::new()?;
    let mut package = GoPackage::default();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(".go") && !name.ends_with("_test.go") && !name.contains("generated") {
            reader.read(&fs::read_to_string(&path)?, &mut package)?;
        }
    }
    Ok(package)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_structs_fields_are_read_from_their_tags() -> Result<()> {
        let source = "const GroupName = \"apps\"\n\
            type Verbs []string\n\
            type Spec struct {\n\
            \tmetav1.TypeMeta `json:\",inline\"`\n\
            \tReplicas *int32 `json:\"replicas,omitempty\" protobuf:\"varint,1,opt,name=replicas\"`\n\
            \tHandler `json:\",inline\" protobuf:\"bytes,2,opt,name=handler\"`\n\
            }\n";
        let mut package = GoPackage::default();
        GoReader::new()?.read(source, &mut package)?;
        assert_eq!(package.group.as_deref(), Some("apps"));
        assert!(package.collections.contains("Verbs"));
        let replicas = &package.fields[&("Spec".to_owned(), 1)];
        assert!(replicas.pointer && replicas.omitempty && replicas.json == "replicas");
        assert_eq!(package.fields[&("Spec".to_owned(), 2)].json, "");
        assert_eq!(package.fields.len(), 2);
        Ok(())
    }
}
