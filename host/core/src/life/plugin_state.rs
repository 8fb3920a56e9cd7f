//! The state of a plugin on one replica, decided once from the facts that the host has.
//!
//! For display only, like [`crate::queue::key_state`]: nothing that the host does depends on it. `/plugins`,
//! `windlass status`, the status page, the metrics, `/readyz` and the Events all show this value.

use crate::queue::key_state::CallBlock;

/// The host's progress with a plugin's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PluginPhase {
    /// The file is being read and compiled, and its manifest read.
    Loading,
    /// The file cannot be run.
    NotLoaded,
    /// The file is gone or may not run any more, so its calls and tasks are ending.
    Ending,
    /// There is no policy for the plugin.
    WaitingForPolicy,
    /// The plugin's policy pauses it.
    Paused,
    /// The plugin's controllers have been started. What each of them does is in its [`ControllerState`].
    Started,
    /// The plugin's caches are too large. The host tries the plugin again from time to time.
    Suspended,
}

/// The state of one controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControllerState {
    /// Another replica runs the controller.
    StandingBy,
    /// No replica runs the plugin, because the holder of its lease cannot.
    Unserved,
    /// The controller looks up what it needs.
    Starting,
    /// The controller waits for something that does not exist yet: a kind, a policy, a configuration, or the API
    /// server.
    Waiting,
    /// The controller's caches receive their first lists.
    Syncing,
    Running,
    /// The controller will not run again under this host's settings.
    Stopped,
}

impl ControllerState {
    /// In `kebab-case`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::StandingBy => "standing-by",
            Self::Unserved => "unserved",
            Self::Starting => "starting",
            Self::Waiting => "waiting",
            Self::Syncing => "syncing",
            Self::Running => "running",
            Self::Stopped => "stopped",
        }
    }
}

/// Whether this replica may run a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseStatus {
    /// This replica holds the plugin's lease, or the plugin needs none.
    Held,
    /// This replica's name is in the lease, but the lease was not renewed in time, so the replica may not act.
    Lost,
    /// Another replica holds the lease, or none does.
    NotHeld,
}

impl LeaseStatus {
    /// In `kebab-case`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Lost => "lost",
            Self::NotHeld => "not-held",
        }
    }
}

/// The facts about one controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerFacts {
    pub state: ControllerState,
    /// Whether the API server refuses one of the controller's lists or watches. Matters while the controller fills its
    /// caches.
    pub is_refused: bool,
    /// Why the controller cannot make calls now.
    pub block: Option<CallBlock>,
    /// Whether the controller's circuit breaker is open, or allows one trial call.
    pub is_circuit_open: bool,
}

/// The facts about one plugin from which its state follows.
#[derive(Clone, Copy, Debug)]
pub struct PluginFacts<'a> {
    /// The host's progress with the plugin's file.
    pub phase: PluginPhase,
    /// Whether the plugin is unserved: no replica runs it.
    pub is_unserved: bool,
    /// Whether this replica may run the plugin.
    pub lease: LeaseStatus,
    pub controllers: &'a [ControllerFacts],
}

/// The state of a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PluginState {
    /// The plugin's file is being read and compiled.
    Loading,
    /// The plugin's file cannot be run.
    NotLoaded,
    /// The plugin's calls and tasks are ending.
    Ending,
    /// The plugin has no policy.
    WaitingForPolicy,
    /// The plugin's policy pauses it.
    Paused,
    /// The plugin's caches are too large. The host tries the plugin again from time to time.
    Suspended,
    /// No replica runs the plugin.
    Unserved,
    /// A controller waits for something that does not exist yet.
    Waiting,
    /// A controller cannot fill its caches, because the API server refuses a list or a watch.
    ListRefused,
    /// A controller will not run again under this host's settings.
    Stopped,
    /// A controller looks up what it needs.
    Starting,
    /// A controller fills its caches.
    Syncing,
    /// Another replica runs the plugin.
    StandingBy,
    /// This replica could not renew the plugin's lease in time, and no other replica is known to hold it.
    LeaseLost,
    /// The API server does not answer, so no calls are made.
    ServerUnreachable,
    /// The server was restored, or may have been, and the caches of a controller do not show that yet.
    CachesUnproven,
    /// The circuit breaker of a controller is open.
    BreakerOpen,
    Running,
}

impl PluginState {
    pub const ALL: [Self; 18] = [
        Self::Loading,
        Self::NotLoaded,
        Self::Ending,
        Self::WaitingForPolicy,
        Self::Paused,
        Self::Suspended,
        Self::Unserved,
        Self::Waiting,
        Self::ListRefused,
        Self::Stopped,
        Self::Starting,
        Self::Syncing,
        Self::StandingBy,
        Self::LeaseLost,
        Self::ServerUnreachable,
        Self::CachesUnproven,
        Self::BreakerOpen,
        Self::Running,
    ];

