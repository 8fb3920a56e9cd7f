//! Secrets with a service account's token. This is the old kind of token, which does not expire.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::values::annotation;
use super::writes::{Outcome, Write};
use crate::object::{self, text};
use crate::resources::resource::GroupResource;
use crate::tokens::{AccountClaims, Claims, ISSUER, Reference, TokenKey};

const KIND: &str = "kubernetes.io/service-account-token";
const NAME: &str = "kubernetes.io/service-account.name";
const UID: &str = "kubernetes.io/service-account.uid";

/// The last second that a time in an object can represent: the expiry of a token that should never expire.
const OBJECT_TIME_MAX_SECONDS: i64 = 253_402_300_799;

pub(super) fn resource() -> GroupResource {
    GroupResource::new("", "secrets")
}

pub(super) fn accounts() -> GroupResource {
    GroupResource::new("", "serviceaccounts")
}

/// The name of the account whose token belongs in the secret. `None` if the secret has another type.
pub(super) fn account_name(secret: &Value) -> Option<&str> {
    annotation(secret, NAME).filter(|_| text(secret, "/type") == KIND)
}

/// Decides what to write for such a secret, given its account. If the account does not exist, the secret is deleted.
pub(super) fn look(secret: &Arc<Value>, account: Option<&Value>, key: &TokenKey, now: i64) -> Outcome {
    let uid = annotation(secret, UID);
    let Some(account) = account.filter(|account| uid.is_none_or(|uid| uid == object::uid(account))) else {
        return Outcome::of(vec![Write::Delete(resource(), Arc::clone(secret))]);
    };
    if uid.is_some() && !text(secret, "/data/token").is_empty() {
        return Outcome::default();
    }
    let namespace = object::namespace(secret);
    let token = key.issue(&Claims {
        audiences: vec![ISSUER.to_owned()],
        expires: OBJECT_TIME_MAX_SECONDS,
        issued: now,
        issuer: ISSUER.to_owned(),
        id: object::uid(secret).to_owned(),
        account: AccountClaims {
            namespace: namespace.to_owned(),
            secret: Some(reference(secret)),
            account: reference(account),
            ..AccountClaims::default()
        },
        not_before: now,
        subject: format!("system:serviceaccount:{namespace}:{}", object::name(account)),
    });
    let mut filled = Value::clone(secret);
    let data = object::map_mut(&mut filled, "data");
    for (name, value) in [("namespace", namespace), ("token", &token)] {
        data.insert(name.to_owned(), json!(BASE64_STANDARD.encode(value)));
    }
    let metadata = object::map_mut_value(&mut filled, "metadata");
    object::map_mut(metadata, "annotations").insert(UID.to_owned(), json!(object::uid(account)));
    Outcome::of(vec![Write::Replace(resource(), filled)])
}

fn reference(object: &Value) -> Reference {
    Reference { name: object::name(object).to_owned(), uid: object::uid(object).to_owned() }
}
