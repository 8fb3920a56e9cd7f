//! The HTTP layer. It reads path, query, headers and body, finds the resource, calls the verb under the lock, and
//! passes the result to `respond`. It does not decide anything about objects.

mod caller;
mod compress;
mod consulted;
mod convert;
mod discovery;
mod documents;
pub(crate) mod listen;
mod offers;
mod openapi;
mod react;
mod reactors_endpoint;
mod represent;
mod request_attributes;
mod respond;
mod root;
mod route;
pub(crate) mod service;
mod table;
mod watch;
mod watch_options;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use http::request::Parts;
use serde_json::{Value, json};

use crate::authn::Authenticator;
use crate::authz::{Access, User};
use crate::consultation::Consultation;
use crate::object;
use crate::reactors::Reactors;
use crate::reactors::watches::WatchPlan;
use crate::request::media::{self, Accepted, Encoding, Offer, PatchKind};
use crate::request::yaml::Parsed;
use crate::request::{Query, Target, WriteKind, WriteOptions, decode, user_agent};
use crate::status_error::ApiError;
use crate::storage::state::{Shared, State};
use crate::verbs::delete::{DeleteOptions, Deleted};
use crate::verbs::list::ListOptions;
use crate::verbs::{self, Written, create, delete, list, patch, reviews, scale, subresources, update};
use crate::warnings::Warnings;
use consulted::consulted;
use react::ServedAt;
use represent::IncludeObject;
use respond::Reply;
use route::{ResourcePath, Route, Verb};
pub use service::{ApiService, ConnectionDropped};
use watch_options::WatchOptions;

/// A real server's limit on a request's body.
const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// The shared state of all handlers.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) shared: Arc<Shared>,
    pub(crate) authenticator: Arc<Authenticator>,
    pub(crate) reactors: Reactors,
    pub(crate) address: SocketAddr,
}

/// Serves any request, without the reactors.
async fn handle(context: &Context, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    // The body is read even if it is not needed, because an earlier response would break the connection.
    let Ok(body) = to_bytes(body, BODY_BYTES_MAX).await else {
        return respond::last(&ApiError::too_large(BODY_BYTES_MAX), parts.version);
    };
    let route = Route::parse(parts.uri.path());
    let lists = parts.method == http::Method::GET
        && matches!(&route, Route::Resource(path) if path.name.is_none() && !path.is_watch);
    // The response at an unknown path has only one form, whatever the client accepts.
    let has_one_form = matches!(route, Route::Unknown);
    let accepted = match media::accepted(&parts.headers, offers::offer(context, &route), lists) {
        _ if is_raw(&route) => Ok(Accepted::default()),
        Err(_) if has_one_form => Ok(Accepted::default()),
        accepted => accepted,
    };
    let encoding = accepted.as_ref().map_or(Encoding::Json, |accepted| accepted.encoding);
    let warnings = Warnings::default();
    let response = match answer(context, &parts, &route, &body, accepted, &warnings).await {
        Ok(reply) => {
            let response = respond::reply(reply, encoding, context.shared.now());
            compress::compress(&parts.headers, response).await
        }
        Err(error) => respond::error(&error, encoding),
    };
    respond::with_warnings(response, &warnings)
}

/// Whether the response ignores the method, like `PathRecorderMux`, and has a form that does not depend on `Accept`.
fn is_raw(route: &Route) -> bool {
    matches!(
        route,
        Route::Root | Route::Metrics | Route::Health | Route::OpenApiV2 | Route::OpenApiV3Index | Route::OpenApiV3(..)
    )
}

async fn answer(
    context: &Context,
    parts: &Parts,
    route: &Route,
    body: &Bytes,
    accepted: Result<Accepted, ApiError>,
    warnings: &Warnings,
) -> Result<Reply, ApiError> {
    caller::check(parts)?;
    let query = Query::of(&parts.uri);
    // A malformed query is refused later, when it is used.
    let user = authorize(context, parts, query.as_ref().unwrap_or(&Query::default()))?;
    // Checked only after authorization, because the offered encodings reveal whether the resource exists.
    let accepted = accepted?;
    if let Route::Resource(path) = route {
        return resource_request(context, parts, query?, user, path, (body, accepted), warnings).await;
    }
    let state = context.shared.lock();
    let found = documents::find(context, &state, route, &parts.headers, accepted)?;
    let found = found.ok_or_else(|| documents::nothing_at(&state.registry, parts.uri.path()))?;
    let is_read = parts.method == http::Method::GET || parts.method == http::Method::HEAD;
    if is_read || is_raw(route) { Ok(found) } else { Err(ApiError::method_not_allowed()) }
}

