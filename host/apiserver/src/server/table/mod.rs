//! The tables that `kubectl get` shows. CRDs declare columns by JSON paths. Built-in kinds have the columns of a real
//! server (`resources/column`), and `rows` fills their cells.

mod cells;
mod nodes;
mod pods;
mod rows;
mod services;
mod storage;
mod texts;
mod workloads;

use serde_json::{Value, json};

use crate::clock::Moment;
use crate::object::json_path::JsonPath;
use crate::object::{self, text};
use crate::resources::column::{self, Column};
use crate::resources::resource::ResourceType;

use cells::Cell;

/// How a kind's rows are built.
pub(in crate::server) enum Printer<'a> {
    Custom(&'a [(Column, JsonPath)]),
    Builtin { columns: Vec<Value>, cells: &'static [Cell] },
}

/// The printer of a resource's objects, or of the scales that its subresource returns.
pub(in crate::server) fn printer(resource: &ResourceType, of_scales: bool) -> Printer<'_> {
    match &resource.custom {
        _ if of_scales => builtin("scale"),
        Some(custom) => Printer::Custom(&custom.columns),
        None => builtin(&resource.id.to_string()),
    }
}

fn builtin(resource: &str) -> Printer<'static> {
    match (column::built_in(resource), rows::of(resource)) {
        (Some(columns), Some(cells)) => Printer::Builtin { columns: columns.to_vec(), cells },
        _ => Printer::Builtin { columns: column::name_and_age().to_vec(), cells: rows::NAME_AND_AGE },
    }
}

impl Printer<'_> {
    pub(in crate::server) fn columns(&self) -> Vec<Value> {
        match self {
            Printer::Custom(columns) => {
                let [name, mut age] = column::name_and_age();
                let mut all = vec![name];
                if columns.is_empty() {
                    age["type"] = json!("date");
                    all.push(age);
                }
                all.extend(columns.iter().map(|(column, _)| column.to_json()));
                all
            }
            Printer::Builtin { columns, .. } => columns.clone(),
        }
    }

    /// The cells of an object's row, and the row's conditions.
    pub(in crate::server) fn row(&self, object: &Value, now: Moment) -> Value {
        match self {
            Printer::Custom(columns) => {
                let mut cells = vec![json!(object::name(object))];
                if columns.is_empty() {
                    cells.push(json!(now.age(text(object, "/metadata/creationTimestamp"))));
                }
                cells.extend(columns.iter().map(|(column, path)| cell(column, path, object, now)));
                json!({ "cells": cells })
            }
            Printer::Builtin { cells, .. } => {
                let mut row = json!({ "cells": cells.iter().map(|cell| cell.of(object, now)).collect::<Vec<_>>() });
                if let Some(condition) = pods::completion(object) {
                    row["conditions"] = json!([condition]);
                }
                row
            }
        }
    }
}

/// The value of a cell. It has the column's type, or is null if the object has no such value.
fn cell(column: &Column, path: &JsonPath, object: &Value, now: Moment) -> Value {
    let found = path.find(object);
    let Some(first) = found.first().copied() else { return Value::Null };
    match column.kind.as_str() {
        "integer" if first.is_i64() || first.is_u64() => first.clone(),
        "integer" => first.as_f64().map_or(Value::Null, |number| json!(number)),
        "number" if first.is_number() => first.clone(),
        "boolean" if first.is_boolean() => first.clone(),
        "date" => first.as_str().map_or(Value::Null, |moment| json!(now.age(moment))),
        "string" => match found.as_slice() {
            [Value::String(text)] => json!(text),
            [other] => json!(other.to_string()),
            many => {
                let texts: Vec<String> =
                    many.iter().map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)).collect();
                json!(texts.join(","))
            }
        },
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, Time};

    #[test]
    fn a_cell_has_the_type_of_its_column() {
        let object = json!({ "n": 3, "s": "x", "l": ["a", "b"] });
        let cell_of = |kind: &str, path: &str| {
            cell(
                &Column::from_definition(&json!({ "name": "C", "type": kind })),
                &JsonPath::parse(path).expect("a valid path"),
                &object,
                Time::start(Clock::Wall).now(),
            )
        };
        assert_eq!(cell_of("integer", ".n"), json!(3));
        assert_eq!(cell_of("string", ".n"), json!("3"));
        assert_eq!(cell_of("integer", ".s"), Value::Null);
        assert_eq!(cell_of("string", ".l[*]"), json!("a,b"));
        assert_eq!(cell_of("string", ".absent"), Value::Null);
    }
}
