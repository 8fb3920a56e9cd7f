//! Creates a default scenario for plugins that have none. Its steps create the sample, change each field of its spec
//! according to the schema and change it back, and then delete the sample and create it again.

use serde_json::{Map, Value, json};

use super::document::{ObjectName, ObjectPatch};
use super::{Scenario, Step};

/// The maximum number of fields that are changed. Each of them takes two steps.
const CHANGED_FIELDS_MAX: usize = 24;
/// The maximum depth at which fields are changed.
const FIELD_DEPTH_MAX: usize = 4;

/// The reason why no scenario can be created.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DraftError {
    /// There is no sample, so no valid object is known.
    #[error(
        "there is no sample of {kind} of {api_version}: put one in sample.yaml beside crd.yaml, or write a scenario and name it \
         with --scenario"
    )]
    NoSample {
        /// The API version of the plugin's primary.
        api_version: String,
        /// The kind of the plugin's primary.
        kind: String,
    },
}

/// Creates a scenario for the kind of a plugin's primary. `load` contains its CRD, and `samples` an object of the kind.
/// All other objects in `samples` exist from the beginning.
pub fn draft(
    name: &str,
    (api_version, kind): (&str, &str),
    mut load: Vec<Value>,
    samples: Vec<Value>,
) -> Result<Scenario, DraftError> {
    let is_primary = |object: &Value| object["apiVersion"] == api_version && object["kind"] == kind;
    let (primaries, others): (Vec<_>, Vec<_>) = samples.into_iter().partition(is_primary);
    let Some(sample) = primaries.into_iter().next() else {
        return Err(DraftError::NoSample { api_version: api_version.to_owned(), kind: kind.to_owned() });
    };
    let mut steps = vec![Step::Apply(sample.clone())];
    steps.extend(field_changes(&sample, &load));
    let guessed = 1..steps.len();
    steps.extend([Step::Delete(ObjectName::of(&sample)), Step::Apply(sample)]);
    load.extend(others);
    Ok(Scenario { guessed, ..Scenario::new(name.to_owned(), load, steps) })
}

/// Steps that change each field of `sample`'s spec and change it back, according to the schema in `load`. They come in
/// pairs.
pub(super) fn field_changes(sample: &Value, load: &[Value]) -> Vec<Step> {
    let text = |field: &str| sample[field].as_str().unwrap_or_default();
    let schema = schema_of(load, text("apiVersion"), text("kind")).unwrap_or_default();
    let object = ObjectName::of(sample);
    let mut steps = Vec::new();
    for pair in changes(&sample["spec"], &schema) {
        let patch = |spec: Value| {
            Step::Patch(ObjectPatch { object: object.clone(), merge: json!({ "spec": spec }), subresource: None })
        };
        steps.extend(pair.map(patch));
    }
    steps
}

/// The schema of the spec in the CRD of a kind.
fn schema_of(objects: &[Value], api_version: &str, kind: &str) -> Option<Value> {
    let (group, version) = api_version.split_once('/')?;
    let definition = objects.iter().find(|object| {
        object["kind"] == "CustomResourceDefinition"
            && object["spec"]["group"] == group
            && object["spec"]["names"]["kind"] == kind
    })?;
    let versions = definition["spec"]["versions"].as_array()?;
    let version = versions.iter().find(|it| it["name"] == version)?;
    version.pointer("/schema/openAPIV3Schema/properties/spec").cloned()
}

/// Pairs of merge patches of `spec`: one gives a field another value that the schema allows, and one undoes this.
fn changes(spec: &Value, schema: &Value) -> Vec<[Value; 2]> {
    let mut found = Vec::new();
    collect(spec, schema, &mut FieldPlace::default(), &mut found);
    found.truncate(CHANGED_FIELDS_MAX);
    found
}

/// The place of a field in a spec.
#[derive(Default)]
struct FieldPlace {
    path: Vec<String>,
    /// The length of the path to the outermost object that the sample lacks. `None` if the sample has all objects on
    /// the path.
    lacking: Option<usize>,
}

fn collect(value: &Value, schema: &Value, place: &mut FieldPlace, found: &mut Vec<[Value; 2]>) {
    let no_fields = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&no_fields);
    // Fields that the schema does not describe are changed as well.
    let undescribed = value.as_object().unwrap_or(&no_fields).keys().filter(|name| !properties.contains_key(*name));
    let lacking = place.lacking;
    let names = properties.keys().chain(undescribed).filter(|name| lacking.is_none() || is_enough(name, schema));
    for name in names.cloned().collect::<Vec<String>>() {
        let (field, described) = (&value[&name], &properties.get(&name).cloned().unwrap_or(Value::Null));
        place.path.push(name);
        if (field.is_object() || described["properties"].is_object()) && place.path.len() < FIELD_DEPTH_MAX {
            if !field.is_object() {
                place.lacking = lacking.or(Some(place.path.len()));
            }
            collect(field, described, place, found);
            place.lacking = lacking;
        } else if let Some(other) = another(field, described, place.path.len() > 1) {
            // Remove a whole object that was not there, because it may be invalid without the field.
            let undo = match lacking {
                Some(length) => nested(&place.path[..length], &Value::Null),
                None => nested(&place.path, field),
            };
            found.push([nested(&place.path, &other), undo]);
        }
        place.path.pop();
    }
}

/// Whether an object that has only the field `name` has all fields that its schema requires.
fn is_enough(name: &str, schema: &Value) -> bool {
    let mut required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    required.all(|required| required == name || !schema["properties"][required]["default"].is_null())
}

