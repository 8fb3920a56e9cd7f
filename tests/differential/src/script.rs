//! Scripts: requests as data, with one file for each topic.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use anyhow::{Context, ensure};
use serde::Deserialize;
use serde_json::Value;

/// Variables: their values replace `$name` in a step.
pub type Variables = BTreeMap<String, String>;

/// A file of related requests. Each script has its own namespace, `$ns`, and its own API group, `$group`.
#[derive(Clone, Debug)]
pub struct Script {
    /// The name of the file without `.yaml`.
    pub name: String,
    /// Variables for all steps. Their values may use `$ns`, `$group` and earlier variables.
    pub variables: Variables,
    /// The requests, in order.
    pub steps: Vec<Step>,
    /// Whether the script runs after all others, because it leaves a definition whose objects a server cannot read,
    /// which delays or prevents the deletion of every namespace.
    pub runs_last: bool,
}

/// One request.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The method, path and query: `GET /api/v1/namespaces/$ns/configmaps`.
    #[serde(rename = "do")]
    pub request: String,
    /// The name in the accepted differences; by default the text of `do`, with a number if several steps have the same
    /// text.
    #[serde(default)]
    pub name: String,
    /// The Content-Type of the body; by default JSON for data and YAML for text.
    #[serde(rename = "as")]
    pub content_type: Option<String>,
    /// The Accept header; by default there is none.
    pub accept: Option<String>,
    /// More headers.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The body: data is sent as JSON, and text as it is.
    pub body: Option<Value>,
    /// Variables to take from the answer, by JSON pointers into `{code, headers, body}`.
    #[serde(default)]
    pub keep: BTreeMap<String, String>,
    /// The step is sent until the answer has these values, by JSON pointers into it. Null stands for a missing value,
    /// so `{/body/items/0: null}` waits for an empty list.
    #[serde(default)]
    pub until: BTreeMap<String, Value>,
    /// Whether the step is a preparation: it must succeed, and its answers are not compared.
    #[serde(default)]
    pub quiet: bool,
    /// The step is sent once for each combination of these values.
    #[serde(default, rename = "for")]
    pub values: BTreeMap<String, Vec<Value>>,
    /// The values of this combination.
    #[serde(skip)]
    pub chosen: Vec<(String, Value)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "about")]
    _about: String,
    #[serde(default, rename = "let")]
    variables: Vec<BTreeMap<String, String>>,
    #[serde(default, rename = "last")]
    runs_last: bool,
    steps: Vec<Step>,
}

impl Script {
    /// Reads all scripts of a directory, ordered by name.
    pub fn read_all(folder: &Path) -> anyhow::Result<Vec<Script>> {
        let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
        let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<_>>>()?;
        paths.sort();
        paths.iter().map(|path| Script::read(path)).collect()
    }

    /// Reads one.
    pub fn read(path: &Path) -> anyhow::Result<Script> {
        let place = || path.display().to_string();
        let name = path.file_stem().and_then(|stem| stem.to_str()).with_context(place)?;
        let text = std::fs::read_to_string(path).with_context(place)?;
        Script::parse(name, &text).with_context(place)
    }

    /// A script without a file.
    #[must_use]
    pub fn of(name: &str, steps: Vec<Step>) -> Script {
        Script { name: name.to_owned(), variables: own_variables(name), steps, runs_last: false }
    }

    fn parse(name: &str, text: &str) -> anyhow::Result<Script> {
        // `y` and `n` are texts, not booleans.
        let options = serde_saphyr::options! { strict_booleans: true };
        let file: File = serde_saphyr::from_str_with_options(text, options)?;
        let mut variables = own_variables(name);
        for (key, value) in file.variables.into_iter().flatten() {
            let value = fill(&value, &variables)?;
            variables.insert(key, value);
        }
        let mut steps = Vec::new();
        for step in file.steps {
            steps.extend(step.combinations());
        }
        let mut said: HashMap<String, usize> = HashMap::new();
        for step in &mut steps {
            if step.name.is_empty() {
                step.name.clone_from(&step.request);
            }
            for (key, value) in &step.chosen {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                step.name = format!("{} [{key}={value}]", step.name);
            }
            let times = said.entry(step.name.clone()).or_default();
            *times += 1;
            if *times > 1 {
                step.name = format!("{} #{times}", step.name);
            }
        }
        Ok(Script { name: name.to_owned(), variables, steps, runs_last: file.runs_last })
    }
}

