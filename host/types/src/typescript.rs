//! Writes types in TypeScript. Objects stay plain JSON, so that nothing can get lost.

use std::fmt::Write as _;

use serde_json::Value;

use crate::model::{Body, Declaration, Field, Model, Shape, Struct};
use crate::names::{Names, snake};
use crate::{header, quoted};

const TIME: &str = "
/** A date and a time, as in RFC 3339. */
export type Time = string;
";

const INT_OR_STRING: &str = "
/** A whole number or a string. */
export type IntOrString = number | string;
";

const QUANTITY: &str = "
/** A Kubernetes quantity, such as `500m` or `1Gi`. */
export type Quantity = number | string;
";

pub(crate) fn file(model: &Model) -> String {
    let mut text = format!("// {}\n", header(model));
    let mut constants = Names::default();
    for declaration in &model.declarations {
        text.push('\n');
        comment(&mut text, "", &declaration.docs);
        match &declaration.body {
            Body::Struct(it) => write_struct(&mut text, declaration, it, &mut constants),
            Body::Enumeration(values) => {
                let values: Vec<String> = values.iter().map(|value| quoted(value)).collect();
                let _ = writeln!(text, "export type {} = {};", declaration.name, values.join(" | "));
            }
        }
    }
    let has = |wanted: Shape| model.shapes().any(|it| *it == wanted);
    let helpers = [(Shape::Time, TIME), (Shape::IntOrString, INT_OR_STRING), (Shape::Quantity, QUANTITY)];
    helpers.into_iter().filter(|(shape, _)| has(shape.clone())).for_each(|(_, helper)| text.push_str(helper));
    text
}

fn write_struct(text: &mut String, declaration: &Declaration, it: &Struct, constants: &mut Names) {
    let name = &declaration.name;
    let _ = writeln!(text, "export interface {name} {{");
    for field in &it.fields {
        comment(text, "  ", &field.docs);
        let mark = if field.is_required { "" } else { "?" };
        let _ = writeln!(text, "  {}{mark}: {};", key(&field.key), of_shape(&field.shape));
    }
    if it.is_open {
        comment(text, "  ", &["Fields that the schema does not declare.".to_owned()]);
        text.push_str("  [field: string]: unknown;\n");
    }
    text.push_str("}\n");
    let defaults: Vec<&Field> = it.fields.iter().filter(|field| field.default.is_some()).collect();
    if defaults.is_empty() {
        return;
    }
    let constant = constants.unique(&format!("{}_DEFAULTS", snake(name).to_ascii_uppercase()));
    let _ = writeln!(text, "\n/** The values that the server fills in. */\nexport const {constant} = {{");
    for field in defaults {
        let value = field.default.as_ref().unwrap_or(&Value::Null);
        let _ = writeln!(text, "  {}: {value} as {},", key(&field.key), of_shape(&field.shape));
    }
    text.push_str("};\n");
}

fn comment(text: &mut String, indent: &str, lines: &[String]) {
    let lines: Vec<String> = lines.iter().map(|line| line.replace("*/", "*\\/")).collect();
    match lines.as_slice() {
        [] => {}
        [line] => {
            let _ = writeln!(text, "{indent}/** {line} */");
        }
        lines => {
            let _ = writeln!(text, "{indent}/**");
            crate::docs::comment(text, &format!("{indent} *"), lines);
            let _ = writeln!(text, "{indent} */");
        }
    }
}

fn key(key: &str) -> String {
    let is_identifier = key.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_' || first == '$')
        && key.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_' || letter == '$');
    if is_identifier && key != "__proto__" { key.to_owned() } else { quoted(key) }
}

fn of_shape(shape: &Shape) -> String {
    match shape {
        Shape::Bool => "boolean".to_owned(),
        Shape::Int32 | Shape::Int64 | Shape::Float => "number".to_owned(),
        Shape::Text => "string".to_owned(),
        Shape::Time => "Time".to_owned(),
        Shape::IntOrString => "IntOrString".to_owned(),
        Shape::Quantity => "Quantity".to_owned(),
        Shape::Json => "unknown".to_owned(),
        Shape::List(inner) => match inner.as_ref() {
            Shape::Nullable(_) => format!("({})[]", of_shape(inner)),
            _ => format!("{}[]", of_shape(inner)),
        },
        Shape::Map(inner) => format!("Record<string, {}>", of_shape(inner)),
        Shape::Nullable(inner) => format!("{} | null", of_shape(inner)),
        Shape::Named(name) => name.clone(),
    }
}
