//! Random operations from `vocabulary.yaml`. A failing case shrinks to fewer and simpler operations.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::Index;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::script::Step;

/// The maximal number of operations in a case.
pub const CASE_OPERATIONS_MAX: usize = 8;

/// The maximal number of fields that an operation sets.
const EDITS_PER_OPERATION_MAX: usize = 3;

const VERSION: &str = "/metadata/resourceVersion";

/// The parts of the operations.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vocabulary {
    names: Vec<String>,
    options: Vec<String>,
    values: BTreeMap<String, Vec<Value>>,
    kinds: Vec<KnownKind>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownKind {
    /// The path of the collection.
    path: String,
    /// The simplest object, without a name.
    object: Value,
    /// The values of fields, by JSON pointer.
    values: BTreeMap<String, Vec<Value>>,
}

#[derive(Clone, Copy, Debug)]
enum RandomVerb {
    Create,
    Get,
    List,
    Update,
    MergePatch,
    StrategicPatch,
    JsonPatch,
    Apply,
    Delete,
    DeleteAll,
}

/// The random choices for one step. Each index is into a list whose length depends on the vocabulary.
#[derive(Clone, Debug)]
struct StepChoice {
    kind: Index,
    name: Index,
    verb: RandomVerb,
    option: Index,
    edits: Vec<(Index, Index)>,
    variant: Index,
}

impl Vocabulary {
    /// Reads the file.
    pub fn read(path: &Path) -> anyhow::Result<Vocabulary> {
        let place = || path.display().to_string();
        let text = std::fs::read_to_string(path).with_context(place)?;
        let options = serde_saphyr::options! { strict_booleans: true };
        serde_saphyr::from_str_with_options(&text, options).with_context(place)
    }

    fn step(&self, choice: &StepChoice) -> Step {
        let kind = choice.kind.get(&self.kinds);
        let name = choice.name.get(&self.names);
        let edits = self.edits(kind, &choice.edits);
        let collection = &kind.path;
        let object = format!("{collection}/{name}");
        let whole = || Some(edited(named(&kind.object, name), &edits));
        let part = || Some(edited(json!({}), &edits));
        // The servers differ in the ownership of nulls and empty maps in an apply, and in the effect of a version. So
        // these are left out.
        let applied = || {
            let edits: Vec<_> =
                edits.iter().filter(|(path, value)| path != VERSION && !is_partly_nothing(value)).cloned().collect();
            Some(edited(named(&kind.object, name), &edits))
        };
        let (method, path, media, body) = match choice.verb {
            RandomVerb::Create => ("POST", collection, None, whole()),
            RandomVerb::Get => ("GET", &object, None, None),
            RandomVerb::List => ("GET", collection, None, None),
            RandomVerb::Update => ("PUT", &object, None, whole()),
            RandomVerb::MergePatch => ("PATCH", &object, Some("merge"), part()),
            RandomVerb::StrategicPatch => ("PATCH", &object, Some("strategic"), part()),
            RandomVerb::JsonPatch => ("PATCH", &object, Some("json-patch"), Some(operations(&edits))),
            RandomVerb::Apply => ("PATCH", &object, Some("apply"), applied()),
            RandomVerb::Delete => ("DELETE", &object, None, None),
            RandomVerb::DeleteAll => ("DELETE", collection, None, None),
        };
        let mut query = Vec::new();
        if !matches!(choice.verb, RandomVerb::Get | RandomVerb::List) {
            query.push(choice.option.get(&self.options).clone());
        }
        if matches!(choice.verb, RandomVerb::Apply) {
            let variants = ["fieldManager=one", "fieldManager=two", "fieldManager=two&force=true"];
            query.push((*choice.variant.get(&variants)).to_owned());
        }
        query.retain(|option| !option.is_empty());
        let request = match query.join("&") {
            query if query.is_empty() => format!("{method} {path}"),
            query => format!("{method} {path}?{query}"),
        };
        Step { content_type: media.map(str::to_owned), body, ..Step::to(&request) }
    }

