//! A case: the input of a probe and the expected outcome. Each call is made twice with the same answers, time and
//! random seed, and must have the same outcome both times.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::call::{Call, Seen, primary};
use crate::languages::Language;
use crate::ports::in_order;
use crate::verdict::{self, same, shown};
use crate::wire;

/// One line of the table. Fields that a case leaves out have the usual values.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) request: RequestOf,
    pub(crate) config: Option<Value>,
    pub(crate) steps: Value,
    /// The steps as text, for cases that depend on the notation.
    #[serde(skip)]
    pub(crate) text: Option<String>,
    pub(crate) answers: Vec<Value>,
    pub(crate) asked: Vec<Value>,
    /// `None` means that no report is expected.
    pub(crate) results: Option<Value>,
    /// `None` means that any log lines are accepted.
    pub(crate) lines: Option<Vec<Value>>,
    /// `None` means that the call is done.
    pub(crate) ended: Option<Value>,
    /// Whether the result depends on the instance's past.
    pub(crate) keeps: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RequestOf {
    namespace: Option<String>,
    name: String,
    uid: Option<String>,
    deleting: bool,
    attempt: u32,
    /// The triggers, each with `reason` and optionally `watch` and `object`.
    triggers: Vec<Value>,
    has_object: bool,
}

impl Default for RequestOf {
    fn default() -> Self {
        let (namespace, uid) = (Some("prod".to_owned()), Some("u-1".to_owned()));
        Self {
            namespace,
            name: "probe".to_owned(),
            uid,
            deleting: false,
            attempt: 0,
            triggers: vec![],
            has_object: true,
        }
    }
}

/// The cases of a file.
///
/// # Panics
/// If the file cannot be read.
pub(crate) fn cases(text: &str) -> Vec<Case> {
    serde_json::from_str(text).expect("the cases are well-formed")
}

impl Case {
    /// The call that the case makes.
    pub(crate) fn call(&self) -> Call {
        let RequestOf { namespace, name, uid, deleting, attempt, triggers, has_object } = self.request.clone();
        let steps = self.text.clone().unwrap_or_else(|| self.steps.to_string());
        let call = Call::about(primary(&steps));
        Call {
            namespace: namespace.map(|_| "prod"),
            name,
            uid,
            deleting,
            attempt,
            triggers: wire::triggers_of(&triggers),
            object: call.object.clone().filter(|_| has_object),
            config: self.config.as_ref().map_or_else(|| "{}".to_owned(), Value::to_string),
            ..call
        }
    }

    /// Runs the case twice with the probe of a language.
    pub(crate) fn check(&self, language: &Language) -> Result<(), String> {
        let plugin = language.plugin()?;
        let call = self.call();
        let first = call.make(&plugin, in_order(&self.answers));
        self.compare(&first)?;
        let is_lacking = is_unsupported(&first) && !self.calls().any(|call| language.may_lack(call));
        if is_lacking {
            return Err("the probe reports a step as unsupported that the language must support".to_owned());
        }
        let second = call.make(&plugin, in_order(&self.answers));
        same(&first.all(), &second.all()).map_err(|differs| {
            format!("the same call with the same answers, time and random seed had another outcome\n      {differs}")
        })
    }

    /// The calls that the steps make.
    pub(crate) fn calls(&self) -> impl Iterator<Item = &str> {
        self.steps.as_array().into_iter().flatten().filter_map(|step| step["call"].as_str())
    }

    /// Compares the actual outcome with the expected one.
    pub(crate) fn compare(&self, seen: &Seen) -> Result<(), String> {
        let part = |name: &str, expected: &Value, got: &Value| {
            same(expected, got).map_err(|differs| format!("{name}: {differs}{}", logged_errors(seen)))
        };
        part("how the call ended", self.ended.as_ref().unwrap_or(&json!({"done": true})), &seen.ended)?;
        part("the results", self.results.as_ref().unwrap_or(&Value::Null), &seen.results())?;
        part("the requests to the host", &json!(self.asked), &json!(seen.asked))?;
        if let Some(report) = &seen.report {
            let usual = json!({"owned": false, "force": false, "dryRun": false, "fieldValidation": "strict"});
            part("the options of the report's create", &usual, &report["options"])?;
        }
        match &self.lines {
            Some(lines) if !is_unsupported(seen) => compare_lines(lines, &seen.lines),
            _ => Ok(()),
        }
    }
}

/// Compares log lines. Compares only the fields of a line that the case names.
pub(crate) fn compare_lines(expected: &[Value], seen: &[Value]) -> Result<(), String> {
    let named_fields = |(expected, got): (&Value, &Value)| {
        let keys = expected.as_object().into_iter().flatten().map(|(key, _)| key.clone());
        keys.map(|key| (key.clone(), got[&key].clone())).collect::<Value>()
    };
    let got: Vec<Value> = if expected.len() == seen.len() {
        expected.iter().zip(seen).map(named_fields).collect()
    } else {
        seen.to_vec()
    };
    same(&json!(expected), &json!(got)).map_err(|differs| format!("the log: {differs}"))
}

/// Whether the language does not support one of the steps.
fn is_unsupported(seen: &Seen) -> bool {
    let results = seen.results();
    let results = results.as_array().into_iter().flatten();
    results.into_iter().any(verdict::is_unsupported)
}

/// The first errors that the call logged, to explain an unexpected outcome.
fn logged_errors(seen: &Seen) -> String {
    let errors = seen.lines.iter().filter(|line| line["level"] == "error").take(3);
    errors.flat_map(|line| ["\n      logged: ".to_owned(), shown(line)]).collect()
}
