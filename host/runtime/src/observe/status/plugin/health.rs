//! A plugin's health: its state, and the reason in a sentence. The log, metrics, Events and the admin endpoint all take
//! it from here.

use serde_json::{Value, json};
use windlass_core::life::plugin_state::{ControllerFacts, ControllerState, LeaseStatus, PluginFacts, PluginState};
use windlass_core::queue::breaker::BreakerState;

use super::super::{ControllerStatus, locked};
use super::{CurrentPluginStatus, PluginStatus};

/// The state of a plugin with all its controllers, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PluginHealth {
    pub(crate) state: PluginState,
    pub(crate) why: Option<String>,
    /// True if no operator needs to act.
    pub(crate) is_well: bool,
}

impl PluginHealth {
    /// For `/plugins`.
    pub(super) fn to_json(&self) -> Value {
        json!({"state": self.state.as_str(), "why": self.why, "well": self.is_well})
    }

    /// A line about the plugin `name`, if an operator needs to act.
    pub(crate) fn warning(&self, name: &str) -> Option<String> {
        let why = self.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        (!self.is_well).then(|| format!("{name} is {}{why}", self.state.as_str()))
    }
}

impl PluginStatus {
    /// The plugin's state and the reason. `unserved` says why no replica runs the plugin.
    pub(in super::super) fn health(&self, unserved: Option<&str>) -> PluginHealth {
        let current = locked(&self.current).clone();
        let controllers = self.controllers();
        let facts: Vec<_> = controllers.iter().map(|it| facts_of(it)).collect();
        // If the status of a plugin has no lease, the plugin runs nothing or needs no lease.
        let lease = locked(&self.lease).as_ref().map_or(LeaseStatus::Held, |lease| lease.status());
        let (state, decides) = PluginState::of(&PluginFacts {
            phase: current.phase,
            is_unserved: unserved.is_some(),
            lease,
            controllers: &facts,
        });
        let controller = decides.map(|index| &*controllers[index]);
        let why = why(state, &current, controller, unserved);
        if state != PluginState::Running {
            return PluginHealth { state, why, is_well: !state.needs_person() };
        }
        let why = flaw(current, self.refused_config(), &controllers);
        PluginHealth { state, is_well: why.is_none(), why }
    }
}

fn facts_of(controller: &ControllerStatus) -> ControllerFacts {
    let (state, reason) = controller.state();
    ControllerFacts {
        state,
        // While caches are filled, only a refused list gives a reason.
        is_refused: state == ControllerState::Syncing && reason.is_some(),
        block: controller.block(),
        is_circuit_open: matches!(controller.breaker(), Some(BreakerState::Open | BreakerState::HalfOpen)),
    }
}

/// Why the plugin is in a state other than running. `controller` is the controller that determines the state.
fn why(
    state: PluginState,
    current: &CurrentPluginStatus,
    controller: Option<&ControllerStatus>,
    unserved: Option<&str>,
) -> Option<String> {
    let of_host = match state {
        PluginState::StandingBy => Some("another replica has its lease"),
        PluginState::LeaseLost => {
            Some("this replica holds its lease and could not renew it in time: does the API server answer?")
        }
        PluginState::ServerUnreachable => Some("the API server does not answer, so no calls are made"),
        _ => None,
    };
    if let Some(why) = of_host {
        return Some(why.to_owned());
    }
    let Some(controller) = controller else {
        return unserved
            .filter(|_| state == PluginState::Unserved)
            .map(str::to_owned)
            .or_else(|| current.reason.clone());
    };
    let name = controller.own_name();
    if state == PluginState::CachesUnproven {
        return Some(unproven(controller));
    }
    if state == PluginState::BreakerOpen {
        return Some(format!(
            "controller {name}: calls about many objects in a row ended without an answer, so few or none are made"
        ));
    }
    controller.state().1.map(|reason| format!("controller {name}: {reason}"))
}

/// Why a controller makes no calls because its caches cannot be trusted.
fn unproven(controller: &ControllerStatus) -> String {
    let caches = controller.unproven();
    if caches.is_empty() {
        return "the API server answers again, and it is not known yet whether it was restored".to_owned();
    }
    format!(
        "the API server was restored, and controller {} makes no calls until these caches have been listed: {}",
        controller.own_name(),
        caches.join(", ")
    )
}

