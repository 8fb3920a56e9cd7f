//! Finds the recorded answer to an import of a replayed call.
//!
//! Reads are matched by their arguments, writes by their object, because a new version of a plugin may ask in another
//! order and write other bodies. `compare` decides afterwards whether that is a difference.

use serde_json::{Value, json};

use crate::document::{RecordedCall, RecordedImport};
use crate::intent::{self, Intent};
use crate::redact::{Redactor, same};

/// The reason why a replayed call could not continue.
#[derive(Clone, Debug, PartialEq)]
pub enum Stuck {
    /// The replay makes an import that the recorded call did not make, so the answer is unknown.
    NotRecorded(RecordedImport),
    /// The recorded call ended before this import was answered.
    NotAnswered(RecordedImport),
}

/// The answers of one recorded call.
pub(super) struct Answers {
    /// The recorded reads, and whether each answer has been used.
    asked: Vec<(RecordedImport, bool)>,
    writes: Vec<RecordedWrite>,
    redactor: Redactor,
}

struct RecordedWrite {
    import: String,
    args: Value,
    intent: Option<Intent>,
    answer: Option<Value>,
    is_used: bool,
}

impl RecordedWrite {
    fn new(import: &str, args: &Value, answer: Option<Value>) -> Self {
        let recorded = RecordedImport { import: import.to_owned(), args: args.clone(), answer: None, cpu_us: 0 };
        let intent = intent::of_import(&recorded).pop();
        Self { import: import.to_owned(), args: args.clone(), intent, answer, is_used: false }
    }

    fn is_about(&self, other: &Self) -> bool {
        let is_delete = |write: &Self| write.import == "writes.delete";
        let object = |write: &Self| write.intent.as_ref().map(|it| it.object.clone());
        is_delete(self) == is_delete(other) && object(self) == object(other)
    }
}

impl Answers {
    pub(super) fn of(call: &RecordedCall, redactor: Redactor) -> Self {
        let (mut asked, mut writes) = (Vec::new(), Vec::new());
        for import in &call.imports {
            // The recording host may have redacted less than this host does in a replay.
            let args = redacted(&redactor, &import.import, &import.args);
            let import = RecordedImport { args, ..import.clone() };
            if import.import == "writes.batch" {
                let operations = import.args["operations"].as_array().into_iter().flatten();
                for (place, operation) in operations.enumerate() {
                    let answer = import.answer.as_ref().and_then(|all| all["ok"].get(place)).cloned();
                    let name = operation["import"].as_str().unwrap_or_default();
                    writes.push(RecordedWrite::new(name, &without_name(operation), answer));
                }
            } else if is_write(&import.import) {
                writes.push(RecordedWrite::new(&import.import, &import.args, import.answer.clone()));
            } else {
                asked.push((import, false));
            }
        }
        Self { asked, writes, redactor }
    }

    /// The answer to `import` with `args`.
    pub(super) fn answer(&mut self, import: &str, args: &Value) -> Result<Value, Stuck> {
        if import == "writes.batch" {
            let operations = args["operations"].as_array().into_iter().flatten();
            let each = operations.map(|operation| {
                let name = operation["import"].as_str().unwrap_or_default().to_owned();
                self.write(&name, &without_name(operation))
            });
            return Ok(json!({"ok": each.collect::<Result<Vec<_>, _>>()?}));
        }
        match import {
            // These imports need no answer.
            "events.emit" | "metrics.record" => Ok(json!({"ok": null})),
            _ if is_write(import) => self.write(import, args),
            _ => self.read(import, args),
        }
    }

    fn read(&mut self, import: &str, args: &Value) -> Result<Value, Stuck> {
        let redacted = redacted(&self.redactor, import, args);
        let fits = |it: &RecordedImport| it.import == import && same(&it.args, &redacted);
        let next = self.asked.iter().position(|(it, is_used)| !is_used && fits(it));
        // If an import is repeated more often than in the recording, it gets the last answer again.
        let place = next.or_else(|| self.asked.iter().rposition(|(it, _)| fits(it)));
        let asks = || RecordedImport { import: import.to_owned(), args: redacted.clone(), answer: None, cpu_us: 0 };
        let Some(place) = place else { return Err(Stuck::NotRecorded(asks())) };
        let (recorded, is_used) = &mut self.asked[place];
        *is_used = true;
        recorded.answer.clone().ok_or_else(|| Stuck::NotAnswered(asks()))
    }