    /// Returns the state that follows from `facts`, and the index of the controller that decided it. `None` if no
    /// single controller decided it.
    #[must_use]
    pub fn of(facts: &PluginFacts<'_>) -> (Self, Option<usize>) {
        let of_phase = match facts.phase {
            PluginPhase::Loading => Some(Self::Loading),
            PluginPhase::NotLoaded => Some(Self::NotLoaded),
            PluginPhase::Ending => Some(Self::Ending),
            PluginPhase::WaitingForPolicy => Some(Self::WaitingForPolicy),
            PluginPhase::Paused => Some(Self::Paused),
            PluginPhase::Suspended => Some(Self::Suspended),
            PluginPhase::Started if facts.is_unserved => Some(Self::Unserved),
            PluginPhase::Started if facts.lease == LeaseStatus::Lost => Some(Self::LeaseLost),
            PluginPhase::Started => None,
        };
        if let Some(state) = of_phase {
            return (state, None);
        }
        // The controller in the worst state decides; among equals, the first.
        let states = facts.controllers.iter().copied().map(Self::of_controller).enumerate();
        let worst = states.min_by_key(|(_, state)| (!state.needs_person(), *state));
        worst.map_or((Self::Running, None), |(index, state)| (state, Some(index)))
    }

    fn of_controller(facts: ControllerFacts) -> Self {
        match facts.state {
            ControllerState::Unserved => Self::Unserved,
            ControllerState::Waiting => Self::Waiting,
            ControllerState::Stopped => Self::Stopped,
            ControllerState::Starting | ControllerState::Syncing if facts.is_refused => Self::ListRefused,
            ControllerState::Starting => Self::Starting,
            ControllerState::Syncing => Self::Syncing,
            ControllerState::StandingBy => Self::StandingBy,
            ControllerState::Running if facts.block == Some(CallBlock::ServerUnreachable) => Self::ServerUnreachable,
            ControllerState::Running if facts.block == Some(CallBlock::CachesUnproven) => Self::CachesUnproven,
            ControllerState::Running if facts.is_circuit_open => Self::BreakerOpen,
            ControllerState::Running => Self::Running,
        }
    }

    /// Whether the plugin is not working until a person acts or an outage ends. Such a state has an alert and a
    /// Kubernetes Event. Other alerts cover a running plugin that needs a person for some of its objects.
    #[must_use]
    pub fn needs_person(self) -> bool {
        match self {
            Self::NotLoaded
            | Self::WaitingForPolicy
            | Self::Suspended
            | Self::Unserved
            | Self::Waiting
            | Self::ListRefused
            | Self::Stopped
            | Self::LeaseLost
            | Self::ServerUnreachable
            | Self::CachesUnproven
            | Self::BreakerOpen => true,
            Self::Loading
            | Self::Ending
            | Self::Paused
            | Self::Starting
            | Self::Syncing
            | Self::StandingBy
            | Self::Running => false,
        }
    }

