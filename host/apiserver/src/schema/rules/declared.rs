//! The CEL types of a schema's nodes, and the names that their fields have in expressions.

use std::sync::Arc;

use super::super::{Additional, Kind, Mark, Node};
use crate::cel::RESERVED;
use crate::cel::types::{BOOL, BYTES, DOUBLE, DURATION, INT, ObjectType, STRING, TIMESTAMP, Type};

/// Words that cannot be the name of a field, in addition to CEL's reserved words.
const KEYWORDS: [&str; 4] = ["true", "false", "null", "in"];

/// The CEL type of a node. `None` if expressions cannot see the node.
pub(super) fn type_of(node: &Node, is_resource: bool, name: &str) -> Option<Type> {
    if node.is(Mark::IntOrString) {
        return Some(Type::Dyn);
    }
    Some(match node.kind? {
        Kind::Array => Type::list(type_of(node.items.as_deref()?, false, &format!("{name}.@idx"))?),
        Kind::Object => match &node.additional {
            Additional::Like(value) => Type::map(type_of(value, false, &format!("{name}.@elem"))?),
            _ => object(node, is_resource || node.is(Mark::EmbeddedResource), name),
        },
        Kind::Boolean => BOOL,
        Kind::Integer => INT,
        Kind::Number => DOUBLE,
        Kind::String => match node.checks.format.as_ref().map(|format| format.name.as_str()) {
            Some("byte") => BYTES,
            Some("duration") => DURATION,
            Some("date" | "date-time") => TIMESTAMP,
            _ => STRING,
        },
    })
}

fn object(node: &Node, is_resource: bool, name: &str) -> Type {
    let mut fields: std::collections::BTreeMap<String, Type> = node
        .properties
        .iter()
        .filter_map(|(field, below)| {
            let escaped = escaped(field)?;
            let found = type_of(below, false, &format!("{name}.{escaped}"))?;
            Some((escaped, found))
        })
        .collect();
    if is_resource {
        let metadata = ["name", "generateName"].map(|field| (field.to_owned(), STRING)).into();
        let metadata = ObjectType { name: format!("{name}.metadata"), fields: metadata };
        fields.insert("apiVersion".to_owned(), STRING);
        fields.insert("kind".to_owned(), STRING);
        fields.insert("metadata".to_owned(), Type::Object(Arc::new(metadata)));
    }
    Type::Object(Arc::new(ObjectType { name: name.to_owned(), fields }))
}

/// The name of a field in expressions. `None` if expressions cannot name it.
pub(super) fn escaped(field: &str) -> Option<String> {
    if KEYWORDS.contains(&field) || RESERVED.contains(&field) {
        return Some(format!("__{field}__"));
    }
    let letter = |c: char| c.is_ascii_alphabetic() || "_.-/".contains(c);
    let fits = field.chars().enumerate().all(|(at, c)| letter(c) || (at > 0 && c.is_ascii_digit()));
    if !fits || field.is_empty() {
        return None;
    }
    let escaped =
        field.replace("__", "\u{0}").replace('.', "__dot__").replace('-', "__dash__").replace('/', "__slash__");
    Some(escaped.replace('\u{0}', "__underscores__"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_fields_are_escaped_for_expressions() {
        for (field, name) in [
            ("plain_name", Some("plain_name")),
            ("namespace", Some("__namespace__")),
            ("a.b-c/d", Some("a__dot__b__dash__c__slash__d")),
            ("a__b", Some("a__underscores__b")),
            ("é", None),
            ("1a", None),
            ("", None),
        ] {
            assert_eq!(escaped(field).as_deref(), name, "{field}");
        }
    }
}