/// The user of the request, if authorization allows it.
fn authorize(context: &Context, parts: &Parts, query: &Query) -> Result<Arc<User>, ApiError> {
    let certified = parts.extensions.get::<Arc<User>>();
    let state = context.shared.lock();
    let attributes = request_attributes::attributes(&parts.method, parts.uri.path(), query);
    let user = context.authenticator.authenticate(&state, &parts.headers, &attributes, certified)?;
    if state.by_roles {
        let decision = Access::of(&state).decide(&user, &attributes);
        if !decision.allowed {
            return Err(attributes.refuse(&user, &decision.reason));
        }
    }
    Ok(user)
}

async fn resource_request(
    context: &Context,
    parts: &Parts,
    query: Query,
    user: Arc<User>,
    path: &ResourcePath,
    (body, accepted): (&Bytes, Accepted),
    warnings: &Warnings,
) -> Result<Reply, ApiError> {
    let verb = Verb::of(&parts.method, path, query.flag("watch"));
    count(context, parts, path, verb);
    let target = find_target(context, parts.uri.path(), path)?;
    let verb = verb.filter(|verb| is_served(&target, *verb)).ok_or_else(ApiError::method_not_allowed)?;
    warnings.add(target.resource.deprecation());
    let call = Call { context, parts, user, query, target, body, accepted, warnings };
    match verb {
        Verb::Get | Verb::List | Verb::Watch => call.read(verb).await,
        Verb::Create | Verb::Update | Verb::Patch => call.write(verb).await,
        Verb::Delete | Verb::DeleteCollection => call.delete(verb).await,
    }
}

fn count(context: &Context, parts: &Parts, path: &ResourcePath, verb: Option<Verb>) {
    let group = if path.group.is_empty() { String::new() } else { format!(".{}", path.group) };
    let subresource = path.subresource.as_ref().map(|name| format!("/{name}")).unwrap_or_default();
    let resource = format!("{}{group}{subresource}", path.plural);
    context.shared.counts.count(user_agent(&parts.headers), verb.map_or("unknown", Verb::name), resource);
}

/// The resource in the path. The path must have the resource's scope.
fn find_target(context: &Context, url: &str, path: &ResourcePath) -> Result<Target, ApiError> {
    let state = context.shared.lock();
    let nothing = || documents::nothing_at(&state.registry, url);
    let resource = state.registry.find(&path.group, &path.version, &path.plural).ok_or_else(nothing)?;
    let scope_fits =
        if resource.namespaced { path.namespace.is_some() || path.name.is_none() } else { path.namespace.is_none() };
    if !scope_fits || path.is_watch && path.subresource.is_some() {
        return Err(nothing());
    }
    if !path.subresource.as_deref().is_none_or(|name| resource.has_subresource(name)) {
        // For a custom resource, the error says that the object is not found.
        let name = path.name.as_deref().filter(|_| resource.custom.is_some());
        return Err(name.map_or_else(nothing, |name| ApiError::not_found(&resource.id, name)));
    }
    Ok(Target {
        resource: Arc::clone(resource),
        namespace: path.namespace.clone(),
        name: path.name.clone(),
        subresource: path.subresource.clone(),
    })
}

fn is_served(target: &Target, verb: Verb) -> bool {
    let resource = &target.resource;
    match verb {
        _ if !resource.serves(target.subresource.as_deref(), verb.name()) => false,
        // A namespaced object must be created in one namespace.
        Verb::Create if target.subresource.is_none() => {
            target.name.is_none() && (target.namespace.is_some() || !resource.namespaced)
        }
        Verb::DeleteCollection => target.namespace.is_some() || !resource.namespaced,
        _ => true,
    }
}

/// A request to a resource, parsed as far as all verbs need it.
struct Call<'a> {
    context: &'a Context,
    parts: &'a Parts,
    user: Arc<User>,
    query: Query,
    target: Target,
    body: &'a Bytes,
    accepted: Accepted,
    warnings: &'a Warnings,
}

