//! Claims: a primary adopts the orphans that a selector matches, and releases what it has that no longer matches.
//!
//! What is done about each object is decided in `core::owner`, on what the cache shows; the patches go the way of all
//! of the plugin's writes. Each is for one incarnation at one version: who loses a race gets a conflict, and decides
//! anew.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use windlass_core::cache::overlay::WrittenState;
use windlass_core::cache::watch::WatchSpec;
use windlass_core::call::ports::{CallContext, Claimed, LiveGet, OwnerClaim, Port, ask};
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::object::owner::{self, ClaimStep};
use windlass_core::object::selector::{Selector, SelectorError};
use windlass_core::object::{Header, Object, ObjectKey, ObjectKind, ObjectRef};
use windlass_core::write::{Operation, PatchType, WriteOptions};

use crate::client::api_error::Subject;
use crate::discovery::Resource;
use crate::informer::parse::ObjectParser;
use crate::informer::store::StoreScope;
use crate::reader::overlaid::newer;
use crate::reader::{Readable, Reader, resource_of, whole_namespace};

/// How many patches are asked for at a time. A call that is cancelled starts no more.
const CONCURRENT_CLAIMS_MAX: usize = 100;

/// Carries `claim` out: finds objects through `reader`, and asks `port` about the primary and for the patches.
pub(crate) async fn carry_out(
    reader: &Reader,
    port: &dyn Port,
    call: Arc<CallContext>,
    claim: OwnerClaim,
) -> Result<Claimed, Vec<ApiError>> {
    let OwnerClaim { kind, label_selector } = claim;
    let subject = Subject { verb: "claim", resource: String::new(), object: None };
    let mut claim = Claim { call, kind, subject, errors: Vec::new() };
    let steps = claim.steps(reader, &label_selector).map_err(|error| vec![error])?;
    let claimed = claim.carry_out(port, steps).await;
    if claim.errors.is_empty() { Ok(claimed) } else { Err(claim.errors) }
}

/// One claim.
struct Claim {
    call: Arc<CallContext>,
    kind: ObjectKind,
    subject: Subject,
    errors: Vec<ApiError>,
}

/// The step to take about an object that is not to stay as it is.
struct ClaimAction {
    object: Object,
    adopt: bool,
}

/// The owners of an object, as they stand there.
#[derive(Deserialize)]
struct Owned {
    metadata: OwnedMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OwnedMetadata {
    #[serde(default)]
    owner_references: Option<Vec<Value>>,
}

impl Claim {
    /// The steps to take, as the caches and this call's own writes show them.
    fn steps(&mut self, reader: &Reader, selector: &str) -> Result<Vec<ClaimAction>, ApiError> {
        if selector.trim().is_empty() {
            return Err(self.invalid("an empty selector would adopt every orphan of the kind: name labels".to_owned()));
        }
        let selector = selector.parse::<Selector>();
        let selector = selector.map_err(|error: SelectorError| self.invalid(error.to_string()))?;
        let call = Arc::clone(&self.call);
        let Some(primary) = &call.primary else { return Err(self.primary_gone("it is in the cache no more")) };
        let namespace = call.primary_key.namespace.as_deref();
        let of_kind = reader.covering(&self.subject, &self.kind, None)?;
        let resource = resource_of(&of_kind, &mut self.subject, &self.kind)?;
        if !resource.namespaced && namespace.is_some() {
            return Err(
                self.invalid(format!("the primary is namespaced and cannot own the cluster-scoped {}", self.kind))
            );
        }
        self.check_list_grant(&of_kind, &resource, namespace)?;
        let watches = reader.covering(&self.subject, &self.kind, namespace)?;
        self.check_narrowed(&watches)?;
        let owner = &primary.header;
        let mut steps = Vec::new();
        for object in self.candidates(&watches, namespace, owner, &selector)?.into_values() {
            let is_match = selector.matches(&object.header.labels);
            match owner::claim_step(owner, &object.header, is_match) {
                ClaimStep::Adopt => match self.check_adoption(&resource, &object) {
                    Ok(()) => steps.push(ClaimAction { object, adopt: true }),
                    Err(error) => self.errors.push(error),
                },
                ClaimStep::Release => steps.push(ClaimAction { object, adopt: false }),
                ClaimStep::Leave => {}
            }
        }
        Ok(steps)
    }

