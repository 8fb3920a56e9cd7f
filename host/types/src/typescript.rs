//! Writes types in TypeScript. Objects stay plain JSON, so that nothing can get lost.

use std::fmt::Write as _;

use serde_json::{Number, Value};

use crate::model::{Body, Declaration, Field, Model, Shape, Struct};
use crate::names::{Names, snake};
use crate::{header, quoted};

/// The largest integer whose neighbours a double distinguishes: JavaScript's `Number.MAX_SAFE_INTEGER`.
const SAFE_INTEGER_MAX: u64 = (1 << 53) - 1;

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
        comment(text, "  ", &["All other fields.".to_owned()]);
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
        let value = match field.default.as_ref().unwrap_or(&Value::Null) {
            // The type has no BigInt.
            Value::Number(number) if field.shape == Shape::Float => number.to_string(),
            value => indented(value, "\n  "),
        };
        let _ = writeln!(text, "  {}: {value} as {},", literal_key(&field.key), of_shape(&field.shape));
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

/// A TypeScript expression for a JSON value. As in the SDK, a whole number that a double cannot represent exactly is a
/// `BigInt`.
#[must_use]
pub fn literal(value: &Value) -> String {
    indented(value, "\n")
}

/// As [`literal`]. `line` is a line break and the indentation of the value's own line.
fn indented(value: &Value, line: &str) -> String {
    let inner = format!("{line}  ");
    let within = |open: char, parts: Vec<String>, close: char| match parts.as_slice() {
        [] => format!("{open}{close}"),
        parts => format!("{open}{inner}{}{line}{close}", parts.join(&format!(",{inner}"))),
    };
    match value {
        Value::Number(number) if is_unsafe(number) => format!("{number}n"),
        Value::String(text) => quoted(text),
        Value::Array(list) => within('[', list.iter().map(|item| indented(item, &inner)).collect(), ']'),
        Value::Object(fields) => {
            let parts = fields.iter().map(|(key, value)| {
                let key = if key == "__proto__" { literal_key(key) } else { quoted(key) };
                format!("{key}: {}", indented(value, &inner))
            });
            within('{', parts.collect(), '}')
        }
        other => other.to_string(),
    }
}

fn is_unsafe(number: &Number) -> bool {
    number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs)).is_some_and(|it| it > SAFE_INTEGER_MAX)
}

/// The key in an object literal, where `"__proto__"` without brackets would set the prototype.
fn literal_key(name: &str) -> String {
    if name == "__proto__" { format!("[{}]", quoted(name)) } else { key(name) }
}

fn key(key: &str) -> String {
    let is_identifier = key.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_' || first == '$')
        && key.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_' || letter == '$');
    if is_identifier && key != "__proto__" { key.to_owned() } else { quoted(key) }
}

fn of_shape(shape: &Shape) -> String {
    match shape {
        Shape::Bool => "boolean".to_owned(),
        Shape::Int32 | Shape::Float => "number".to_owned(),
        // The SDK reads numbers beyond the safe integers as BigInt.
        Shape::Int64 => "number | bigint".to_owned(),
        Shape::Text => "string".to_owned(),
        Shape::Time => "Time".to_owned(),
        Shape::IntOrString => "IntOrString".to_owned(),
        Shape::Quantity => "Quantity".to_owned(),
        Shape::Json => "unknown".to_owned(),
        Shape::List(inner) => match inner.as_ref() {
            Shape::Nullable(_) | Shape::Int64 => format!("({})[]", of_shape(inner)),
            _ => format!("{}[]", of_shape(inner)),
        },
        Shape::Map(inner) => format!("Record<string, {}>", of_shape(inner)),
        Shape::Nullable(inner) => format!("{} | null", of_shape(inner)),
        Shape::Named(name) => name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_literal_has_the_same_value_as_the_json() {
        let value = json!({"a": [9_007_199_254_740_991_i64, i64::MIN, u64::MAX, 1.5, null], "__proto__": {}, "b": []});
        let expected = "{
  [\"__proto__\"]: {},
  \"a\": [
    9007199254740991,
    -9223372036854775808n,
    18446744073709551615n,
    1.5,
    null
  ],
  \"b\": []
}";
        assert_eq!(literal(&value), expected);
        assert_eq!(literal(&json!("\u{202e}\"")), r#""\u202e\"""#);
    }

    #[test]
    fn integers_of_64_bits_may_be_big_and_defaults_are_exact() {
        let field = |key: &str, shape: Shape, default: Value| Field {
            key: key.to_owned(),
            docs: vec![],
            is_required: true,
            default: Some(default),
            shape,
        };
        let fields = vec![
            field("big", Shape::Int64, json!(i64::MAX)),
            field("__proto__", Shape::Text, json!("\u{202e}")),
            field("ratio", Shape::Float, json!(1_u64 << 60)),
            field("list", Shape::List(Box::new(Shape::Int64)), json!([])),
        ];
        let body = Body::Struct(Struct { fields, is_open: false });
        let declaration = Declaration { name: "Shop".into(), docs: vec![], body };
        let text = file(&Model { source: "crd.yaml".into(), kinds: vec![], declarations: vec![declaration] });
        for line in [
            "  big: number | bigint;",
            "  \"__proto__\": string;",
            "  big: 9223372036854775807n as number | bigint,",
            "  [\"__proto__\"]: \"\\u202e\" as string,",
            "  ratio: 1152921504606846976 as number,",
            "  list: [] as (number | bigint)[],",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}\n{text}");
        }
    }
}
