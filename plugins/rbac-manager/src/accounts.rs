//! Decides about service accounts. Pure.

use serde_json::{Value, json};

use crate::api::{API_VERSION, KIND, LABEL, ObjectMeta, PULL_SECRETS, ServiceAccount};
use crate::wishes::AccountWish;

/// The decision about a service account.
#[derive(Debug, PartialEq)]
pub(crate) enum AccountChange {
    /// It is as wanted, or it goes and its end runs the definition again.
    Leave,
    /// It does not exist.
    Create(Value),
    /// It differs: a merge patch.
    Patch(Value),
    /// It does not come from a definition, so only bindings name it. The text says what it lacks.
    Foreign(Option<String>),
    /// It is no longer wanted, and no other definition needs it.
    Delete,
}

/// The reference to the definition in the objects that it owns. A definition is not the controller of a service
/// account, because several definitions may own it.
fn owner(definition: &ObjectMeta) -> Value {
    json!({"apiVersion": API_VERSION, "kind": KIND, "name": definition.name, "uid": definition.uid})
}

/// Decides about a wanted service account.
pub(crate) fn wanted(definition: &ObjectMeta, wish: &AccountWish, found: Option<&ServiceAccount>) -> AccountChange {
    let Some(found) = found else { return AccountChange::Create(new(definition, wish)) };
    let metadata = &found.metadata;
    if metadata.is_terminating() {
        return AccountChange::Leave;
    }
    let is_ours = metadata.is_owned_by(&definition.uid);
    if !is_ours && !metadata.has_label() {
        let wants_settings = !wish.pull_secrets.is_empty() || wish.automount.is_some();
        let AccountWish { namespace, name, .. } = wish;
        let lack =
            || format!("the ServiceAccount {namespace}/{name} is not of a definition: its settings stay as they are");
        return AccountChange::Foreign(wants_settings.then(lack));
    }
    let mut patch = json!({});
    if !is_ours {
        patch["metadata"]["ownerReferences"] = json!([&metadata.owner_references[..], &[owner(definition)]].concat());
    }
    if !metadata.has_label() {
        patch["metadata"]["labels"] = json!({LABEL.0: LABEL.1});
    }
    // Definitions may disagree. One of them decides, so that they do not overwrite each other for ever. Which one must
    // not depend on the order in which they came.
    if definitions(metadata).all(|name| *definition.name <= *name) {
        set_settings(wish, found, &mut patch);
    }
    if patch == json!({}) { AccountChange::Leave } else { AccountChange::Patch(patch) }
}

/// Decides about a service account that the definition owns and does not want.
pub(crate) fn unwanted(definition: &ObjectMeta, found: &ServiceAccount) -> AccountChange {
    let metadata = &found.metadata;
    if metadata.is_terminating() {
        return AccountChange::Leave;
    }
    let others: Vec<&Value> = metadata.owner_references.iter().filter(|it| it["uid"] != *definition.uid).collect();
    if others.is_empty() {
        return AccountChange::Delete;
    }
    AccountChange::Patch(json!({"metadata": {"ownerReferences": others}}))
}

/// The names of the definitions among the owners.
fn definitions(metadata: &ObjectMeta) -> impl Iterator<Item = &str> {
    metadata.owner_references.iter().filter(|it| it["kind"] == KIND).filter_map(|it| it["name"].as_str())
}

fn new(definition: &ObjectMeta, wish: &AccountWish) -> Value {
    let mut account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {
            "name": wish.name, "namespace": wish.namespace, "labels": {LABEL.0: LABEL.1},
            // The original replaces an account without this annotation, so it is there even if it is empty.
            "annotations": {PULL_SECRETS: wish.pull_secrets.join(",")},
            "ownerReferences": [owner(definition)],
        },
    });
    if !wish.pull_secrets.is_empty() {
        account["imagePullSecrets"] = named(&wish.pull_secrets);
    }
    if let Some(automount) = wish.automount {
        account["automountServiceAccountToken"] = json!(automount);
    }
    account
}

fn named(secrets: &[String]) -> Value {
    secrets.iter().map(|name| json!({"name": name})).collect()
}

/// Adds the differing settings to the patch. Pull secrets of others stay, such as those that a platform adds.
fn set_settings(wish: &AccountWish, found: &ServiceAccount, patch: &mut Value) {
    let noted = found.metadata.annotations.get(PULL_SECRETS).map(String::as_str).unwrap_or_default();
    let managed: Vec<&str> = noted.split(',').map(str::trim).filter(|it| !it.is_empty()).collect();
    let is_wanted = |name: &str| wish.pull_secrets.iter().any(|wanted| wanted == name);
    let name_of = |secret: &Value| secret["name"].as_str().unwrap_or_default().to_owned();
    let existing: Vec<String> = found.image_pull_secrets.iter().map(name_of).collect();
    let mut secrets: Vec<String> =
        existing.iter().filter(|name| is_wanted(name) || !managed.contains(&name.as_str())).cloned().collect();
    secrets.extend(wish.pull_secrets.iter().filter(|name| !existing.contains(name)).cloned());
    if secrets != existing {
        patch["imagePullSecrets"] = named(&secrets);
    }
    let note = wish.pull_secrets.join(",");
    if note != noted {
        patch["metadata"]["annotations"] = json!({PULL_SECRETS: note});
    }
    // Without a wish, the field belongs to others, who may have switched the mounting off.
    if wish.automount.is_some() && wish.automount != found.automount_service_account_token {
        patch["automountServiceAccountToken"] = json!(wish.automount);
    }
}
