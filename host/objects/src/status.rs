//! The status of a plugin object: its conditions and figures, and whether they are worth a write.

use serde_json::{Map, Value, json};
use windlass_core::deceptive::single_line;
use windlass_core::life::plugin_state::PluginState;
use windlass_core::object::conditions::ConditionStatus;

use crate::artefact::InstalledArtefact;
use crate::condition::{ConditionReason, ConditionType, ObjectCondition};
use crate::facts::{ControllerFigures, ObjectFacts};
use crate::plan::FetchState;

/// The longest message of a condition, in bytes.
const CONDITION_MESSAGE_BYTES_MAX: usize = 1024;

/// The fields that only some statuses have.
const OPTIONAL_FIELDS: [&str; 8] =
    ["version", "digest", "image", "holder", "queued", "failing", "controllers", "lastFailure"];

/// How a status differs from the stored one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusChange {
    /// It is the same.
    None,
    /// Only counts differ, so a write can wait.
    Counts,
    /// More than counts differ.
    State,
}

/// A count with one significant digit, so that a busy plugin does not cause a write for each object.
fn coarse(count: u64) -> u64 {
    let unit = 10_u64.pow(count.checked_ilog10().unwrap_or_default());
    count / unit * unit
}

/// The status of an object, without the times at which its conditions changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectStatus {
    /// All conditions, in the order of their types.
    pub conditions: Vec<ObjectCondition>,
    fields: Map<String, Value>,
    generation: i64,
}

impl ObjectStatus {
    /// The status that follows from `facts`.
    #[must_use]
    pub fn of(facts: &ObjectFacts<'_>) -> Self {
        let conditions =
            vec![granted(facts), fetched(facts), compiled(facts), running(facts), healthy(facts), progressing(facts)];
        let generation = facts.plan.plugin.generation;
        Self { conditions, fields: fields(facts), generation }
    }

    /// The status as the API server stores it. Conditions that `former` has with the same status keep their time;
    /// others get `now`, in RFC 3339.
    #[must_use]
    pub fn to_json(&self, former: &Value, now: &str) -> Value {
        let conditions = self.conditions.iter().map(|condition| {
            let (kind, status) = (condition.condition.as_str(), condition.status.as_str());
            let before = condition_of(former, kind).filter(|before| before["status"] == status);
            let since = before.and_then(|before| before["lastTransitionTime"].as_str()).unwrap_or(now);
            json!({
                "type": kind, "status": status, "reason": condition.reason.word(), "message": condition.message,
                "lastTransitionTime": since, "observedGeneration": self.generation,
            })
        });
        let conditions: Vec<_> = conditions.collect();
        let mut status = self.fields.clone();
        status.insert("conditions".to_owned(), Value::Array(conditions));
        Value::Object(status)
    }

    /// A merge patch that stores `status`, whatever is stored. A field that is left out of such a patch would stay, so
    /// each one that does not apply is null.
    #[must_use]
    pub fn patch(status: &Value, stored: &Value) -> Value {
        let mut patch = status.as_object().cloned().unwrap_or_default();
        let there = stored.as_object().into_iter().flat_map(Map::keys).map(String::as_str);
        for field in there.chain(OPTIONAL_FIELDS) {
            patch.entry(field).or_insert(Value::Null);
        }
        Value::Object(patch)
    }

    /// How this status differs from the stored one.
    #[must_use]
    pub fn change(&self, stored: &Value) -> StatusChange {
        // The times are those of the stored one if nothing has changed, so any time does here.
        let mut new = self.to_json(stored, "");
        if new == *stored {
            return StatusChange::None;
        }
        let mut stored = stored.clone();
        for status in [&mut new, &mut stored] {
            without_counts(status);
        }
        if new == stored { StatusChange::Counts } else { StatusChange::State }
    }
}

impl ObjectStatus {
    /// The conditions of which people should read in an Event, compared with the stored status.
    pub fn news<'a>(&'a self, stored: &'a Value) -> impl Iterator<Item = &'a ObjectCondition> {
        self.conditions.iter().filter(|condition| {
            let (before, is_true) =
                (condition_of(stored, condition.condition.as_str()), condition.status == ConditionStatus::True);
            let is_same = before.is_some_and(|before| {
                let says = |field: &str, text: &str| before[field] == text;
                says("status", condition.status.as_str())
                    && says("reason", &condition.reason.word())
                    // A new version has the same reason as the one before.
                    && (!is_true || says("message", &condition.message))
            });
            !is_same && is_worth_an_event(condition)
        })
    }
}

fn is_worth_an_event(condition: &ObjectCondition) -> bool {
    let is_true = condition.status == ConditionStatus::True;
    match (condition.condition, condition.reason) {
        (ConditionType::Granted, _)
        | (ConditionType::Fetched, ConditionReason::FetchFailed(_))
        | (ConditionType::Compiled, ConditionReason::NotLoaded)
        | (ConditionType::Progressing, ConditionReason::RolledBack | ConditionReason::Shadowing) => true,
        (ConditionType::Running, ConditionReason::State(state)) => state.needs_person(),
        (ConditionType::Fetched | ConditionType::Running, _) => is_true,
        _ => false,
    }
}

