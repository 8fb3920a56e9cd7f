//! Writes with an unknown outcome (ADR 5). Whoever holds an [`Unsettled`] keeps its key from being processed until
//! [`Unsettled::settle`] returns. `core::settle` decides the outcome from the state that the server shows.

use std::time::Duration;

use kube::Client;
use kube::core::Status;
use tokio::time::{Instant, sleep_until};
use windlass_core::call::ports::CallContext;
use windlass_core::object::Object;
use windlass_core::write::PatchType;
use windlass_core::write::no_op::Atomic;
use windlass_core::write::settle::{
    Ending, Preconditions, SettleLook, SettleStep, Settlement, after_look, after_look_for_create,
};

use crate::backoff::Backoff;
use crate::client::headers;
use crate::client::request::{self, MUTATION_ANSWER_BYTES_MAX, RequestError, SERVER_TIMEOUT, TRANSIT_TIME_MAX};
use crate::writer::answer;
use crate::writer::plan::{How, Plan};
use crate::writer::preconditions;
use crate::writer::skip::{Skips, StateBefore, changes_nothing};

/// The time that the server may take to answer whether a write was stored.
const SETTLING_READ_TIMEOUT: Duration = Duration::from_secs(10);

/// A mutation that was sent and may take effect until `over`.
#[derive(Debug)]
pub(crate) struct Unsettled {
    plan: Plan,
    preconditions: Preconditions,
    before: StateBefore,
    ending: Ending,
    over: Instant,
}

/// When and how a mutation was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) at: Instant,
    /// The time that the server had for the mutation.
    pub(crate) limit: Duration,
}

impl Sent {
    /// When the server can no longer commit the mutation.
    pub(crate) fn over(self) -> Instant {
        self.at + self.limit.min(SERVER_TIMEOUT) + TRANSIT_TIME_MAX
    }
}