impl Call<'_> {
    /// The revision at which this request reads the state, if a reactor has chosen one.
    fn served_at(&self) -> Option<u64> {
        self.parts.extensions.get::<ServedAt>().map(|served| served.0)
    }

    async fn read(self, verb: Verb) -> Result<Reply, ApiError> {
        let include = IncludeObject::read(&self.query)?;
        let form = self.accepted.form;
        let resource = Arc::clone(&self.target.resource);
        let shared = &self.context.shared;
        match verb {
            Verb::Watch => {
                let mut options = WatchOptions::read(&self.target, &self.query, self.accepted)?;
                options.served_at = self.served_at();
                let mut watcher = watch::open(shared, &mut shared.lock(), self.target, options)?;
                watcher.convert().await?;
                Ok(Reply::Watch(match self.parts.extensions.get::<WatchPlan>() {
                    None => Body::from_stream(watcher.stream()),
                    Some(plan) => Body::from_stream(watcher.disturbed(plan)),
                }))
            }
            Verb::List => {
                let mut options = ListOptions::read(&self.target, &self.query)?;
                options.served_at = self.served_at();
                let mut page = list::list(&shared.lock(), &self.target, &options)?;
                page.objects = convert::converted(shared, &resource, page.objects).await?;
                Ok(Reply::Page { resource, form, include, page })
            }
            _ if self.target.subresource() == "log" => {
                subresources::log(&shared.lock(), &self.target, &self.query).map(Reply::Text)
            }
            _ if self.target.subresource() == "scale" => {
                let read = |state: &mut State, consultation| scale::get(state, &self.target, &consultation);
                let object = Arc::new(consulted(self.context, &resource, &self.user, read).await?);
                Ok(Reply::Object { resource, form, include, object, created: false })
            }
            _ => {
                let served_at = self.served_at();
                let read = |state: &State| {
                    verbs::check_reached(state, &self.query)?;
                    match served_at {
                        Some(revision) => verbs::get_at(state, &self.target, revision),
                        None => verbs::stored(state, &self.target),
                    }
                };
                let object = read(&shared.lock())?;
                let object = convert::converted_one(shared, &resource, object).await?;
                Ok(Reply::Object { resource, form, include, object, created: false })
            }
        }
    }

    /// Drops the warnings of an attempt that was abandoned to call a webhook.
    fn begin_warnings(&self) {
        self.warnings.clear();
        self.warnings.add(self.target.resource.deprecation());
    }

    async fn write(self, verb: Verb) -> Result<Reply, ApiError> {
        let resource = Arc::clone(&self.target.resource);
        if resource.is_review() {
            let review = self.object()?.value;
            let (state, authenticator) = (self.context.shared.lock(), &self.context.authenticator);
            return reviews::answer(&state, authenticator, &self.user, &self.target, review).map(Reply::Created);
        }
        let patch_kind = if verb == Verb::Patch { self.patch_kind()? } else { PatchKind::Merge };
        let kind = match verb {
            Verb::Create => WriteKind::Create,
            Verb::Patch if patch_kind == PatchKind::Apply => WriteKind::Apply,
            Verb::Patch => WriteKind::Patch,
            _ => WriteKind::Update,
        };
        let mut options = WriteOptions::read(kind, &self.query, &self.parts.headers, &self.user)?;
        options.body = self.body.clone();
        options.warnings = self.warnings.clone();
        let include = IncludeObject::read(&self.query)?;
        let subresource = self.target.subresource();
        let is_scale = subresource == "scale";
        // Bodies are parsed outside the lock, because even a short YAML text with aliases can take long.
        let parsed = match kind {
            WriteKind::Create | WriteKind::Update => self.object()?,
            WriteKind::Apply => decode::parse_configuration(self.body)?,
            WriteKind::Patch => Parsed::default(),
        };
        let mut body = parsed.value;
        options.duplicate_keys = parsed.duplicates;
        let write = |state: &mut State, consultation: Consultation| {
            // Without webhooks there is no second attempt, so the body need not be copied.
            let body = if consultation.applies() { body.clone() } else { std::mem::take(&mut body) };
            options.consultation = consultation;
            self.begin_warnings();
            let (target, options) = (&self.target, &options);
            match (kind, is_scale) {
                (WriteKind::Create, _) if target.subresource.is_some() => {
                    subresources::create(state, target, options, body)
                }
                (WriteKind::Create, _) => create::create(state, target, options, body),
                (WriteKind::Update, true) => scale::update(state, target, options, body),
                (WriteKind::Update, false) => update::update(state, target, options, body),
                (WriteKind::Apply, true) => scale::apply(state, target, options, &body),
                (WriteKind::Apply, false) => patch::apply(state, target, options, body),
                (WriteKind::Patch, true) => scale::patch(state, target, options, patch_kind, self.body),
                (WriteKind::Patch, false) => patch::patch(state, target, options, patch_kind, self.body),
            }
        };
        let Written { object, created } = consulted(self.context, &self.target.resource, &self.user, write).await?;
        let is_posted = subresources::POSTED.contains(&subresource);
        let is_other_kind = is_scale || is_posted;
        let shared = &self.context.shared;
        let object = if is_other_kind { object } else { convert::converted_one(shared, &resource, object).await? };
        let form = if is_posted { media::Form::Full } else { self.accepted.form };
        Ok(Reply::Object { resource, form, include, object, created })
    }

    fn patch_kind(&self) -> Result<PatchKind, ApiError> {
        media::patch_kind(&self.parts.headers, self.target.resource.custom.is_none())
    }

    fn object(&self) -> Result<Parsed, ApiError> {
        let offer = offers::offer_of(&self.target.resource, self.target.subresource.as_deref());
        let encoding = media::body_encoding(&self.parts.headers, offer)?;
        let kind = &self.target.resource.kind;
        let unrecognized = |why: &str| decode::unrecognized(kind, why, self.body);
        let parsed = match decode::parse(self.body, encoding) {
            Ok(Some(parsed)) => parsed,
            Ok(None) => return Err(unrecognized(decode::NO_VERSION_AND_KIND)),
            Err(error) if error.code() == StatusCode::BAD_REQUEST => return Err(unrecognized(&error.to_string())),
            Err(error) => return Err(error),
        };
        match &parsed.value {
            object @ Value::Object(_) => {
                let is_custom = self.target.resource.custom.is_some() && self.target.subresource() != "scale";
                if is_custom && object::text(object, "/kind").is_empty() {
                    let shown = String::from_utf8_lossy(self.body);
                    return Err(unrecognized(&format!("Object 'Kind' is missing in '{shown}'")));
                }
                Ok(parsed)
            }
            // Go reads null as an empty object.
            Value::Null => Ok(Parsed { value: json!({}), ..parsed }),
            other => Err(unrecognized(&decode::not_an_object(other))),
        }
    }

    async fn delete(self, verb: Verb) -> Result<Reply, ApiError> {
        // The body has options of a built-in kind, even if a custom resource is deleted.
        let body = decode::parse(self.body, media::body_encoding(&self.parts.headers, Offer::BuiltIn)?)?;
        let mut options = DeleteOptions::read(body.as_ref().map(|parsed| &parsed.value), &self.query)?;
        options.warnings = self.warnings.clone();
        let resource = Arc::clone(&self.target.resource);
        let include = IncludeObject::read(&self.query)?;
        let form = self.accepted.form;
        if verb == Verb::DeleteCollection {
            let listed = ListOptions::read(&self.target, &self.query)?;
            let write = |state: &mut State, consultation: Consultation| {
                options.consultation = consultation;
                self.begin_warnings();
                delete::delete_collection(state, &self.target, &listed, &options)
            };
            let mut page = consulted(self.context, &self.target.resource, &self.user, write).await?;
            page.objects = convert::converted(&self.context.shared, &resource, page.objects).await?;
            return Ok(Reply::Page { resource, form, include, page });
        }
        let write = |state: &mut State, consultation: Consultation| {
            options.consultation = consultation;
            self.begin_warnings();
            delete::delete(state, &self.target, &options)
        };
        let Deleted { object, gone } = consulted(self.context, &self.target.resource, &self.user, write).await?;
        if gone && !resource.returns_deleted {
            return Ok(Reply::Deleted(respond::deleted_status(&resource, &object)));
        }
        let object = convert::converted_one(&self.context.shared, &resource, object).await?;
        Ok(Reply::Object { resource, form, include, object, created: false })
    }
}
