//! Service accounts: each namespace gets an account named `default`.

use serde_json::{Value, json};

use super::writes::{Outcome, Write};
use crate::object;
use crate::resources::resource::GroupResource;

/// Decides what to write for a new namespace.
pub(super) fn look(namespace: &Value) -> Outcome {
    let account = json!({ "metadata": { "name": "default", "namespace": object::name(namespace) } });
    Outcome::of(vec![Write::Create(GroupResource::new("", "serviceaccounts"), account)])
}
