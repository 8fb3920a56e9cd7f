//! Outages that a test starts and ends.

use tokio::sync::watch;
use tokio::time::Instant;
use windlass_kube::Outage;

use crate::dispatch::outage::Outages;

/// Switches outages on and off.
#[derive(Debug)]
pub(crate) struct Switch(watch::Sender<Outage>);

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