fn without_counts(status: &mut Value) {
    let Some(fields) = status.as_object_mut() else { return };
    for field in ["queued", "failing", "lastFailure"] {
        fields.remove(field);
    }
    let controllers = fields.get_mut("controllers").and_then(Value::as_array_mut);
    for controller in controllers.into_iter().flatten().filter_map(Value::as_object_mut) {
        controller.remove("queued");
        controller.remove("failing");
    }
}

fn condition_of<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    status["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

fn fields(facts: &ObjectFacts<'_>) -> Map<String, Value> {
    let engine = facts.engine;
    let state = engine.map_or("waiting", |engine| engine.state.as_str());
    let mut fields = Map::new();
    let mut set = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    set("observedGeneration", json!(facts.plan.plugin.generation));
    set("state", json!(state));
    if let Some(holder) = facts.holder {
        set("holder", json!(holder));
    }
    let Some(engine) = engine else { return fields };
    if let Some(version) = &engine.version {
        set("version", json!(version));
    }
    if let Some(digest) = &engine.digest {
        set("digest", json!(digest));
        let artefact = facts.plan.files.as_ref().map(|files| &files.artefact);
        let runs = artefact.filter(|artefact| artefact.file_digest.strip_prefix("sha256:") == Some(digest));
        if let Some(image) = runs.and_then(InstalledArtefact::image) {
            set("image", json!(image));
        }
    }
    let sum = |count: fn(&ControllerFigures) -> u64| coarse(engine.controllers.iter().map(count).sum());
    set("queued", json!(sum(|it| it.queued)));
    set("failing", json!(sum(|it| it.failing)));
    let controllers = engine.controllers.iter().map(
        |it| json!({"name": it.name, "state": it.state, "queued": coarse(it.queued), "failing": coarse(it.failing)}),
    );
    set("controllers", controllers.collect());
    if let Some((controller, object)) = &engine.last_failure {
        set("lastFailure", json!({"controller": controller, "object": object}));
    }
    fields
}

fn granted(facts: &ObjectFacts<'_>) -> ObjectCondition {
    let condition = ConditionType::Granted;
    if facts.plan.is_taken {
        return unless_taken(condition, ConditionStatus::Unknown);
    }
    match &facts.plan.refusal {
        Some(refusal) => {
            let message = single_line(&refusal.message(), CONDITION_MESSAGE_BYTES_MAX);
            ObjectCondition::new(condition, ConditionStatus::False, refusal.reason(), message)
        }
        None => ObjectCondition::holds(condition, "a policy covers the plugin and its source"),
    }
}

fn unless_taken(condition: ConditionType, status: ConditionStatus) -> ObjectCondition {
    let message =
        "the plugin directory has a file of this name, which takes precedence; remove it, or rename the object";
    ObjectCondition::new(condition, status, ConditionReason::NameTaken, message)
}

fn fetched(facts: &ObjectFacts<'_>) -> ObjectCondition {
    let condition = ConditionType::Fetched;
    let is_not = |status, reason, message: &str| ObjectCondition::new(condition, status, reason, message);
    match &facts.plan.fetch {
        _ if facts.plan.is_taken => unless_taken(condition, ConditionStatus::False),
        Some(FetchState::Fetched(artefact)) => {
            ObjectCondition::holds(condition, format!("the host has {}", artefact.named_digest()))
        }
        Some(FetchState::Failed(failure)) => {
            is_not(ConditionStatus::False, ConditionReason::FetchFailed(failure.reason), &failure.message)
        }
        None if facts.plan.refusal.is_some() => {
            is_not(ConditionStatus::False, ConditionReason::NotGranted, "nothing is fetched that no policy covers")
        }
        Some(FetchState::Running) | None => {
            is_not(ConditionStatus::False, ConditionReason::Fetching, "the file is being fetched")
        }
    }
}

fn compiled(facts: &ObjectFacts<'_>) -> ObjectCondition {
    let condition = ConditionType::Compiled;
    let is_not = |status, reason, why: Option<&str>| {
        let message = single_line(why.unwrap_or_default(), CONDITION_MESSAGE_BYTES_MAX);
        ObjectCondition::new(condition, status, reason, message)
    };
    let Some(engine) = facts.engine else {
        return is_not(ConditionStatus::Unknown, ConditionReason::NotFetched, Some("the host has no file to compile"));
    };
    match engine.state {
        PluginState::Loading => {
            is_not(ConditionStatus::False, ConditionReason::Compiling, Some("it is being compiled"))
        }
        PluginState::NotLoaded => is_not(ConditionStatus::False, ConditionReason::NotLoaded, engine.why.as_deref()),
        _ if facts.refused().is_some() && facts.rolled_back().is_none() => {
            is_not(ConditionStatus::False, ConditionReason::NotLoaded, facts.refused())
        }
        _ if facts.is_awaited() => {
            is_not(ConditionStatus::Unknown, ConditionReason::Compiling, Some("the newest file is not compiled yet"))
        }
        _ => ObjectCondition::holds(condition, "the file was compiled, and its manifest read"),
    }
}

fn running(facts: &ObjectFacts<'_>) -> ObjectCondition {
    let condition = ConditionType::Running;
    if facts.plan.is_taken {
        return unless_taken(condition, ConditionStatus::False);
    }
    let Some(engine) = facts.engine else {
        let message = "the host has no file of the plugin; the conditions Granted and Fetched say why";
        return ObjectCondition::new(condition, ConditionStatus::False, ConditionReason::NotFetched, message);
    };
    if engine.state == PluginState::Running {
        let version = engine.version.as_deref().unwrap_or("unknown");
        return ObjectCondition::holds(condition, format!("version {version} runs"));
    }
    let why = engine.why.clone().unwrap_or_else(|| format!("the plugin is {}", engine.state.as_str()));
    let message = single_line(&why, CONDITION_MESSAGE_BYTES_MAX);
    ObjectCondition::new(condition, ConditionStatus::False, ConditionReason::State(engine.state), message)
}

fn healthy(facts: &ObjectFacts<'_>) -> ObjectCondition {
    let condition = ConditionType::Healthy;
    let unknown = || {
        let reason = facts.engine.map_or(ConditionReason::NotFetched, |engine| ConditionReason::State(engine.state));
        ObjectCondition::new(condition, ConditionStatus::Unknown, reason, "the plugin does not run")
    };
    let Some(engine) = facts.engine else { return unknown() };
    let why = single_line(engine.why.as_deref().unwrap_or_default(), CONDITION_MESSAGE_BYTES_MAX);
    let is_not = |reason| ObjectCondition::new(condition, ConditionStatus::False, reason, why.clone());
    match engine.state {
        PluginState::Running if engine.is_well => ObjectCondition::holds(condition, "the plugin does its work"),
        PluginState::Running => is_not(ConditionReason::Flawed),
        state if state.needs_person() => is_not(ConditionReason::State(state)),
        _ => unknown(),
    }
}

fn progressing(facts: &ObjectFacts<'_>) -> ObjectCondition {
    let (status, reason, message) = progress(facts);
    ObjectCondition::new(ConditionType::Progressing, status, reason, message)
}

fn progress(facts: &ObjectFacts<'_>) -> (ConditionStatus, ConditionReason, String) {
    let still = |reason, message: &str| (ConditionStatus::False, reason, message.to_owned());
    let goes_on = |reason, message: &str| (ConditionStatus::True, reason, message.to_owned());
    let plan = facts.plan;
    if plan.is_taken || plan.refusal.is_some() {
        return still(ConditionReason::Stalled, "the object's source is not granted; the condition Granted says why");
    }
    match &plan.fetch {
        Some(FetchState::Failed(_)) => {
            return goes_on(ConditionReason::Fetching, "the file could not be fetched yet; the host tries again");
        }
        Some(FetchState::Running) | None => return goes_on(ConditionReason::Fetching, "the file is being fetched"),
        Some(FetchState::Fetched(_)) => {}
    }
    if let Some(error) = facts.install_error {
        let message = format!("the host cannot write the plugin's files, and tries again: {error}");
        return goes_on(ConditionReason::CannotWrite, &single_line(&message, CONDITION_MESSAGE_BYTES_MAX));
    }
    let Some(engine) = facts.engine else { return goes_on(ConditionReason::Compiling, "the file is being installed") };
    if let Some(why) = facts.rolled_back() {
        let message = format!("the newest version was rolled back: {why}");
        return still(ConditionReason::RolledBack, &single_line(&message, CONDITION_MESSAGE_BYTES_MAX));
    }
    if facts.refused().is_some() {
        return still(ConditionReason::Stalled, "the newest file cannot be run; the condition Compiled says why");
    }
    if engine.has_next {
        return goes_on(ConditionReason::Shadowing, "a newer version waits as a shadow of the running one");
    }
    match engine.state {
        PluginState::Loading => goes_on(ConditionReason::Compiling, "the file is being compiled"),
        PluginState::Starting | PluginState::Syncing => {
            goes_on(ConditionReason::State(engine.state), "the plugin starts")
        }
        _ if facts.is_awaited() && !engine.is_swapping => {
            goes_on(ConditionReason::Compiling, "the newest file is not compiled yet")
        }
        _ if engine.is_swapping => goes_on(ConditionReason::Swapping, "a newer version gets ready to take over"),
        state if state.needs_person() => still(ConditionReason::Stalled, "the condition Running says what is missing"),
        _ if engine.refused_config.is_some() => {
            still(ConditionReason::Stalled, "the newest configuration cannot be used; the condition Healthy says why")
        }
        _ => still(ConditionReason::UpToDate, "nothing is on its way"),
    }
}

#[cfg(test)]
mod tests;