/// The variables of each script. `$rv` exists from the start, for the steps before the first step that keeps a version.
fn own_variables(name: &str) -> Variables {
    let variables = [("ns", format!("d-{name}")), ("group", format!("{name}.example.com")), ("rv", "1".to_owned())];
    variables.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

impl Step {
    /// A step with only a request.
    #[must_use]
    pub fn to(request: &str) -> Step {
        Step {
            request: request.to_owned(),
            name: request.to_owned(),
            content_type: None,
            accept: None,
            headers: BTreeMap::new(),
            body: None,
            keep: BTreeMap::new(),
            until: BTreeMap::new(),
            quiet: false,
            values: BTreeMap::new(),
            chosen: Vec::new(),
        }
    }

    fn combinations(self) -> Vec<Step> {
        let mut all = vec![self.clone()];
        for (key, values) in &self.values {
            let with = |step: &Step, value: &Value| {
                let mut step = step.clone();
                step.chosen.push((key.clone(), value.clone()));
                step
            };
            all =
                all.iter().flat_map(|step| values.iter().map(|value| with(step, value)).collect::<Vec<_>>()).collect();
        }
        all
    }
}

/// Replaces each `$name`; a `$` without a name stays.
pub fn fill(text: &str, variables: &Variables) -> anyhow::Result<String> {
    let mut parts = text.split('$');
    let mut result = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(part.len());
        let (name, rest) = part.split_at(end);
        if name.is_empty() {
            result.push('$');
            result.push_str(rest);
            continue;
        }
        let value = variables.get(name);
        ensure!(value.is_some(), "no variable ${name} in {text:?}; there are {:?}", variables.keys());
        result.push_str(value.map_or("", String::as_str));
        result.push_str(rest);
    }
    Ok(result)
}

/// Replaces each `$name` in all texts and keys of a value. If a text is only a chosen variable, the variable's value
/// replaces it.
pub fn fill_value(value: &Value, variables: &Variables, chosen: &[(String, Value)]) -> anyhow::Result<Value> {
    Ok(match value {
        Value::String(text) => {
            let whole = chosen.iter().find(|(key, _)| text.strip_prefix('$') == Some(key));
            match whole {
                Some((_, value)) => fill_value(value, variables, &[])?,
                None => Value::String(fill(text, variables)?),
            }
        }
        Value::Array(items) => {
            items.iter().map(|item| fill_value(item, variables, chosen)).collect::<anyhow::Result<_>>()?
        }
        Value::Object(fields) => {
            let filled = fields
                .iter()
                .map(|(key, value)| Ok((fill(key, variables)?, fill_value(value, variables, chosen)?)))
                .collect::<anyhow::Result<_>>()?;
            Value::Object(filled)
        }
        other => other.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_combination_of_values_makes_a_step_with_its_own_name() {
        let text = "
            about: x
            steps:
            - do: GET /a?b=$b
              for: { b: [1, \"x\"], c: [null] }
            - do: GET /a
            - do: GET /a
        ";
        let script = Script::parse("t", text).expect("a script");
        let names: Vec<&str> = script.steps.iter().map(|step| step.name.as_str()).collect();
        assert_eq!(names, ["GET /a?b=$b [b=1] [c=null]", "GET /a?b=$b [b=x] [c=null]", "GET /a", "GET /a #2"]);
    }

    #[test]
    fn variables_are_replaced_and_unknown_ones_are_refused() {
        let variables = Variables::from([("a".to_owned(), "1".to_owned())]);
        assert_eq!(fill("$a/$a-b", &variables).expect("known"), "1/1-b");
        assert!(fill("$b", &variables).is_err());
    }
}
