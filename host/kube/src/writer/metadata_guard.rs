//! Checks what a plugin's own writes do to metadata on which an object's life depends.
//!
//! These are finalizers that a write adds or removes (ADR 8): the host maintains the plugin's own finalizer, and others
//! belong to other controllers, unless the grants name them. They are also owners that a write adds to an existing
//! object: the garbage collector deletes an object whose owners are gone, so adding an owner, even the primary,
//! requires the right to delete the object. The API server's admission plugin `OwnerReferencesPermissionEnforcement`
//! has the same rule (`plugin/pkg/admission/gc/gc_admission.go`). `core::finalizer` and `core::owner` parse the body;
//! this module determines the state before, where that matters, and checks the grants.
//!
//! Not used for the host's own writes in a system role.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kube::Client;
use windlass_core::cache::overlay::WrittenState;
use windlass_core::call::ports::CallContext;
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::object::finalizer::{self, MutationForm, Touch};
use windlass_core::object::owner::{self, AddedOwners};
use windlass_core::object::{Object, OwnerReference};
use windlass_core::rights::grants::Access;
use windlass_core::rights::principal::Role;
use windlass_core::write::PatchType;

use crate::client::headers;
use crate::client::request::{self, MUTATION_ANSWER_BYTES_MAX};
use crate::informer::parse::ParseError;
use crate::offload::Offload;
use crate::writer::answer;
use crate::writer::body::{Body, BodyError, JsonPatch};
use crate::writer::plan::{How, Plan};
use crate::writer::skip::Skips;

/// The time that the server may take to return the object's state before a write.
const STATE_READ_TIMEOUT: Duration = Duration::from_secs(30);

/// The sources of an object's state before a write.
pub(crate) struct MetadataGuard<'a> {
    pub(crate) client: &'a Client,
    /// The caches of the controller.
    pub(crate) skips: Option<&'a Arc<Skips>>,
    /// For large objects.
    pub(crate) offload: &'a Offload,
}

/// How a write must be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lock {
    /// As the plugin requested.
    Unchanged,
    /// Locked to this version, for which the write was judged, although the plugin requested no lock. If the object has
    /// another version when the write arrives, the write must be judged again.
    Judged(String),
}

/// The finalizers and owners that a write touches, according to its body.
struct Touched {
    finalizers: Touch,
    /// The owners in the body. Empty if the plugin may delete the object.
    owners: AddedOwners,
}

/// The object's state before the write.
struct Before {
    finalizers: Vec<String>,
    owners: Arc<[OwnerReference]>,
    version: String,
}

/// The server's answer about an object.
enum Live {
    Found(Before),
    /// The object does not exist, according to this error.
    Missing(ApiError),
}

/// The part of a body in which the write is locked to a version.
enum Lockable<'a> {
    Object(Body<'a>),
    Operations(JsonPatch),
}

impl Before {
    fn of(object: &Object) -> Self {
        // The host's own look at the object does not count as a read by the plugin.
        let finalizers = finalizer::in_text(&object.glance());
        let header = &object.header;
        Self { finalizers, owners: header.owners.clone(), version: header.version.to_string() }
    }
}

impl Touched {
    /// Reads a body that was planned, and so is an object or a list of operations.
    fn of(call: &CallContext, plan: &Plan, form: MutationForm, body: &str) -> Self {
        let may_delete = call.principal.grants().allows(&deletion(plan));
        let owners = if may_delete { AddedOwners::none() } else { owner::added(form, body) };
        Self { finalizers: finalizer::touch_by_object(form, body), owners }
    }

    fn depends_on_before(&self) -> bool {
        let names_owners = matches!(&self.owners, AddedOwners::These(_)) && !self.owners.is_none();
        matches!(self.finalizers, Touch::Only(_)) || names_owners
    }

    /// Whether only one fact about the state before the write matters, that the object already had the owners in the
    /// body, and `before` shows this. Then a late cache is good enough, if the write is locked to the version that the
    /// cache shows.
    fn keeps_owners(&self, before: &Before) -> bool {
        !matches!(self.finalizers, Touch::Only(_)) && self.added(Some(before)).is_none()
    }

    /// The owners that the write adds to an existing object. If the write creates the object, there are none, because
    /// no existing object could be deleted.
    fn added(&self, before: Option<&Before>) -> AddedOwners {
        let is_known =
            |owner: &owner::NamedOwner| before.is_none_or(|before| before.owners.iter().any(|known| owner.is(known)));
        self.owners.clone().without(is_known)
    }

    /// Checks the grants. `before` is `None` if the write creates the object, or if its state does not matter.
    fn check(&self, call: &CallContext, plan: &Plan, before: Option<&Before>) -> Result<(), ApiError> {
        match &self.finalizers {
            Touch::Nothing => {}
            Touch::Names(names) => check_finalizers(call, plan, names)?,
            Touch::Any => check_finalizers(call, plan, &BTreeSet::from(["*".to_owned()]))?,
            Touch::Only(only) => {
                let finalizers = before.map(|before| before.finalizers.clone()).unwrap_or_default();
                check_finalizers(call, plan, &Touch::difference(only, finalizers))?;
            }
        }
        let added = self.added(before);
        if added.is_none() {
            return Ok(());
        }
        plan.subject.check_new_owner(&call.principal, &deletion(plan), &added)
    }
}

