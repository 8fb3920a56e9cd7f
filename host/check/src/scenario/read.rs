//! Reads the file of a scenario, and the manifest files that it names.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass_apiserver::Condition;

use super::document::{ObjectSource, ScenarioDocument, StepDocument, checked_kind, durations};
use super::{Expectation, ObjectCondition, ObjectName, Scenario, Step};
use crate::fault_class::FAULT_CLASSES;
use crate::rule::RunRule;

const API_VERSION: &str = "windlass.dev/v1alpha1";
const KIND: &str = "Scenario";
/// The maximum size of a scenario, a baseline, or a manifest file.
const SCENARIO_BYTES_MAX: u64 = 64 << 20;

/// The permitted start times: from 2000 to 2100.
const START_TIMES: Range<Duration> = Duration::from_hours(262_968)..Duration::from_hours(1_139_568);

/// The reason why a scenario, or another document of a check, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The path of the document, or of a manifest file that it names.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// A file has the wrong format.
    #[error("{}: {message}", path.display())]
    Malformed {
        path: PathBuf,
        /// The problem, with line and column if the parser knows them.
        message: String,
    },
}

/// Reads a scenario. Paths of manifest files in it are relative to the scenario's file.
pub fn read(path: &Path) -> Result<Scenario, ScenarioError> {
    let malformed = |message: String| ScenarioError::Malformed { path: path.to_owned(), message };
    let document: ScenarioDocument = document(path)?;
    if document.api_version != API_VERSION || document.kind != KIND {
        let (api_version, kind) = (&document.api_version, &document.kind);
        return Err(malformed(format!("it is a {kind} of {api_version}, but a scenario is a {KIND} of {API_VERSION}")));
    }
    if let Err(error) = document.stand_ins.parse::<windlass_apiserver::StandIns>() {
        return Err(malformed(format!("standIns: {error}")));
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut load = Vec::new();
    for source in document.load {
        load.extend(objects(source, folder)?);
    }
    let mut steps = Vec::new();
    for (index, step) in document.steps.into_iter().enumerate() {
        let wrong = |problem: String| malformed(format!("step {}: {problem}", index + 1));
        match step {
            StepDocument::Apply(source) => steps.extend(objects(source, folder)?.into_iter().map(Step::Apply)),
            StepDocument::Patch(change) => steps.push(Step::Patch(change)),
            StepDocument::Delete(name) => steps.push(Step::Delete(name)),
            StepDocument::Advance(by) => steps.push(Step::Advance(durations::parse(&by).map_err(wrong)?)),
            StepDocument::Wait(until) => {
                check(&until).map_err(wrong)?;
                steps.push(Step::Wait(until));
            }
        }
    }
    let ScenarioDocument { name, stand_ins, start_time, user, rules, faults, expect, .. } = document;
    let scenario = Scenario { name, load, stand_ins, start_time, user, rules, faults, steps, expect, guessed: 0..0 };
    scenario.check().map_err(|(place, problem)| malformed(format!("{place}: {problem}")))?;
    Ok(scenario)
}

/// The place of a mistake in a document, such as `steps[2]`, and its description.
pub(crate) type Misplaced = (String, String);

impl Scenario {
    /// Checks that all parts are possible, because the file of a finding may come from an untrusted source.
    ///
    /// # Errors
    /// The place of the first mistake, and its description.
    pub(crate) fn check(&self) -> Result<(), Misplaced> {
        self.parsed_stand_ins().map_err(|error| ("standIns".to_owned(), error.to_string()))?;
        self.check_start_time().map_err(|problem| ("startTime".to_owned(), problem))?;
        self.check_user().map_err(|problem| ("user".to_owned(), problem))?;
        self.check_rules()?;
        self.check_faults()?;
        let at = |list: &str, index: usize| format!("{list}[{index}]");
        for (index, object) in self.load.iter().enumerate() {
            check_manifest(object).map_err(|problem| (at("load", index), problem))?;
        }
        for (index, step) in self.steps.iter().enumerate() {
            let checked = match step {
                Step::Apply(object) => check_manifest(object),
                Step::Patch(patch) => patch.object.check(),
                Step::Delete(name) => name.check(),
                Step::Wait(until) => check(until),
                Step::Advance(_) => Ok(()),
            };
            checked.map_err(|problem| (at("steps", index), problem))?;
        }
        for (index, expectation) in self.expect.iter().enumerate() {
            check(expectation).map_err(|problem| (at("expect", index), problem))?;
        }
        Ok(())
    }
}

impl Scenario {
    /// The name is sent in a header.
    fn check_user(&self) -> Result<(), String> {
        match self.user.as_deref() {
            Some(name) if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_graphic()) => {
                Err(format!("{name:?} is not a user's name: use printable ASCII without spaces"))
            }
            _ => Ok(()),
        }
    }

    fn check_start_time(&self) -> Result<(), String> {
        let Some(text) = &self.start_time else { return Ok(()) };
        match self.parsed_start_time() {
            Some(time) if START_TIMES.contains(&time) => Ok(()),
            Some(_) => Err(format!("{text:?} is not between 2000 and 2100")),
            None => Err(format!("{text:?} is not a time: use one like 2026-01-05T18:00:00Z")),
        }
    }

    /// Checks that each rule that is switched off may be. The rule `steps` may not: after a failed step nothing can be
    /// compared, so a check could find nothing and seem to pass.
    fn check_rules(&self) -> Result<(), Misplaced> {
        if self.rules.contains_key(&RunRule::Steps) {
            let problem = "it cannot be switched off, because nothing can be compared after a failed step";
            return Err(("rules.steps".to_owned(), format!("{problem}: correct or remove the step")));
        }
        Ok(())
    }

    /// Checks that each class of faults that is switched off exists.
    fn check_faults(&self) -> Result<(), Misplaced> {
        match self.faults.keys().find(|class| !FAULT_CLASSES.contains(&class.as_str())) {
            Some(class) => Err((
                format!("faults.{class}"),
                format!("there is no such class of faults, only {}", FAULT_CLASSES.join(", ")),
            )),
            None => Ok(()),
        }
    }
}

