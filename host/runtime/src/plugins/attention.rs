//! Reports each plugin that has needed an operator for a while, in the log and in a Kubernetes Event.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};
use windlass_core::life::plugin_state::PluginState;

use crate::host::Host;
use crate::plugins::announce;

/// How often the states of plugins are checked.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// How long a plugin must have been in one state before it is reported. Shorter is normal at a start and in a rollout.
const REPORT_AFTER: Duration = Duration::from_secs(30);

/// The plugins that need an operator, and whether they were reported.
#[derive(Default)]
struct Attention(BTreeMap<Arc<str>, NeededPerson>);

struct NeededPerson {
    state: PluginState,
    since: Instant,
    is_reported: bool,
}

impl Attention {
    /// Takes over the current state of `plugin`. True if it must be reported now.
    fn observe(&mut self, plugin: &Arc<str>, state: PluginState, now: Instant) -> bool {
        if !state.needs_person() {
            self.0.remove(plugin);
            return false;
        }
        let new = || NeededPerson { state, since: now, is_reported: false };
        let needed = self.0.entry(plugin.clone()).or_insert_with(new);
        if needed.state != state {
            *needed = new();
        }
        let is_due = !needed.is_reported && now >= needed.since + REPORT_AFTER;
        needed.is_reported |= is_due;
        is_due
    }
}

/// Checks the states of all plugins, for ever.
pub(crate) async fn follow(host: &Host) {
    let (mut attention, mut looks) = (Attention::default(), interval(LOOK_INTERVAL));
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let now = looks.tick().await;
        let plugins = host.status.plugins();
        attention.0.retain(|name, _| plugins.iter().any(|plugin| plugin.name == *name));
        for plugin in plugins {
            let health = host.status.health(&plugin);
            if attention.observe(&plugin.name, health.state, now) {
                announce::needs_person(host, &plugin, &health);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leadership::LeaseMode;
    use crate::observe::status::PluginPhase;
    use crate::policies::GrantMode;
    use crate::tests::stage::Stage;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_suspended_plugin_has_an_event_about_its_lease() {
        let stage = Stage::with(LeaseMode::Single, GrantMode::Manifest).await;
        let plugin = stage.host.status.plugin("webapp");
        plugin.set(PluginPhase::Suspended, Some("it caches too much".to_owned()));
        announce::needs_person(&stage.host, &plugin, &stage.host.status.health(&plugin));
        assert!(stage.host.recorder.flush(Duration::from_secs(30)).await, "it is sent");
        let events = stage.send("GET", "/apis/events.k8s.io/v1/events", String::new()).await;
        let lease = stage.host.leadership.lease_of("webapp").expect("it goes by one");
        for part in ["PluginSuspended", "it caches too much", "Warning", "\"Lease\"", &lease] {
            assert!(events.contains(part), "{part} in {events}");
        }
        stage.phases.stop.cancel();
    }

    #[test]
    fn a_state_is_reported_once_after_it_has_lasted() {
        let (mut attention, plugin, began) = (Attention::default(), Arc::from("webapp"), Instant::now());
        let mut observe = |state, seconds| attention.observe(&plugin, state, began + Duration::from_secs(seconds));
        assert!(!observe(PluginState::Waiting, 0) && !observe(PluginState::Waiting, 29));
        assert!(observe(PluginState::Waiting, 30));
        assert!(!observe(PluginState::Waiting, 3600), "it was reported");
        assert!(
            !observe(PluginState::Suspended, 3601) && observe(PluginState::Suspended, 3640),
            "another state is news"
        );
    }

    #[test]
    fn a_state_that_ends_in_time_is_not_reported() {
        let (mut attention, plugin, began) = (Attention::default(), Arc::from("webapp"), Instant::now());
        let mut observe = |state, seconds| attention.observe(&plugin, state, began + Duration::from_secs(seconds));
        for start in [0, 40, 80] {
            assert!(!observe(PluginState::Waiting, start) && !observe(PluginState::Running, start + 20));
        }
        assert!(!observe(PluginState::Paused, 200) && !observe(PluginState::Paused, 300), "by the operator's wish");
    }
}
