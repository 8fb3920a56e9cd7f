//! Judges the finalizers that a plugin's own writes add or remove (ADR 8). Its own is the host's to keep, and others
//! are other controllers', unless the grants name them. What a body does to them is told in `core::finalizer`; here is
//! found out what there was before, where that matters, and the grants are asked.
//!
//! Not for what the host itself writes in a system role.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kube::Client;
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::finalizer::{self, MutationForm, Touch};
use windlass_core::overlay::WrittenState;
use windlass_core::ports::CallContext;
use windlass_core::principal::Role;
use windlass_core::write::PatchType;

use crate::client::headers;
use crate::client::request::{self, MOST_ANSWER};
use crate::informer::parse::ParseError;
use crate::offload::Offload;
use crate::writer::answer;
use crate::writer::body::Body;
use crate::writer::plan::{How, Plan};
use crate::writer::skip::Skips;

const LOOK_LIMIT: Duration = Duration::from_secs(30);

/// Where the state before a write is known from.
pub(crate) struct MetadataGuard<'a> {
    pub(crate) client: &'a Client,
    /// The caches of the controller.
    pub(crate) skips: Option<&'a Arc<Skips>>,
    /// For objects that are large.
    pub(crate) offload: &'a Offload,
}

/// How a write may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lock {
    /// As the plugin wants it.
    Unchanged,
    /// Only at the version that was judged, which the plugin did not ask for: a conflict is to be tried again.
    Judged,
}

impl MetadataGuard<'_> {
    /// Refuses `plan` if it adds or removes finalizers that the call may not.
    ///
    /// Who replaces the list may do so at the version only that was judged: else a finalizer that somebody adds meanwhile
    /// would go.
    pub(crate) async fn judge(&self, call: &CallContext, plan: &mut Plan) -> Result<Lock, ApiError> {
        if call.principal.role != Role::Plugin {
            return Ok(Lock::Unchanged);
        }
        let body = String::from_utf8_lossy(&plan.mutation.body).into_owned();
        let Some(form) = form(plan, &body) else { return Ok(Lock::Unchanged) };
        match finalizer::touch(form, &body) {
            Touch::Nothing => Ok(Lock::Unchanged),
            Touch::Names(names) => check(call, plan, &names).map(|()| Lock::Unchanged),
            Touch::Any => check(call, plan, &BTreeSet::from(["*".to_owned()])).map(|()| Lock::Unchanged),
            Touch::Only(only) => self.judge_list(call, plan, &only, &body).await,
        }
    }

    async fn judge_list(
        &self,
        call: &CallContext,
        plan: &mut Plan,
        only: &BTreeSet<String>,
        body: &str,
    ) -> Result<Lock, ApiError> {
        let invalid = |error: &dyn std::fmt::Display| plan.subject.refuse(ApiReason::Invalid, error.to_string());
        let mut parsed = Body::read(body).map_err(|error| invalid(&error))?;
        let version = parsed.version();
        if let Some(known) = version.as_deref().and_then(|version| self.known(call, plan, version)) {
            return check(call, plan, &Touch::difference(only, known)).map(|()| Lock::Unchanged);
        }
        let Some((finalizers, latest)) = self.live(call, plan).await? else {
            // Some kinds are created by an update.
            if plan.how == How::Update && plan.subresource.is_empty() {
                let access = plan.resource.access("create", "", Some(&plan.key));
                plan.subject.check_grant(&call.principal, &access)?;
            }
            return check(call, plan, only).map(|()| Lock::Unchanged);
        };
        if version.as_deref().is_some_and(|version| version != latest && is_plain(version)) {
            return Ok(Lock::Unchanged); // The server will refuse it: it is about a state that is no more.
        }
        check(call, plan, &Touch::difference(only, finalizers))?;
        if version.as_ref() == Some(&latest) {
            return Ok(Lock::Unchanged);
        }
        parsed.lock_version(&latest).map_err(|error| invalid(&error))?;
        plan.mutation.body = Bytes::from(parsed.into_text().map_err(|error| invalid(&error))?);
        Ok(Lock::Judged)
    }

    /// The finalizers of the object at `version`, if this call or a cache knows that very state.
    fn known(&self, call: &CallContext, plan: &Plan, version: &str) -> Option<Vec<String>> {
        let left = call.overlay.get(&plan.resource.kind, &plan.key).and_then(|known| known.left);
        let own = match left {
            Some(WrittenState::State(_, object)) => Some(object),
            Some(WrittenState::Unkept(_) | WrittenState::Nothing(_)) | None => None,
        };
        let cached = self.skips.and_then(|skips| skips.cached(&plan.resource.kind, &plan.key, version));
        let of_version = own.filter(|own| own.header.version.to_string() == version).or(cached)?;
        // Not what the plugin has read: it does not count as reading.
        Some(finalizer::in_text(&of_version.glance()))
    }

    /// The finalizers of the object as the server has it now, with its version. None: it has no such object.
    async fn live(&self, call: &CallContext, plan: &Plan) -> Result<Option<(Vec<String>, String)>, ApiError> {
        let headers = headers::of_call(call);
        let headers = headers.map_err(|error| plan.subject.refuse(ApiReason::Invalid, error.to_string()))?;
        let uri = plan.resource.object(&plan.key, "");
        match request::get_as(self.client, &uri, headers, MOST_ANSWER, LOOK_LIMIT).await {
            Ok(text) => {
                let kind = plan.resource.kind.clone();
                let read = move |text: &str| {
                    let object = answer::whole(&kind, text)?;
                    Ok((finalizer::in_text(&object.glance()), object.header.version.to_string()))
                };
                let read: Result<_, ParseError> = self.offload.read(text, read).await;
                read.map(Some).map_err(|error| {
                    plan.subject.refuse(ApiReason::ServerError, format!("the answer of the API server is {error}"))
                })
            }
            Err(error) if error.code() == Some(404) => Ok(None),
            Err(error) => {
                let mut failed = plan.subject.read_failed(&error);
                failed.message = format!("which finalizers it would remove could not be read: {}", failed.message);
                Err(failed)
            }
        }
    }
}

