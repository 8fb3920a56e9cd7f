//! A column of the table that `kubectl get` shows.

use serde_json::{Value, json};

use crate::object::text;

/// One column definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    name: String,
    pub(crate) kind: String,
    format: String,
    description: String,
    /// Above 0 only `-o wide` shows it.
    pub(crate) priority: i64,
}

impl Column {
    pub(crate) fn new(name: &str, kind: &str) -> Column {
        Column {
            name: name.to_owned(),
            kind: kind.to_owned(),
            format: String::new(),
            description: String::new(),
            priority: 0,
        }
    }

    pub(crate) fn name_column() -> Column {
        let mut column = Column::new("Name", "string");
        "name".clone_into(&mut column.format);
        "Name must be unique within a namespace.".clone_into(&mut column.description);
        column
    }

    /// From a CRD's `additionalPrinterColumns` entry.
    pub(crate) fn from_definition(column: &Value) -> Column {
        Column {
            name: text(column, "/name").to_owned(),
            kind: text(column, "/type").to_owned(),
            format: text(column, "/format").to_owned(),
            description: text(column, "/description").to_owned(),
            priority: column["priority"].as_i64().unwrap_or(0),
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "type": self.kind,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        })
    }
}
