//! The kubelet: advances the status of a pod that has a node, without running containers. A pod starts a moment after
//! it is bound to a node. If its restart policy is `Always`, it keeps running; otherwise it succeeds a moment later.
//! The annotation [`BEHAVIOUR`] changes this.

use std::net::Ipv4Addr;
use std::time::Duration;

use serde_json::{Value, json};

use super::READY_AFTER;
use super::pod::{self, BEHAVIOUR};
use super::values::{annotation, fnv, integer};
use crate::object::{self, items, text};

/// The shortest and the longest pause before a failing container starts again, in seconds. The pause doubles each time.
const RESTART_BACKOFF_SECONDS: std::ops::RangeInclusive<u64> = 10..=300;

/// The network of the pods' addresses: 198.18.0.0/15, which is reserved for tests.
const NETWORK: u32 = 0xC612_0000;
const NETWORK_SIZE: u32 = 1 << 17;

/// The next step in the life of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PodStep {
    Start,
    /// The pod's readiness changes, or its status takes over a changed spec.
    Settle {
        ready: bool,
        generation: i64,
    },
    Succeed,
    /// The containers exit with 1 and do not run again.
    Fail,
    /// The containers exit with 1, after this many restarts.
    Crash {
        restarts: i64,
    },
}

impl PodStep {
    /// The next step of a pod. `None` if it stays as it is.
    pub(super) fn of(pod: &Value) -> Option<PodStep> {
        if text(pod, "/spec/nodeName").is_empty() || object::is_terminating(pod) {
            return None;
        }
        match text(pod, "/status/phase") {
            "Pending" => Some(PodStep::Start),
            "Running" => PodStep::of_running(pod),
            _ => None,
        }
    }

    fn of_running(pod: &Value) -> Option<PodStep> {
        let policy = text(pod, "/spec/restartPolicy");
        if annotation(pod, BEHAVIOUR) == Some("failure") {
            let restarts = integer(pod, "/status/containerStatuses/0/restartCount");
            return Some(if policy == "Never" { PodStep::Fail } else { PodStep::Crash { restarts } });
        }
        let (ready, generation) = (serves(pod) && gates_are_open(pod), object::generation(pod).unwrap_or_default());
        if pod::is_ready(pod) != ready || integer(pod, "/status/observedGeneration") != generation {
            return Some(PodStep::Settle { ready, generation });
        }
        (ready && policy != "Always").then_some(PodStep::Succeed)
    }

    /// The delay until the step.
    pub(super) fn duration(self) -> Duration {
        match self {
            PodStep::Crash { restarts: restarts @ 1.. } => Duration::from_secs(backoff(restarts)),
            _ => READY_AFTER,
        }
    }

    /// The pod's status after the step. `host` is the node's address; `address` is a free address for the pod.
    pub(super) fn status(self, pod: &Value, host: &str, address: &str, now: &str) -> Value {
        match self {
            PodStep::Start => started(pod, host, address, now),
            PodStep::Settle { .. } => with_running(pod, pod["status"].clone(), now),
            PodStep::Succeed => ended(pod, "Succeeded", 0, now),
            PodStep::Fail => ended(pod, "Failed", 1, now),
            PodStep::Crash { restarts } => crashed(pod, restarts + 1, now),
        }
    }
}

/// The pause after this many restarts, in seconds. After six restarts, it no longer grows.
fn backoff(restarts: i64) -> u64 {
    (RESTART_BACKOFF_SECONDS.start() << (restarts - 1).clamp(0, 5)).min(*RESTART_BACKOFF_SECONDS.end())
}

/// Whether the containers of a running pod are ready.
fn serves(pod: &Value) -> bool {
    !matches!(annotation(pod, BEHAVIOUR), Some("failure" | "unready"))
}

/// Whether all readiness gates are open. A gate is a condition that another controller sets, and for which the pod
/// waits.
fn gates_are_open(pod: &Value) -> bool {
    items(pod, "/spec/readinessGates").iter().all(|gate| object::condition_holds(pod, text(gate, "/conditionType")))
}

/// An address that no other pod has.
pub(super) fn free_address(uid: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let first = fnv(uid.bytes());
    // Skips the network address and the broadcast address, which are the first and the last.
    let of = |offset: u32| NETWORK + 1 + first.wrapping_add(offset) % (NETWORK_SIZE - 2);
    let mut addresses = (0..NETWORK_SIZE).map(|offset| Ipv4Addr::from(of(offset)).to_string());
    addresses.find(|address| !is_taken(address)).unwrap_or_default()
}