    /// An object that a watch's selector hides once its labels change could never be released, and orphans may be
    /// hidden already.
    fn check_narrowed(&self, watches: &[&Readable]) -> Result<(), ApiError> {
        let is_namespaced = self.call.primary_key.namespace.is_some();
        let is_narrow = |spec: &WatchSpec| spec.label_selector.is_some() || spec.field_selector.is_some();
        // Each covers the primary's namespace, if that has one; else each must be covered by one that hides nothing.
        let sees_all = |spec: &WatchSpec| {
            let mut wide = watches.iter().map(|watch| &watch.spec).filter(|other| !is_narrow(other));
            wide.any(|other| is_namespaced || other.namespace.is_none() || other.namespace == spec.namespace)
        };
        let Some(narrow) = watches.iter().map(|watch| &watch.spec).find(|spec| !sees_all(spec)) else { return Ok(()) };
        let message = format!(
            "the watch of {narrow} hides objects that a claim must see: one whose labels change would leave the watch \
             instead of being released. Declare the watch without selectors"
        );
        Err(self.subject.refuse(ApiReason::NotWatched, message))
    }

    /// A claim shows which objects there are, so it takes what a list takes.
    fn check_list_grant(
        &self,
        watches: &[&Readable],
        resource: &Resource,
        namespace: Option<&str>,
    ) -> Result<(), ApiError> {
        let subject = Subject { verb: "list", ..self.subject.clone() };
        if let Some(namespace) = namespace {
            let collection = whole_namespace(namespace.into());
            return subject.check_grant(&self.call.principal, &resource.access(subject.verb, "", Some(&collection)));
        }
        watches.iter().try_for_each(|watch| {
            let collection = watch.spec.namespace.clone().map(whole_namespace);
            subject.check_grant(&self.call.principal, &resource.access(subject.verb, "", collection.as_ref()))
        })
    }

    /// The writer would refuse the patch all the same; asked here, a refusal costs no request.
    fn check_adoption(&self, resource: &Resource, object: &Object) -> Result<(), ApiError> {
        let target = Some(self.reference(object));
        let subject = Subject { verb: "patch", object: target, ..self.subject.clone() };
        let deletion = resource.access("delete", "", Some(&object.header.key));
        subject.check_new_owner(&self.call.principal, &deletion, &"the primary")
    }

    /// The objects that a claim may have to do with, each in its latest known state.
    fn candidates(
        &self,
        watches: &[&Readable],
        namespace: Option<&str>,
        owner: &Header,
        selector: &Selector,
    ) -> Result<BTreeMap<ObjectKey, Object>, ApiError> {
        let mut found = BTreeMap::new();
        let is_comparable = watches.iter().all(|watch| watch.store.is_comparable());
        let scope = namespace.map_or(StoreScope::All, StoreScope::Namespace);
        for watch in watches {
            let is_complete = watch.store.scan_synced(scope, None, |object| {
                let is_match = || selector.matches(&object.header.labels);
                let concerns = match object.header.controller() {
                    Some(controller) => owner.uid.is(&controller.uid),
                    None => is_match(),
                };
                if concerns {
                    keep_newer(&mut found, object.clone(), is_comparable);
                }
                ControlFlow::Continue(())
            });
            if !is_complete {
                return Err(self.subject.unavailable(format!("the cache of {} has gone with its watch", self.kind)));
            }
        }
        for (key, known) in self.call.overlay.of_kind(&self.kind) {
            match known.left {
                Some(WrittenState::State(_, object)) => {
                    // Where versions do not tell, what the call has been answered is the later.
                    let latest = match found.remove(&key) {
                        Some(cached) => newer(object, cached, is_comparable),
                        None => object,
                    };
                    found.insert(key, latest);
                }
                // A state that is too large to be kept is not known well enough to decide on.
                Some(WrittenState::Nothing(_) | WrittenState::Unkept(_)) => drop(found.remove(&key)),
                None => {}
            }
        }
        let grants = self.call.principal.grants();
        found.retain(|key, _| !grants.hides(key));
        Ok(found)
    }

    async fn carry_out(&mut self, port: &dyn Port, mut steps: Vec<ClaimAction>) -> Claimed {
        if steps.iter().any(|step| step.adopt)
            && let Err(error) = self.may_adopt(port).await
        {
            self.errors.push(error);
            steps.retain(|step| !step.adopt);
        }
        let mut claimed = Claimed::default();
        for some in steps.chunks(CONCURRENT_CLAIMS_MAX) {
            let mut planned = Vec::new();
            for step in some {
                match self.patch(step) {
                    Ok(patch) => planned.push((step, patch)),
                    Err(error) => self.errors.push(error),
                }
            }
            let (steps, operations): (Vec<_>, Vec<_>) = planned.into_iter().unzip();
            let written = ask(port, Arc::clone(&self.call), operations).await;
            for (step, written) in steps.into_iter().zip(written) {
                match written {
                    Ok(_) if step.adopt => claimed.adopted.push(self.reference(&step.object)),
                    Ok(_) => claimed.released.push(self.reference(&step.object)),
                    Err(error) if is_settled(&error, step) => {}
                    Err(error) => self.errors.push(error),
                }
            }
        }
        claimed
    }