impl<'a> Lockable<'a> {
    fn read(form: MutationForm, body: &'a str) -> Result<Self, BodyError> {
        Ok(match form {
            MutationForm::Json => Self::Operations(JsonPatch::read(body)?),
            _ => Self::Object(Body::read(body)?),
        })
    }

    /// The version to which the plugin has locked the write.
    fn version(&self) -> Option<String> {
        match self {
            Self::Object(body) => body.version().map(Cow::into_owned),
            Self::Operations(patch) => patch.version(),
        }
    }

    fn locked_to(self, version: &str) -> Result<String, BodyError> {
        match self {
            Self::Object(mut body) => {
                body.lock_version(version)?;
                body.into_text()
            }
            Self::Operations(mut patch) => {
                patch.replace("/metadata/resourceVersion", version)?;
                patch.into_text()
            }
        }
    }
}

impl MetadataGuard<'_> {
    /// Refuses `plan` if it adds or removes finalizers, or adds owners, without the rights.
    ///
    /// A write that depends on the state before is sent only for the version that was judged. Otherwise it could remove
    /// a finalizer that was added in the meantime, or add an owner to an object that was recreated. `may_be_late`
    /// allows the use of caches; after a conflict, they must not be used.
    pub(crate) async fn judge(&self, call: &CallContext, plan: &mut Plan, may_be_late: bool) -> Result<Lock, ApiError> {
        if call.principal.role != Role::Plugin {
            return Ok(Lock::Unchanged);
        }
        let body = plan.mutation.body.clone();
        let Ok(body) = std::str::from_utf8(&body) else {
            return Err(plan.subject.refuse(ApiReason::Invalid, "the body is not UTF-8"));
        };
        let Some(form) = form(plan, body) else { return Ok(Lock::Unchanged) };
        let touched = Touched::of(call, plan, form, body);
        if !touched.depends_on_before() {
            return touched.check(call, plan, None).map(|()| Lock::Unchanged);
        }
        let parsed = Lockable::read(form, body).map_err(|error| unsound(plan, &error))?;
        match parsed.version() {
            Some(version) => self.judge_version(call, plan, &touched, parsed, &version).await,
            None => self.judge_newest(call, plan, &touched, parsed, may_be_late).await,
        }
    }

    /// Judges a write that the plugin has locked to `version`.
    async fn judge_version(
        &self,
        call: &CallContext,
        plan: &mut Plan,
        touched: &Touched,
        parsed: Lockable<'_>,
        version: &str,
    ) -> Result<Lock, ApiError> {
        if !is_plain(version) {
            return self.judge_newest(call, plan, touched, parsed, false).await;
        }
        if matches!(parsed, Lockable::Operations(_)) {
            // Other operations may set the version too, but the last one counts.
            lock(plan, parsed, version)?;
        }
        let before = match self.known(call, plan, version) {
            Some(known) => Live::Found(known),
            None => Box::pin(self.live(call, plan)).await?,
        };
        match before {
            // The server will refuse the write, because it is for an outdated state.
            Live::Found(before) if before.version != version => {}
            Live::Found(before) => touched.check(call, plan, Some(&before))?,
            Live::Missing(error) => Self::judge_missing(call, plan, touched, error)?,
        }
        Ok(Lock::Unchanged)
    }

    /// Judges a write for the object's current version, and locks the write to that version.
    async fn judge_newest(
        &self,
        call: &CallContext,
        plan: &mut Plan,
        touched: &Touched,
        parsed: Lockable<'_>,
        may_be_late: bool,
    ) -> Result<Lock, ApiError> {
        let known = if may_be_late { self.newest(call, plan) } else { None };
        let before = match known.filter(|known| touched.keeps_owners(known)) {
            Some(known) => Live::Found(known),
            None => Box::pin(self.live(call, plan)).await?,
        };
        match before {
            Live::Found(before) => {
                touched.check(call, plan, Some(&before))?;
                lock(plan, parsed, &before.version)
            }
            Live::Missing(error) => Self::judge_missing(call, plan, touched, error).map(|()| Lock::Unchanged),
        }
    }

    /// Judges a write of an object that is `missing`. An apply or an update may create it.
    fn judge_missing(call: &CallContext, plan: &Plan, touched: &Touched, missing: ApiError) -> Result<(), ApiError> {
        match plan.how {
            // The patch is not sent, because another client may create the object in the meantime.
            How::Patch(_) => return Err(missing),
            How::Update if plan.subresource.is_empty() => {
                let access = plan.resource.access("create", "", Some(&plan.key));
                plan.subject.check_grant(&call.principal, &access)?;
            }
            _ => {}
        }
        touched.check(call, plan, None)
    }

    /// The object at `version`, if this call or a cache has exactly that state.
    fn known(&self, call: &CallContext, plan: &Plan, version: &str) -> Option<Before> {
        let cached = self.skips.and_then(|skips| skips.cached(&plan.resource.kind, &plan.key, Some(version)));
        let own = own_state(call, plan).filter(|own| own.header.version.to_string() == version);
        Some(Before::of(&own.or(cached)?))
    }

    /// The object as this call has left it, or as a cache shows it. The cache may be late.
    fn newest(&self, call: &CallContext, plan: &Plan) -> Option<Before> {
        let cached = self.skips.and_then(|skips| skips.cached(&plan.resource.kind, &plan.key, None));
        Some(Before::of(&own_state(call, plan).or(cached)?))
    }

    /// The server's current object.
    async fn live(&self, call: &CallContext, plan: &Plan) -> Result<Live, ApiError> {
        let headers = headers::of_call(call);
        let headers = headers.map_err(|error| plan.subject.refuse(ApiReason::Invalid, error.to_string()))?;
        let uri = plan.resource.object(&plan.key, "");
        match request::get_as(self.client, &uri, headers, MUTATION_ANSWER_BYTES_MAX, STATE_READ_TIMEOUT).await {
            Ok(text) => {
                let kind = plan.resource.kind.clone();
                let read = move |text: &str| Ok(Before::of(&answer::whole(&kind, text)?));
                let read: Result<_, ParseError> = self.offload.read(text, read).await;
                read.map(Live::Found).map_err(|error| {
                    plan.subject.refuse(ApiReason::ServerError, format!("the answer of the API server is {error}"))
                })
            }
            Err(error) if error.code() == Some(404) => Ok(Live::Missing(plan.subject.read_failed(&error))),
            Err(error) => {
                let mut failed = plan.subject.read_failed(&error);
                failed.message =
                    format!("the finalizers and owners of the object could not be read: {}", failed.message);
                Err(failed)
            }
        }
    }
}