/// Another value of a field. `None` if no other value is known to be valid. `is_nested`: whether the field belongs to
/// an object within the spec.
fn another(value: &Value, schema: &Value, is_nested: bool) -> Option<Value> {
    if let Some(choices) = schema["enum"].as_array() {
        return choices.iter().find(|choice| *choice != value && !choice.is_null()).cloned();
    }
    let kind = schema["type"].as_str().unwrap_or(match value {
        Value::String(_) => "string",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_i64() => "integer",
        _ => "",
    });
    let (least, most) = (schema["minimum"].as_i64(), schema["maximum"].as_i64());
    let current = if value.is_null() { &schema["default"] } else { value };
    match kind {
        "boolean" => Some(json!(!current.as_bool().unwrap_or_default())),
        "integer" => {
            let now = current.as_i64().unwrap_or(least.unwrap_or(0));
            let more = now.checked_add(1).filter(|more| most.is_none_or(|most| *more <= most));
            let less = now.checked_sub(1).filter(|less| least.is_none_or(|least| *less >= least));
            more.or(less).map(|other| json!(other))
        }
        // Plugins copy nested objects elsewhere. There a text without any example might be invalid, such as the type of
        // a security profile.
        "string" if is_nested && current.is_null() => None,
        // With a pattern or a format, a shortened or repeated text might be invalid.
        "string" if schema["pattern"].is_null() && schema["format"].is_null() => {
            let text = current.as_str().unwrap_or("a");
            let other = format!("{text}-2");
            let fits =
                schema["maxLength"].as_u64().is_none_or(|most| u64::try_from(other.len()).is_ok_and(|len| len <= most));
            fits.then(|| json!(other))
        }
        _ => None,
    }
}

fn nested(path: &[String], value: &Value) -> Value {
    path.iter().rev().fold(value.clone(), |inner, name| {
        let mut outer = Map::new();
        outer.insert(name.clone(), inner);
        Value::Object(outer)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(spec: &Value) -> Value {
        let version = json!({"name": "v1", "schema": {"openAPIV3Schema": {"properties": {"spec": spec}}}});
        let spec = json!({"group": "example.com", "names": {"kind": "Shop"}, "versions": [version]});
        json!({"kind": "CustomResourceDefinition", "spec": spec})
    }

    #[test]
    fn each_field_is_changed_by_its_schema_and_back() {
        let fields = json!({"properties": {
            "size": {"enum": ["small", "large"]},
            "replicas": {"type": "integer", "maximum": 3},
            "paused": {"type": "boolean"},
            "at": {"type": "string", "format": "date-time"},
            "door": {"properties": {"colour": {"type": "string"}}},
        }});
        let spec = json!({"size": "small", "replicas": 3, "at": "2026-01-01T00:00:00Z", "door": {"colour": "red"}});
        let sample = json!({"apiVersion": "example.com/v1", "kind": "Shop", "metadata": {"name": "a"}, "spec": spec});
        let other = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "b"}});
        let of = ("example.com/v1", "Shop");
        let scenario = draft("shop", of, vec![definition(&fields)], vec![other, sample]).expect("a scenario");
        assert_eq!(scenario.load.len(), 2, "all other objects exist from the beginning");
        let steps: Vec<_> = scenario.steps.iter().map(ToString::to_string).collect();
        let patch = |merge: &str| format!(r#"patch Shop default/a with {{"spec":{merge}}}"#);
        let expected = [
            "apply Shop default/a".to_owned(),
            patch(r#"{"door":{"colour":"red-2"}}"#),
            patch(r#"{"door":{"colour":"red"}}"#),
            patch(r#"{"paused":true}"#),
            patch(r#"{"paused":null}"#),
            patch(r#"{"replicas":2}"#),
            patch(r#"{"replicas":3}"#),
            patch(r#"{"size":"large"}"#),
            patch(r#"{"size":"small"}"#),
            "delete Shop default/a".to_owned(),
            "apply Shop default/a".to_owned(),
        ];
        assert_eq!(steps, expected);
    }

    #[test]
    fn an_object_that_the_sample_lacks_appears_whole_or_not_at_all() {
        let text = json!({"type": "string"});
        let profile = json!({"required": ["type"], "properties": {
            "type": text, "localhostProfile": text, "on": {"type": "boolean"},
        }});
        let limits = json!({"required": ["cpu", "unit"], "properties": {
            "cpu": {"type": "integer"}, "unit": {"type": "string", "default": "m"}, "note": text,
        }});
        let schema = json!({"properties": {"context": {"properties": {"profile": profile, "limits": limits}}}});
        let found = changes(&json!({}), &schema);
        let expected = [[json!({"context": {"limits": {"cpu": 1}}}), json!({"context": null})]];
        assert_eq!(found, expected, "only the field `cpu` makes a valid object");
        let found = changes(&json!({"context": {}}), &schema);
        assert_eq!(found[0][1], json!({"context": {"limits": null}}));
        let found = changes(&json!({"context": {"profile": {"type": "a"}}}), &schema);
        assert_eq!(found.len(), 3, "the type, too, but no text that has no example: {found:?}");
    }

    #[test]
    fn without_a_sample_there_is_no_scenario() {
        let error = draft("shop", ("example.com/v1", "Shop"), vec![], vec![]).expect_err("no sample").to_string();
        assert!(error.contains("sample.yaml") && error.contains("--scenario"), "{error}");
    }
}
