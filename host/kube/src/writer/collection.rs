//! Deletions of collections: one request, for which the server deletes one object after the other.
//!
//! The objects are not known in advance. The server returns them in its answer, in their state before the deletion. If
//! an error comes, some objects may have been deleted already. In that case, and if the server does not return the
//! objects, the caches of the kind have to prove that they are fresh before the key runs again (ADR 10, ADR 11).

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::Method;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};
use tracing::Instrument as _;
use windlass_core::call::ports::{CallContext, Deleted};
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::object::difference::Difference;
use windlass_core::object::finalizer;
use windlass_core::object::selector::{FieldSelector, FieldSelectorError, Selector, SelectorError};
use windlass_core::object::withheld::{WithheldEffect, WithheldWrite};
use windlass_core::object::{Object, ObjectKey, ObjectKind, ObjectRef};
use windlass_core::rights::principal::Role;
use windlass_core::write::settle::{Ending, Settlement};
use windlass_core::write::{Collection, DeleteOptions, Propagation};

use super::Writer;
use super::budget;
use super::carry_out::warn;
use super::refusal;
use crate::client::api_error::{Fate, RequestSubject};
use crate::client::headers;
use crate::client::request::{self, Mutation, MutationAnswer, Query, RequestError, SERVER_TIMEOUT_QUERY};
use crate::discovery::Resource;
use crate::informer::parse::ParseError;
use crate::target::{ResolvedTarget, Resolver, judged};
use crate::writer::answer;
use crate::writer::audit::{self, Audit, WriteOutcome};
use crate::writer::expecting::CollectionInterest;
use crate::writer::plan::{JSON, delete_options};
use crate::writer::settling::Sent;

const VERB: &str = "deletecollection";

/// A deletion that may be sent.
struct Deletion {
    subject: RequestSubject,
    mutation: Mutation,
    resource: Arc<Resource>,
    namespace: Option<Arc<str>>,
    labels: Selector,
    propagation: Propagation,
    /// Whether the server will change nothing.
    dry_run: bool,
    /// Whether the deletion is a dry run only because the host is read-only. The call then treats it as committed.
    withheld: bool,
}

/// The result of a deletion.
struct EndedCollection {
    deleted: Deleted,
    /// The time until which the server may continue with the deletion, and the interest in its effects.
    unsettled: Option<(Instant, Option<CollectionInterest>)>,
}

impl From<ApiError> for EndedCollection {
    fn from(error: ApiError) -> Self {
        Self { deleted: Err(error), unsettled: None }
    }
}