fn started(pod: &Value, host: &str, address: &str, now: &str) -> Value {
    let uses_host = pod.pointer("/spec/hostNetwork") == Some(&json!(true));
    let address = if uses_host { host } else { address };
    let mut status = pod["status"].clone();
    for (key, value) in [
        ("phase", json!("Running")),
        ("hostIP", json!(host)),
        ("hostIPs", json!([{ "ip": host }])),
        ("podIP", json!(address)),
        ("podIPs", json!([{ "ip": address }])),
        ("startTime", json!(now)),
    ] {
        status[key] = value;
    }
    let first = items(pod, "/spec/initContainers").iter().map(|container| {
        let is_sidecar = container["restartPolicy"] == "Always";
        let state = if is_sidecar { running(now) } else { terminated(0, now, now) };
        container_status(pod, container, true, 0, &state)
    });
    status["initContainerStatuses"] = first.collect();
    with_running(pod, status, now)
}

/// The status of a pod with running containers, ready or not.
fn with_running(pod: &Value, mut status: Value, now: &str) -> Value {
    let (serves, ready) = (serves(pod), serves(pod) && gates_are_open(pod));
    let state = running(text(&status, "/startTime"));
    let restarts = integer(pod, "/status/containerStatuses/0/restartCount");
    status["containerStatuses"] =
        each_container(pod, |container| container_status(pod, container, serves, restarts, &state));
    let why = unready_containers(pod);
    let reason = if serves { ("ReadinessGatesNotReady", "") } else { ("ContainersNotReady", why.as_str()) };
    let conditions = [
        ("PodReadyToStartContainers", true),
        ("Initialized", true),
        ("Ready", ready),
        ("ContainersReady", serves),
        ("PodScheduled", true),
    ];
    with_conditions(pod, status, &conditions, reason, now)
}

fn ended(pod: &Value, phase: &str, exit_code: i64, now: &str) -> Value {
    let mut status = pod["status"].clone();
    status["phase"] = json!(phase);
    let state = terminated(exit_code, text(&status, "/startTime"), now);
    let restarts = integer(pod, "/status/containerStatuses/0/restartCount");
    status["containerStatuses"] =
        each_container(pod, |container| container_status(pod, container, false, restarts, &state));
    let reason = if phase == "Failed" { "PodFailed" } else { "PodCompleted" };
    with_conditions(pod, status, &[("Ready", false), ("ContainersReady", false)], (reason, ""), now)
}

/// The status of a pod whose containers wait for their next start after this many restarts.
fn crashed(pod: &Value, restarts: i64, now: &str) -> Value {
    let mut status = pod["status"].clone();
    let pause = backoff(restarts);
    let last = terminated(1, text(&status, "/startTime"), now);
    status["containerStatuses"] = each_container(pod, |container| {
        let message = format!(
            "back-off {pause}s restarting failed container={} pod={}_{}({})",
            text(container, "/name"),
            object::name(pod),
            object::namespace(pod),
            object::uid(pod)
        );
        let waiting = json!({ "waiting": { "reason": "CrashLoopBackOff", "message": message } });
        let mut container = container_status(pod, container, false, restarts, &waiting);
        container["lastState"] = last.clone();
        container
    });
    let why = unready_containers(pod);
    let conditions = [("Ready", false), ("ContainersReady", false)];
    with_conditions(pod, status, &conditions, ("ContainersNotReady", &why), now)
}

fn each_container(pod: &Value, status: impl Fn(&Value) -> Value) -> Value {
    items(pod, "/spec/containers").iter().map(status).collect()
}

fn unready_containers(pod: &Value) -> String {
    let names: Vec<&str> = items(pod, "/spec/containers").iter().map(|container| text(container, "/name")).collect();
    format!("containers with unready status: [{}]", names.join(" "))
}

fn with_conditions(pod: &Value, mut status: Value, changed: &[(&str, bool)], reason: (&str, &str), now: &str) -> Value {
    status["observedGeneration"] = json!(object::generation(pod));
    status["conditions"] = json!(pod::with_conditions(pod, changed, reason, now));
    status
}

fn running(since: &str) -> Value {
    json!({ "running": { "startedAt": since } })
}

fn terminated(exit_code: i64, begun: &str, now: &str) -> Value {
    let reason = if exit_code == 0 { "Completed" } else { "Error" };
    json!({ "terminated": { "exitCode": exit_code, "reason": reason, "startedAt": begun, "finishedAt": now } })
}

