//! Checks documents against the manifest's schema. The checker supports only the keywords that the schema uses: an
//! unknown keyword fails the test.

use serde_json::Value;

/// Keywords that limit a value. This checker ignores them, because the host checks them.
const BOUNDS: [&str; 9] =
    ["default", "pattern", "minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength", "uniqueItems"];

pub(crate) fn schema() -> Value {
    serde_json::from_str(include_str!("../../../../wit/manifest.schema.json")).unwrap()
}

pub(crate) fn resolve<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(reference) => root.pointer(reference.trim_start_matches('#')).expect("a reference leads somewhere"),
        None => schema,
    }
}

/// The places where `value` does not match `schema`.
pub(crate) fn misfits(root: &Value, schema: &Value, value: &Value, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (keyword, argument) in schema.as_object().expect("a schema is an object") {
        match keyword.as_str() {
            "$ref" => found.extend(misfits(root, resolve(root, schema), value, path)),
            "type" if !has_type(value, argument) => found.push(format!("{path}: not of type {argument}")),
            "const" if value != argument => found.push(format!("{path}: not {argument}")),
            "enum" if !argument.as_array().unwrap().contains(value) => found.push(format!("{path}: not in {argument}")),
            "oneOf" => found.extend(misfit_of_one(root, argument.as_array().unwrap(), value, path)),
            "items" => {
                let items = value.as_array().into_iter().flatten().enumerate();
                found.extend(items.flat_map(|(at, item)| misfits(root, argument, item, &format!("{path}/{at}"))));
            }
            "required" => {
                let names = argument.as_array().unwrap().iter().filter_map(Value::as_str);
                let missing = names.filter(|name| value.get(name).is_none());
                found.extend(missing.map(|name| format!("{path}/{name}: missing")));
            }
            "properties" => found.extend(misfits_of_properties(root, schema, value, path)),
            "additionalProperties" => assert_eq!(argument, false, "the only form that the schema uses"),
            "$schema" | "$id" | "$defs" | "title" | "description" | "type" | "const" | "enum" => {}
            bound => assert!(BOUNDS.contains(&bound), "the test does not know the keyword {bound}"),
        }
    }
    found
}

fn misfits_of_properties(root: &Value, schema: &Value, value: &Value, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (name, value) in value.as_object().into_iter().flatten() {
        let path = format!("{path}/{name}");
        match schema["properties"].get(name) {
            Some(property) => found.extend(misfits(root, property, value, &path)),
            None if schema.get("additionalProperties").is_some() => found.push(format!("{path}: not in the schema")),
            None => {}
        }
    }
    found
}

fn misfit_of_one(root: &Value, variants: &[Value], value: &Value, path: &str) -> Option<String> {
    let fitting = variants.iter().filter(|variant| misfits(root, variant, value, path).is_empty()).count();
    (fitting != 1).then(|| format!("{path}: fits {fitting} variants"))
}

fn has_type(value: &Value, name: &Value) -> bool {
    if let Some(names) = name.as_array() {
        return names.iter().any(|name| has_type(value, name));
    }
    match name.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64(),
        Some("number") => value.is_number(),
        _ => panic!("the test does not know the type {name}"),
    }
}
