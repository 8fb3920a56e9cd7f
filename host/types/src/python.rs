//! Writes types in Python, as `TypedDict`. Objects stay plain JSON, so that nothing can get lost.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::Value;

use crate::docs::comment;
use crate::model::{Body, Declaration, Model, Shape, Struct};
use crate::names::{Names, snake};
use crate::{header, quoted};

const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
    "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
    "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

const TIME: &str = "
#: A date and a time, as in RFC 3339.
Time: TypeAlias = str
";

const INT_OR_STRING: &str = "
#: A whole number or a string.
IntOrString: TypeAlias = int | str
";

const QUANTITY: &str = "
#: A Kubernetes quantity, such as `500m` or `1Gi`.
Quantity: TypeAlias = int | str
";

pub(crate) fn file(model: &Model) -> String {
    let mut printer = PythonFile { text: String::new(), imports: BTreeSet::new(), constants: Names::default() };
    for (shape, helper) in [(Shape::Time, TIME), (Shape::IntOrString, INT_OR_STRING), (Shape::Quantity, QUANTITY)] {
        if model.shapes().any(|it| *it == shape) {
            printer.imports.insert("TypeAlias");
            printer.text.push_str(helper);
        }
    }
    for declaration in &model.declarations {
        printer.declaration(declaration);
    }
    let PythonFile { text, imports, .. } = printer;
    let imports: Vec<&str> = imports.into_iter().collect();
    let imports =
        if imports.is_empty() { String::new() } else { format!("\nfrom typing import {}\n", imports.join(", ")) };
    format!("# {}\n\nfrom __future__ import annotations\n{imports}{text}", header(model))
}

struct PythonFile {
    text: String,
    /// The names that the file imports from `typing`.
    imports: BTreeSet<&'static str>,
    /// The names of constants.
    constants: Names,
}

impl PythonFile {
    fn declaration(&mut self, declaration: &Declaration) {
        let Declaration { name, docs, body } = declaration;
        match body {
            Body::Struct(it) if it.fields.iter().all(|field| is_attribute(&field.key)) => self.class(name, docs, it),
            Body::Struct(it) => self.dictionary(name, docs, it),
            Body::Enumeration(values) => {
                self.imports.extend(["Literal", "TypeAlias"]);
                self.text.push('\n');
                comment(&mut self.text, "#:", docs);
                let values: Vec<String> = values.iter().map(|value| quoted(value)).collect();
                let _ = writeln!(self.text, "{name}: TypeAlias = Literal[{}]", values.join(", "));
            }
        }
        if let Body::Struct(it) = body {
            self.defaults(name, it);
        }
    }

    fn class(&mut self, name: &str, docs: &[String], it: &Struct) {
        self.imports.insert("TypedDict");
        let _ = writeln!(self.text, "\n\nclass {name}(TypedDict):");
        let docs = with_openness(docs, it);
        docstring(&mut self.text, &docs);
        if it.fields.is_empty() && docs.is_empty() {
            self.text.push_str("    pass\n");
        }
        for field in &it.fields {
            if !self.text.ends_with(":\n") {
                self.text.push('\n');
            }
            comment(&mut self.text, "    #:", &field.docs);
            let kind = self.field_type(field.is_required, &field.shape);
            let _ = writeln!(self.text, "    {}: {kind}", field.key);
        }
    }

    /// Keys that cannot be attributes need the functional syntax, in which types are strings.
    fn dictionary(&mut self, name: &str, docs: &[String], it: &Struct) {
        self.imports.insert("TypedDict");
        self.text.push_str("\n\n");
        comment(&mut self.text, "#:", &with_openness(docs, it));
        let _ = writeln!(self.text, "{name} = TypedDict(\n    {},\n    {{", quoted(name));
        for field in &it.fields {
            comment(&mut self.text, "        #", &field.docs);
            let kind = self.field_type(field.is_required, &field.shape);
            let _ = writeln!(self.text, "        {}: {},", quoted(&field.key), quoted(&kind));
        }
        self.text.push_str("    },\n)\n");
    }

