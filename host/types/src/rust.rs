//! Writes types in Rust, for `serde` and `serde_json`. The text is formatted as rustfmt does by default,
//! except where names alone fill a line.

use std::fmt::Write as _;

use serde_json::{Number, Value};

use crate::docs::comment;
use crate::model::{Body, Declaration, Field, Model, Shape, Struct};
use crate::names::{Names, snake, upper_camel};
use crate::{filled, header, is_int32};

/// rustfmt's limit for lines.
const LINE_WIDTH: usize = 100;

/// Words that cannot be names even with `r#`.
const NOT_RAW: &[&str] = &["self", "Self", "super", "crate", "_"];

/// Keywords of all editions, except those in [`NOT_RAW`].
const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do", "dyn", "else", "enum",
    "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match", "mod", "move",
    "mut", "override", "priv", "pub", "ref", "return", "static", "struct", "trait", "true", "try", "type", "typeof",
    "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// Attributes of the module: the names and texts come from the schema, and a plugin does not use all types.
const ALLOWED: &str = "#![allow(dead_code, missing_docs, unreachable_pub)]\n\
    #![allow(non_camel_case_types, non_snake_case)]\n\
    #![allow(clippy::all, clippy::pedantic, rustdoc::all)]\n";

const TIME: &str = "
/// A date and a time, as in RFC 3339.
pub type Time = String;
";

const INT_OR_STRING: &str = "
/// A whole number or a string.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IntOrString {
    Int(i64),
    String(String),
}

impl Default for IntOrString {
    fn default() -> Self {
        Self::Int(0)
    }
}

impl std::fmt::Display for IntOrString {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Int(number) => number.fmt(out),
            Self::String(text) => text.fmt(out),
        }
    }
}
";

const QUANTITY: &str = "
/// A Kubernetes quantity, such as `500m` or `1Gi`.
pub type Quantity = IntOrString;
";

const NUMBER: &str = "
/// A number. A whole number stays whole: `1` does not become `1.0`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Number {
    Int(i64),
    Float(f64),
}

impl Number {
    /// The nearest number of 64 bits.
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Int(number) => number as f64,
            Self::Float(number) => number,
        }
    }
}

impl Default for Number {
    fn default() -> Self {
        Self::Int(0)
    }
}

impl From<i64> for Number {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

/// Without a fraction, the number becomes a whole number.
impl From<f64> for Number {
    fn from(number: f64) -> Self {
        if number.fract() == 0.0 && number.abs() < 9.0e18 {
            Self::Int(number as i64)
        } else {
            Self::Float(number)
        }
    }
}

impl std::fmt::Display for Number {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Int(number) => number.fmt(out),
            Self::Float(number) => number.fmt(out),
        }
    }
}
";

const PRESENT: &str = "
/// Distinguishes null from a missing field.
fn present<'de, T, D>(from: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: serde::Deserializer<'de>,
{
    T::deserialize(from).map(Some)
}
";

/// The method that returns a field or its default.
const DEFAULT_METHOD: &str = "    /// The value of `%KEY%`, or its default.
    pub fn %FIELD%(&self) -> %KIND% {
        match &self.%FIELD% {
            Some(value) => %SOME%,
            None => %NONE%,
        }
    }
";

pub(crate) fn file(model: &Model) -> String {
    let mut text = format!("// {}\n{ALLOWED}\n", header(model));
    let has = |wanted: fn(&Shape) -> bool| model.shapes().any(wanted);
    if has(|it| matches!(it, Shape::Map(_))) || model.structs().any(|it| it.is_open) {
        text.push_str("use std::collections::BTreeMap;\n\n");
    }
    text.push_str("use serde::{Deserialize, Serialize};\n");
    for declaration in &model.declarations {
        text.push('\n');
        comment(&mut text, "///", &without_doctests(&declaration.docs));
        match &declaration.body {
            Body::Struct(it) => write_struct(&mut text, model, &declaration.name, it),
            Body::Enumeration(values) => write_enum(&mut text, &declaration.name, values),
        }
    }
    let needs_quantity = has(|it| *it == Shape::Quantity);
    let helpers = [
        (has(|it| *it == Shape::Time), TIME),
        (needs_quantity || has(|it| *it == Shape::IntOrString), INT_OR_STRING),
        (needs_quantity, QUANTITY),
        (has(|it| *it == Shape::Float), NUMBER),
        (model.structs().flat_map(|it| &it.fields).any(distinguishes_null), PRESENT),
    ];
    helpers.into_iter().filter(|(is_needed, _)| *is_needed).for_each(|(_, helper)| text.push_str(helper));
    text
}

