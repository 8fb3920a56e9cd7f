//! Carries out the decisions of reactors about a request, before it is served, while it is served, and afterwards.
//! `handle` serves the request itself.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::response::Response;
use http::request::Parts;
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::respond;
use super::route::Route;
use super::service::ConnectionDropped;
use super::{BODY_BYTES_MAX, Context, caller, find_target, handle, offers, reactors_endpoint, request_attributes};
use crate::authz::{Attributes, ResourceAttributes};
use crate::object;
use crate::reactors::watches::WatchPlan;
use crate::reactors::{
    CommitSide, EditKind, ErrorAnswer, ForeignEdit, OlderState, Reaction, ReactorDecision, RequestFacts,
};
use crate::request::media::{self, Encoding, PatchKind};
use crate::request::{Query, Target, WriteOptions, user_agent};
use crate::resources::resource::GroupResource;
use crate::status_error::ApiError;
use crate::storage::state::State;
use crate::verbs::delete::DeleteOptions;
use crate::verbs::{create, delete, patch};

/// The default field manager of edits.
const SOMEBODY_ELSE: &str = "somebody-else";

/// An extension of a request: the request reads the state at this revision.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServedAt(pub(super) u64);

/// Serves any request, with the effects of the reactors.
pub(super) async fn respond(context: &Context, request: Request) -> Result<Response, ConnectionDropped> {
    if request.uri().path() == reactors_endpoint::PATH {
        return Ok(reactors_endpoint::answer(context, request).await);
    }
    let (mut parts, body) = request.into_parts();
    let asked = if context.reactors.is_empty() || caller::check(&parts).is_err() { None } else { asked(&parts) };
    let Some(asked) = asked else { return Ok(handle(context, Request::from_parts(parts, body)).await) };
    let Ok(body) = to_bytes(body, BODY_BYTES_MAX).await else {
        return Ok(respond::error(&ApiError::too_large(BODY_BYTES_MAX), encoding(context, &parts)));
    };
    let facts = facts(&parts, &asked, &body);
    let decision = context.reactors.decide(&facts);
    let Some(decision) = decision else {
        return Ok(handle(context, Request::from_parts(parts, Body::from(body))).await);
    };
    tracing::debug!(?facts, ?decision, "reactors act");
    if let Some(answer) = before(context, &mut parts, &asked, &decision).await? {
        return Ok(answer);
    }
    let encoding = encoding(context, &parts);
    let answer = handle(context, Request::from_parts(parts, Body::from(body))).await;
    after(context, encoding, &decision, answer).await
}

fn asked(parts: &Parts) -> Option<ResourceAttributes> {
    let query = Query::of(&parts.uri).ok()?;
    match request_attributes::attributes(&parts.method, parts.uri.path(), &query) {
        Attributes::Resource(asked) => Some(asked),
        Attributes::Path { .. } => None,
    }
}

fn facts(parts: &Parts, asked: &ResourceAttributes, body: &[u8]) -> RequestFacts {
    let dotted =
        |separator: &str, text: &str| if text.is_empty() { String::new() } else { format!("{separator}{text}") };
    let mut name = asked.name.clone();
    if name.is_empty() && asked.verb == "create" {
        let object: Value = serde_json::from_slice(body).unwrap_or_default();
        object::name(&object).clone_into(&mut name);
    }
    RequestFacts {
        verb: asked.verb.clone(),
        resource: format!("{}{}{}", asked.resource, dotted(".", &asked.group), dotted("/", &asked.subresource)),
        namespace: asked.namespace.clone(),
        name,
        user_agent: user_agent(&parts.headers).to_owned(),
    }
}

fn encoding(context: &Context, parts: &Parts) -> Encoding {
    let offer = offers::offer(context, &Route::parse(parts.uri.path()));
    media::accepted(&parts.headers, offer, false).map_or(Encoding::Json, |accepted| accepted.encoding)
}

/// Applies the effects before the request is served. If a reactor answers the request, it is not served.
async fn before(
    context: &Context,
    parts: &mut Parts,
    asked: &ResourceAttributes,
    decision: &ReactorDecision,
) -> Result<Option<Response>, ConnectionDropped> {
    let mut of_watch = Vec::new();
    for (rule, reaction) in &decision.reactions {
        match reaction {
            Reaction::Error(answer) if answer.at == CommitSide::BeforeCommit => {
                return Ok(Some(error(answer, rule, encoding(context, parts))));
            }
            Reaction::Drop(drop) if drop.at == CommitSide::BeforeCommit => return Err(ConnectionDropped),
            Reaction::Delay(pause) if pause.at == CommitSide::BeforeCommit => sleep(pause.by).await,
            Reaction::Error(_) | Reaction::Drop(_) | Reaction::Delay(_) => {}
            Reaction::Expire(_) => context.shared.lock().store.compact(),
            Reaction::Jump(leap) => context.shared.lock().time.leap(leap.signed()),
            Reaction::Edit(edit) => {
                if let Err(why) = write(&mut context.shared.lock(), asked, edit) {
                    tracing::warn!(rule, why, "a reactor's edit failed; the request is served without it");
                }
            }
            Reaction::Older(older) => {
                if let Some(revision) = revision_of(context, parts, *older) {
                    parts.extensions.insert(ServedAt(revision));
                }
            }
            Reaction::Hold(_)
            | Reaction::Reorder(_)
            | Reaction::Duplicate(_)
            | Reaction::Hide(_)
            | Reaction::Cut(_) => {
                of_watch.push((rule.clone(), reaction.clone()));
            }
        }
    }
    if !of_watch.is_empty() {
        let (chance, reactors) = (decision.chance.clone(), context.reactors.clone());
        parts.extensions.insert(WatchPlan { reactions: of_watch, chance, reactors });
    }
    Ok(None)
}

