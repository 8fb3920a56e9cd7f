//! Sets of stand-ins, and their form as text.

use std::fmt;
use std::ops::BitOr;
use std::str::FromStr;

/// A set of stand-ins: the controllers of a cluster, and the parts of a node, that the server simulates. As text, their
/// names separated by commas, such as `deployments,replicasets,pods`, or `all`, `none` or `default`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StandIns(u16);

impl StandIns {
    /// No stand-in, as with a bare API server.
    pub const NONE: StandIns = StandIns(0);
    /// Each namespace gets its `default` service account.
    pub const SERVICE_ACCOUNTS: StandIns = StandIns(1);
    /// The status of deployments, replica sets and stateful sets says that they are ready, although there are no pods.
    /// If a kind's own stand-in is enabled too, it is used instead.
    pub const STATUSES: StandIns = StandIns(1 << 1);
    /// Deployments get replica sets, and roll out step by step.
    pub const DEPLOYMENTS: StandIns = StandIns(1 << 2);
    /// Replica sets get pods.
    pub const REPLICA_SETS: StandIns = StandIns(1 << 3);
    /// There is a node. Pods are scheduled, run, become ready, end and fail.
    pub const PODS: StandIns = StandIns(1 << 4);
    /// Stateful sets get pods and revisions.
    pub const STATEFUL_SETS: StandIns = StandIns(1 << 5);
    /// Daemon sets get a pod on each node, and revisions.
    pub const DAEMON_SETS: StandIns = StandIns(1 << 6);
    /// Jobs get pods, and complete or fail with them.
    pub const JOBS: StandIns = StandIns(1 << 7);
    /// Services get Endpoints and endpoint slices.
    pub const ENDPOINTS: StandIns = StandIns(1 << 8);
    /// The status of disruption budgets says how many evictions are allowed.
    pub const DISRUPTION_BUDGETS: StandIns = StandIns(1 << 9);
    /// Secrets of the type `kubernetes.io/service-account-token` get their token.
    pub const TOKENS: StandIns = StandIns(1 << 10);
    /// All stand-ins.
    pub const ALL: StandIns = StandIns((1 << 11) - 1);

    const NAMES: [(&str, StandIns); 11] = [
        ("serviceaccounts", StandIns::SERVICE_ACCOUNTS),
        ("tokens", StandIns::TOKENS),
        ("statuses", StandIns::STATUSES),
        ("deployments", StandIns::DEPLOYMENTS),
        ("replicasets", StandIns::REPLICA_SETS),
        ("pods", StandIns::PODS),
        ("statefulsets", StandIns::STATEFUL_SETS),
        ("daemonsets", StandIns::DAEMON_SETS),
        ("jobs", StandIns::JOBS),
        ("endpoints", StandIns::ENDPOINTS),
        ("poddisruptionbudgets", StandIns::DISRUPTION_BUDGETS),
    ];

    /// Whether this set contains all stand-ins of `other`.
    #[must_use]
    pub const fn contains(self, other: StandIns) -> bool {
        self.0 & other.0 == other.0
    }

    /// This set without the stand-ins of `other`.
    #[must_use]
    pub const fn without(self, other: StandIns) -> StandIns {
        StandIns(self.0 & !other.0)
    }
}

/// [`StandIns::STATUSES`] and [`StandIns::SERVICE_ACCOUNTS`]: clients wait for their writes, and expect every object
/// that they create.
impl Default for StandIns {
    fn default() -> StandIns {
        StandIns::STATUSES | StandIns::SERVICE_ACCOUNTS
    }
}

impl BitOr for StandIns {
    type Output = StandIns;

    fn bitor(self, other: StandIns) -> StandIns {
        StandIns(self.0 | other.0)
    }
}

/// The error for a text that does not name a set of stand-ins.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no stand-in is called {name:?}; there are all, none, default, and {}", known())]
pub struct UnknownStandIn {
    /// The part of the text that is wrong.
    pub name: String,
}

fn known() -> String {
    StandIns::NAMES.map(|(name, _)| name).join(", ")
}

impl FromStr for StandIns {
    type Err = UnknownStandIn;

    fn from_str(text: &str) -> Result<StandIns, UnknownStandIn> {
        let named = |name: &str| match name {
            "all" => Some(StandIns::ALL),
            "none" => Some(StandIns::NONE),
            "default" => Some(StandIns::default()),
            _ => StandIns::NAMES.iter().find(|(known, _)| *known == name).map(|(_, set)| *set),
        };
        text.split(',').map(str::trim).try_fold(StandIns::NONE, |all, name| {
            named(name).map(|set| all | set).ok_or_else(|| UnknownStandIn { name: name.to_owned() })
        })
    }
}

impl fmt::Display for StandIns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> =
            StandIns::NAMES.iter().filter(|(_, set)| self.contains(*set)).map(|(name, _)| *name).collect();
        f.write_str(if names.is_empty() { "none" } else { "" })?;
        f.write_str(&names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_set_of_stand_ins_parses_to_the_same_set() {
        for set in [StandIns::NONE, StandIns::ALL, StandIns::default(), StandIns::PODS | StandIns::DEPLOYMENTS] {
            assert_eq!(set.to_string().parse(), Ok(set));
        }
        assert_eq!("default, pods".parse(), Ok(StandIns::default() | StandIns::PODS));
        let wrong = "pods,cronjobs".parse::<StandIns>().expect_err("there is no such stand-in");
        assert!(wrong.to_string().starts_with("no stand-in is called \"cronjobs\"; there are all, none"), "{wrong}");
    }

    #[test]
    fn every_stand_in_has_a_name() {
        let named = StandIns::NAMES.iter().fold(StandIns::NONE, |all, (_, set)| all | *set);
        assert_eq!(named, StandIns::ALL);
        assert_eq!(StandIns::ALL.without(StandIns::PODS) | StandIns::PODS, StandIns::ALL);
        assert!(!StandIns::default().contains(StandIns::PODS));
    }
}
