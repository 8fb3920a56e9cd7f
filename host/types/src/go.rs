//! Writes types in Go, for `encoding/json` of Go 1.24 or newer. The text is formatted as gofmt does. Blank lines
//! separate all fields, so that gofmt aligns nothing.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::Value;

use crate::docs::comment;
use crate::model::{Body, Declaration, Field, Model, Shape, Struct};
use crate::names::{Names, upper_camel};
use crate::{filled, header, is_int32, quoted};

/// Names of methods that a struct may have. No field may have the same name.
const METHODS: [&str; 3] = ["MarshalJSON", "UnmarshalJSON", "String"];

/// Abbreviations that Go writes in capitals, if a name begins with them.
const INITIALISMS: &[&str] = &[
    "api", "ca", "cidr", "cpu", "dns", "http", "https", "id", "io", "ip", "json", "os", "sql", "ssh", "tcp", "tls",
    "ttl", "udp", "uid", "uri", "url",
];

const TIME: &str = "
// Time is a date and a time, as in RFC 3339.
type Time = string
";

const INT_OR_STRING: &str = "
// IntOrString is a whole number or a string.
type IntOrString struct {
	// IsInt reports whether the value is Int. Otherwise, it is Text.
	IsInt bool

	Int int64

	Text string
}

func (v IntOrString) String() string {
	if v.IsInt {
		return strconv.FormatInt(v.Int, 10)
	}
	return v.Text
}

func (v IntOrString) MarshalJSON() ([]byte, error) {
	if v.IsInt {
		return json.Marshal(v.Int)
	}
	return json.Marshal(v.Text)
}

func (v *IntOrString) UnmarshalJSON(data []byte) error {
	*v = IntOrString{IsInt: len(data) > 0 && data[0] != '\"'}
	if v.IsInt {
		return json.Unmarshal(data, &v.Int)
	}
	return json.Unmarshal(data, &v.Text)
}
";

const QUANTITY: &str = "
// Quantity is a Kubernetes quantity, such as 500m or 1Gi.
type Quantity = IntOrString
";

const NULLABLE: &str = "
// Nullable is a field that may be missing, null, or a value.
type Nullable[T any] struct {
	// IsSet reports whether the field is present.
	IsSet bool

	// Value is nil for null.
	Value *T
}

func (v Nullable[T]) IsZero() bool { return !v.IsSet }

func (v Nullable[T]) MarshalJSON() ([]byte, error) { return json.Marshal(v.Value) }

func (v *Nullable[T]) UnmarshalJSON(data []byte) error {
	v.IsSet, v.Value = true, nil
	return json.Unmarshal(data, &v.Value)
}
";

const REST: &str = "
// withRest returns the JSON of the fields, with all others in rest.
func withRest(fields any, rest map[string]json.RawMessage) ([]byte, error) {
	data, err := json.Marshal(fields)
	if err != nil || len(rest) == 0 {
		return data, err
	}
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	for key, value := range rest {
		if _, exists := all[key]; !exists {
			all[key] = value
		}
	}
	return json.Marshal(all)
}

// splitRest separates the fields with the known keys from all others.
func splitRest(data []byte, known ...string) ([]byte, map[string]json.RawMessage, error) {
	var rest map[string]json.RawMessage
	if err := json.Unmarshal(data, &rest); err != nil {
		return nil, nil, err
	}
	fields := map[string]json.RawMessage{}
	for _, key := range known {
		if value, exists := rest[key]; exists {
			fields[key] = value
			delete(rest, key)
		}
	}
	data, err := json.Marshal(fields)
	return data, rest, err
}
";

/// The methods of a struct that keeps other fields.
const REST_METHODS: &str = "
func (v %NAME%) MarshalJSON() ([]byte, error) {
	type plain %NAME%
	return withRest(plain(v), v.%REST%)
}

func (v *%NAME%) UnmarshalJSON(data []byte) error {
	type plain %NAME%
	fields, rest, err := splitRest(data%KNOWN%)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(fields, (*plain)(v)); err != nil {
		return err
	}
	v.%REST% = rest
	return nil
}
";

/// The method that returns a field or its default.
const DEFAULT_METHOD: &str = "
// %METHOD% returns %FIELD%, or its default.
func (v *%NAME%) %METHOD%() %KIND% {
	if v.%FIELD% != nil {
		return *v.%FIELD%
	}
	return %VALUE%
}
";