/// The state in which this call's own writes have left the object, if the server has that state.
fn own_state(call: &CallContext, plan: &Plan) -> Option<Object> {
    let known = call.overlay.get(&plan.resource.kind, &plan.key).filter(|known| !known.is_dry_run)?;
    match known.left? {
        WrittenState::State(_, object) => Some(object),
        WrittenState::Unkept(_) | WrittenState::Nothing(_) => None,
    }
}

fn lock(plan: &mut Plan, parsed: Lockable<'_>, version: &str) -> Result<Lock, ApiError> {
    let text = parsed.locked_to(version).map_err(|error| unsound(plan, &error))?;
    plan.mutation.body = Bytes::from(text);
    Ok(Lock::Judged(version.to_owned()))
}

fn unsound(plan: &Plan, error: &BodyError) -> ApiError {
    plan.subject.refuse(ApiReason::Invalid, error.to_string())
}

/// Whether the server takes `version` literally. To the server, `0` means no version, and `007` means `7`.
fn is_plain(version: &str) -> bool {
    !version.starts_with('0') && version.bytes().all(|byte| byte.is_ascii_digit())
}

/// How the body of `plan` touches finalizers and owners. `None` if it does not.
fn form(plan: &Plan, body: &str) -> Option<MutationForm> {
    let is_itself = plan.subresource.is_empty();
    match plan.how {
        How::Delete => None,
        // A create of a subresource is an eviction, a binding or a token request.
        How::Create => is_itself.then_some(MutationForm::New),
        How::Update => (is_itself || replaces_object(plan, body)).then_some(MutationForm::Replacement),
        // A scale has no such metadata, so a patch of it does not touch them.
        How::Apply => Some(MutationForm::Applied),
        How::Patch(PatchType::Merge) => Some(MutationForm::Merge),
        How::Patch(PatchType::Strategic) => Some(MutationForm::Strategic),
        How::Patch(PatchType::Json) => Some(MutationForm::Json),
    }
}

/// Whether an update of a subresource replaces the metadata of the object, as an update of a built-in kind's status
/// may. An update of a custom resource's status never does, so plugins may omit the metadata there.
fn replaces_object(plan: &Plan, body: &str) -> bool {
    let group = plan.resource.group();
    let is_built_in = !group.contains('.') || group.ends_with(".k8s.io");
    is_built_in && Body::read(body).is_ok_and(|body| body.kind().is_ok_and(|kind| kind.kind == plan.resource.kind.kind))
}

fn check_finalizers(call: &CallContext, plan: &Plan, names: &BTreeSet<String>) -> Result<(), ApiError> {
    let own = finalizer::name(&call.principal.plugin);
    if names.contains(&own) {
        let message = format!(
            "the finalizer {own} is kept by the host, which adds it before the first call, and removes it when the plugin is \
             done with an object that is being deleted. A write must leave it as it is"
        );
        return Err(plan.subject.refuse(ApiReason::Invalid, message));
    }
    let checked = names.iter().try_for_each(|name| call.principal.check_finalizer(name));
    checked.map_err(|denial| plan.subject.not_granted(&call.principal, &denial))
}

fn deletion(plan: &Plan) -> Access<'_> {
    plan.resource.access("delete", "", Some(&plan.key))
}
