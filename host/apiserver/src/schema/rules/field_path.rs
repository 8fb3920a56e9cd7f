//! Parses the `fieldPath` of a rule. It is a path below the rule's value, and the schema must declare its fields.

use super::super::Node;

/// The path as an error shows it. `None` if the schema does not declare the field.
pub(super) fn parse(path: &str, node: &Node) -> Option<String> {
    let (mut rest, mut node, mut shown) = (path, node, String::new());
    while !rest.is_empty() {
        let (name, after) = segment(rest)?;
        if let Some(property) = node.properties.get(name) {
            shown = format!("{shown}.{name}");
            node = property;
        } else {
            shown = format!("{shown}[{name}]");
            node = node.additional.node()?;
        }
        rest = after;
    }
    Some(shown)
}

/// Splits a path into its first name, which is written as `.name` or `['name']`, and the rest.
fn segment(path: &str) -> Option<(&str, &str)> {
    if let Some(quoted) = path.strip_prefix("['") {
        return quoted.split_once("']");
    }
    let rest = path.strip_prefix('.')?;
    let end = rest.find(['.', '[']).unwrap_or(rest.len());
    Some(rest.split_at(end)).filter(|(name, _)| !name.is_empty())
}
