//! Claims: a primary adopts the orphans that a selector matches, and releases the objects that do not match any more.
//!
//! `core::owner` decides about each object, based on the cache; the patches are sent like all of the plugin's writes.
//! Each patch is locked to one UID and version. If another client wins a race, the patch fails with a conflict, and the
//! claim is decided again.

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

use crate::client::api_error::RequestSubject;
use crate::discovery::Resource;
use crate::informer::parse::ObjectParser;
use crate::informer::store::StoreScope;
use crate::reader::overlaid::newer;
use crate::reader::{Readable, Reader, resource_of, whole_namespace};

/// The number of concurrent patches. A cancelled call sends no further patches.
const CONCURRENT_CLAIMS_MAX: usize = 100;

/// Carries out `claim`: finds objects with `reader`, and uses `port` to read the primary and to send the patches.
pub(crate) async fn carry_out(
    reader: &Reader,
    port: &dyn Port,
    call: Arc<CallContext>,
    claim: OwnerClaim,
) -> Result<Claimed, Vec<ApiError>> {
    let OwnerClaim { kind, label_selector } = claim;
    let subject = RequestSubject { verb: "claim", resource: String::new(), object: None };
    let mut claim = Claim { call, kind, subject, errors: Vec::new() };
    let steps = claim.steps(reader, &label_selector).map_err(|error| vec![error])?;
    let claimed = claim.carry_out(port, steps).await;
    if claim.errors.is_empty() { Ok(claimed) } else { Err(claim.errors) }
}

struct Claim {
    call: Arc<CallContext>,
    kind: ObjectKind,
    subject: RequestSubject,
    errors: Vec<ApiError>,
}

/// The step to take for an object that must change.
struct ClaimAction {
    object: Object,
    adopt: bool,
}