/// Prevents rustdoc from compiling examples of other languages: indented text, and fences that name no language.
fn without_doctests(lines: &[String]) -> Vec<String> {
    let is_fence = |line: &str| line.trim_start().starts_with("```");
    let closes_all = lines.iter().filter(|line| is_fence(line)).count() % 2 == 0;
    let mut is_inside = false;
    let written = lines.iter().map(|line| {
        if is_fence(line) {
            if !closes_all {
                return line.trim_start().replacen("```", "'''", 1);
            }
            is_inside = !is_inside;
            return if is_inside { "```text".to_owned() } else { "```".to_owned() };
        }
        // Other blanks, such as no-break spaces, may have several bytes and begin no example.
        let indent = line.len() - line.trim_start_matches(' ').len();
        if is_inside { line.clone() } else { line[indent.saturating_sub(3)..].to_owned() }
    });
    written.collect()
}

fn write_struct(text: &mut String, model: &Model, name: &str, it: &Struct) {
    text.push_str("#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]\n");
    let _ = writeln!(text, "pub struct {name} {{");
    let mut names = Names::default();
    let idents: Vec<String> = it.fields.iter().map(|field| names.unique(&field_name(&field.key))).collect();
    for (field, ident) in it.fields.iter().zip(&idents) {
        comment(text, "    ///", &without_doctests(&field.docs));
        let ident = escaped(ident);
        if ident.trim_start_matches("r#") != field.key {
            let _ = writeln!(text, "    #[serde(rename = {:?})]", field.key);
        }
        if !field.is_required {
            text.push_str("    #[serde(default, skip_serializing_if = \"Option::is_none\")]\n");
        }
        if distinguishes_null(field) {
            text.push_str("    #[serde(deserialize_with = \"present\")]\n");
        }
        write_field(text, &ident, &field_type(field));
    }
    if it.is_open {
        text.push_str("    /// All other fields.\n    #[serde(flatten)]\n");
        write_field(text, &names.unique("rest"), "BTreeMap<String, serde_json::Value>");
    }
    text.push_str("}\n");
    let fields = it.fields.iter().zip(&idents);
    let methods: Vec<String> = fields.filter_map(|(field, ident)| default_of(model, field, ident)).collect();
    if !methods.is_empty() {
        let _ = writeln!(text, "\nimpl {name} {{\n{}}}", methods.join("\n"));
    }
}

fn write_field(text: &mut String, ident: &str, kind: &str) {
    let line = format!("    pub {ident}: {kind},");
    if line.len() > LINE_WIDTH {
        let _ = writeln!(text, "    pub {ident}:\n        {kind},");
    } else {
        text.push_str(&line);
        text.push('\n');
    }
}

/// The method that returns a field or its default. Only for single values, because lists and objects may be large.
fn default_of(model: &Model, field: &Field, ident: &str) -> Option<String> {
    let default = field.default.as_ref().filter(|_| !field.is_required)?;
    let (kind, some, none) = match (&field.shape, default) {
        (Shape::Bool, Value::Bool(it)) => ("bool".to_owned(), "*value", it.to_string()),
        (Shape::Int32, Value::Number(it)) if is_int32(it) => ("i32".to_owned(), "*value", it.to_string()),
        (Shape::Int64, Value::Number(it)) if it.is_i64() => ("i64".to_owned(), "*value", it.to_string()),
        (Shape::Float, Value::Number(it)) => ("Number".to_owned(), "*value", number(it)?),
        (Shape::Text, Value::String(it)) => ("&str".to_owned(), "value", format!("{it:?}")),
        (Shape::Quantity | Shape::IntOrString, it) => ("IntOrString".to_owned(), "value.clone()", int_or_string(it)?),
        (Shape::Named(name), Value::String(it)) => (name.clone(), "value.clone()", variant_of(model, name, it)?),
        _ => return None,
    };
    let ident = escaped(ident);
    let values =
        [("%KEY%", field.key.as_str()), ("%FIELD%", &ident), ("%KIND%", &kind), ("%SOME%", some), ("%NONE%", &none)];
    Some(filled(DEFAULT_METHOD, &values))
}