impl Unsettled {
    /// The mutation of `plan`, which was `sent` when the object was in the state `before`, and ended with `ending`.
    pub(crate) fn new(plan: Plan, before: StateBefore, sent: Sent, ending: Ending) -> Self {
        let now = Instant::now();
        let over = match ending {
            Ending::Silent => sent.over(),
            // The next run will choose another name, so an object that is stored late would be superfluous.
            Ending::Answered if plan.generated => sent.over().min(now + TRANSIT_TIME_MAX),
            Ending::Answered => now,
        };
        Self { preconditions: preconditions::of(&plan), plan, before, ending, over }
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Waits until the mutation is known to have taken effect, or can no longer take effect. Returns how it has
    /// settled, and the object if the object shows the effect. `skips` contains the controller's knowledge, if the
    /// write belongs to a controller.
    ///
    /// After [`Settlement::Expired`], a proof of freshness (ADR 11) must follow, because any effect of the mutation
    /// must be in the caches before the key runs again.
    pub(crate) async fn settle(
        &self,
        client: &Client,
        call: &CallContext,
        skips: Option<&Skips>,
    ) -> (Settlement, Option<Object>) {
        let mut backoff = Backoff::default();
        let mut has_warned = false;
        loop {
            let over = Instant::now() >= self.over;
            let (look, object) = self.look(client, call, skips).await;
            let after = if self.plan.creates() { after_look_for_create } else { after_look };
            match after(look, over) {
                SettleStep::Settled(settlement) => return (settlement, object),
                SettleStep::LookWhenOver => sleep_until(self.over).await,
                SettleStep::LookAgain => {
                    if over && !has_warned {
                        has_warned = true;
                        self.log_wait(call);
                    }
                    let now = Instant::now();
                    let again = now + backoff.next(now);
                    sleep_until(if over { again } else { again.min(self.over) }).await;
                }
            }
        }
    }

    /// Reads the object from the server once. Returns the object too, if it settles the write.
    async fn look(&self, client: &Client, call: &CallContext, skips: Option<&Skips>) -> (SettleLook, Option<Object>) {
        let Plan { resource, key, .. } = &self.plan;
        if !self.can_be_seen() {
            return (SettleLook::Unclear, None);
        }
        let Ok(headers) = headers::of_call(call) else { return (SettleLook::Unclear, None) };
        let uri = resource.object(key, "");
        match request::get_as(client, &uri, headers, MUTATION_ANSWER_BYTES_MAX, SETTLING_READ_TIMEOUT).await {
            Ok(text) => match answer::whole(&resource.kind, &text) {
                Ok(object) => match self.judge(&object, skips) {
                    SettleLook::OtherObject => (SettleLook::OtherObject, None),
                    look => (look, Some(object)),
                },
                Err(_) => (SettleLook::Unclear, None),
            },
            Err(RequestError::Refused { status, .. }) if status.code == 404 => (self.judge_absence(&status), None),
            Err(RequestError::Refused { status, .. }) if status.code >= 500 || status.code == 429 => {
                (SettleLook::Unanswered, None)
            }
            Err(RequestError::Refused { .. } | RequestError::TooLarge { .. } | RequestError::NotText(_)) => {
                (SettleLook::Unclear, None)
            }
            Err(RequestError::NotSent { .. } | RequestError::Broken { .. } | RequestError::TimedOut { .. }) => {
                (SettleLook::Unanswered, None)
            }
        }
    }

    fn judge(&self, object: &Object, skips: Option<&Skips>) -> SettleLook {
        let header = &object.header;
        if self.preconditions.fail_for_good(Some((&header.uid, &header.version))) {
            SettleLook::Superseded
        } else if self.is_ours(object, skips) {
            SettleLook::Ours
        } else {
            SettleLook::OtherObject
        }
    }

    /// Interprets a 404. If `status` is about the object, it does not exist. A `status` about the resource says nothing
    /// about the object.
    fn judge_absence(&self, status: &Status) -> SettleLook {
        let is_about_it = status.details.as_ref().is_some_and(|details| *details.name == *self.plan.key.name);
        if is_about_it && self.preconditions.fail_for_good(None) {
            SettleLook::Superseded
        } else if self.plan.how == How::Delete && self.has_answered() {
            SettleLook::Ours
        } else {
            SettleLook::Nothing
        }
    }

    /// Whether the object can show the outcome of the write.
    fn can_be_seen(&self) -> bool {
        let shows_itself = match self.plan.how {
            How::Create | How::Delete => self.plan.subresource.is_empty(),
            How::Apply | How::Update | How::Patch(PatchType::Merge) => {
                matches!(&*self.plan.subresource, "" | "status")
            }
            How::Patch(PatchType::Json | PatchType::Strategic) => false,
        };
        shows_itself || self.preconditions.is_some()
    }

    /// Whether `object` is in the state in which this write leaves it, and no effect of the write is still to come.
    ///
    /// For a create: the plugin has created the object according to its `managedFields`; if the host generated the
    /// name, no other client has it. For an apply: the plugin owns all fields that it applied, with these values, and
    /// did not before. For a deletion of exactly this UID: the object is terminating, which cannot be undone. Other
    /// writes leave no trace of their own: for them, the server must have answered, or the write must be locked to
    /// exactly this version, which it leaves unchanged.
    fn is_ours(&self, object: &Object, skips: Option<&Skips>) -> bool {
        let Preconditions { uid, version, .. } = &self.preconditions;
        let is_idle_if_it_comes = self.has_answered() || version.is_some();
        let known = || skips.map(|skips| skips.known(&self.plan.resource.kind)).unwrap_or_default();
        match self.plan.how {
            How::Create if self.plan.creates() => self.plan.generated || has_written(object, &self.plan.manager),
            // Any other create is an eviction.
            How::Create | How::Delete => (self.has_answered() || uid.is_some()) && object.header.deleting,
            How::Apply => {
                let known = known();
                let is_done = |object: &Object| changes_nothing(&self.plan, object, &known);
                let was_other = match &self.before {
                    StateBefore::Unknown => false,
                    StateBefore::Absent => true,
                    StateBefore::State(before) => !is_done(before),
                };
                (is_idle_if_it_comes || was_other) && is_done(object)
            }
            How::Update | How::Patch(_) => {
                is_idle_if_it_comes && changes_nothing(&self.plan, object, &Atomic::default())
            }
        }
    }

    fn has_answered(&self) -> bool {
        self.ending == Ending::Answered
    }

    fn log_wait(&self, call: &CallContext) {
        tracing::warn!(
            plugin = %call.principal.plugin, primary = %call.primary_key, object = %self.plan.key,
            "it is not known whether an object was created, and the API server does not answer; the key waits"
        );
    }
}

/// Whether `manager` has created or changed `object` other than by an apply.
fn has_written(object: &Object, manager: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct ManagedFieldsEntry {
        manager: String,
        #[serde(default)]
        operation: String,
    }
    let own = object.header.own_fields.as_deref();
    let entries: Vec<ManagedFieldsEntry> = own.and_then(|own| serde_json::from_str(own).ok()).unwrap_or_default();
    entries.iter().any(|entry| entry.manager == manager && entry.operation == "Update")
}