    fn write(&mut self, import: &str, args: &Value) -> Result<Value, Stuck> {
        let wanted = RecordedWrite::new(import, &redacted(&self.redactor, import, args), None);
        let free = || self.writes.iter().enumerate().filter(|(_, it)| !it.is_used);
        let equal = free().find(|(_, it)| it.import == import && same(&it.args, &wanted.args));
        let place = equal.or_else(|| free().find(|(_, it)| it.is_about(&wanted))).map(|(place, _)| place);
        let Some(place) = place else { return Ok(echo(import, args)) };
        let recorded = &mut self.writes[place];
        recorded.is_used = true;
        let asks = || RecordedImport { import: import.to_owned(), args: wanted.args.clone(), answer: None, cpu_us: 0 };
        recorded.answer.clone().ok_or_else(|| Stuck::NotAnswered(asks()))
    }
}

fn redacted(redactor: &Redactor, import: &str, args: &Value) -> Value {
    let mut import = json!({"import": import, "args": args});
    redactor.redact_import(&mut import);
    import["args"].take()
}

fn is_write(import: &str) -> bool {
    import.starts_with("writes.")
}

fn without_name(operation: &Value) -> Value {
    let mut args = operation.clone();
    args.as_object_mut().map(|args| args.remove("import"));
    args
}

/// The answer to a write that was not recorded: success, with the object as requested.
fn echo(import: &str, args: &Value) -> Value {
    if ["writes.delete", "writes.delete-collection"].contains(&import) {
        return json!({"ok": null});
    }
    let text = args["object"].as_str().or_else(|| args["patch"].as_str().filter(|_| args["type"] != "json"));
    let mut object: Value = text.and_then(crate::json::document).unwrap_or_else(|| json!({}));
    let target = &args["target"];
    if let Some(fields) = object.as_object_mut() {
        for field in ["apiVersion", "kind"] {
            fields.entry(field).or_insert_with(|| target[field].clone());
        }
        let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
        if let Some(metadata) = metadata.as_object_mut() {
            for field in ["name", "namespace", "uid"] {
                if let Some(value) = target.get(field) {
                    metadata.insert(field.to_owned(), value.clone());
                }
            }
            metadata.entry("uid").or_insert_with(|| "00000000-0000-4000-8000-000000000000".into());
            metadata.entry("resourceVersion").or_insert_with(|| "1".into());
            metadata.entry("creationTimestamp").or_insert_with(|| "1970-01-01T00:00:00Z".into());
        }
    }
    json!({"ok": object.to_string()})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::tests::call;

    fn answers(imports: Value) -> Answers {
        let mut recorded = call("shop");
        recorded["imports"] = imports;
        Answers::of(&serde_json::from_value(recorded).expect("a call"), Redactor::of_replay(vec![]))
    }

    fn apply(name: &str, size: u32) -> Value {
        let object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"size": size}});
        json!({"object": object.to_string(), "options": {}})
    }

    #[test]
    fn reads_get_their_answers_in_order_and_then_the_last_again() {
        let read = |answer: &str| json!({"import": "cache.get", "args": {"target": "a"}, "answer": {"ok": answer}});
        let mut answers = answers(json!([read("old"), read("new")]));
        let mut asked = || answers.answer("cache.get", &json!({"target": "a"})).expect("recorded")["ok"].clone();
        assert_eq!([asked(), asked(), asked()], ["old", "new", "new"]);
    }

    #[test]
    fn unrecorded_or_unanswered_imports_have_no_answer() {
        let mut answers = answers(json!([{"import": "live.get", "args": {"target": "a"}}]));
        assert!(matches!(answers.answer("live.get", &json!({"target": "a"})), Err(Stuck::NotAnswered(_))));
        assert!(matches!(answers.answer("live.get", &json!({"target": "b"})), Err(Stuck::NotRecorded(_))));
        assert!(matches!(answers.answer("cache.get", &json!({"target": "a"})), Err(Stuck::NotRecorded(_))));
    }

    #[test]
    fn writes_get_the_answer_for_their_object_or_else_an_echo() {
        let mut operation = apply("b", 1);
        operation["import"] = "writes.apply".into();
        let recorded = json!([
            {"import": "writes.apply", "args": apply("a", 1), "answer": {"error": "refused"}},
            {"import": "writes.batch", "args": {"operations": [operation]}, "answer": {"ok": [{"ok": "b as it was"}]}},
        ]);
        let mut answers = answers(recorded);
        assert_eq!(answers.answer("writes.apply", &apply("b", 2)), Ok(json!({"ok": "b as it was"})));
        let mut other = apply("a", 3);
        other["import"] = "writes.update".into();
        let batch = answers.answer("writes.batch", &json!({"operations": [other]}));
        assert_eq!(batch, Ok(json!({"ok": [{"error": "refused"}]})));
        let echo = answers.answer("writes.apply", &apply("a", 4)).expect("an echo");
        let echo: Value = serde_json::from_str(echo["ok"].as_str().expect("a text")).expect("JSON");
        assert_eq!((&echo["data"]["size"], echo["metadata"]["uid"].is_string()), (&json!(4), true));
    }
}
