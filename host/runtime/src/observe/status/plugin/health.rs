//! A plugin's health, in a word and a sentence: the first thing that an operator wants to know of it, of all that is shown.

use serde::Serialize;
use serde_json::{Value, json};
use windlass_core::breaker::BreakerState;
use windlass_core::key_state::CallBlock;

use super::super::{ControllerState, locked};
use super::{PluginState, PluginStatus};

/// The state of a plugin with all its controllers, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PluginHealth {
    pub(super) state: String,
    pub(super) why: Option<String>,
    /// Nobody has to look after it.
    pub(super) is_well: bool,
}

impl PluginHealth {
    fn new(state: &str, why: Option<String>, is_well: bool) -> Self {
        Self { state: state.to_owned(), why, is_well }
    }
}

impl PluginStatus {
    /// For `/plugins`. `unserved`: why no replica runs it.
    pub(in super::super) fn health_json(&self, unserved: Option<String>) -> Value {
        let PluginHealth { state, why, is_well } = self.health(unserved);
        json!({"state": state, "why": why, "well": is_well})
    }

    pub(super) fn health(&self, unserved: Option<String>) -> PluginHealth {
        let current = locked(&self.current).clone();
        if current.state != PluginState::Running {
            let is_well = matches!(current.state, PluginState::Paused | PluginState::Ending | PluginState::Loading);
            return PluginHealth::new(&label(current.state), current.reason, is_well);
        }
        if let Some(why) = unserved {
            return PluginHealth::new("unserved", Some(why), false);
        }
        let controllers = self.controllers();
        let works = |state| matches!(state, ControllerState::Running | ControllerState::StandingBy);
        // A watch that the API server refuses has a reason.
        let begins = |state, reason: &Option<_>| {
            matches!(state, ControllerState::Starting | ControllerState::Syncing) && reason.is_none()
        };
        let states = controllers.iter().map(|it| (it, it.state()));
        let idle = states.filter(|(_, (state, _))| !works(*state));
        if let Some((controller, (state, reason))) = idle.min_by_key(|(_, (state, reason))| begins(*state, reason)) {
            let is_well = begins(state, &reason);
            let why = reason.map(|reason| format!("controller {}: {reason}", controller.own_name()));
            return PluginHealth::new(&label(state), why, is_well);
        }
        if controllers.iter().any(|it| it.state().0 == ControllerState::StandingBy) {
            let is_held = locked(&self.lease).as_ref().is_some_and(|lease| lease.is_held());
            let why = if is_held {
                "its lease is this replica's and could not be renewed: does the API server answer?"
            } else {
                "another replica has its lease"
            };
            return PluginHealth::new("standing-by", Some(why.to_owned()), !is_held);
        }
        if controllers.iter().any(|it| it.block() == Some(CallBlock::ServerUnreachable)) {
            let why = "the API server does not answer, so no calls are made";
            return PluginHealth::new("server-unreachable", Some(why.to_owned()), false);
        }
        if let Some(doubted) = controllers.iter().find(|it| it.block() == Some(CallBlock::CachesUnproven)) {
            let caches = doubted.unproven();
            let why = if caches.is_empty() {
                "the API server answers again, and has not said yet whether it was restored".to_owned()
            } else {
                format!(
                    "the API server was restored, and controller {} makes no calls until these caches have been listed: {}",
                    doubted.own_name(),
                    caches.join(", ")
                )
            };
            return PluginHealth::new("caches-unproven", Some(why), false);
        }
        let is_open = |state| matches!(state, Some(BreakerState::Open | BreakerState::HalfOpen));
        if let Some(open) = controllers.iter().find(|it| is_open(it.breaker())) {
            let why = format!(
                "controller {}: calls about many objects in a row ended without an answer, so few or none are made",
                open.own_name()
            );
            return PluginHealth::new("breaker-open", Some(why), false);
        }
        let rolled_back = current.rejected.map(|it| format!("a version was rolled back: {}", it.reason));
        let of_file = current.not_taken.map(|it| format!("its file was not taken: {}", it.reason));
        let [given_up, slowed] =
            [controllers.iter().map(|it| it.given_up()).sum::<u64>(), controllers.iter().map(|it| it.slowed()).sum()];
        let keys = (given_up > 0).then(|| format!("{given_up} keys have used up their retries"));
        let loops = (slowed > 0).then(|| format!("{slowed} keys write an object over and over"));
        let why = rolled_back.or(of_file).or(keys).or(loops);
        let is_well = why.is_none();
        PluginHealth::new("running", why, is_well)
    }
}

/// As `/plugins` writes it.
fn label(state: impl Serialize) -> String {
    serde_json::to_value(state).ok().and_then(|it| it.as_str().map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use windlass_core::object::ObjectKey;

    use super::*;
    use crate::observe::metrics::HostMetrics;
    use crate::observe::status::NotTaken;

    fn health(plugin: &PluginStatus) -> (String, Option<String>, bool) {
        let PluginHealth { state, why, is_well } = plugin.health(None);
        (state, why, is_well)
    }

    #[tokio::test]
    async fn the_first_thing_that_is_wrong_is_told() {
        let plugin = PluginStatus::new("webapp");
        plugin.set(PluginState::NotLoaded, Some("no component".to_owned()));
        assert_eq!(health(&plugin), ("not-loaded".to_owned(), Some("no component".to_owned()), false));
        plugin.set(PluginState::Running, None);
        let controller = plugin.controller("web", 1, HostMetrics::new().controller("webapp", "web"));
        controller.set(ControllerState::Waiting, Some("no kind WebApp".to_owned()));
        let waits = ("waiting".to_owned(), Some("controller web: no kind WebApp".to_owned()), false);
        assert_eq!(health(&plugin), waits);
        let other = plugin.controller("api", 1, HostMetrics::new().controller("webapp", "api"));
        other.set(ControllerState::Syncing, None);
        assert_eq!(health(&plugin), waits, "one that begins is well");
        other.set(ControllerState::Syncing, Some("it may not list Jobs".to_owned()));
        controller.set(ControllerState::Syncing, None);
        let refused = ("syncing".to_owned(), Some("controller api: it may not list Jobs".to_owned()), false);
        assert_eq!(health(&plugin), refused);
        other.set(ControllerState::Running, None);
        assert_eq!(health(&plugin), ("syncing".to_owned(), None, true));
        controller.set(ControllerState::StandingBy, None);
        assert!(health(&plugin).2, "another replica does the work");
        controller.set(ControllerState::Running, None);
        assert_eq!(health(&plugin), ("running".to_owned(), None, true));
        let key = ObjectKey::namespaced("prod", "shop");
        controller.gave_up(&key, "it cannot");
        assert!(health(&plugin).1.is_some_and(|why| why.contains("1 keys")));
        controller.forget(&key);
        plugin.has_not_taken(Some(NotTaken { digest: None, reason: "it is empty".to_owned() }));
        let stale = ("running".to_owned(), Some("its file was not taken: it is empty".to_owned()), false);
        assert_eq!(health(&plugin), stale);
        assert_eq!(plugin.health(Some("nobody".to_owned())).state, "unserved");
    }
}