impl Writer {
    /// Deletes the objects of `collection`, and returns the objects that the server lists as deleted; `None` if it
    /// lists no objects. As with [`Writer::write`], a caller that stops waiting only abandons the answer.
    #[must_use]
    pub fn delete_collection(
        &self,
        call: Arc<CallContext>,
        collection: Collection,
        options: DeleteOptions,
    ) -> BoxFuture<'static, Deleted> {
        let writer = self.clone();
        let (asker, answered) = oneshot::channel();
        let task = async move {
            let Some((EndedCollection { deleted, unsettled }, asker)) =
                writer.delete_all(&call, &collection, options, asker).await
            else {
                return;
            };
            let Some((over, interest)) = unsettled else {
                // The call's context is dropped first, so that the call has settled when the caller gets the answer.
                drop(call);
                let _ = asker.send(deleted);
                return;
            };
            let _ = asker.send(deleted);
            let mut span = call.trace.span("settle");
            sleep_until(over).await;
            span.ends(|span| {
                span.set("windlass.verb", VERB);
                span.set("windlass.settlement", Settlement::Expired.as_str());
            });
            end(interest, CollectionInterest::unknown);
            drop(call);
        };
        drop(self.runtime.spawn(task.in_current_span()));
        Box::pin(async move {
            answered.await.unwrap_or_else(|_| {
                let subject = RequestSubject { verb: VERB, resource: String::new(), object: None };
                let message = "the host's task for this deletion ended early; its outcome is not known";
                Err(subject.refuse(ApiReason::UnknownOutcome, message))
            })
        })
    }

    /// `None` if the caller stopped waiting and nothing was sent.
    async fn delete_all(
        &self,
        call: &CallContext,
        collection: &Collection,
        mut options: DeleteOptions,
        mut asker: oneshot::Sender<Deleted>,
    ) -> Option<(EndedCollection, oneshot::Sender<Deleted>)> {
        let withheld = self.read_only && !options.dry_run;
        options.dry_run |= self.read_only;
        let mut planned = self.plan_deletion(call, collection, &options).await;
        if planned.is_ok() && !budget::try_pay(self.budget.as_ref(), call) {
            budget::pay(self.budget.as_ref(), call, &mut asker).await.ok()?;
            // The plugin's rights may have changed.
            planned = self.plan_deletion(call, collection, &options).await;
        }
        let ended = match planned {
            Ok(deletion) => self.send_deletion(call, Deletion { withheld, ..deletion }).await,
            Err(error) => error.into(),
        };
        Some((ended, asker))
    }

    async fn plan_deletion(
        &self,
        call: &CallContext,
        collection: &Collection,
        options: &DeleteOptions,
    ) -> Result<Deletion, ApiError> {
        let Collection { kind, namespace, label_selector, field_selector, .. } = collection;
        let mut subject = RequestSubject { verb: VERB, resource: String::new(), object: None };
        let (labels, name) = check(&subject, collection, options)?;
        let resolver = Resolver { discovery: &self.discovery, call, subject: &mut subject };
        let ResolvedTarget { resource, key } =
            resolver.collection_beside(kind, namespace.clone(), name.as_deref()).await?;
        let mut query = Query::default();
        query.add_some("labelSelector", label_selector.as_deref());
        query.add_some("fieldSelector", field_selector.as_deref());
        query.add("timeout", SERVER_TIMEOUT_QUERY);
        let headers = headers::of_call(call);
        let headers = headers.map_err(|error| subject.refuse(ApiReason::Invalid, error.to_string()))?;
        let mutation = Mutation {
            method: Method::DELETE,
            uri: query.onto(&resource.collection(key.namespace.as_deref())),
            content_type: JSON,
            body: Bytes::from(delete_options(options).to_string()),
            headers,
        };
        let (propagation, dry_run) = (options.propagation, options.dry_run);
        let namespace = key.namespace;
        Ok(Deletion { subject, mutation, resource, namespace, labels, propagation, dry_run, withheld: false })
    }

    async fn send_deletion(&self, call: &CallContext, mut deletion: Deletion) -> EndedCollection {
        if deletion.withheld
            && let Some(why) = self.has_no_dry_run(&deletion.resource, "").await
        {
            let write = deletion.as_withheld(Some(why.clone()));
            let is_news = self.tell_withheld(call, &write);
            self.audit_of(call, &deletion).withheld(&write, is_news, None, Duration::ZERO);
            return refusal::read_only(&deletion.subject, &write, &why).into();
        }
        let Deletion { resource, namespace, labels, dry_run, .. } = &deletion;
        // The interest is opened before the request is sent, because the events of the deletion may come before its
        // answer.
        let interest = self.expecting.as_ref().filter(|_| !dry_run);
        let interest =
            interest.and_then(|expecting| expecting.open_collection(call, &resource.kind, namespace.as_ref(), labels));
        let limit = match self.may_start(call) {
            Ok(limit) => limit,
            Err((reason, why)) => {
                end(interest, CollectionInterest::nothing);
                self.audit_of(call, &deletion).ended(WriteOutcome::NotSent, None, Duration::ZERO);
                return deletion.subject.refuse(reason, why).into();
            }
        };
        let sent = Sent { at: Instant::now(), limit };
        deletion.mutation.end_within(limit);
        let result = request::mutate(&self.client, deletion.mutation.take(), limit).await;
        let (code, took) = (audit::code(&result), sent.at.elapsed());
        match result {
            Ok(MutationAnswer { text, warnings, .. }) => {
                warn(call, &deletion.subject, &warnings);
                let kind = deletion.resource.kind.clone();
                let found = self.offload.read(text, move |text| named_in(text, &kind)).await;
                self.carried_out(call, &deletion, found.ok().flatten(), (interest, code, took))
            }
            // The deletion was committed, and only its answer cannot be used.
            Err(RequestError::TooLarge { .. } | RequestError::NotText(_)) => {
                self.carried_out(call, &deletion, None, (interest, code, took))
            }
            Err(error) => {
                let (failure, fate) = deletion.subject.mutation_failed(&error, deletion.dry_run);
                self.audit_of(call, &deletion).ended(WriteOutcome::of_failure(&error, fate), code, took);
                let unsettled = match (fate, &error) {
                    (_, RequestError::NotSent { .. }) => {
                        end(interest, CollectionInterest::nothing);
                        None
                    }
                    (Fate::Unknown(Ending::Silent), _) => Some((sent.over(), interest)),
                    // Some objects may have been deleted, because the server may refuse one object after it has deleted
                    // another.
                    (Fate::Refused | Fate::Unknown(Ending::Answered), _) => {
                        end(interest, CollectionInterest::unknown);
                        None
                    }
                };
                let failure = judged(failure, &self.discovery, &deletion.subject, &deletion.resource, "").await;
                EndedCollection { deleted: Err(failure), unsettled }
            }
        }
    }

    /// Handles a success: the server has deleted the objects in `found`. `None` if it did not list them.
    fn carried_out(
        &self,
        call: &CallContext,
        deletion: &Deletion,
        found: Option<Vec<Object>>,
        (interest, code, took): (Option<CollectionInterest>, Option<u16>, Duration),
    ) -> EndedCollection {
        match (interest, &found) {
            (Some(interest), Some(found)) => interest.deleted(found),
            (Some(interest), None) => interest.unknown(),
            (None, _) => {}
        }
        if !deletion.dry_run || deletion.withheld {
            for object in found.iter().flatten() {
                deletion.lay(call, object);
            }
        }
        let is_idle = found.as_ref().is_some_and(Vec::is_empty);
        if deletion.withheld {
            let write = deletion.as_withheld(None);
            let is_news = !is_idle && self.tell_withheld(call, &write);
            self.audit_of(call, deletion).withheld(&write, is_news, code, took);
        } else {
            self.audit_of(call, deletion).ended(WriteOutcome::Committed, code, took);
            let is_change = !is_idle && !deletion.dry_run && call.principal.role == Role::Plugin;
            if let Some(committed) = self.committed.as_ref().filter(|_| is_change) {
                committed(call, &deletion.any(), None);
            }
        }
        let named = |object: &Object| {
            let (key, uid) = (object.header.key.clone(), Some(object.header.uid.text()));
            ObjectRef { kind: deletion.resource.kind.clone(), key, uid }
        };
        EndedCollection { deleted: Ok(found.map(|found| found.iter().map(named).collect())), unsettled: None }
    }

    fn audit_of<'a>(&'a self, call: &'a CallContext, deletion: &'a Deletion) -> Audit<'a> {
        Audit { call, subject: &deletion.subject, dry_run: deletion.dry_run, counts: &self.counts }
    }
}

