//! Hooks: other systems send signed deliveries to `POST /hooks/PLUGIN/NAME`, and the primaries that a delivery names
//! run. The payload never reaches `reconcile`: a mapping turns it into keys of existing primaries (ADR 45).
//!
//! `endpoint` speaks HTTP. `known` has the hooks that policies open, with their secrets. `signature` and `deliveries`
//! decide whether a delivery counts. `target` maps and queues it. Controllers register their hooks here while they
//! work.

mod deliveries;
mod endpoint;
mod known;
pub(crate) mod settings;
mod signature;
pub(crate) mod target;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::HeaderMap;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_core::clock::Moment;
use windlass_manifest::Hook;

use self::deliveries::{DeliveryTime, NotAdmitted};
pub use self::endpoint::HookListenError;
pub(crate) use self::endpoint::{HookEndpoint, listen};
use self::known::KnownHook;
use self::signature::{DeliveryHeaders, HookRefusal};
use self::target::{DeliveryFailure, DeliveryTarget};
use crate::observe::metrics::HookTotals;
use crate::observe::status::HooksView;

/// How long a delivery may take to be mapped, which includes the time in which no call may be made.
const HOOK_MAPPING_TIMEOUT: Duration = Duration::from_secs(10);

/// A hook: the plugin's name and its own.
type HookName = (Arc<str>, Arc<str>);

/// All hooks of this replica. Clones share them.
#[derive(Clone)]
pub(crate) struct Hooks(Arc<HooksInner>);

struct HooksInner {
    /// The hooks that policies open.
    known: Mutex<BTreeMap<HookName, KnownHook>>,
    /// The hooks of controllers that work here.
    served: Mutex<BTreeMap<HookName, Arc<dyn DeliveryTarget>>>,
    counts: HookTotals,
    /// The start of the clock for rates.
    origin: Instant,
}

/// How a delivery ends.
#[derive(Debug, PartialEq, Eq)]
enum DeliveryResult {
    /// These many primaries were queued.
    Queued(usize),
    /// A delivery with this id has been queued before.
    Duplicate,
    /// The sender is not known to be authentic.
    Refused(HookRefusal),
    /// A delivery with this id is being mapped.
    InWork,
    /// The hook has had too many deliveries, or this one has just failed: the time until it may come again.
    Limited(Duration),
    /// No controller of this replica works on the primaries.
    NotServing,
    /// The body is not JSON in UTF-8.
    NotJson,
    /// The plugin's mapper failed.
    Failed,
}

impl DeliveryResult {
    /// Whether the sender need not send the delivery again.
    fn is_acknowledged(&self) -> bool {
        matches!(self, Self::Queued(_) | Self::Duplicate)
    }

    /// The label of the metric.
    fn as_str(&self) -> &'static str {
        match self {
            Self::Queued(0) => "no_primary",
            Self::Queued(_) => "queued",
            Self::Duplicate => "duplicate",
            Self::Refused(refusal) => refusal.as_str(),
            Self::InWork => "in_work",
            Self::Limited(_) => "limited",
            Self::NotServing => "not_serving",
            Self::NotJson => "not_json",
            Self::Failed => "mapper_failed",
        }
    }
}

impl From<NotAdmitted> for DeliveryResult {
    fn from(reason: NotAdmitted) -> Self {
        match reason {
            NotAdmitted::Duplicate => Self::Duplicate,
            NotAdmitted::InWork => Self::InWork,
            NotAdmitted::Limited(wait) => Self::Limited(wait),
        }
    }
}

impl Hooks {
    /// No hooks yet. Deliveries are counted in `counts`.
    pub(crate) fn new(counts: HookTotals) -> Self {
        let inner = HooksInner { known: Mutex::default(), served: Mutex::default(), counts, origin: Instant::now() };
        Self(Arc::new(inner))
    }

    /// Delivers to these hooks of `plugin` until the result is dropped, or until the hooks of another round or
    /// generation take their place.
    pub(crate) fn serve(&self, plugin: &Arc<str>, targets: Vec<Arc<dyn DeliveryTarget>>) -> ServedHooks {
        let mut served = self.served();
        for target in &targets {
            served.insert((plugin.clone(), target.hook()), target.clone());
        }
        ServedHooks { hooks: self.clone(), plugin: plugin.clone(), targets }
    }

    /// Handles a request for the hook `name`, which is `None` if it is for no hook. `checked` is the result of
    /// [`Self::authenticated`]. `now` is the time since the Unix epoch.
    async fn deliver(
        &self,
        name: Option<&HookName>,
        checked: Result<(&HookName, DeliveryHeaders<'_>), HookRefusal>,
        body: &[u8],
        now: Duration,
    ) -> DeliveryResult {
        let result = match checked {
            Ok((name, headers)) => self.take(name, &headers, body, now).await,
            Err(refusal) => DeliveryResult::Refused(refusal),
        };
        if result.is_acknowledged()
            && let Some(name) = name
            && let Some(hook) = self.known().get_mut(name)
        {
            hook.last_delivery = Some(now);
        }
        self.count(name, &result);
        result
    }

    /// Checks the signature. An unknown hook costs as much as a known one, so that time does not reveal it.
    fn authenticated<'a>(
        &self,
        name: Option<&'a HookName>,
        headers: &'a HeaderMap,
        body: &[u8],
        now: Duration,
    ) -> Result<(&'a HookName, DeliveryHeaders<'a>), HookRefusal> {
        let secrets = name.and_then(|name| self.known().get(name).and_then(KnownHook::secrets));
        let checked = signature::check(headers, body, secrets.as_deref(), now);
        let headers = checked?;
        Ok((name.filter(|_| secrets.is_some()).ok_or(HookRefusal::Unknown)?, headers))
    }