/// The first problem of a running plugin.
fn flaw(
    current: CurrentPluginStatus,
    refused_config: Option<String>,
    controllers: &[std::sync::Arc<ControllerStatus>],
) -> Option<String> {
    let rolled_back = current.rejected.map(|it| format!("a version was rolled back: {}", it.reason));
    let of_file = current.not_taken.map(|it| format!("its file was refused: {}", it.reason));
    let [given_up, slowed] =
        [controllers.iter().map(|it| it.given_up()).sum::<u64>(), controllers.iter().map(|it| it.slowed()).sum()];
    let keys = (given_up > 0).then(|| format!("{given_up} keys have used up their retries"));
    let loops = (slowed > 0).then(|| format!("{slowed} keys write an object over and over"));
    // Such a controller works without some of the kinds that its configuration names.
    let of_controller = |it: &std::sync::Arc<ControllerStatus>| {
        it.state().1.map(|reason| format!("controller {}: {reason}", it.own_name()))
    };
    let of_config = refused_config.map(|why| format!("the former configuration stays in force: {why}"));
    rolled_back.or(of_file).or(of_config).or(keys).or(loops).or_else(|| controllers.iter().find_map(of_controller))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use windlass_core::life::plugin_state::PluginPhase;
    use windlass_core::object::ObjectKey;

    use super::*;
    use crate::observe::metrics::HostMetrics;
    use crate::observe::status::{LeaseView, NotTaken};

    fn health(plugin: &PluginStatus) -> (PluginState, Option<String>, bool) {
        let PluginHealth { state, why, is_well } = plugin.health(None);
        (state, why, is_well)
    }

    #[tokio::test]
    async fn the_first_problem_of_a_plugin_is_shown() {
        let plugin = PluginStatus::new("webapp");
        plugin.set(PluginPhase::NotLoaded, Some("no component".to_owned()));
        assert_eq!(health(&plugin), (PluginState::NotLoaded, Some("no component".to_owned()), false));
        plugin.set(PluginPhase::Started, None);
        let controller = plugin.controller("web", 1, HostMetrics::new().controller("webapp", "web"));
        controller.set(ControllerState::Waiting, Some("no kind WebApp".to_owned()));
        let waits = (PluginState::Waiting, Some("controller web: no kind WebApp".to_owned()), false);
        assert_eq!(health(&plugin), waits);
        let other = plugin.controller("api", 1, HostMetrics::new().controller("webapp", "api"));
        other.set(ControllerState::Syncing, None);
        assert_eq!(health(&plugin), waits, "a starting plugin is well");
        other.set(ControllerState::Syncing, Some("it may not list Jobs".to_owned()));
        controller.set(ControllerState::Syncing, None);
        let refused = (PluginState::ListRefused, Some("controller api: it may not list Jobs".to_owned()), false);
        assert_eq!(health(&plugin), refused);
        other.set(ControllerState::Running, None);
        assert_eq!(health(&plugin), (PluginState::Syncing, None, true));
        controller.set(ControllerState::StandingBy, None);
        assert!(health(&plugin).2, "another replica does the work");
        let key = ObjectKey::namespaced("prod", "shop");
        runs_with_flaws(&plugin, &controller, &key);
        assert_eq!(plugin.health(Some("no replica")).state, PluginState::Unserved);
    }

    fn runs_with_flaws(plugin: &PluginStatus, controller: &ControllerStatus, key: &ObjectKey) {
        for controller in plugin.controllers() {
            controller.set(ControllerState::Running, None);
        }
        assert_eq!(health(plugin), (PluginState::Running, None, true));
        controller.set(ControllerState::Running, Some("no Jobs".to_owned()));
        let lacks = (PluginState::Running, Some("controller web: no Jobs".to_owned()), false);
        assert_eq!(health(plugin), lacks);
        controller.set(ControllerState::Running, None);
        controller.gave_up(key, "it cannot");
        assert!(health(plugin).1.is_some_and(|why| why.contains("1 keys")));
        controller.forget(key);
        plugin.has_not_taken(Some(NotTaken { digest: None, reason: "it is empty".to_owned() }));
        let stale = (PluginState::Running, Some("its file was refused: it is empty".to_owned()), false);
        assert_eq!(health(plugin), stale);
        plugin.has_not_taken(None);
        let (_sender, refused) = tokio::sync::watch::channel(Some("no size".to_owned()));
        plugin.configured_by(refused);
        let former = "the former configuration stays in force: no size".to_owned();
        assert_eq!(health(plugin), (PluginState::Running, Some(former), false));
    }

    /// A lease that this replica has lost.
    struct Lost;

    impl LeaseView for Lost {
        fn name(&self) -> Option<Arc<str>> {
            Some("windlass-main-all".into())
        }

        fn holder(&self) -> Option<Arc<str>> {
            Some("me".into())
        }

        fn status(&self) -> LeaseStatus {
            LeaseStatus::Lost
        }
    }

    #[tokio::test]
    async fn a_lease_lost_in_an_outage_is_shown_as_neither_held_nor_taken() {
        let plugin = PluginStatus::new("webapp");
        plugin.set(PluginPhase::Started, None);
        let controller = plugin.controller("web", 1, HostMetrics::new().controller("webapp", "web"));
        controller.set(ControllerState::StandingBy, None);
        plugin.goes_by(Arc::new(Lost));
        let shown = plugin.to_json(&plugin.health(None));
        assert_eq!((&shown["state"], &shown["health"]["well"]), (&json!("lease-lost"), &json!(false)));
        let lease = json!({"name": "windlass-main-all", "status": "lost", "heldHere": false, "holder": "me"});
        assert_eq!(shown["lease"], lease);
    }

    #[tokio::test]
    async fn every_view_of_a_plugin_shows_the_same_state() {
        let plugin = PluginStatus::new("webapp");
        plugin.set(PluginPhase::Started, None);
        let controller = plugin.controller("web", 1, HostMetrics::new().controller("webapp", "web"));
        controller.set(ControllerState::Waiting, Some("no kind WebApp".to_owned()));
        let health = plugin.health(None);
        let (shown, short) = (plugin.to_json(&health), plugin.summary_json(&health, tokio::time::Instant::now()));
        assert_eq!([&shown["state"], &shown["health"]["state"], &short["state"]], [&json!("waiting"); 3]);
        assert_eq!(shown["reason"], json!("controller web: no kind WebApp"));
        let warning = "webapp is waiting: controller web: no kind WebApp";
        assert_eq!(health.warning("webapp").as_deref(), Some(warning));
    }
}