pub(crate) fn file(model: &Model, package: &str) -> String {
    let mut printer = GoFile { model, text: String::new(), names: Names::of_types() };
    for declaration in &model.declarations {
        printer.names.unique(&declaration.name);
    }
    for declaration in &model.declarations {
        printer.declaration(declaration);
    }
    let has = |wanted: fn(&Shape) -> bool| model.shapes().any(wanted);
    let needs_quantity = has(|it| *it == Shape::Quantity);
    let needs_union = needs_quantity || has(|it| *it == Shape::IntOrString);
    let needs_rest = model.structs().any(|it| it.is_open);
    let needs_nullable = model.structs().flat_map(|it| &it.fields).any(|field| kind_of(field).starts_with("Nullable["));
    let needs_time = has(|it| *it == Shape::Time);
    let helpers = [
        (needs_time, TIME),
        (needs_union, INT_OR_STRING),
        (needs_quantity, QUANTITY),
        (needs_nullable, NULLABLE),
        (needs_rest, REST),
    ];
    for (_, helper) in helpers.into_iter().filter(|(is_needed, _)| *is_needed) {
        printer.text.push_str(helper);
    }
    let mut imports = BTreeSet::new();
    if needs_union || needs_rest || needs_nullable || has(|it| *it == Shape::Json) {
        imports.insert("encoding/json");
    }
    if needs_union {
        imports.insert("strconv");
    }
    let imports: Vec<String> = imports.into_iter().map(quoted).collect();
    let imports = match imports.as_slice() {
        [] => String::new(),
        [one] => format!("\nimport {one}\n"),
        many => format!("\nimport (\n\t{}\n)\n", many.join("\n\t")),
    };
    format!("// {}\n\npackage {package}\n{imports}{}", header(model), printer.text)
}

struct GoFile<'a> {
    model: &'a Model,
    text: String,
    /// The names of the package.
    names: Names,
}

impl GoFile<'_> {
    fn declaration(&mut self, declaration: &Declaration) {
        self.text.push('\n');
        let mut docs = declaration.docs.clone();
        // Go's documentation begins with the name.
        let title = format!("{}: ", declaration.name);
        match docs.first_mut() {
            Some(first) => first.insert_str(0, &title),
            None => docs.push(format!("{} is a type of the schema.", declaration.name)),
        }
        comment(&mut self.text, "//", &plain(&docs));
        match &declaration.body {
            Body::Struct(it) => self.structure(&declaration.name, it),
            Body::Enumeration(values) => self.enumeration(&declaration.name, values),
        }
    }

    fn structure(&mut self, name: &str, it: &Struct) {
        let _ = writeln!(self.text, "type {name} struct {{");
        let mut names = Names::with(METHODS);
        let idents: Vec<String> = it.fields.iter().map(|field| names.unique(&field_name(&field.key))).collect();
        for (at, (field, ident)) in it.fields.iter().zip(&idents).enumerate() {
            if at > 0 {
                self.text.push('\n');
            }
            comment(&mut self.text, "\t//", &field.docs);
            let _ = writeln!(self.text, "\t{ident} {} `json:\"{}{}\"`", kind_of(field), key(field), option(field));
        }
        if it.is_open {
            let rest = names.unique("Rest");
            let blank = if it.fields.is_empty() { "" } else { "\n" };
            let _ = write!(
                self.text,
                "{blank}\t// {rest} has all other fields.\n\t{rest} \
                 map[string]json.RawMessage `json:\"-\"`\n}}\n"
            );
            self.rest(name, &rest, it);
        } else {
            self.text.push_str("}\n");
        }
        for (field, ident) in it.fields.iter().zip(&idents) {
            self.default(name, field, ident, &mut names);
        }
    }

    /// The methods that read and write the fields of an open struct.
    fn rest(&mut self, name: &str, rest: &str, it: &Struct) {
        let known: Vec<String> = it.fields.iter().map(|field| format!(", {}", quoted(&field.key))).collect();
        let values = [("%NAME%", name), ("%REST%", rest), ("%KNOWN%", &known.concat())];
        self.text.push_str(&filled(REST_METHODS, &values));
    }

    /// The method that returns a field or its default. Only for single values, because lists and objects may be large.
    fn default(&mut self, name: &str, field: &Field, ident: &str, names: &mut Names) {
        let Some(default) = field.default.as_ref().filter(|_| !field.is_required) else { return };
        let value = match (&field.shape, default) {
            (Shape::Bool, Value::Bool(_)) | (Shape::Float, Value::Number(_)) => default.to_string(),
            (Shape::Int32, Value::Number(it)) if is_int32(it) => it.to_string(),
            (Shape::Int64, Value::Number(it)) if it.is_i64() => it.to_string(),
            (Shape::Text, Value::String(it)) => quoted(it),
            (Shape::Named(kind), Value::String(it)) if self.is_enumeration(kind) => quoted(it),
            (Shape::Quantity | Shape::IntOrString, Value::String(it)) => format!("IntOrString{{Text: {}}}", quoted(it)),
            (Shape::Quantity | Shape::IntOrString, Value::Number(it)) if it.is_i64() => {
                format!("IntOrString{{IsInt: true, Int: {it}}}")
            }
            _ => return,
        };
        let method = names.unique(&format!("{ident}OrDefault"));
        let kind = of_shape(&field.shape);
        let names = [("%METHOD%", method.as_str()), ("%FIELD%", ident), ("%NAME%", name)];
        let values = [("%KIND%", kind.as_str()), ("%VALUE%", &value)];
        self.text.push_str(&filled(DEFAULT_METHOD, &[names.as_slice(), &values].concat()));
    }

    fn is_enumeration(&self, name: &str) -> bool {
        self.model.declaration(name).is_some_and(|it| matches!(it.body, Body::Enumeration(_)))
    }

    fn enumeration(&mut self, name: &str, values: &[String]) {
        let _ = writeln!(self.text, "type {name} string");
        for value in values {
            let part = match upper_camel(value) {
                part if value.is_empty() && part.is_empty() => "Empty".to_owned(),
                part if part.is_empty() => "Value".to_owned(),
                part => part,
            };
            let constant = self.names.unique(&format!("{name}{part}"));
            let _ = writeln!(self.text, "\nconst {constant} {name} = {}", quoted(value));
        }
    }
}

