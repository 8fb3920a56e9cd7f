//! `owners`: claims objects by their labels.

use serde::Deserialize;
use serde_json::{Value, json};
use windlass_sdk::bindings::windlass::plugin::{owners, types};

use crate::script::read;
use crate::wire::{self, Answer, ObjectKind};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Claim {
    kind: ObjectKind,
    label_selector: String,
}

pub(crate) fn call(function: &str, arguments: Value) -> Option<Answer> {
    if function != "claim" {
        return None;
    }
    let Claim { kind, label_selector } = read("owners.claim", arguments);
    let all = |objects: &[types::ObjectRef]| objects.iter().map(wire::object_ref).collect::<Value>();
    Some(match owners::claim(&kind.into(), &label_selector) {
        Ok(claimed) => Ok(json!({"adopted": all(&claimed.adopted), "released": all(&claimed.released)})),
        Err(errors) => Err(errors.iter().map(wire::api_error).collect()),
    })
}
