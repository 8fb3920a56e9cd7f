//! Judges what a plugin's own writes do to metadata on which an object's life depends.
//!
//! The finalizers that they add or remove (ADR 8): the plugin's own is the host's to keep, and others are other
//! controllers', unless the grants name them. The owners that they add: an owner other than the primary may not exist,
//! and then the garbage collector deletes the object, so it takes the right to delete. What a body does is told in
//! `core::finalizer` and `core::owner`; here is found out what there was before, where that matters, and the grants are
//! asked.
//!
//! Not for what the host itself writes in a system role.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kube::Client;
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::finalizer::{self, MutationForm, Touch};
use windlass_core::grants::Access;
use windlass_core::object::{Object, OwnerReference};
use windlass_core::overlay::WrittenState;
use windlass_core::owner::{self, AddedOwners};
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

/// The finalizers and owners that a write touches, as far as its body tells.
struct Touched {
    finalizers: Touch,
    /// The owners that it names, without those that it may.
    owners: AddedOwners,
    /// Whether it replaces the lists, so that what they were matters.
    replaces: bool,
}

/// The object before the write.
struct Before {
    finalizers: Vec<String>,
    owners: Arc<[OwnerReference]>,
    version: String,
}

impl Before {
    fn of(object: &Object) -> Self {
        // Not what the plugin has read: it does not count as reading.
        let finalizers = finalizer::in_text(&object.glance());
        let header = &object.header;
        Self { finalizers, owners: header.owners.clone(), version: header.version.to_string() }
    }
}

impl Touched {
    fn of(call: &CallContext, plan: &Plan, form: MutationForm, body: &str) -> Self {
        let may_delete = call.principal.grants().allows(&deletion(plan));
        let added = if may_delete { AddedOwners::none() } else { owner::added(form, body) };
        let primary = call.primary.as_ref().map(|primary| &primary.header);
        let owners = added
            .without(|owner| primary.is_some_and(|primary| owner.is_primary(&call.primary_kind, primary, &plan.key)));
        let replaces = matches!(form, MutationForm::Replacement | MutationForm::Merge);
        Self { finalizers: finalizer::touch(form, body), owners, replaces }
    }

    fn depends_on_before(&self) -> bool {
        matches!(self.finalizers, Touch::Only(_)) || (self.replaces && !self.owners.is_none())
    }

    /// Asks the grants. `before` None: there was no such object, or it does not matter.
    fn check(self, call: &CallContext, plan: &Plan, before: Option<Before>) -> Result<(), ApiError> {
        let Before { finalizers, owners, .. } =
            before.unwrap_or_else(|| Before { finalizers: Vec::new(), owners: [].into(), version: String::new() });
        match self.finalizers {
            Touch::Nothing => {}
            Touch::Names(names) => check_finalizers(call, plan, &names)?,
            Touch::Any => check_finalizers(call, plan, &BTreeSet::from(["*".to_owned()]))?,
            Touch::Only(only) => check_finalizers(call, plan, &Touch::difference(&only, finalizers))?,
        }
        check_owners(call, plan, &self.owners.without(|owner| owners.iter().any(|before| owner.is(before))))
    }
}

