//! Writes whose outcome is not known (ADR 5): whoever holds one of these keeps the key from being processed until
//! [`Unsettled::settle`] returns. What follows from what the server shows is decided in `core::settle`.

use std::time::Duration;

use kube::Client;
use tokio::time::{Instant, sleep, sleep_until};
use windlass_core::object::Object;
use windlass_core::ports::CallContext;
use windlass_core::settle::{SettleLook, SettleStep, Settlement, after_look};

use crate::backoff::Backoff;
use crate::client::headers;
use crate::client::request::{self, MOST_ANSWER, RequestError, STILL_POSSIBLE};
use crate::writer::answer;
use crate::writer::plan::Plan;

const LOOK_LIMIT: Duration = Duration::from_secs(10);

/// A mutation that was sent and may be carried out until `over`.
#[derive(Debug)]
pub(crate) struct Unsettled {
    plan: Plan,
    over: Instant,
}

impl Unsettled {
    /// `plan` was sent at `sent`.
    pub(crate) fn new(plan: Plan, sent: Instant) -> Self {
        Self { plan, over: sent + STILL_POSSIBLE }
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Waits until the mutation cannot be carried out any more, or is known to have been, and tells which; with the object
    /// that it has made.
    ///
    /// [`Settlement::Expired`] is where the proof of freshness (ADR 11) follows: what the mutation may have done must be in
    /// the caches before the key runs again.
    pub(crate) async fn settle(&self, client: &Client, call: &CallContext) -> (Settlement, Option<Object>) {
        if !self.plan.creates() {
            sleep_until(self.over).await;
            return (Settlement::Expired, None);
        }
        let mut backoff = Backoff::default();
        let mut told = false;
        loop {
            let over = Instant::now() >= self.over;
            let (look, object) = self.look(client, call).await;
            match after_look(look, over) {
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

    /// One live read of the name that was to be created.
    async fn look(&self, client: &Client, call: &CallContext) -> (SettleLook, Option<Object>) {
        let Plan { resource, key, .. } = &self.plan;
        let Ok(headers) = headers::of_call(call) else { return (SettleLook::Untold, None) };
        let uri = resource.object(key, "");
        match request::get_as(client, &uri, headers, MOST_ANSWER, LOOK_LIMIT).await {
            Ok(text) => match answer::whole(&resource.kind, &text) {
                Ok(object) if self.is_ours(&object, call) => (SettleLook::Ours, Some(object)),
                Ok(_) => (SettleLook::AnothersObject, None),
                Err(_) => (SettleLook::Untold, None),
            },
            Err(RequestError::Refused { status, .. }) if status.code == 404 => (SettleLook::Nothing, None),
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

    /// Whether the plugin has created `object`, as its `managedFields` tell. With a name that the host has chosen, nobody
    /// else has.
    fn is_ours(&self, object: &Object, call: &CallContext) -> bool {
        self.plan.generated || has_written(object, &call.principal.field_manager())
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