impl Deletion {
    /// Shows to the call's later reads that `object` is deleted. `object` is given in its state before the deletion.
    fn lay(&self, call: &CallContext, object: &Object) {
        let (kind, key) = (&self.resource.kind, &object.header.key);
        if self.waits(object) {
            // The server does not return the state of an object that waits for its deletion.
            call.overlay.doubt(kind, key.clone());
        } else {
            call.overlay.gone(kind, key.clone(), Some(object.header.uid.clone()));
        }
        if self.withheld {
            call.overlay.mark_dry_run(kind, key);
        }
    }

    /// Whether a deleted `object` may still exist: propagation policies other than `Background` set finalizers, and
    /// Pods end after a grace period.
    fn waits(&self, object: &Object) -> bool {
        let kind = &self.resource.kind;
        let is_pod = &*kind.api_version == "v1" && &*kind.kind == "Pod";
        is_pod || self.propagation != Propagation::Background || !finalizer::in_text(&object.glance()).is_empty()
    }

    /// A reference that stands for all objects of the collection.
    fn any(&self) -> ObjectRef {
        let key = ObjectKey { namespace: self.namespace.clone(), name: "*".into() };
        ObjectRef { kind: self.resource.kind.clone(), key, uid: None }
    }

    fn as_withheld(&self, unjudged: Option<String>) -> WithheldWrite {
        WithheldWrite {
            verb: VERB,
            resource: self.subject.resource.clone(),
            object: self.any(),
            effect: WithheldEffect::Delete,
            difference: Difference::default(),
            unjudged,
        }
    }
}

/// Checks everything that can be checked without the server. Returns the label selector, and the name of the only
/// object that can match, if there is one.
fn check(
    subject: &RequestSubject,
    collection: &Collection,
    options: &DeleteOptions,
) -> Result<(Selector, Option<String>), ApiError> {
    let invalid = |message: String| subject.refuse(ApiReason::Invalid, message);
    let labels = collection.label_selector.as_deref().unwrap_or_default().parse::<Selector>();
    let labels = labels.map_err(|error: SelectorError| invalid(error.to_string()))?;
    let fields = collection.field_selector.as_deref().unwrap_or_default().parse::<FieldSelector>();
    let fields = fields.map_err(|error: FieldSelectorError| invalid(error.to_string()))?;
    if !collection.all && labels.is_empty() && fields.is_empty() {
        let kind = &collection.kind;
        return Err(invalid(format!("without a selector every {kind} would be deleted: set a selector, or set `all`")));
    }
    if options.resource_version.is_some() {
        return Err(invalid("a collection cannot be locked to a resource version: each object has its own".to_owned()));
    }
    Ok((labels, fields.only_name().map(Cow::into_owned)))
}

/// The objects in an answer. `None` if the answer is not a list.
fn named_in(text: &str, kind: &ObjectKind) -> Result<Option<Vec<Object>>, ParseError> {
    #[derive(Deserialize)]
    struct Found<'a> {
        #[serde(borrow)]
        kind: Cow<'a, str>,
        #[serde(borrow)]
        items: Option<Vec<&'a RawValue>>,
    }
    let found: Found<'_> = serde_json::from_str(text)?;
    if !found.kind.ends_with("List") {
        return Ok(None);
    }
    let items = found.items.unwrap_or_default().into_iter();
    items.map(|item| answer::whole(kind, item.get())).collect::<Result<_, _>>().map(Some)
}

fn end(interest: Option<CollectionInterest>, how: fn(CollectionInterest)) {
    if let Some(interest) = interest {
        how(interest);
    }
}