fn container_status(pod: &Value, container: &Value, ready: bool, restarts: i64, state: &Value) -> Value {
    let (name, image) = (text(container, "/name"), text(container, "/image"));
    json!({
        "name": name,
        "image": image,
        "imageID": format!("windlass://{image}"),
        "containerID": format!("windlass://{}/{name}", object::uid(pod)),
        "ready": ready,
        "started": state.get("running").is_some(),
        "restartCount": restarts,
        "state": state,
        "lastState": {},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-01T00:00:00Z";

    fn pod(restart_policy: &str, behaviour: Option<&str>) -> Value {
        let mut pod = json!({
            "metadata": { "name": "a", "namespace": "default", "uid": "u", "generation": 1 },
            "spec": {
                "nodeName": "n",
                "restartPolicy": restart_policy,
                "containers": [{ "name": "main", "image": "nginx:1" }],
            },
            "status": { "phase": "Pending" },
        });
        if let Some(behaviour) = behaviour {
            pod["metadata"]["annotations"] = json!({ BEHAVIOUR: behaviour });
        }
        pod
    }

    /// The pod after its next step.
    fn stepped(mut pod: Value) -> Value {
        let step = PodStep::of(&pod).expect("it takes a step");
        pod["status"] = step.status(&pod, "192.0.2.1", "198.18.0.7", NOW);
        pod
    }

    #[test]
    fn a_pod_starts_and_stays() {
        let pod = stepped(pod("Always", None));
        assert_eq!(pod["status"]["phase"], "Running");
        assert_eq!(pod["status"]["podIP"], "198.18.0.7");
        assert_eq!(pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"], NOW);
        assert!(pod::is_ready(&pod));
        assert_eq!(PodStep::of(&pod), None);
    }

    #[test]
    fn a_pod_without_a_node_takes_no_step() {
        let mut waiting = pod("Always", None);
        waiting["spec"]["nodeName"] = Value::Null;
        assert_eq!(PodStep::of(&waiting), None);
    }

    #[test]
    fn a_pod_that_does_not_restart_ends() {
        let succeeded = stepped(stepped(pod("OnFailure", None)));
        assert_eq!(succeeded["status"]["phase"], "Succeeded");
        assert!(!pod::is_ready(&succeeded));
        let failed = stepped(stepped(pod("Never", Some("failure"))));
        assert_eq!(failed["status"]["phase"], "Failed");
        assert_eq!(failed["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"], 1);
        assert_eq!((PodStep::of(&succeeded), PodStep::of(&failed)), (None, None));
    }

    #[test]
    fn a_pod_that_restarts_crashes_with_longer_and_longer_pauses() {
        let mut pod = stepped(pod("Always", Some("failure")));
        let mut pauses = Vec::new();
        for _ in 0..8 {
            pauses.push(PodStep::of(&pod).expect("it goes on").duration().as_millis());
            pod = stepped(pod);
        }
        assert_eq!(pauses, [150, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000]);
        let container = &pod["status"]["containerStatuses"][0];
        assert_eq!(container["restartCount"], 8);
        assert_eq!(container["state"]["waiting"]["reason"], "CrashLoopBackOff");
        assert_eq!(pod["status"]["phase"], "Running");
    }

    #[test]
    fn a_pod_becomes_ready_once_the_annotation_is_gone() {
        for behaviour in ["unready", "failure"] {
            let mut sick = stepped(pod("Always", Some(behaviour)));
            assert!(!pod::is_ready(&sick), "{behaviour}");
            sick["metadata"]["annotations"] = Value::Null;
            assert!(pod::is_ready(&stepped(sick)), "{behaviour}");
        }
        let unready = stepped(pod("Never", Some("unready")));
        assert_eq!(PodStep::of(&unready), None, "it does not end either");
    }

    #[test]
    fn readiness_gates_are_waited_for() {
        let mut gated = pod("Always", None);
        gated["spec"]["readinessGates"] = json!([{ "conditionType": "example.com/gate" }]);
        let mut gated = stepped(gated);
        assert!(!pod::is_ready(&gated));
        assert_eq!(PodStep::of(&gated), None);
        let conditions = gated["status"]["conditions"].as_array_mut().expect("conditions");
        conditions.push(json!({ "type": "example.com/gate", "status": "True" }));
        assert!(pod::is_ready(&stepped(gated)));
    }

    #[test]
    fn an_address_is_taken_once() {
        let first = free_address("u", |_| false);
        let second = free_address("u", |taken| taken == first);
        assert_ne!(first, second);
        assert!(first.starts_with("198.18.") || first.starts_with("198.19."), "{first}");
    }
}
