//! Cells of pods and of events.

use serde_json::{Value, json};

use super::texts::condition;
use crate::clock::Moment;
use crate::object::{self, items, text};

/// The state of a pod, computed from the statuses of its containers.
#[derive(Default)]
struct PodStory {
    ready: usize,
    containers: usize,
    restarts: i64,
    /// The finish time of the container that was restarted last; empty if there is none.
    restarted: String,
    state: String,
}

impl PodStory {
    fn of(pod: &Value) -> PodStory {
        let gated = items(pod, "/status/conditions")
            .iter()
            .any(|found| found["type"] == "PodScheduled" && found["reason"] == "SchedulingGated");
        let state = match text(pod, "/status/reason") {
            _ if gated => "SchedulingGated",
            "" => text(pod, "/status/phase"),
            reason => reason,
        };
        let sidecars = items(pod, "/spec/initContainers").iter().filter(|one| one["restartPolicy"] == "Always").count();
        let containers = items(pod, "/spec/containers").len() + sidecars;
        let mut story = PodStory { containers, state: state.to_owned(), ..PodStory::default() };
        let sidecars = story.follow_first(pod);
        if let Some((restarts, restarted)) = sidecars {
            (story.restarts, story.restarted) = (restarts, restarted);
            story.follow_others(pod);
        }
        let over = matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
        if object::is_terminating(pod) && text(pod, "/status/reason") == "NodeLost" {
            "Unknown".clone_into(&mut story.state);
        } else if object::is_terminating(pod) && !over {
            "Terminating".clone_into(&mut story.state);
        }
        story
    }

    fn count(&mut self, status: &Value) {
        let ended = text(status, "/lastState/terminated/finishedAt");
        self.restarts += status["restartCount"].as_i64().unwrap_or_default();
        if ended > self.restarted.as_str() {
            ended.clone_into(&mut self.restarted);
        }
    }

    /// Looks at the init containers. `None` if the main containers cannot run yet. Otherwise returns how often sidecars
    /// (init containers that keep running) were restarted, and the time of the last of these restarts.
    fn follow_first(&mut self, pod: &Value) -> Option<(i64, String)> {
        let first = items(pod, "/spec/initContainers");
        let mut of_sidecars = PodStory::default();
        let mut waits = None;
        for (index, status) in items(pod, "/status/initContainerStatuses").iter().enumerate() {
            let is_sidecar = first.iter().any(|one| one["name"] == status["name"] && one["restartPolicy"] == "Always");
            self.count(status);
            if is_sidecar {
                of_sidecars.count(status);
            }
            let terminated = status.pointer("/state/terminated").filter(|state| state.is_object());
            let waiting = text(status, "/state/waiting/reason");
            waits = match terminated {
                Some(state) if state["exitCode"] == 0 => None,
                _ if is_sidecar && status["started"] == true => {
                    self.ready += usize::from(status["ready"] == true);
                    None
                }
                Some(state) => Some(format!("Init:{}", end(state))),
                None if !waiting.is_empty() && waiting != "PodInitializing" => Some(format!("Init:{waiting}")),
                None => Some(format!("Init:{index}/{}", first.len())),
            };
            if waits.is_some() {
                break;
            }
        }
        let goes_on = waits.is_none() || condition(pod, "Initialized", "") == "True";
        if let Some(state) = waits {
            self.state = state;
        }
        goes_on.then_some((of_sidecars.restarts, of_sidecars.restarted))
    }

    /// Looks at the main containers from the last to the first, so that the first container decides about the state.
    fn follow_others(&mut self, pod: &Value) {
        let (mut runs, mut error) = (false, None);
        for status in items(pod, "/status/containerStatuses").iter().rev() {
            self.count(status);
            let waiting = text(status, "/state/waiting/reason");
            let terminated = status.pointer("/state/terminated").filter(|state| state.is_object());
            let running = status.pointer("/state/running").is_some_and(Value::is_object);
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.state);
            } else if let Some(state) = terminated {
                self.state = end(state);
                if state["exitCode"] != 0 {
                    error = Some(self.state.clone());
                }
            } else if status["ready"] == true && running {
                runs = true;
                self.ready += 1;
            }
        }
        if self.state == "Completed" {
            match error {
                _ if runs && condition(pod, "Ready", "") == "True" => "Running".clone_into(&mut self.state),
                Some(error) => self.state = error,
                None if runs => "NotReady".clone_into(&mut self.state),
                None => {}
            }
        }
    }
}

