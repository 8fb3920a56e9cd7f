//! Annotates a `generated.proto` with facts about the Go types of its package, as options. go-to-protobuf writes one
//! declaration per line.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use regex::Regex;

use crate::OPTIONS;
use crate::go_types::{self, GoPackage};

/// Returns the annotated source of the file.
pub(crate) fn annotated(path: &Path) -> Result<String> {
    let source = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let folder = path.parent().context("a file is in a folder")?;
    annotate(&source, &go_types::read(folder)?).with_context(|| format!("in {}", path.display()))
}

fn annotate(source: &str, package: &GoPackage) -> Result<String> {
    let message_line = Regex::new(r"^message (\w+) \{$")?;
    let field_line = Regex::new(r"^  (?:optional|repeated|map<).* = (\d+);$")?;
    let mut message = String::new();
    let mut lines = Vec::new();
    for line in source.lines() {
        if let Some(found) = message_line.captures(line) {
            found[1].clone_into(&mut message);
            lines.push(line.to_owned());
            if package.collections.contains(&message) {
                lines.push("  option (windlass.go.items) = true;".to_owned());
            }
        } else if let Some(found) = field_line.captures(line) {
            let options = options(package, &message, found[1].parse()?);
            lines.push(format!("{} [{options}];", line.trim_end_matches(';')));
        } else if line.starts_with("option go_package") {
            lines.push(format!("import {OPTIONS:?};"));
            lines.push(line.to_owned());
            lines.extend(package.group.iter().map(|group| format!("option (windlass.go.group) = {group:?};")));
        } else {
            lines.push(line.to_owned());
        }
    }
    Ok(lines.join("\n"))
}

fn options(package: &GoPackage, message: &str, number: u32) -> String {
    let place = (message.to_owned(), number);
    // Some messages stand for a Go type with its own encoding, such as Time, and have fields that the Go type lacks.
    let Some(field) = package.fields.get(&place) else { return "(windlass.go.omitempty) = true".to_owned() };
    let facts = [
        ("pointer", field.pointer),
        ("inline", field.json.is_empty()),
        ("omitempty", field.omitempty),
        ("omitzero", field.omitzero),
    ];
    let name = (!field.json.is_empty()).then(|| format!("json_name = {:?}", field.json));
    let facts = facts.iter().filter(|(_, is_so)| *is_so).map(|(fact, _)| format!("(windlass.go.{fact}) = true"));
    name.into_iter().chain(facts).collect::<Vec<_>>().join(", ")
}
