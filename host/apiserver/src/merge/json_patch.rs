//! JSON patches as a real server applies them.
//!
//! This follows `evanphx/json-patch` v4, which differs from RFC 6902: a missing member can be replaced, can be copied,
//! and is equal to null; list positions may count from the end.

use serde_json::Value;

use crate::object;

/// A real server's limits: the number of operations, and the bytes that they copy.
const PATCH_OPERATIONS_MAX: usize = 10_000;
const PATCH_COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;

/// Why a patch cannot be applied.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JsonPatchError {
    /// The patch is not a list of operations. The text is Go's.
    #[error("error decoding patch: {0}")]
    Malformed(String),
    /// The patch has this many operations, which are too many.
    #[error("The allowed maximum operations in a JSON patch is {PATCH_OPERATIONS_MAX}, got {0}")]
    TooLong(usize),
    /// An operation cannot be applied to the object, or makes it too large. Like a real server, this does not name the
    /// operation.
    #[error("an operation cannot be applied to the object")]
    DoesNotFit,
}

/// One operation. A null field counts as missing.
struct PatchStep<'a> {
    op: &'a str,
    path: Option<&'a str>,
    from: Option<&'a str>,
    value: &'a Value,
}

/// Applies a patch to the object.
pub(crate) fn patched(object: &Value, patch: &Value) -> Result<Value, JsonPatchError> {
    let operations = operations(patch)?;
    if operations.len() > PATCH_OPERATIONS_MAX {
        return Err(JsonPatchError::TooLong(operations.len()));
    }
    let mut patching = Patching { object: object.clone(), copied: 0 };
    for operation in &operations {
        patching.carry_out(operation).ok_or(JsonPatchError::DoesNotFit)?;
    }
    Ok(patching.object)
}

fn operations(patch: &Value) -> Result<Vec<PatchStep<'_>>, JsonPatchError> {
    match patch {
        Value::Null => Ok(Vec::new()),
        Value::Array(list) => list.iter().map(step).collect(),
        other => Err(malformed(other, "value of type []handlers.jsonPatchOp")),
    }
}

fn step(operation: &Value) -> Result<PatchStep<'_>, JsonPatchError> {
    if !operation.is_object() && !operation.is_null() {
        return Err(malformed(operation, "value of type handlers.jsonPatchOp"));
    }
    let text = |name: &str| match &operation[name] {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.as_str())),
        other => Err(malformed(other, &format!("struct field jsonPatchOp.{name} of type string"))),
    };
    let (op, path, from) = (text("op")?.unwrap_or_default(), text("path")?, text("from")?);
    Ok(PatchStep { op, path, from, value: &operation["value"] })
}

fn malformed(found: &Value, what: &str) -> JsonPatchError {
    JsonPatchError::Malformed(format!("json: cannot unmarshal {} into Go {what}", object::go_kind(found)))
}

struct Patching {
    object: Value,
    /// The bytes copied so far.
    copied: usize,
}

impl Patching {
    /// Applies one operation. `None` if that is not possible.
    fn carry_out(&mut self, operation: &PatchStep<'_>) -> Option<()> {
        let path = operation.path?;
        match operation.op {
            "add" => self.add(path, operation.value.clone()),
            "remove" => self.remove(path).map(|_| ()),
            "replace" => self.replace(path, operation.value.clone()),
            "move" => {
                let value = self.remove(operation.from?)?;
                self.add(path, value)
            }
            "copy" => {
                let value = self.get(operation.from?)?.clone();
                self.copied += value.to_string().len();
                if self.copied > PATCH_COPIED_BYTES_MAX { None } else { self.add(path, value) }
            }
            "test" => (self.get(path)? == operation.value).then_some(()),
            _ => None,
        }
    }

    /// The value at a path. Null for a missing member of an object.
    fn get(&mut self, path: &str) -> Option<&Value> {
        if path.is_empty() {
            return Some(&self.object);
        }
        let (holder, key) = self.holder(path)?;
        match holder {
            Value::Object(fields) => Some(fields.get(&key).unwrap_or(&Value::Null)),
            Value::Array(list) => list.get(position(&key, list.len())?),
            _ => None,
        }
    }

    fn add(&mut self, path: &str, value: Value) -> Option<()> {
        if is_too_deep(path, &value) {
            return None;
        }
        let (holder, key) = self.holder(path)?;
        match holder {
            Value::Object(fields) => {
                fields.insert(key, value);
            }
            Value::Array(list) if key == "-" => list.push(value),
            Value::Array(list) => {
                // A position that counts from the end counts the new item, too.
                let at = position(&key, list.len() + 1)?;
                list.insert(at, value);
            }
            _ => return None,
        }
        Some(())
    }

    fn remove(&mut self, path: &str) -> Option<Value> {
        let (holder, key) = self.holder(path)?;
        match holder {
            Value::Object(fields) => fields.remove(&key),
            Value::Array(list) => {
                let at = position(&key, list.len())?;
                Some(list.remove(at))
            }
            _ => None,
        }
    }

    fn replace(&mut self, path: &str, value: Value) -> Option<()> {
        if is_too_deep(path, &value) {
            return None;
        }
        if path.is_empty() {
            let is_whole = value.is_object() || value.is_array();
            self.object = value;
            return is_whole.then_some(());
        }
        let (holder, key) = self.holder(path)?;
        match holder {
            Value::Object(fields) => {
                fields.insert(key, value);
            }
            Value::Array(list) => {
                let at = position(&key, list.len())?;
                list[at] = value;
            }
            _ => return None,
        }
        Some(())
    }