/// Whether the server takes the version for no other than this text: `0` is none to it, and `007` is `7`.
fn is_plain(version: &str) -> bool {
    !version.starts_with('0') && version.bytes().all(|byte| byte.is_ascii_digit())
}

/// The form in which the body of `plan` touches finalizers. None: it touches none.
fn form(plan: &Plan, body: &str) -> Option<MutationForm> {
    let is_itself = plan.subresource.is_empty();
    match plan.how {
        How::Delete => None,
        // An eviction, a binding, a token.
        How::Create => is_itself.then_some(MutationForm::New),
        How::Update => (is_itself || replaces_object(plan, body)).then_some(MutationForm::Replacement),
        // A scale has none, so a patch of it does not speak of them.
        How::Apply => Some(MutationForm::Applied),
        How::Patch(PatchType::Merge) => Some(MutationForm::Merge),
        How::Patch(PatchType::Strategic) => Some(MutationForm::Strategic),
        How::Patch(PatchType::Json) => Some(MutationForm::Json),
    }
}

/// Whether an update of a subresource replaces the metadata of the object, as the status of a built-in kind may. That of a
/// custom resource never does, so plugins may leave them out there.
fn replaces_object(plan: &Plan, body: &str) -> bool {
    let group = plan.resource.group();
    let is_built_in = !group.contains('.') || group.ends_with(".k8s.io");
    is_built_in && Body::read(body).is_ok_and(|body| body.kind().is_ok_and(|kind| kind.kind == plan.resource.kind.kind))
}

fn check(call: &CallContext, plan: &Plan, names: &BTreeSet<String>) -> Result<(), ApiError> {
    let own = finalizer::name(&call.principal.plugin);
    if names.contains(&own) {
        let message = format!(
            "the finalizer {own} is kept by the host: it adds it before the first call, and takes it off when the plugin is \
             done with an object that is being deleted. A write must leave it as it is"
        );
        return Err(plan.subject.refuse(ApiReason::Invalid, message));
    }
    let checked = names.iter().try_for_each(|name| call.principal.check_finalizer(name));
    checked.map_err(|denial| plan.subject.not_granted(&call.principal, &denial))
}
