//! Columns of the tables that `kubectl get` shows.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::object::text;
use crate::schema::typed::unpack;

/// The columns that a real server defines for each built-in resource. The file has compressed lines of `RESOURCE JSON`.
const COLUMNS: &[u8] = include_bytes!("../../kubernetes/columns.gz");

static BUILT_IN: LazyLock<BTreeMap<String, Vec<Value>>> = LazyLock::new(|| {
    let text = unpack(COLUMNS);
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.map(|(resource, json)| (resource.to_owned(), serde_json::from_str(json).unwrap_or_default())).collect()
});

/// The column definitions of a built-in resource, such as `deployments.apps`.
pub(crate) fn built_in(resource: &str) -> Option<&'static [Value]> {
    BUILT_IN.get(resource).map(Vec::as_slice)
}

/// The default columns: name and age.
pub(crate) fn name_and_age() -> [Value; 2] {
    let mut found = built_in("serviceaccounts").into_iter().flatten().cloned();
    [found.next().unwrap_or_default(), found.next().unwrap_or_default()]
}

/// One column that a definition declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    name: String,
    pub(crate) kind: String,
    format: String,
    description: String,
    /// A column with a priority above 0 is shown only by `-o wide`.
    priority: i64,
}

impl Column {
    /// Reads an entry of a CRD's `additionalPrinterColumns`.
    pub(crate) fn from_definition(column: &Value) -> Column {
        let description = match text(column, "/description") {
            "" => format!("Custom resource definition column (in JSONPath format): {}", text(column, "/jsonPath")),
            description => description.to_owned(),
        };
        Column {
            name: text(column, "/name").to_owned(),
            kind: text(column, "/type").to_owned(),
            format: text(column, "/format").to_owned(),
            description,
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