    /// The fields to set, with their values.
    fn edits(&self, kind: &KnownKind, chosen: &[(Index, Index)]) -> Vec<(String, Value)> {
        let values: Vec<_> = kind.values.iter().chain(&self.values).collect();
        let edits = chosen.iter().map(|(member, value)| {
            let (pointer, values) = member.get(&values);
            ((*pointer).clone(), value.get(values).clone())
        });
        edits.collect()
    }
}

/// Random sequences of operations.
pub fn cases(vocabulary: &Arc<Vocabulary>) -> impl Strategy<Value = Vec<Step>> + use<> {
    let vocabulary = Arc::clone(vocabulary);
    vec(choice(), 1..=CASE_OPERATIONS_MAX)
        .prop_map(move |choices| choices.iter().map(|choice| vocabulary.step(choice)).collect())
}

fn choice() -> impl Strategy<Value = StepChoice> {
    let verb = prop_oneof![
        4 => Just(RandomVerb::Create),
        1 => Just(RandomVerb::Get),
        1 => Just(RandomVerb::List),
        3 => Just(RandomVerb::Update),
        3 => Just(RandomVerb::MergePatch),
        3 => Just(RandomVerb::StrategicPatch),
        2 => Just(RandomVerb::JsonPatch),
        4 => Just(RandomVerb::Apply),
        2 => Just(RandomVerb::Delete),
        1 => Just(RandomVerb::DeleteAll),
    ];
    let edits = vec(any::<(Index, Index)>(), 0..=EDITS_PER_OPERATION_MAX);
    (any::<Index>(), any::<Index>(), verb, any::<Index>(), edits, any::<Index>())
        .prop_map(|(kind, name, verb, option, edits, variant)| StepChoice { kind, name, verb, option, edits, variant })
}

fn named(object: &Value, name: &str) -> Value {
    let mut object = object.clone();
    object["metadata"]["name"] = json!(name);
    object
}

/// The object with each field set; missing parents are created.
fn edited(mut object: Value, edits: &[(String, Value)]) -> Value {
    for (pointer, value) in edits {
        let mut place = &mut object;
        for name in pointer.split('/').skip(1) {
            if !place.is_object() {
                *place = Value::Object(Map::new());
            }
            place = &mut place[name];
        }
        *place = value.clone();
    }
    object
}

fn is_partly_nothing(value: &Value) -> bool {
    value.is_null()
        || value.as_object().is_some_and(|fields| fields.is_empty() || fields.values().any(is_partly_nothing))
}

/// The edits as a JSON patch; null removes a field.
fn operations(edits: &[(String, Value)]) -> Value {
    let operations = edits.iter().map(|(path, value)| match value {
        Value::Null => json!({ "op": "remove", "path": path }),
        value => json!({ "op": "add", "path": path, "value": value }),
    });
    operations.collect()
}

/// The steps as the text of a script.
#[must_use]
pub fn script_text(steps: &[Step]) -> String {
    let line = |step: &Step| {
        let mut fields = json!({ "do": step.request });
        if let Some(media) = &step.content_type {
            fields["as"] = json!(media);
        }
        if let Some(body) = &step.body {
            fields["body"] = body.clone();
        }
        format!("- {fields}\n")
    };
    steps.iter().map(line).collect::<Vec<_>>().concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_creates_missing_parents() {
        let edits = [("/a/b".to_owned(), json!(1)), ("/a/c".to_owned(), json!(null)), ("/a/b/d".to_owned(), json!(2))];
        assert_eq!(edited(json!({ "x": 0 }), &edits), json!({ "x": 0, "a": { "b": { "d": 2 }, "c": null } }));
    }

    #[test]
    fn a_failing_case_can_be_pasted_into_a_script() {
        let step = Step { body: Some(json!({ "a": 1 })), ..Step::to("POST /x") };
        assert_eq!(script_text(&[step]), "- {\"body\":{\"a\":1},\"do\":\"POST /x\"}\n");
    }
}