    /// Maps and queues an authentic delivery.
    async fn take(&self, name: &HookName, headers: &DeliveryHeaders<'_>, body: &[u8], now: Duration) -> DeliveryResult {
        // Looked up first: a replica that maps nothing takes nothing from the rate.
        let Some(target) = self.served().get(name).cloned() else { return DeliveryResult::NotServing };
        let now = DeliveryTime { wall: now, moment: self.moment() };
        let admitted = self.known().get_mut(name).map(|known| known.deliveries.admit(headers, now));
        match admitted {
            Some(Ok(())) => {}
            Some(Err(reason)) => return reason.into(),
            // The policy has just closed the hook.
            None => return DeliveryResult::Refused(HookRefusal::Unknown),
        }
        let _in_work = IdInWork { hooks: self, name, id: headers.id };
        let Some(delivery) = delivery(&name.1, body) else { return DeliveryResult::NotJson };
        let queued = match tokio::time::timeout(HOOK_MAPPING_TIMEOUT, target.deliver(delivery)).await {
            Ok(Ok(queued)) => queued,
            Ok(Err(DeliveryFailure::Mapper)) => return DeliveryResult::Failed,
            Ok(Err(DeliveryFailure::NotReady)) | Err(_) => return DeliveryResult::NotServing,
        };
        // Only now: a sender whose delivery was not queued sends it again, with the same id.
        if let Some(known) = self.known().get_mut(name) {
            known.deliveries.queued(headers);
        }
        DeliveryResult::Queued(queued)
    }

    fn moment(&self) -> Moment {
        Moment(self.0.origin.elapsed())
    }

    /// Counts a request. A name that no policy has may be any text, so it is not shown.
    fn count(&self, name: Option<&HookName>, result: &DeliveryResult) {
        let known = name.filter(|name| self.known().contains_key(*name));
        let (plugin, hook) = known.map_or(("", ""), |(plugin, hook)| (plugin, hook));
        self.0.counts.count(plugin, hook, result.as_str());
        tracing::debug!(plugin, hook, result = result.as_str(), "a request to a hook");
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<HookName, KnownHook>> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn served(&self) -> MutexGuard<'_, BTreeMap<HookName, Arc<dyn DeliveryTarget>>> {
        self.0.served.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HooksView for Hooks {
    fn to_json(&self, plugin: &str, declared: &[&Hook]) -> Value {
        let (known, served) = (self.known(), self.served());
        let problem = |name: &HookName| match known.get(name) {
            None => Some("closed: the plugin's policy does not name its secret".to_owned()),
            Some(hook) => hook.problem(),
        };
        let of_manifest = declared.iter().map(|hook| (Arc::from(plugin), Arc::from(hook.name.as_str())));
        let mut shown: BTreeMap<HookName, Value> = BTreeMap::new();
        for name in of_manifest {
            let entry = json!({
                "name": &*name.1, "served": served.contains_key(&name), "problem": problem(&name),
                "lastDelivery": known.get(&name).and_then(|hook| hook.last_delivery).map(in_seconds),
                "requests": self.0.counts.of(plugin, &name.1),
            });
            shown.insert(name, entry);
        }
        let without_declaration = known.keys().filter(|(of, name)| **of == *plugin && !is_declared(declared, name));
        for (_, name) in without_declaration {
            let problem = "the policy opens it, but the plugin's manifest has no such hook: correct one of them";
            let entry =
                json!({"name": &**name, "served": false, "problem": problem, "lastDelivery": null, "requests": {}});
            shown.insert((plugin.into(), name.clone()), entry);
        }
        shown.into_values().collect()
    }
}

/// The time since the Unix epoch, as a date and time in UTC.
fn in_seconds(time: Duration) -> String {
    let second = i64::try_from(time.as_secs()).ok().and_then(|second| Timestamp::from_second(second).ok());
    second.unwrap_or_default().to_string()
}

fn is_declared(declared: &[&Hook], name: &str) -> bool {
    declared.iter().any(|hook| hook.name == name)
}

/// The delivery as the object that mappings read. `None` if `body` is not JSON.
fn delivery(hook: &str, body: &[u8]) -> Option<Arc<str>> {
    let payload = std::str::from_utf8(body).ok()?;
    // Also refuses what is nested too deeply.
    serde_json::from_str::<Value>(payload).ok()?;
    let (api_version, kind) = (Hook::API_VERSION, Hook::KIND);
    // The name is a DNS label, so it needs no escapes.
    Some(
        format!(
            r#"{{"apiVersion":"{api_version}","kind":"{kind}","metadata":{{"name":"{hook}"}},"payload":{payload}}}"#
        )
        .into(),
    )
}

/// The id of a delivery that is being mapped. If it is not queued, it may come again some time after this is dropped,
/// which also happens if the connection is closed.
struct IdInWork<'a> {
    hooks: &'a Hooks,
    name: &'a HookName,
    id: &'a str,
}

impl Drop for IdInWork<'_> {
    fn drop(&mut self) {
        let now = self.hooks.moment();
        if let Some(known) = self.hooks.known().get_mut(self.name) {
            known.deliveries.not_queued(self.id, now);
        }
    }
}

/// The hooks of one controller, which are served until this is dropped.
pub(crate) struct ServedHooks {
    hooks: Hooks,
    plugin: Arc<str>,
    targets: Vec<Arc<dyn DeliveryTarget>>,
}

impl Drop for ServedHooks {
    fn drop(&mut self) {
        let mut served = self.hooks.served();
        for target in &self.targets {
            let name = (self.plugin.clone(), target.hook());
            // The next generation's target may have taken the place.
            if served.get(&name).is_some_and(|it| Arc::ptr_eq(it, target)) {
                served.remove(&name);
            }
        }
    }
}