/// A text that says how a container ended.
fn end(terminated: &Value) -> String {
    let number = |key: &str| terminated[key].as_i64().unwrap_or_default();
    match (text(terminated, "/reason"), number("signal")) {
        ("", 0) => format!("ExitCode:{}", number("exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// The numbers of ready containers and of all containers.
pub(super) fn ready(pod: &Value) -> String {
    let story = PodStory::of(pod);
    format!("{}/{}", story.ready, story.containers)
}

pub(super) fn state(pod: &Value) -> String {
    PodStory::of(pod).state
}

pub(super) fn restarts(pod: &Value, now: Moment) -> String {
    match PodStory::of(pod) {
        PodStory { restarts, restarted, .. } if restarts != 0 && !restarted.is_empty() => {
            format!("{restarts} ({} ago)", now.age(&restarted))
        }
        PodStory { restarts, .. } => restarts.to_string(),
    }
}

/// The number of readiness gates that are open.
pub(super) fn readiness_gates(pod: &Value) -> String {
    let gates = items(pod, "/spec/readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let open = gates.iter().filter(|gate| condition(pod, text(gate, "/conditionType"), "") == "True").count();
    format!("{open}/{}", gates.len())
}

/// The condition in the row of a pod that has terminated.
pub(super) fn completion(object: &Value) -> Option<Value> {
    if object["kind"] != "Pod" {
        return None;
    }
    let (reason, message) = match text(object, "/status/phase") {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!({ "type": "Completed", "status": "True", "reason": reason, "message": message }))
}

/// The value of the first of these fields that the event has, because the two forms of events have different names.
fn event_text<'a>(event: &'a Value, pointers: &[&str]) -> &'a str {
    pointers.iter().map(|pointer| text(event, pointer)).find(|text| !text.is_empty()).unwrap_or_default()
}

fn regarding(event: &Value) -> &Value {
    event.get("involvedObject").or_else(|| event.get("regarding")).unwrap_or(&Value::Null)
}

pub(super) fn first_seen(event: &Value, now: Moment) -> String {
    now.age(event_text(event, &["/firstTimestamp", "/deprecatedFirstTimestamp", "/eventTime"]))
}

pub(super) fn last_seen(event: &Value, now: Moment) -> String {
    match event_text(event, &["/series/lastObservedTime", "/lastTimestamp", "/deprecatedLastTimestamp"]) {
        "" => first_seen(event, now),
        moment => now.age(moment),
    }
}

/// The object that an event is about.
pub(super) fn event_target(event: &Value) -> String {
    let kind = text(regarding(event), "/kind").to_lowercase();
    match text(regarding(event), "/name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

/// The field that an event is about.
pub(super) fn event_field(event: &Value) -> String {
    text(regarding(event), "/fieldPath").to_owned()
}

/// The controller that reported an event, and the node where it ran.
pub(super) fn event_source(event: &Value) -> String {
    let component = event_text(
        event,
        &["/source/component", "/deprecatedSource/component", "/reportingComponent", "/reportingController"],
    );
    match event_text(event, &["/source/host", "/deprecatedSource/host", "/reportingInstance"]) {
        "" => component.to_owned(),
        instance => format!("{component}, {instance}"),
    }
}

pub(super) fn event_message(event: &Value) -> String {
    event_text(event, &["/message", "/note"]).trim().to_owned()
}

/// The number of occurrences.
pub(super) fn event_count(event: &Value) -> i64 {
    let pointers: &[&str] =
        if event["series"].is_object() { &["/series/count"] } else { &["/count", "/deprecatedCount"] };
    let found = pointers.iter().filter_map(|pointer| event.pointer(pointer)?.as_i64()).find(|count| *count != 0);
    found.unwrap_or(i64::from(!event["series"].is_object()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, Time};

    #[expect(clippy::needless_pass_by_value, reason = "tests write literals")]
    fn pod(status: Value) -> Value {
        let first = json!([{ "name": "first" }, { "name": "side", "restartPolicy": "Always" }]);
        let spec = json!({ "initContainers": first, "containers": [{ "name": "a" }, { "name": "b" }] });
        json!({ "kind": "Pod", "metadata": {}, "spec": spec, "status": status })
    }

    #[test]
    fn a_pod_in_initialisation_shows_its_current_init_container() {
        let at_work = |states: Value| pod(json!({ "phase": "Pending", "initContainerStatuses": states }));
        let state_of = |states: Value| state(&at_work(states));
        assert_eq!(state_of(json!([{ "name": "first", "state": { "running": {} } }])), "Init:0/2");
        assert_eq!(
            state_of(json!([{ "name": "first", "state": { "terminated": { "exitCode": 2 } } }])),
            "Init:ExitCode:2"
        );
        assert_eq!(
            state_of(json!([{ "name": "first", "state": { "waiting": { "reason": "CrashLoopBackOff" } } }])),
            "Init:CrashLoopBackOff"
        );
        let done = json!({ "name": "first", "state": { "terminated": { "exitCode": 0 } } });
        let side = json!({ "name": "side", "started": true, "ready": true, "state": { "running": {} } });
        assert_eq!(ready(&at_work(json!([done, side]))), "1/3");
    }

    #[test]
    fn a_container_that_does_not_run_decides_about_the_state() {
        let states = |a: Value, b: Value| json!([{ "name": "a", "ready": true, "state": a }, { "name": "b", "ready": true, "state": b }]);
        let with = |states: Value| pod(json!({ "phase": "Running", "containerStatuses": states }));
        let completed = json!({ "terminated": { "exitCode": 0, "reason": "Completed" } });
        assert_eq!(state(&with(states(json!({ "running": {} }), json!({ "running": {} })))), "Running");
        assert_eq!(ready(&with(states(json!({ "running": {} }), completed.clone()))), "1/3");
        assert_eq!(state(&with(states(json!({ "running": {} }), completed.clone()))), "NotReady");
        let failed = json!({ "terminated": { "exitCode": 1, "reason": "Error" } });
        assert_eq!(state(&with(states(completed, failed))), "Error");
        let mut going = with(json!([]));
        going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(state(&going), "Terminating");
    }

    #[test]
    fn restarts_show_the_time_of_the_last_restart() {
        let now = Time::start(Clock::Given(std::time::SystemTime::UNIX_EPOCH)).now();
        let ended = json!({ "terminated": { "finishedAt": "1969-12-31T23:59:30Z" } });
        let status = json!([{ "name": "a", "restartCount": 2, "lastState": ended, "state": { "running": {} } }]);
        assert_eq!(restarts(&pod(json!({ "containerStatuses": status })), now), "2 (30s ago)");
        assert_eq!(restarts(&pod(json!({})), now), "0");
    }

    #[test]
    fn the_row_of_an_ended_pod_has_a_condition() {
        assert_eq!(completion(&pod(json!({ "phase": "Running" }))), None);
        let over = completion(&pod(json!({ "phase": "Failed" }))).expect("the pod is over");
        assert_eq!(over["message"], "The pod failed.");
    }

    #[test]
    fn an_event_is_read_in_either_form() {
        let event = json!({ "regarding": { "kind": "Pod", "name": "p" }, "note": " n\n", "deprecatedCount": 3,
            "reportingController": "c", "reportingInstance": "i" });
        assert_eq!(event_target(&event), "pod/p");
        assert_eq!(event_message(&event), "n");
        assert_eq!(event_source(&event), "c, i");
        assert_eq!(event_count(&event), 3);
        assert_eq!(event_count(&json!({})), 1);
        assert_eq!(event_count(&json!({ "count": 3, "series": { "count": 9 } })), 9);
    }
}