/// Applies the effects after the request was served.
async fn after(
    context: &Context,
    encoding: Encoding,
    decision: &ReactorDecision,
    mut answer: Response,
) -> Result<Response, ConnectionDropped> {
    for (rule, reaction) in &decision.reactions {
        match reaction {
            Reaction::Error(said) if said.at == CommitSide::AfterCommit => answer = error(said, rule, encoding),
            Reaction::Drop(drop) if drop.at == CommitSide::AfterCommit => return Err(ConnectionDropped),
            Reaction::Delay(pause) if pause.at == CommitSide::AfterCommit => {
                tokio::select! {
                    biased;
                    () = context.shared.stop.cancelled() => {}
                    () = sleep(pause.by) => {}
                }
            }
            _ => {}
        }
    }
    Ok(answer)
}

fn revision_of(context: &Context, parts: &Parts, older: OlderState) -> Option<u64> {
    let Route::Resource(path) = Route::parse(parts.uri.path()) else { return None };
    let target = find_target(context, parts.uri.path(), &path).ok()?;
    match older {
        OlderState::Changes(count) => context.shared.lock().store.revision_before(&target.resource.storage, count),
        OlderState::ResourceVersion(revision) => Some(revision),
    }
}

/// The `Status` with which a rule answers.
fn error(answer: &ErrorAnswer, rule: &str, encoding: Encoding) -> Response {
    let code = StatusCode::from_u16(answer.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let reason = answer.reason.as_deref().unwrap_or(usual_reason(answer.code));
    let message = answer.message.clone().unwrap_or_else(|| format!("the reactor {rule:?} answers so"));
    let mut details = answer.details.clone().map_or(Value::Null, Value::Object);
    if let Some(seconds) = answer.retry_after_seconds {
        details["retryAfterSeconds"] = json!(seconds);
    }
    let mut status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": answer.code,
    });
    if !details.is_null() {
        status["details"] = details;
    }
    let mut response = respond::document(code, &status, encoding);
    if let Some(seconds) = answer.retry_after_seconds {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// The usual reason for a code, as in `k8s.io/apimachinery/pkg/api/errors`.
fn usual_reason(code: u16) -> &'static str {
    match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        405 => "MethodNotAllowed",
        406 => "NotAcceptable",
        409 => "Conflict",
        410 => "Expired",
        413 => "RequestEntityTooLarge",
        415 => "UnsupportedMediaType",
        422 => "Invalid",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "",
    }
}

/// Carries out a simulated write of another client. It takes the same code path as a real request.
fn write(state: &mut State, asked: &ResourceAttributes, edit: &ForeignEdit) -> Result<(), String> {
    let own = (GroupResource::new(&asked.group, &asked.resource), asked.subresource.clone());
    let (id, subresource) = edit.resource.as_deref().map_or(own, named_resource);
    let resource = state.registry.storage_type(&id).cloned().ok_or_else(|| format!("there is no resource {id}"))?;
    let namespace = edit.namespace.clone().unwrap_or_else(|| asked.namespace.clone());
    let manager = edit.manager.as_deref().unwrap_or(SOMEBODY_ELSE);
    let target = Target {
        namespace: resource.namespaced.then_some(namespace),
        name: Some(edit.name.clone().unwrap_or_else(|| asked.name.clone())),
        subresource: (!subresource.is_empty()).then_some(subresource),
        resource,
    };
    let options = WriteOptions::of_component(manager);
    let written = match &edit.change {
        EditKind::Merge(change) => {
            let body = Value::Object(change.clone()).to_string();
            patch::patch(state, &target, &options, PatchKind::Merge, body.as_bytes()).map(|_| ())
        }
        EditKind::Json(operations) => {
            let body = json!(operations).to_string();
            patch::patch(state, &target, &options, PatchKind::Json, body.as_bytes()).map(|_| ())
        }
        EditKind::Create(object) => {
            let target = Target { name: None, subresource: None, ..target };
            create::create(state, &target, &options, Value::Object(object.clone())).map(|_| ())
        }
        EditKind::Delete(_) => {
            let target = Target { subresource: None, ..target };
            delete::delete(state, &target, &DeleteOptions::default()).map(|_| ())
        }
    };
    written.map_err(|error| error.to_string())
}

/// Splits `deployments.apps/status` into its parts.
fn named_resource(text: &str) -> (GroupResource, String) {
    let (resource, subresource) = text.split_once('/').unwrap_or((text, ""));
    let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
    (GroupResource::new(group, plural), subresource.to_owned())
}
