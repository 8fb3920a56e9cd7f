//! `serviceaccounts/token`: issues a token that `authn` accepts as long as the account, and the object that it is bound
//! to, exist. Follows `pkg/registry/core/serviceaccount/storage/token.go`.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::cause::Cause;
use crate::clock;
use crate::merge::apply::{self, Manager};
use crate::merge::lists::Place;
use crate::object::{self, strings, text};
use crate::request::{Target, WriteOptions};
use crate::resources::resource::GroupResource;
use crate::status_error::ApiError;
use crate::storage::ObjectKey;
use crate::storage::state::State;
use crate::tokens::{AccountClaims, Claims, ISSUER, Reference};

const API_VERSION: &str = "authentication.k8s.io/v1";
/// The validity in seconds if the request does not set it.
const TOKEN_SECONDS_DEFAULT: i64 = 3600;
const TOKEN_SECONDS_MIN: i64 = 600;
const TOKEN_SECONDS_MAX: i64 = 1 << 32;

/// The request with its token.
pub(super) fn issue(
    state: &mut State,
    target: &Target,
    options: &WriteOptions,
    mut request: Value,
) -> Result<Value, ApiError> {
    let account = crate::verbs::get(state, target, &options.consultation)?;
    check_account(&account, &request)?;
    let lifetime = check(target, &request)?;
    let bound = bound(state, target, &request["spec"])?;
    let given = strings(&request, "/spec/audiences");
    let audiences: Vec<String> =
        if given.is_empty() { vec![ISSUER.to_owned()] } else { given.into_iter().map(str::to_owned).collect() };
    let now = state.time.now();

    object::as_map_mut(&mut request).remove("status");
    request["apiVersion"] = json!(API_VERSION);
    request["kind"] = json!("TokenRequest");
    object::map_mut_value(&mut request, "spec")["expirationSeconds"] = json!(lifetime);
    let now_text = now.text();
    let manager = Manager { name: &options.manager, api_version: API_VERSION, subresource: "token", now: &now_text };
    apply::track_update(None, &mut request, &manager, Place::of_type("io.k8s.api.authentication.v1.TokenRequest"));
    request["metadata"] = json!({
        "name": target.name(),
        "namespace": object::namespace(&account),
        "uid": object::uid(&account),
        "creationTimestamp": now_text,
        "managedFields": request["metadata"]["managedFields"],
    });
    request["spec"]["audiences"] = json!(audiences);
    object::map_mut(&mut request, "spec").entry("boundObjectRef").or_insert(Value::Null);

    let namespace = object::namespace(&account).to_owned();
    let claims = Claims {
        audiences,
        expires: now.seconds() + lifetime,
        issued: now.seconds(),
        issuer: ISSUER.to_owned(),
        id: state.chance.uid(),
        subject: format!("system:serviceaccount:{namespace}:{}", target.name()),
        account: AccountClaims { namespace, account: reference(&account), ..bound },
        not_before: now.seconds(),
    };
    request["status"] = json!({
        "token": state.token_key.issue(&claims),
        "expirationTimestamp": clock::at(claims.expires),
    });
    Ok(request)
}

/// A request with the account's UID does not match a later account of its name.
fn check_account(account: &Value, request: &Value) -> Result<(), ApiError> {
    let (given, found) = (object::uid(request), object::uid(account));
    if given.is_empty() || given == found {
        return Ok(());
    }
    let why = format!("the UID in the token request ({given}) does not match the UID of the service account ({found})");
    let kind = GroupResource::new("authentication.k8s.io", "TokenRequest");
    Err(ApiError::conflict(&kind, object::name(account), &why))
}

/// The validity of the token in seconds.
fn check(target: &Target, request: &Value) -> Result<i64, ApiError> {
    let invalid = |cause| {
        let kind = GroupResource::new("authentication.k8s.io", "TokenRequest");
        Err(ApiError::invalid_kind(&kind, target.name(), &[cause]))
    };
    let (name, namespace) = (text(request, "/metadata/name"), text(request, "/metadata/namespace"));
    if !name.is_empty() && name != target.name() {
        let why = "must match the service account name if specified";
        return invalid(Cause::invalid("metadata.name", &json!(name), why));
    }
    if !namespace.is_empty() && Some(namespace) != target.namespace.as_deref() {
        let why = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(ApiError::bad_request(why));
    }
    let lifetime = request.pointer("/spec/expirationSeconds").and_then(Value::as_i64).unwrap_or(TOKEN_SECONDS_DEFAULT);
    let wrong = match lifetime {
        ..TOKEN_SECONDS_MIN => "may not specify a duration less than 10 minutes",
        TOKEN_SECONDS_MIN..=TOKEN_SECONDS_MAX => return Ok(lifetime),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    invalid(Cause::invalid("spec.expirationSeconds", &json!(lifetime), wrong))
}

/// The claims about the object that the token is bound to.
fn bound(state: &State, target: &Target, spec: &Value) -> Result<AccountClaims, ApiError> {
    let mut claims = AccountClaims::default();
    let Some(wanted) = spec.get("boundObjectRef").filter(|wanted| !wanted.is_null()) else { return Ok(claims) };
    let (api_version, kind) = (text(wanted, "/apiVersion"), text(wanted, "/kind"));
    let find = |plural: &str| {
        let resource = GroupResource::new("", plural);
        let namespace = if plural == "nodes" { None } else { target.namespace.clone() };
        let name = text(wanted, "/name").to_owned();
        let key = ObjectKey { resource, namespace: namespace.unwrap_or_default(), name };
        let found = state.store.get(&key).map(Arc::clone);
        let found = found.ok_or_else(|| ApiError::not_found(&key.resource, &key.name))?;
        check_uid(kind, wanted, &found).map(|()| found)
    };
    match (api_version, kind) {
        ("v1" | "", "Pod") => {
            let pod = find("pods")?;
            if text(&pod, "/spec/serviceAccountName") != target.name() {
                return Err(ApiError::bad_request(format!(
                    "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                    target.name()
                )));
            }
            claims.node = node_of(state, &pod);
            claims.pod = Some(reference(&pod));
        }
        ("v1" | "", "Secret") => claims.secret = Some(reference(&*find("secrets")?)),
        ("v1" | "", "Node") => claims.node = Some(reference(&*find("nodes")?)),
        _ => {
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            let message = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
            return Err(ApiError::bad_request(message));
        }
    }
    Ok(claims)
}

fn check_uid(kind: &str, wanted: &Value, found: &Value) -> Result<(), ApiError> {
    let uid = text(wanted, "/uid");
    if uid.is_empty() || uid == object::uid(found) {
        return Ok(());
    }
    let why = format!(
        "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been \
         deleted and then recreated"
    );
    Err(ApiError::conflict(&GroupResource::new("", kind), object::name(found), &why))
}

/// The pod's node; only its name if the node does not exist.
fn node_of(state: &State, pod: &Value) -> Option<Reference> {
    let name = text(pod, "/spec/nodeName").to_owned();
    let key = ObjectKey { resource: GroupResource::new("", "nodes"), namespace: String::new(), name };
    let found = state.store.get(&key).map(|node| reference(node));
    found.or_else(|| (!key.name.is_empty()).then_some(Reference { name: key.name, uid: String::new() }))
}

fn reference(found: &Value) -> Reference {
    Reference { name: object::name(found).to_owned(), uid: object::uid(found).to_owned() }
}