fn number(value: &Number) -> Option<String> {
    match value.as_i64() {
        Some(it) => Some(format!("Number::Int({it})")),
        None => Some(format!("Number::Float({:?})", value.as_f64()?)),
    }
}

fn int_or_string(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => Some(format!("IntOrString::Int({})", number.as_i64()?)),
        Value::String(text) => Some(format!("IntOrString::String({text:?}.to_owned())")),
        _ => None,
    }
}

fn variant_of(model: &Model, name: &str, value: &str) -> Option<String> {
    let Some(Declaration { body: Body::Enumeration(values), .. }) = model.declaration(name) else { return None };
    let (variant, _) = variants(values).into_iter().find(|(_, known)| known == value)?;
    Some(format!("{name}::{variant}"))
}

fn write_enum(text: &mut String, name: &str, values: &[String]) {
    text.push_str("#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]\n");
    let _ = writeln!(text, "pub enum {name} {{");
    for (variant, value) in variants(values) {
        if variant != value {
            let _ = writeln!(text, "    #[serde(rename = {value:?})]");
        }
        let _ = writeln!(text, "    {variant},");
    }
    text.push_str(
        "    /// A value that the schema did not have when this file was generated.\n    #[serde(untagged)]\n",
    );
    text.push_str("    Other(String),\n}\n");
    let _ = writeln!(
        text,
        "\nimpl Default for {name} {{\n    fn default() -> Self {{\n        Self::Other(String::new())\n    }}\n}}"
    );
}

/// The names of the variants, each with its value.
fn variants(values: &[String]) -> Vec<(String, String)> {
    let mut scope = Names::with(["Other", "Self"]);
    let named = values.iter().map(|value| {
        let name = match upper_camel(value) {
            name if value.is_empty() && name.is_empty() => "Empty".to_owned(),
            name if name.starts_with(|first: char| first.is_ascii_digit()) => format!("N{name}"),
            name if name.is_empty() => "Value".to_owned(),
            name => name,
        };
        (scope.unique(&name), value.clone())
    });
    named.collect()
}

fn field_name(key: &str) -> String {
    match snake(key) {
        name if name.is_empty() => "field".to_owned(),
        name if name.starts_with(|first: char| first.is_ascii_digit()) => format!("n{name}"),
        name if NOT_RAW.contains(&name.as_str()) => format!("{name}_"),
        name => name,
    }
}

/// The name, with `r#` if it is a keyword.
fn escaped(name: &str) -> String {
    if KEYWORDS.contains(&name) { format!("r#{name}") } else { name.to_owned() }
}

/// Whether null and a missing field are different values of the field. An `Option` alone would read both as `None`.
fn distinguishes_null(field: &Field) -> bool {
    !field.is_required && matches!(field.shape, Shape::Nullable(_) | Shape::Json)
}

fn field_type(field: &Field) -> String {
    let kind = of_shape(&field.shape);
    if field.is_required { kind } else { format!("Option<{kind}>") }
}

fn of_shape(shape: &Shape) -> String {
    match shape {
        Shape::Bool => "bool".to_owned(),
        Shape::Int32 => "i32".to_owned(),
        Shape::Int64 => "i64".to_owned(),
        Shape::Float => "Number".to_owned(),
        Shape::Text => "String".to_owned(),
        Shape::Time => "Time".to_owned(),
        Shape::IntOrString => "IntOrString".to_owned(),
        Shape::Quantity => "Quantity".to_owned(),
        Shape::Json => "serde_json::Value".to_owned(),
        Shape::List(inner) => format!("Vec<{}>", of_shape(inner)),
        Shape::Map(inner) => format!("BTreeMap<String, {}>", of_shape(inner)),
        Shape::Nullable(inner) => format!("Option<{}>", of_shape(inner)),
        Shape::Named(name) => name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_may_begin_with_no_break_spaces() {
        let lines = ["\u{a0}\u{a0}a", " \u{a0}b", "     c"].map(str::to_owned);
        assert_eq!(without_doctests(&lines), ["\u{a0}\u{a0}a", " \u{a0}b", "   c"]);
    }
}