impl MetadataGuard<'_> {
    /// Refuses `plan` if it adds or removes finalizers, or adds owners, that the call may not.
    ///
    /// Who replaces a list may do so at the version only that was judged: else a finalizer that somebody adds meanwhile
    /// would go.
    pub(crate) async fn judge(&self, call: &CallContext, plan: &mut Plan) -> Result<Lock, ApiError> {
        if call.principal.role != Role::Plugin {
            return Ok(Lock::Unchanged);
        }
        let body = String::from_utf8_lossy(&plan.mutation.body).into_owned();
        let Some(form) = form(plan, &body) else { return Ok(Lock::Unchanged) };
        let touched = Touched::of(call, plan, form, &body);
        if touched.depends_on_before() {
            self.judge_lists(call, plan, touched, &body).await
        } else {
            touched.check(call, plan, None).map(|()| Lock::Unchanged)
        }
    }

    async fn judge_lists(
        &self,
        call: &CallContext,
        plan: &mut Plan,
        touched: Touched,
        body: &str,
    ) -> Result<Lock, ApiError> {
        let invalid = |error: &dyn std::fmt::Display| plan.subject.refuse(ApiReason::Invalid, error.to_string());
        let mut parsed = Body::read(body).map_err(|error| invalid(&error))?;
        let version = parsed.version();
        if let Some(known) = version.as_deref().and_then(|version| self.known(call, plan, version)) {
            return touched.check(call, plan, Some(known)).map(|()| Lock::Unchanged);
        }
        let Some(before) = self.live(call, plan).await? else {
            // Some kinds are created by an update.
            if plan.how == How::Update && plan.subresource.is_empty() {
                let access = plan.resource.access("create", "", Some(&plan.key));
                plan.subject.check_grant(&call.principal, &access)?;
            }
            return touched.check(call, plan, None).map(|()| Lock::Unchanged);
        };
        let latest = before.version.clone();
        if version.as_deref().is_some_and(|version| version != latest && is_plain(version)) {
            return Ok(Lock::Unchanged); // The server will refuse it: it is about a state that is no more.
        }
        touched.check(call, plan, Some(before))?;
        if version.as_ref() == Some(&latest) {
            return Ok(Lock::Unchanged);
        }
        parsed.lock_version(&latest).map_err(|error| invalid(&error))?;
        plan.mutation.body = Bytes::from(parsed.into_text().map_err(|error| invalid(&error))?);
        Ok(Lock::Judged)
    }

    /// The object at `version`, if this call or a cache knows that very state.
    fn known(&self, call: &CallContext, plan: &Plan, version: &str) -> Option<Before> {
        let left = call.overlay.get(&plan.resource.kind, &plan.key).and_then(|known| known.left);
        let own = match left {
            Some(WrittenState::State(_, object)) => Some(object),
            Some(WrittenState::Unkept(_) | WrittenState::Nothing(_)) | None => None,
        };
        let cached = self.skips.and_then(|skips| skips.cached(&plan.resource.kind, &plan.key, version));
        let of_version = own.filter(|own| own.header.version.to_string() == version).or(cached)?;
        Some(Before::of(&of_version))
    }

    /// The object as the server has it now. None: it has no such object.
    async fn live(&self, call: &CallContext, plan: &Plan) -> Result<Option<Before>, ApiError> {
        let headers = headers::of_call(call);
        let headers = headers.map_err(|error| plan.subject.refuse(ApiReason::Invalid, error.to_string()))?;
        let uri = plan.resource.object(&plan.key, "");
        match request::get_as(self.client, &uri, headers, MOST_ANSWER, LOOK_LIMIT).await {
            Ok(text) => {
                let kind = plan.resource.kind.clone();
                let read = move |text: &str| Ok(Before::of(&answer::whole(&kind, text)?));
                let read: Result<_, ParseError> = self.offload.read(text, read).await;
                read.map(Some).map_err(|error| {
                    plan.subject.refuse(ApiReason::ServerError, format!("the answer of the API server is {error}"))
                })
            }
            Err(error) if error.code() == Some(404) => Ok(None),
            Err(error) => {
                let mut failed = plan.subject.read_failed(&error);
                failed.message =
                    format!("which finalizers and owners it would replace could not be read: {}", failed.message);
                Err(failed)
            }
        }
    }
}

/// Whether the server takes the version for no other than this text: `0` is none to it, and `007` is `7`.
fn is_plain(version: &str) -> bool {
    !version.starts_with('0') && version.bytes().all(|byte| byte.is_ascii_digit())
}

/// The form in which the body of `plan` touches finalizers and owners. None: it touches none.
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

fn check_finalizers(call: &CallContext, plan: &Plan, names: &BTreeSet<String>) -> Result<(), ApiError> {
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

fn check_owners(call: &CallContext, plan: &Plan, owners: &AddedOwners) -> Result<(), ApiError> {
    if owners.is_none() {
        return Ok(());
    }
    call.principal.check(&deletion(plan)).map_err(|denial| {
        let mut refused = plan.subject.not_granted(&call.principal, &denial);
        refused.message = format!(
            "it would make {owners} an owner, and not only the primary: the garbage collector deletes an object whose owners \
             do not exist, so this takes the right to delete. {}",
            refused.message
        );
        refused
    })
}

fn deletion(plan: &Plan) -> Access<'_> {
    plan.resource.access("delete", "", Some(&plan.key))
}
