//! Sends the steps of a script to both servers.

use std::fmt::Write;

use anyhow::Context;
use serde_json::{Value, json};

use crate::client::{Call, Client};
use crate::compare::{Comparison, Difference};
use crate::script::{Script, Step, Variables, fill, fill_value};
use crate::servers::Servers;

/// A step, and the differences between its two answers.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The script's name.
    pub script: String,
    /// The step's name.
    pub step: String,
    /// The real server's answer.
    pub real: Value,
    /// Ours.
    pub ours: Value,
    /// The differences of our answer.
    pub differences: Vec<Difference>,
}

impl Outcome {
    /// The script and the step, as in `accepted.yaml`.
    #[must_use]
    pub fn title(&self) -> String {
        format!("{}: {}", self.script, self.step)
    }
}

/// Runs a script, and returns an outcome for each compared step.
pub async fn run(servers: &Servers, script: &Script) -> Vec<Outcome> {
    let mut sides = [Side::new(&servers.real, servers, script), Side::new(&servers.ours, servers, script)];
    let namespace = json!({ "metadata": { "name": script.variables["ns"] } });
    let setup = Step { body: Some(namespace), quiet: true, ..Step::to("POST /api/v1/namespaces") };
    let mut comparison = Comparison::default();
    let mut outcomes = Vec::new();
    for step in std::iter::once(&setup).chain(&script.steps) {
        let [real, ours] = &mut sides;
        let (real, ours) = tokio::join!(real.answer(step), ours.answer(step));
        let is_prepared = |answer: &Value| answer["code"].as_u64().is_some_and(|code| code < 300);
        let differences = if !step.quiet {
            comparison.differences(&real, &ours)
        } else if is_prepared(&real) && is_prepared(&ours) {
            continue;
        } else {
            vec![Difference {
                path: "/prepared".to_owned(),
                real: Some(real.clone()),
                ours: Some(ours.clone()),
                summary: "/prepared: not by both".to_owned(),
            }]
        };
        outcomes.push(Outcome { script: script.name.clone(), step: step.name.clone(), real, ours, differences });
    }
    outcomes
}

/// One of the servers during a script.
struct Side<'a> {
    client: &'a Client,
    variables: Variables,
}

impl<'a> Side<'a> {
    fn new(client: &'a Client, servers: &Servers, script: &Script) -> Side<'a> {
        let variables = servers.hooks.iter().chain(&script.variables);
        Side { client, variables: variables.map(|(name, value)| (name.clone(), value.clone())).collect() }
    }

    /// The answer. If the step cannot be sent, the error is the answer.
    async fn answer(&mut self, step: &Step) -> Value {
        let answer = self.sent(step).await.unwrap_or_else(|error| json!({ "failed": format!("{error:#}") }));
        for (name, pointer) in &step.keep {
            // A missing value is a difference of this step; the next steps still run.
            let value = answer.pointer(pointer).unwrap_or(&Value::Null);
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            self.variables.insert(name.clone(), text);
        }
        answer
    }

    async fn sent(&self, step: &Step) -> anyhow::Result<Value> {
        let call = self.call(step)?;
        if step.until.is_empty() {
            return self.client.send(&call).await;
        }
        let is_wanted =
            |answer: &Value| step.until.iter().all(|(at, wanted)| answer.pointer(at).unwrap_or(&Value::Null) == wanted);
        self.client.send_until(&call, is_wanted).await
    }

    fn call(&self, step: &Step) -> anyhow::Result<Call> {
        let mut variables = self.variables.clone();
        for (key, value) in &step.chosen {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            variables.insert(key.clone(), fill(&text, &self.variables)?);
        }
        let (method, path) = step.request.split_once(' ').context("a method and a path")?;
        let mut headers = vec![("user-agent".to_owned(), "differential".to_owned())];
        let body = match &step.body {
            None => Vec::new(),
            Some(Value::String(text)) if !text.starts_with('$') => fill(text, &variables)?.into_bytes(),
            Some(value) => match fill_value(value, &variables, &step.chosen)? {
                Value::String(text) => text.into_bytes(),
                value => serde_json::to_vec(&value)?,
            },
        };
        if step.content_type.as_deref() == Some("none") {
            // A body without a Content-Type in the headers.
        } else if let Some(media) = &step.content_type {
            headers.push(("content-type".to_owned(), fill(media_type(media), &variables)?));
        } else if step.body.is_some() {
            headers.push(("content-type".to_owned(), media_type("json").to_owned()));
        }
        if let Some(accept) = &step.accept {
            headers.push(("accept".to_owned(), fill(media_type(accept), &variables)?));
        }
        for (name, value) in &step.headers {
            headers.retain(|(known, _)| known != name);
            headers.push((name.clone(), fill(value, &variables)?));
        }
        Ok(Call { method: method.to_owned(), path: escaped(&fill(path, &variables)?), headers, body })
    }
}

/// The media types with short names; any other name is used as it is.
fn media_type(name: &str) -> &str {
    match name {
        "json" => "application/json",
        "yaml" => "application/yaml",
        "json-patch" => "application/json-patch+json",
        "merge" => "application/merge-patch+json",
        "strategic" => "application/strategic-merge-patch+json",
        "apply" => "application/apply-patch+yaml",
        "table" => "application/json;as=Table;v=v1;g=meta.k8s.io",
        "partial" => "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        "partial-list" => "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        other => other,
    }
}

/// Escapes characters that a URL may not contain. `%` stays, so that scripts can escape by themselves.
fn escaped(path: &str) -> String {
    let mut result = String::new();
    for byte in path.bytes() {
        let plain = byte.is_ascii_graphic() && !b"\"<>\\^`{|}#".contains(&byte);
        if plain {
            result.push(char::from(byte));
        } else {
            let _ = write!(result, "%{byte:02X}");
        }
    }
    result
}
