//! Tables, as `kubectl get` shows them: columns of CRDs by their JSON paths, columns of built-ins by hand (`builtin`).

mod builtin;

use serde_json::{Value, json};

use crate::clock::Moment;
use crate::object::json_path::JsonPath;
use crate::resources::column::Column;
use crate::resources::resource::ResourceType;

/// How a kind's rows are made.
pub(crate) enum Printer<'a> {
    Custom(&'a [(Column, JsonPath)]),
    Builtin { columns: Vec<Column>, cells: fn(&Value, Moment) -> Vec<Value> },
}

pub(crate) fn printer(resource: &ResourceType) -> Printer<'_> {
    match &resource.custom {
        Some(custom) => Printer::Custom(&custom.columns),
        None => builtin::printer(&resource.id.group, &resource.kind),
    }
}

impl Printer<'_> {
    pub(crate) fn columns(&self) -> Vec<Value> {
        let first = [Column::name_column()];
        match self {
            Printer::Custom(columns) => {
                first.iter().chain(columns.iter().map(|(column, _)| column)).map(Column::to_json).collect()
            }
            Printer::Builtin { columns, .. } => columns.iter().map(Column::to_json).collect(),
        }
    }

    pub(crate) fn cells(&self, object: &Value, now: Moment) -> Vec<Value> {
        match self {
            Printer::Custom(columns) => {
                let name = json!(crate::object::name(object));
                let others = columns.iter().map(|(column, path)| cell(column, path, object, now));
                std::iter::once(name).chain(others).collect()
            }
            Printer::Builtin { cells, .. } => cells(object, now),
        }
    }
}

/// A cell holds the column's type, or nothing where the object has no fitting value.
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
                &Column::new("C", kind),
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
