//! What becomes of keys that an outage of the API server's has set back (§3.1).
//!
//! While the server is unreachable, dispatch takes no key. But calls that ran when the outage began have failed, perhaps
//! several times, before it was known to be one; the delays that this earned their keys are nobody's fault and end with it.

use std::collections::HashMap;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use windlass_core::object::ObjectKey;
use windlass_kube::Outage;

use crate::dispatch::circuit::Circuit;
use crate::policies::Pause;

/// Whether the API server answers, as [`Reachability`](windlass_kube::Reachability) or a test says; and whether the operator
/// has paused the plugin, and whether its circuit lets a call through, which hold its calls back in the same way.
#[derive(Clone, Debug)]
pub(crate) struct Outages {
    server: watch::Receiver<Outage>,
    pause: Option<Pause>,
    circuit: Option<Circuit>,
}

impl Outages {
    pub(crate) fn new(server: watch::Receiver<Outage>) -> Self {
        Self { server, pause: None, circuit: None }
    }

    /// The same, for a plugin that may be paused.
    pub(crate) fn with_pause(&self, pause: Pause) -> Self {
        Self { pause: Some(pause), ..self.clone() }
    }

    /// The same, for a controller whose circuit may open.
    pub(crate) fn with_circuit(&self, circuit: Circuit) -> Self {
        Self { circuit: Some(circuit), ..self.clone() }
    }

    /// Whether calls may be made: the server answers, the plugin is not paused, and its circuit lets one through.
    pub(crate) fn is_over(&self) -> bool {
        self.server.borrow().since.is_none()
            && !self.is_paused()
            && self.circuit.as_ref().is_none_or(Circuit::is_passable)
    }

    /// Completes when calls may be made.
    pub(crate) async fn over(&self) {
        while !self.is_over() {
            if self.server.clone().wait_for(|outage| outage.since.is_none()).await.is_err() {
                return; // Nobody watches the server any more.
            }
            if let Some(pause) = &self.pause {
                pause.becomes(false).await;
            }
            if let Some(circuit) = &self.circuit {
                circuit.passable().await;
            }
        }
    }

    /// Completes when no call may be made.
    pub(crate) async fn begun(&self) {
        let mut server = self.server.clone();
        let unreachable = async {
            if server.wait_for(|outage| outage.since.is_some()).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let paused = async {
            match &self.pause {
                Some(pause) => pause.becomes(true).await,
                None => std::future::pending().await,
            }
        };
        let impassable = async {
            match &self.circuit {
                Some(circuit) => circuit.impassable().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = unreachable => {}
            () = paused => {}
            () = impassable => {}
        }
    }

    fn is_paused(&self) -> bool {
        self.pause.as_ref().is_some_and(Pause::is_on)
    }

    /// Tells `ended` of each outage that ends, with the moment that it began. Returns when nothing can change any more.
    pub(crate) async fn follow(&self, ended: impl Fn(Instant)) {
        let mut outages = self.server.clone();
        let mut last = *outages.borrow_and_update();
        while outages.changed().await.is_ok() {
            let now = *outages.borrow_and_update();
            if now.since.is_none() {
                // One that began and ended between two looks began just now.
                ended(last.since.unwrap_or_else(Instant::now));
            }
            last = now;
        }
    }
}

/// How long an outage may have lasted before it was known to be one: as long as a request may take.
const UNNOTICED: Duration = Duration::from_secs(30);

/// The keys whose last call failed in a way that does not count, and when. It holds no key that does not wait for its
/// backoff, or runs again because of it.
#[derive(Debug, Default)]
pub(crate) struct Setbacks {
    at: HashMap<ObjectKey, Instant>,
}

impl Setbacks {
    /// A call failed, and not by the plugin's fault.
    pub(crate) fn note(&mut self, key: ObjectKey, now: Instant) {
        self.at.insert(key, now);
    }

    /// The key is called again.
    pub(crate) fn clear(&mut self, key: &ObjectKey) {
        self.at.remove(key);
    }

    /// Takes out the keys that were set back by an outage that is known since `began`.
    pub(crate) fn take(&mut self, began: Instant) -> Vec<ObjectKey> {
        let ago = |at: Instant| began.saturating_duration_since(at);
        self.at.extract_if(|_, at| ago(*at) <= UNNOTICED).map(|(key, _)| key).collect()
    }
}

/// The switch of a test.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct Switch(watch::Sender<Outage>);

#[cfg(test)]
impl Switch {
    pub(crate) fn new() -> (Self, Outages) {
        let (switch, outages) = watch::channel(Outage { number: 0, since: None });
        (Self(switch), Outages::new(outages))
    }

    pub(crate) fn begin(&self) {
        self.0.send_modify(|outage| *outage = Outage { number: outage.number + 1, since: Some(Instant::now()) });
    }

    pub(crate) fn end(&self) {
        self.0.send_modify(|outage| outage.since = None);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use futures::FutureExt;

    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::namespaced("prod", name)
    }

    #[tokio::test(start_paused = true)]
    async fn keys_that_failed_in_an_outage_or_shortly_before_are_taken_once() {
        let mut setbacks = Setbacks::default();
        let start = Instant::now();
        setbacks.note(key("long-before"), start);
        setbacks.note(key("before"), start + Duration::from_secs(50));
        setbacks.note(key("called-again"), start + Duration::from_secs(50));
        setbacks.clear(&key("called-again"));
        let began = start + Duration::from_mins(1);
        setbacks.note(key("during"), began + Duration::from_mins(5));
        let mut taken = setbacks.take(began);
        taken.sort();
        assert_eq!(taken, [key("before"), key("during")]);
        assert!(setbacks.take(began).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn each_end_of_an_outage_is_told_with_its_beginning() {
        let (switch, outages) = Switch::new();
        let told = RefCell::new(Vec::new());
        let mut following = Box::pin(outages.follow(|began| told.borrow_mut().push(began)));
        let mut look = || assert!(following.as_mut().now_or_never().is_none());
        look();
        let began = Instant::now();
        switch.begin();
        look();
        assert!(told.borrow().is_empty());
        tokio::time::advance(Duration::from_mins(1)).await;
        switch.end();
        look();
        assert_eq!(*told.borrow(), [began]);
        // Too short to be seen while it lasts.
        switch.begin();
        switch.end();
        look();
        assert_eq!(*told.borrow(), [began, began + Duration::from_mins(1)]);
    }
}