/// Lines that gofmt does not change in the documentation of a declaration: without indentation.
fn plain(lines: &[String]) -> Vec<String> {
    lines.iter().map(|line| line.trim_start().to_owned()).collect()
}

fn field_name(key: &str) -> String {
    let name = upper_camel(key);
    let second = name.char_indices().skip(1).find(|(_, letter)| letter.is_ascii_uppercase());
    let end = second.map_or(name.len(), |(at, _)| at);
    if INITIALISMS.contains(&name[..end].to_ascii_lowercase().as_str()) {
        return format!("{}{}", name[..end].to_ascii_uppercase(), &name[end..]);
    }
    match name {
        name if name.is_empty() => "Field".to_owned(),
        name if name.starts_with(|first: char| first.is_ascii_digit()) => format!("N{name}"),
        name => name,
    }
}

/// The key in a tag. A key of only a dash would exclude the field.
fn key(field: &Field) -> String {
    if field.key == "-" { "-,".to_owned() } else { field.key.clone() }
}

/// The option of the tag by which a missing field stays missing.
fn option(field: &Field) -> &'static str {
    match (&field.shape, field.is_required) {
        // A nil list would be written as null, which is only valid for a nullable field.
        (Shape::List(_) | Shape::Map(_) | Shape::Json, _) | (Shape::Nullable(_), false) => ",omitzero",
        (_, false) => ",omitempty",
        (_, true) => "",
    }
}

fn kind_of(field: &Field) -> String {
    match &field.shape {
        Shape::Nullable(inner) if !field.is_required => format!("Nullable[{}]", of_shape(inner)),
        shape if field.is_required || can_be_nil(shape) => of_shape(shape),
        shape => format!("*{}", of_shape(shape)),
    }
}

fn can_be_nil(shape: &Shape) -> bool {
    matches!(shape, Shape::List(_) | Shape::Map(_) | Shape::Json)
}

fn of_shape(shape: &Shape) -> String {
    match shape {
        Shape::Bool => "bool".to_owned(),
        Shape::Int32 => "int32".to_owned(),
        Shape::Int64 => "int64".to_owned(),
        Shape::Float => "float64".to_owned(),
        Shape::Text => "string".to_owned(),
        Shape::Time => "Time".to_owned(),
        Shape::IntOrString => "IntOrString".to_owned(),
        Shape::Quantity => "Quantity".to_owned(),
        Shape::Json => "json.RawMessage".to_owned(),
        Shape::List(inner) => format!("[]{}", of_shape(inner)),
        Shape::Map(inner) => format!("map[string]{}", of_shape(inner)),
        Shape::Nullable(inner) if can_be_nil(inner) => of_shape(inner),
        Shape::Nullable(inner) => format!("*{}", of_shape(inner)),
        Shape::Named(name) => name.clone(),
    }
}