fn check_manifest(object: &Value) -> Result<(), String> {
    if object.is_object() { ObjectName::of(object).check() } else { Err("it is not an object".to_owned()) }
}

/// Checks that pointers and conditions are valid.
fn check(expectation: &Expectation) -> Result<(), String> {
    match expectation {
        Expectation::Has(object) => {
            object.object.check()?;
            let wrong = object.values.keys().find(|pointer| !pointer.starts_with('/'));
            if let Some(pointer) = wrong {
                return Err(format!("{pointer:?} is not a JSON pointer: use one like /status/readyReplicas"));
            }
        }
        Expectation::Holds(ObjectCondition { object, cel }) => {
            object.check()?;
            Condition::compile(cel).map_err(|error| format!("the condition {cel:?}:\n{error}"))?;
        }
        Expectation::Absent(name) => name.check()?,
        Expectation::Count(count) => {
            checked_kind(&count.api_version, &count.kind)?;
            let (kind, name) = (count.kind.clone(), String::new());
            let namespace = count.namespace.clone().unwrap_or_default();
            ObjectName { api_version: count.api_version.clone(), kind, namespace, name }.check()?;
        }
    }
    Ok(())
}

fn objects(source: ObjectSource, folder: &Path) -> Result<Vec<Value>, ScenarioError> {
    match source {
        ObjectSource::Inline(object) => Ok(vec![Value::Object(object)]),
        ObjectSource::File(name) => manifests(&folder.join(name)),
    }
}

/// All objects of a manifest file.
pub fn manifests(path: &Path) -> Result<Vec<Value>, ScenarioError> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text_of(path)?)
        .map_err(|error| ScenarioError::Malformed { path: path.to_owned(), message: one_line(&error) })?;
    Ok(documents.into_iter().filter(|object| !object.is_null()).collect())
}

/// Parses the single document of a file, YAML or JSON.
pub(crate) fn document<T: DeserializeOwned>(path: &Path) -> Result<T, ScenarioError> {
    serde_saphyr::from_str(&text_of(path)?)
        .map_err(|error| ScenarioError::Malformed { path: path.to_owned(), message: one_line(&error) })
}

fn text_of(path: &Path) -> Result<String, ScenarioError> {
    windlass_files::read_argument_text(path, SCENARIO_BYTES_MAX)
        .map_err(|source| ScenarioError::Unreadable { path: path.to_owned(), source })
}

fn one_line(error: &serde_saphyr::Error) -> String {
    error.without_snippet().to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}