    /// The reason of the Kubernetes Event about a plugin in this state. `None` if no person is needed, if the API
    /// server does not answer so that no Event could be sent, or if the state ends by itself.
    #[must_use]
    pub fn event_reason(self) -> Option<&'static str> {
        match self {
            Self::NotLoaded => Some("PluginNotLoaded"),
            Self::WaitingForPolicy => Some("PluginWaitingForPolicy"),
            Self::Suspended => Some("PluginSuspended"),
            Self::Unserved => Some("PluginUnserved"),
            Self::Waiting => Some("PluginWaiting"),
            Self::ListRefused => Some("PluginListRefused"),
            Self::Stopped => Some("PluginStopped"),
            Self::BreakerOpen => Some("PluginBreakerOpen"),
            Self::LeaseLost
            | Self::ServerUnreachable
            | Self::CachesUnproven
            | Self::Loading
            | Self::Ending
            | Self::Paused
            | Self::Starting
            | Self::Syncing
            | Self::StandingBy
            | Self::Running => None,
        }
    }

    /// In `kebab-case`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Loading => "loading",
            Self::NotLoaded => "not-loaded",
            Self::Ending => "ending",
            Self::WaitingForPolicy => "waiting-for-policy",
            Self::Paused => "paused",
            Self::Suspended => "suspended",
            Self::Unserved => "unserved",
            Self::Waiting => "waiting",
            Self::ListRefused => "list-refused",
            Self::Stopped => "stopped",
            Self::Starting => "starting",
            Self::Syncing => "syncing",
            Self::StandingBy => "standing-by",
            Self::LeaseLost => "lease-lost",
            Self::ServerUnreachable => "server-unreachable",
            Self::CachesUnproven => "caches-unproven",
            Self::BreakerOpen => "breaker-open",
            Self::Running => "running",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const RUNNING: ControllerFacts =
        ControllerFacts { state: ControllerState::Running, is_refused: false, block: None, is_circuit_open: false };

    fn in_state(state: ControllerState) -> ControllerFacts {
        ControllerFacts { state, ..RUNNING }
    }

    /// The state of a started plugin with these controllers.
    fn started(controllers: &[ControllerFacts]) -> (PluginState, Option<usize>) {
        let phase = PluginPhase::Started;
        PluginState::of(&PluginFacts { phase, is_unserved: false, lease: LeaseStatus::Held, controllers })
    }

    #[test]
    fn a_plugin_that_is_not_started_is_in_the_state_of_its_phase() {
        let table = [
            (PluginPhase::Loading, PluginState::Loading),
            (PluginPhase::NotLoaded, PluginState::NotLoaded),
            (PluginPhase::Ending, PluginState::Ending),
            (PluginPhase::WaitingForPolicy, PluginState::WaitingForPolicy),
            (PluginPhase::Paused, PluginState::Paused),
            (PluginPhase::Suspended, PluginState::Suspended),
        ];
        for (phase, expected) in table {
            let controllers = [in_state(ControllerState::Waiting)];
            let facts = PluginFacts { phase, is_unserved: true, lease: LeaseStatus::Lost, controllers: &controllers };
            assert_eq!(PluginState::of(&facts), (expected, None));
        }
    }

    #[test]
    fn who_runs_a_plugin_counts_before_its_controllers() {
        let state = |is_unserved, lease| {
            let controllers = [in_state(ControllerState::StandingBy)];
            PluginState::of(&PluginFacts { phase: PluginPhase::Started, is_unserved, lease, controllers: &controllers })
                .0
        };
        assert_eq!(state(true, LeaseStatus::NotHeld), PluginState::Unserved);
        assert_eq!(state(false, LeaseStatus::Lost), PluginState::LeaseLost, "the API server does not answer");
        assert_eq!(state(false, LeaseStatus::NotHeld), PluginState::StandingBy);
    }

    #[test]
    fn a_controller_has_one_state() {
        let refused = ControllerFacts { is_refused: true, ..in_state(ControllerState::Syncing) };
        let unreachable =
            ControllerFacts { block: Some(CallBlock::ServerUnreachable), is_circuit_open: true, ..RUNNING };
        let open = ControllerFacts { block: Some(CallBlock::BreakerOpen), is_circuit_open: true, ..RUNNING };
        let unproven = ControllerFacts { block: Some(CallBlock::CachesUnproven), is_circuit_open: true, ..RUNNING };
        let table = [
            (in_state(ControllerState::StandingBy), PluginState::StandingBy),
            (in_state(ControllerState::Unserved), PluginState::Unserved),
            (in_state(ControllerState::Starting), PluginState::Starting),
            (in_state(ControllerState::Waiting), PluginState::Waiting),
            (in_state(ControllerState::Syncing), PluginState::Syncing),
            (in_state(ControllerState::Stopped), PluginState::Stopped),
            (refused, PluginState::ListRefused),
            (unreachable, PluginState::ServerUnreachable),
            (unproven, PluginState::CachesUnproven),
            (open, PluginState::BreakerOpen),
            (RUNNING, PluginState::Running),
        ];
        for (facts, expected) in table {
            assert_eq!(started(&[facts]), (expected, Some(0)));
        }
        assert_eq!(started(&[]), (PluginState::Running, None), "it has nothing to do");
    }

    #[test]
    fn the_controller_in_the_worst_state_decides() {
        let [waits, syncs, stands_by] =
            [ControllerState::Waiting, ControllerState::Syncing, ControllerState::StandingBy].map(in_state);
        let open = ControllerFacts { is_circuit_open: true, ..RUNNING };
        assert_eq!(started(&[RUNNING, syncs, waits]), (PluginState::Waiting, Some(2)));
        assert_eq!(started(&[syncs, open]), (PluginState::BreakerOpen, Some(1)), "it needs a person");
        assert_eq!(started(&[RUNNING, stands_by]), (PluginState::StandingBy, Some(1)));
        assert_eq!(started(&[RUNNING, syncs]), (PluginState::Syncing, Some(1)));
        assert_eq!(started(&[waits, waits]).1, Some(0), "the first of equals");
    }

    #[test]
    fn each_state_that_needs_a_person_has_an_event_unless_none_could_be_sent() {
        for state in PluginState::ALL {
            use PluginState::{CachesUnproven, LeaseLost, ServerUnreachable};
            let could_be_sent = !matches!(state, LeaseLost | ServerUnreachable | CachesUnproven);
            assert_eq!(state.event_reason().is_some(), state.needs_person() && could_be_sent, "{state:?}");
        }
    }

    #[test]
    fn each_state_has_a_name_of_its_own() {
        let names: BTreeSet<_> = PluginState::ALL.iter().map(|state| state.as_str()).collect();
        assert_eq!(names.len(), PluginState::ALL.len());
    }
}