    /// Asks the server, not the cache, whether the primary may still adopt: one that was deleted and made anew under
    /// its name must not, or the garbage collector would delete what the old one has adopted.
    async fn may_adopt(&self, port: &dyn Port) -> Result<(), ApiError> {
        let primary = self.call.primary_ref();
        let asked = LiveGet::whole(ObjectRef { uid: None, ..primary.clone() });
        let text = ask(port, Arc::clone(&self.call), asked).await?;
        let Some(text) = text else { return Err(self.primary_gone("the API server has it no more")) };
        let latest = ObjectParser::new(&WatchSpec::all(primary.kind.clone())).map_err(|error| error.to_string());
        let latest = latest.and_then(|mut parser| parser.object(&text).map_err(|error| error.to_string()));
        let latest = latest.map_err(|error| self.subject.refuse(ApiReason::ServerError, error))?;
        if primary.uid.as_deref().is_none_or(|uid| !latest.header.uid.is(uid)) {
            return Err(self.primary_gone("its name belongs to another one now"));
        }
        if latest.header.deleting {
            let subject = Subject { object: Some(primary), ..self.subject.clone() };
            let message = "the primary is being deleted, so it adopts nothing; the cache does not show it yet";
            return Err(subject.refuse(ApiReason::Conflict, message));
        }
        Ok(())
    }

    /// The patch that adopts or releases an object. It carries the whole list of owners, so it is for this version
    /// only.
    fn patch(&self, step: &ClaimAction) -> Result<Operation, ApiError> {
        let header = &step.object.header;
        let target = self.reference(&step.object);
        let subject = Subject { verb: "patch", object: Some(target.clone()), ..self.subject.clone() };
        let owned: Owned = serde_json::from_str(&step.object.glance())
            .map_err(|error| subject.refuse(ApiReason::ServerError, format!("a cached object: {error}")))?;
        let owners = owned.metadata.owner_references.unwrap_or_default();
        let primary = self.call.primary_ref();
        let owners = if step.adopt {
            let reference = owner::controller_reference(&primary, &header.key);
            let reference = reference.map_err(|error| subject.refuse(ApiReason::Invalid, error.to_string()))?;
            owner::owners_with(owners, reference)
        } else {
            owner::owners_without(owners, primary.uid.as_deref().unwrap_or_default())
        };
        Ok(Operation::Patch {
            target,
            patch_type: PatchType::Merge,
            patch: json!({"metadata": {"ownerReferences": owners}}).to_string(),
            options: WriteOptions {
                resource_version: Some(header.version.to_string().into()),
                ..WriteOptions::default()
            },
        })
    }

    fn reference(&self, object: &Object) -> ObjectRef {
        let header = &object.header;
        ObjectRef { kind: self.kind.clone(), key: header.key.clone(), uid: Some(header.uid.text()) }
    }

    /// There is nothing left to do for the key: said about the primary, so that the key is forgotten.
    fn primary_gone(&self, why: &str) -> ApiError {
        let subject = Subject { object: Some(self.call.primary_ref()), ..self.subject.clone() };
        subject.refuse(ApiReason::NotFound, format!("the primary is gone, so it can adopt nothing: {why}"))
    }

    fn invalid(&self, message: String) -> ApiError {
        self.subject.refuse(ApiReason::Invalid, message)
    }
}

fn keep_newer(found: &mut BTreeMap<ObjectKey, Object>, object: Object, is_comparable: bool) {
    let key = object.header.key.clone();
    let object = match found.remove(&key) {
        Some(other) => newer(other, object, is_comparable),
        None => object,
    };
    found.insert(key, object);
}

/// An object that has gone needs neither; and one of which another incarnation has the name need not be released.
fn is_settled(error: &ApiError, step: &ClaimAction) -> bool {
    let is_another = error.reason == ApiReason::Conflict && error.code == 422;
    error.is_object_missing() || (is_another && !step.adopt)
}
