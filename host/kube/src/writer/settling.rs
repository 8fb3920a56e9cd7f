//! Writes whose outcome is not known (ADR 5): whoever holds one of these keeps the key from being processed until
//! [`Unsettled::settle`] returns. What follows from what the server shows is decided in `core::settle`.

use std::time::Duration;

use kube::Client;
use tokio::time::{Instant, sleep, sleep_until};
use windlass_core::no_op::Atomic;
use windlass_core::object::Object;
use windlass_core::ports::CallContext;
use windlass_core::settle::{Ending, SettleLook, SettleStep, Settlement, after_look, after_look_for_create};
use windlass_core::write::PatchType;

use crate::backoff::Backoff;
use crate::client::headers;
use crate::client::request::{self, MOST_ANSWER, ON_THE_WAY, RequestError, SERVER_GIVES_UP};
use crate::writer::answer;
use crate::writer::plan::{How, Plan};
use crate::writer::skip::{StateBefore, changes_nothing};

const LOOK_LIMIT: Duration = Duration::from_secs(10);

/// A mutation that was sent and may be carried out until `over`.
#[derive(Debug)]
pub(crate) struct Unsettled {
    plan: Plan,
    before: StateBefore,
    ending: Ending,
    over: Instant,
}

/// A mutation, as it was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) at: Instant,
    /// How long the server had for it.
    pub(crate) limit: Duration,
}

impl Sent {
    /// When the server can no longer carry it out.
    pub(crate) fn over(self) -> Instant {
        self.at + self.limit.min(SERVER_GIVES_UP) + ON_THE_WAY
    }
}

impl Unsettled {
    /// `plan` was `sent`, when the object was as `before`, and ended so.
    pub(crate) fn new(plan: Plan, before: StateBefore, sent: Sent, ending: Ending) -> Self {
        let now = Instant::now();
        let over = match ending {
            Ending::Silent => sent.over(),
            // Whoever runs again chooses another name, and what is stored late is one object too many.
            Ending::Answered if plan.generated => sent.over().min(now + ON_THE_WAY),
            Ending::Answered => now,
        };
        Self { plan, before, ending, over }
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Waits until the mutation cannot be carried out any more, or is known to have been, and tells which; with the object
    /// as it has left it. `known`: the fields of its kind that are known to be atomic.
    ///
    /// [`Settlement::Expired`] is where the proof of freshness (ADR 11) follows: what the mutation may have done must be in
    /// the caches before the key runs again.
    pub(crate) async fn settle(
        &self,
        client: &Client,
        call: &CallContext,
        known: &Atomic,
    ) -> (Settlement, Option<Object>) {
        let mut backoff = Backoff::default();
        let mut told = false;
        loop {
            let over = Instant::now() >= self.over;
            let (look, object) = self.look(client, call, known).await;
            let after = if self.plan.creates() { after_look_for_create } else { after_look };
            match after(look, over) {
                SettleStep::Settled(Settlement::Committed) => return (Settlement::Committed, object),
                SettleStep::Settled(settlement) => return (settlement, None),
                SettleStep::LookWhenOver => sleep_until(self.over).await,
                SettleStep::LookSoon => {
                    if over && !told {
                        told = true;
                        self.tell_that_it_waits(call);
                    }
                    sleep(backoff.next(Instant::now())).await;
                }
            }
        }
    }

    /// One live read of the object that was to be written.
    async fn look(&self, client: &Client, call: &CallContext, known: &Atomic) -> (SettleLook, Option<Object>) {
        let Plan { resource, key, .. } = &self.plan;
        if !self.can_be_seen() {
            return (SettleLook::Untold, None);
        }
        let Ok(headers) = headers::of_call(call) else { return (SettleLook::Untold, None) };
        let uri = resource.object(key, "");
        match request::get_as(client, &uri, headers, MOST_ANSWER, LOOK_LIMIT).await {
            Ok(text) => match answer::whole(&resource.kind, &text) {
                Ok(object) if self.is_ours(&object, known) => (SettleLook::Ours, Some(object)),
                Ok(_) => (SettleLook::AnothersObject, None),
                Err(_) => (SettleLook::Untold, None),
            },
            Err(RequestError::Refused { status, .. }) if status.code == 404 => {
                let is_done = self.plan.how == How::Delete && self.ending == Ending::Answered;
                (if is_done { SettleLook::Ours } else { SettleLook::Nothing }, None)
            }
            Err(RequestError::Refused { status, .. }) if status.code >= 500 || status.code == 429 => {
                (SettleLook::Unanswered, None)
            }
            Err(RequestError::Refused { .. } | RequestError::TooLarge { .. } | RequestError::NotText(_)) => {
                (SettleLook::Untold, None)
            }
            Err(RequestError::NotSent { .. } | RequestError::Broken { .. } | RequestError::TimedOut { .. }) => {
                (SettleLook::Unanswered, None)
            }
        }
    }

    /// Whether the object can show that the write was carried out.
    fn can_be_seen(&self) -> bool {
        match self.plan.how {
            How::Create | How::Delete => self.plan.subresource.is_empty(),
            How::Apply | How::Update | How::Patch(PatchType::Merge) => {
                matches!(&*self.plan.subresource, "" | "status")
            }
            How::Patch(PatchType::Json | PatchType::Strategic) => false,
        }
    }

    /// Whether `object` is as this write has left it, and nothing of the write is to come.
    ///
    /// A create: the plugin has created the object, as its `managedFields` tell; with a name that the host has chosen,
    /// nobody else has. An apply: the plugin owns all that it applied, with these values, and it did not before. Others
    /// leave no trace of their own: with them, the server must have answered.
    fn is_ours(&self, object: &Object, known: &Atomic) -> bool {
        let is_done = |object: &Object| changes_nothing(&self.plan, object, known);
        let has_answered = self.ending == Ending::Answered;
        match self.plan.how {
            How::Create => self.plan.generated || has_written(object, &self.plan.manager),
            How::Delete => has_answered && object.header.deleting,
            How::Apply => {
                let was_other = match &self.before {
                    StateBefore::Unknown => false,
                    StateBefore::Absent => true,
                    StateBefore::State(before) => !is_done(before),
                };
                (has_answered || was_other) && is_done(object)
            }
            How::Update | How::Patch(_) => has_answered && is_done(object),
        }
    }

    fn tell_that_it_waits(&self, call: &CallContext) {
        tracing::warn!(
            plugin = %call.principal.plugin, primary = %call.primary_key, object = %self.plan.key,
            "the key waits: whether its object was created is not known, and the API server does not answer for it"
        );
    }
}

/// Whether `manager` has created or changed `object` by anything but an apply.
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