    /// The map or list that contains the value at `path`, and the key or position of the value in it. Text before the
    /// first slash is ignored.
    fn holder(&mut self, path: &str) -> Option<(&mut Value, String)> {
        let (_, path) = path.split_once('/')?;
        let (parents, key) = match path.rsplit_once('/') {
            Some((parents, key)) => (Some(parents), key),
            None => (None, path),
        };
        let mut holder = &mut self.object;
        for part in parents.into_iter().flat_map(|parents| parents.split('/')) {
            let part = unescaped(part);
            holder = match holder {
                Value::Object(fields) => fields.get_mut(&part)?,
                Value::Array(list) => {
                    let at = position(&part, list.len())?;
                    &mut list[at]
                }
                _ => return None,
            };
        }
        Some((holder, unescaped(key)))
    }
}

fn unescaped(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}

/// Parses a position in a list of this length. A negative position counts from the end.
fn position(key: &str, length: usize) -> Option<usize> {
    let given: i64 = key.parse().ok()?;
    let at = if given < 0 { given + i64::try_from(length).ok()? } else { given };
    usize::try_from(at).ok().filter(|at| *at < length)
}

/// Whether the value would be nested too deeply. Repeated copies could otherwise nest an object so deeply that
/// recursion over it overflows the stack.
fn is_too_deep(path: &str, value: &Value) -> bool {
    path.matches('/').count() + object::depth(value) > object::OBJECT_DEPTH_MAX
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn made(operation: &Value) -> Result<Value, JsonPatchError> {
        patched(&json!({ "a": 1, "none": null, "list": [1, 2], "deep": { "b/c": 1 } }), &json!([operation]))
    }

    #[test]
    fn a_missing_member_can_be_replaced_and_copied() {
        let replaced = made(&json!({ "op": "replace", "path": "/deep/x", "value": 2 })).expect("it fits");
        assert_eq!(replaced["deep"], json!({ "b/c": 1, "x": 2 }));
        let copied = made(&json!({ "op": "copy", "from": "/x", "path": "/deep/x" })).expect("it fits");
        assert_eq!(copied["deep"], json!({ "b/c": 1, "x": null }));
    }

    #[test]
    fn a_missing_member_equals_null_in_a_test_operation() {
        for (path, value, fits) in [
            ("/x", json!(null), true),
            ("/none", json!(null), true),
            ("/x", json!(1), false),
            ("/a", json!(null), false),
            ("/a", json!(1), true),
            ("/a", json!(1.0), false),
            ("/x/y", json!(null), false),
            ("/list/2", json!(null), false),
            ("/list/-1", json!(2), true),
            ("/deep/b~1c", json!(1), true),
        ] {
            assert_eq!(made(&json!({ "op": "test", "path": path, "value": value })).is_ok(), fits, "{path} {value}");
        }
        assert!(made(&json!({ "op": "test", "path": "/x" })).is_ok());
    }

    #[test]
    fn a_list_takes_positions_from_both_ends() {
        for (path, list) in
            [("/list/-", [1, 2, 9]), ("/list/2", [1, 2, 9]), ("/list/-1", [1, 2, 9]), ("/list/0", [9, 1, 2])]
        {
            let object = made(&json!({ "op": "add", "path": path, "value": 9 })).expect("it fits");
            assert_eq!(object["list"], json!(list), "{path}");
        }
        let object = made(&json!({ "op": "replace", "path": "/list/-2", "value": 9 })).expect("it fits");
        assert_eq!(object["list"], json!([9, 2]));
    }

    #[test]
    fn an_operation_that_does_not_apply_is_refused() {
        for operation in [
            json!({ "op": "remove", "path": "/x" }),
            json!({ "op": "move", "from": "/x", "path": "/y" }),
            json!({ "op": "add", "path": "/x/y", "value": 1 }),
            json!({ "op": "add", "path": "/a/y", "value": 1 }),
            json!({ "op": "add", "path": "", "value": {} }),
            json!({ "op": "add", "path": "/list/3", "value": 1 }),
            json!({ "op": "replace", "path": "/list/2", "value": 1 }),
            json!({ "op": "replace", "path": "", "value": 1 }),
            json!({ "op": "odd", "path": "/a" }),
            json!({ "path": "/a" }),
            json!({ "op": "add" }),
            json!(null),
        ] {
            assert_eq!(made(&operation), Err(JsonPatchError::DoesNotFit), "{operation}");
        }
    }

    #[test]
    fn a_patch_must_be_a_list_of_operations() {
        let refused = |patch: Value| patched(&json!({}), &patch).expect_err("malformed").to_string();
        let prefix = "error decoding patch: json: cannot unmarshal";
        assert_eq!(refused(json!({})), format!("{prefix} object into Go value of type []handlers.jsonPatchOp"));
        assert_eq!(refused(json!([1])), format!("{prefix} number into Go value of type handlers.jsonPatchOp"));
        let field = "Go struct field jsonPatchOp.op of type string";
        assert_eq!(refused(json!([{ "op": 1 }])), format!("{prefix} number into {field}"));
        assert_eq!(patched(&json!({}), &Value::Null), Ok(json!({})));
    }
}