/// The owners of an object, unparsed.
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
    /// The steps to take, according to the caches and this call's own writes.
    fn steps(&mut self, reader: &Reader, selector: &str) -> Result<Vec<ClaimAction>, ApiError> {
        if selector.trim().is_empty() {
            return Err(
                self.invalid("an empty selector would adopt every orphan of the kind: select labels".to_owned())
            );
        }
        let selector = selector.parse::<Selector>();
        let selector = selector.map_err(|error: SelectorError| self.invalid(error.to_string()))?;
        let call = Arc::clone(&self.call);
        let Some(primary) = &call.primary else { return Err(self.primary_gone("it is no longer in the cache")) };
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

    /// Refuses watches that may hide objects. If a watch's selector hides an object when its labels change, the object
    /// could never be released. Orphans may be hidden already.
    fn check_narrowed(&self, watches: &[&Readable]) -> Result<(), ApiError> {
        let is_namespaced = self.call.primary_key.namespace.is_some();
        // If the primary is namespaced, every watch here covers its namespace, so one watch that hides nothing is
        // enough. Otherwise, for each watch that may hide objects, another watch that covers the same namespaces must
        // hide nothing.
        let sees_all = |spec: &WatchSpec| {
            let mut wide = watches.iter().map(|watch| &watch.spec).filter(|other| !other.is_filtered());
            wide.any(|other| is_namespaced || other.namespace.is_none() || other.namespace == spec.namespace)
        };
        let Some(narrow) = watches.iter().map(|watch| &watch.spec).find(|spec| !sees_all(spec)) else { return Ok(()) };
        let message = format!(
            "the watch of {narrow} hides objects that a claim must see: an object whose labels change would leave \
             the watch instead of being released. Declare the watch without selectors and `where`"
        );
        Err(self.subject.refuse(ApiReason::NotWatched, message))
    }

    /// A claim reveals which objects exist, so it needs the same rights as a list.
    fn check_list_grant(
        &self,
        watches: &[&Readable],
        resource: &Resource,
        namespace: Option<&str>,
    ) -> Result<(), ApiError> {
        let subject = RequestSubject { verb: "list", ..self.subject.clone() };
        if let Some(namespace) = namespace {
            let collection = whole_namespace(namespace.into());
            return subject.check_grant(&self.call.principal, &resource.access(subject.verb, "", Some(&collection)));
        }
        watches.iter().try_for_each(|watch| {
            let collection = watch.spec.namespace.clone().map(whole_namespace);
            subject.check_grant(&self.call.principal, &resource.access(subject.verb, "", collection.as_ref()))
        })
    }

    /// The writer would refuse the patch as well, but a refusal here costs no request.
    fn check_adoption(&self, resource: &Resource, object: &Object) -> Result<(), ApiError> {
        let target = Some(self.reference(object));
        let subject = RequestSubject { verb: "patch", object: target, ..self.subject.clone() };
        let deletion = resource.access("delete", "", Some(&object.header.key));
        subject.check_new_owner(&self.call.principal, &deletion, &"the primary")
    }

    /// The objects that a claim may concern, each in its latest known state.
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
                return Err(self
                    .subject
                    .unavailable(format!("the watch of {} has ended, and its cache with it", self.kind)));
            }
        }
        for (key, known) in self.call.overlay.of_kind(&self.kind) {
            match known.left {
                Some(WrittenState::State(_, object)) => {
                    // If versions cannot be compared, the state that the call's own write returned is the later one.
                    let latest = match found.remove(&key) {
                        Some(cached) => newer(object, cached, is_comparable),
                        None => object,
                    };
                    found.insert(key, latest);
                }
                // A state that was too large to keep is not known well enough for a decision.
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

    /// Asks the server, not the cache, whether the primary may still adopt. A primary that was deleted and recreated
    /// under the same name must not adopt, because the garbage collector would delete the objects that its predecessor
    /// adopted.
    async fn may_adopt(&self, port: &dyn Port) -> Result<(), ApiError> {
        let primary = self.call.primary_ref();
        let asked = LiveGet::whole(ObjectRef { uid: None, ..primary.clone() });
        let text = ask(port, Arc::clone(&self.call), asked).await?;
        let Some(text) = text else { return Err(self.primary_gone("the API server no longer has it")) };
        let latest = ObjectParser::new(&WatchSpec::all(primary.kind.clone())).map_err(|error| error.to_string());
        let latest = latest.and_then(|mut parser| parser.object(&text).map_err(|error| error.to_string()));
        let latest = latest.map_err(|error| self.subject.refuse(ApiReason::ServerError, error))?;
        if primary.uid.as_deref().is_none_or(|uid| !latest.header.uid.is(uid)) {
            return Err(self.primary_gone("its name now belongs to another object"));
        }
        if latest.header.deleting {
            let subject = RequestSubject { object: Some(primary), ..self.subject.clone() };
            let message = "the primary is being deleted, so it adopts nothing; the cache does not show it yet";
            return Err(subject.refuse(ApiReason::Conflict, message));
        }
        Ok(())
    }

    /// The patch that adopts or releases an object. It contains the whole list of owners, so it is locked to this
    /// version.
    fn patch(&self, step: &ClaimAction) -> Result<Operation, ApiError> {
        let header = &step.object.header;
        let target = self.reference(&step.object);
        let subject = RequestSubject { verb: "patch", object: Some(target.clone()), ..self.subject.clone() };
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

    /// An error which says that the primary is gone, so that the key is forgotten.
    fn primary_gone(&self, why: &str) -> ApiError {
        let subject = RequestSubject { object: Some(self.call.primary_ref()), ..self.subject.clone() };
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

/// Whether the step is no longer necessary: an object that is gone needs neither step, and an object with another UID
/// need not be released.
fn is_settled(error: &ApiError, step: &ClaimAction) -> bool {
    let is_another = error.reason == ApiReason::Conflict && error.code == 422;
    error.is_object_missing() || (is_another && !step.adopt)
}
