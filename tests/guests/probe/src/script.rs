//! A script: the steps in a Probe's `spec`. The module of each interface carries out its steps.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use windlass_sdk::{Failures, Outcome, Request};

use crate::substitute::{Known, substitute};
use crate::wire::Answer;
use crate::{
    cache, clock, config, control, events, http, live, log, metrics, owners, random, report, triggers, writes,
};

/// The `spec` of a Probe.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Script {
    /// The name of the run. It distinguishes the results of this script from those of the previous one.
    #[serde(default)]
    pub(crate) run: String,
    /// Whether to run the script at each call, instead of once for each generation.
    #[serde(default)]
    pub(crate) always: bool,
    #[serde(default)]
    steps: Vec<Step>,
}

/// A call and its arguments.
#[derive(Debug, Deserialize)]
pub(crate) struct Step {
    id: String,
    call: String,
    #[serde(flatten)]
    arguments: Map<String, Value>,
}

impl Script {
    /// The script of a Probe. `None` if the Probe has no steps.
    ///
    /// # Panics
    /// If it cannot be read.
    pub(crate) fn of(object: &Value) -> Option<Self> {
        let script: Self = read("the script", object["spec"].clone());
        (!script.steps.is_empty()).then_some(script)
    }

    /// Runs all steps, or those before a step that ends the call.
    pub(crate) fn run(&self, request: &Request, object: &Value) -> Result<Outcome, Failures> {
        let request = report::request(request);
        let mut known = Known::from([("request".to_owned(), request.clone()), ("primary".to_owned(), object.clone())]);
        report::begin(&self.run, &request);
        for step in &self.steps {
            let arguments = substitute(&Value::Object(step.arguments.clone()), &known);
            if let Some(end) = control::end(&step.call, &arguments) {
                report::end(&self.run, &step.call);
                return end.carry_out();
            }
            let answer = call(&step.call, arguments);
            report::result(&self.run, &step.id, &step.call, &answer);
            known.insert(step.id.clone(), answer.unwrap_or_else(|error| error));
        }
        report::end(&self.run, "done");
        Ok(Outcome::Done)
    }
}

/// Carries out a call of an import.
///
/// # Panics
/// If there is no such import, or its arguments cannot be read.
fn call(name: &str, arguments: Value) -> Answer {
    let (interface, function) = name.split_once('.').unwrap_or((name, ""));
    let answer = match interface {
        "cache" => cache::call(function, arguments),
        "live" => live::call(function, arguments),
        "writes" => writes::call(function, arguments),
        "owners" => owners::call(function, arguments),
        "events" => events::call(function, arguments),
        "log" => log::call(function, arguments),
        "metrics" => metrics::call(function, arguments),
        "config" => config::call(function),
        "triggers" => triggers::call(function),
        "clock" => clock::call(function),
        "random" => random::call(function, arguments),
        "http" => http::call(function, arguments),
        _ => None,
    };
    answer.unwrap_or_else(|| panic!("probe: there is no call {name}"))
}

/// The arguments of a call.
///
/// # Panics
/// If they cannot be read.
pub(crate) fn read<T: DeserializeOwned>(what: &str, value: Value) -> T {
    serde_json::from_value(value).unwrap_or_else(|error| panic!("probe: {what}: {error}"))
}