    fn defaults(&mut self, name: &str, it: &Struct) {
        let defaults = it.fields.iter().filter_map(|field| Some((&field.key, field.default.as_ref()?)));
        let defaults: Vec<_> = defaults.collect();
        if defaults.is_empty() {
            return;
        }
        self.imports.extend(["Any", "Final"]);
        let constant = self.constants.unique(&format!("{}_DEFAULTS", snake(name).to_ascii_uppercase()));
        let _ =
            writeln!(self.text, "\n\n#: The values that the server fills in.\n{constant}: Final[dict[str, Any]] = {{");
        for (key, value) in defaults {
            let _ = writeln!(self.text, "    {}: {},", quoted(key), literal(value));
        }
        self.text.push_str("}\n");
    }

    fn field_type(&mut self, is_required: bool, shape: &Shape) -> String {
        let kind = self.of_shape(shape);
        if is_required {
            return kind;
        }
        self.imports.insert("NotRequired");
        format!("NotRequired[{kind}]")
    }

    fn of_shape(&mut self, shape: &Shape) -> String {
        match shape {
            Shape::Bool => "bool".to_owned(),
            Shape::Int32 | Shape::Int64 => "int".to_owned(),
            Shape::Float => "float".to_owned(),
            Shape::Text => "str".to_owned(),
            Shape::Time => "Time".to_owned(),
            Shape::IntOrString => "IntOrString".to_owned(),
            Shape::Quantity => "Quantity".to_owned(),
            Shape::Json => {
                self.imports.insert("Any");
                "Any".to_owned()
            }
            Shape::List(inner) => format!("list[{}]", self.of_shape(inner)),
            Shape::Map(inner) => format!("dict[str, {}]", self.of_shape(inner)),
            Shape::Nullable(inner) => format!("{} | None", self.of_shape(inner)),
            Shape::Named(name) => name.clone(),
        }
    }
}

/// Types that the file uses. An attribute with such a name would hide the type from the other attributes.
const BUILTINS: [&str; 6] = ["bool", "dict", "float", "int", "list", "str"];

/// Whether the key can be an attribute of a class. Python changes names that begin with two underscores. Names of
/// types begin with a capital, so an attribute must not begin with one.
fn is_attribute(key: &str) -> bool {
    key.starts_with(|first: char| first.is_ascii_lowercase() || first == '_')
        && key.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
        && !key.starts_with("__")
        && !KEYWORDS.contains(&key)
        && !BUILTINS.contains(&key)
}

/// The documentation of a struct. A `TypedDict` cannot express that an object may have other fields.
fn with_openness(docs: &[String], it: &Struct) -> Vec<String> {
    let mut docs = docs.to_vec();
    if it.is_open {
        docs.extend((!docs.is_empty()).then(String::new));
        docs.push("An object may have other fields.".to_owned());
    }
    docs
}

fn docstring(text: &mut String, lines: &[String]) {
    let lines: Vec<String> = lines.iter().map(|line| line.replace('\\', "\\\\").replace('"', "\\\"")).collect();
    match lines.as_slice() {
        [] => {}
        [line] => {
            let _ = writeln!(text, "    \"\"\"{line}\"\"\"");
        }
        [first, rest @ ..] => {
            let _ = writeln!(text, "    \"\"\"{first}");
            for line in rest {
                let line = format!("    {line}");
                let _ = writeln!(text, "{}", line.trim_end());
            }
            text.push_str("    \"\"\"\n");
        }
    }
}

/// A Python expression for a JSON value.
fn literal(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => quoted(text),
        Value::Array(list) => format!("[{}]", list.iter().map(literal).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(key, value)| format!("{}: {}", quoted(key), literal(value))).collect();
            format!("{{{}}}", fields.join(", "))
        }
    }
}
