//! The leases on `/metrics`.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use tokio::sync::watch;
use windlass_core::life::sharing::Membership;

use super::elector::LeaseFigures;
use super::slots::LeaseSlots;
use super::{Leadership, LeaseMode};
use crate::observe::metrics::{counters, gauges};

/// Exports the figures of leases as metrics.
struct LeaseCollector {
    slots: LeaseSlots,
    has_leases: bool,
    membership: watch::Receiver<Membership>,
}

impl fmt::Debug for LeaseCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeaseCollector")
    }
}

impl Leadership {
    /// A collector for the metrics of its leases.
    pub(crate) fn collector(&self) -> Box<dyn Collector> {
        let has_leases = self.settings.mode != LeaseMode::None;
        Box::new(LeaseCollector { slots: self.slots.clone(), has_leases, membership: self.membership.subscribe() })
    }
}

impl Collector for LeaseCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        if !self.has_leases {
            return Ok(());
        }
        let leases = self.slots.lock().iter().map(|(lease, slot)| (lease.clone(), slot.figures.clone())).collect();
        let leases: Vec<(Arc<str>, Arc<LeaseFigures>)> = leases;
        let encoder = &mut encoder;
        let held = |label: &'static str| {
            let of = move |(lease, figures): &(Arc<str>, Arc<LeaseFigures>)| {
                (vec![(label, lease.to_string())], i64::from(figures.held.load(Ordering::Relaxed)))
            };
            leases.iter().map(of)
        };
        gauges(encoder, "windlass_lease_held", "Whether this process holds the lease", held("lease"))?;
        // client-go's metric.
        gauges(encoder, "leader_election_master_status", "Whether this process is the leader", held("name"))?;
        let transitions = leases
            .iter()
            .map(|(lease, figures)| (vec![("lease", lease.to_string())], figures.transitions.load(Ordering::Relaxed)));
        counters(
            encoder,
            "windlass_lease_transitions",
            "How often this process has won or lost the lease",
            transitions,
        )?;
        let failures = leases
            .iter()
            .map(|(lease, figures)| (vec![("lease", lease.to_string())], figures.failures.load(Ordering::Relaxed)));
        counters(encoder, "windlass_lease_renew_failures", "Requests about the lease that failed", failures)?;
        let live = i64::try_from(self.membership.borrow().live.len()).unwrap_or(i64::MAX);
        gauges(encoder, "windlass_lease_members", "How many replicas live, as this replica sees it", [(vec![], live)])
    }
}
