//! Runs scripts in the guest `probe`: starts a host that runs the guest behind a proxy, and collects the results.
//!
//! A script is a list of steps, as described in `tests/guests/probe/README.md`. Its results come from the host's log,
//! so that they do not depend on the API server.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context;
use serde_json::{Value, json};
use tempfile::TempDir;
use windlass_proxy::Match;

use crate::host::Host;
use crate::objects::Objects;
use crate::proxied::Proxied;
use crate::server::{Kind, Server};
use crate::{paths, wait};

/// The name of the Probe for tests that need only one.
pub const NAME: &str = "probe";
/// A part of the User-Agent of the plugin's own requests.
const AGENT: &str = "(probe@";

/// A server, a proxy in front of it, and a host behind the proxy that runs only the plugin `probe`.
pub struct Lab {
    /// The server behind the proxy. The server's own [`objects`](Server::objects) bypass the proxy.
    pub server: Server,
    /// The proxy that all requests of the host go through.
    pub proxy: Proxied,
    /// The host that runs the plugin.
    pub host: Host,
    runs: AtomicU32,
    _plugins: TempDir,
}

/// One call of the plugin: its request, and the result of each step.
#[derive(Clone, Debug, Default)]
pub struct Call {
    /// The request without its object, but with the object's `generation`.
    pub request: Value,
    /// The results, in the order of execution.
    pub steps: Vec<Step>,
    /// Whether the script has ended.
    pub ended: bool,
}

/// The result of a step.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its id.
    pub id: String,
    /// The import that it called.
    pub call: String,
    /// The answer of the import: a value, or the whole error. Long answers are shortened.
    pub answer: Result<Value, Value>,
}

impl Lab {
    /// Starts a lab on its own server, or in a namespace of the shared one. The lab is ready for scripts.
    pub async fn start(kind: Kind) -> anyhow::Result<Self> {
        Self::on(Server::start(kind).await?, &[]).await
    }

    /// Starts a lab on `server`. The host gets further arguments.
    pub async fn on(server: Server, arguments: &[&str]) -> anyhow::Result<Self> {
        let proxy = Proxied::start(&server, 5).await?;
        let kubeconfig = proxy.kubeconfig().to_owned();
        Self::with_kubeconfig(server, proxy, &kubeconfig, arguments).await
    }

    /// Starts a lab whose host reaches the server with this kubeconfig.
    pub async fn with_kubeconfig(
        server: Server,
        proxy: Proxied,
        kubeconfig: &Path,
        arguments: &[&str],
    ) -> anyhow::Result<Self> {
        install(server.objects()).await?;
        let plugins = plugin_directory()?;
        let (directory, kubeconfig) = (plugins.path().to_string_lossy(), kubeconfig.to_string_lossy());
        let namespace = server.objects().namespace();
        let mut all = vec!["--log-format", "json", "run", "--kubeconfig", &kubeconfig, "--plugins", &directory];
        all.extend(["--namespace", namespace, "--grants=manifest"]);
        all.extend(arguments);
        let host = Host::start(&all, None)?;
        host.says("controller started").await?;
        Ok(Self { server, proxy, host, runs: AtomicU32::new(1), _plugins: plugins })
    }

    /// Runs a script once, and returns the results of its steps. Steps without an `id` are numbered from 1.
    pub async fn run(&self, steps: impl IntoIterator<Item = Value>) -> anyhow::Result<Call> {
        self.run_as(NAME, steps).await
    }

    /// Like [`Lab::run`], but as the script of the Probe `name`.
    pub async fn run_as(&self, name: &str, steps: impl IntoIterator<Item = Value>) -> anyhow::Result<Call> {
        let run = self.begin(name, false, steps).await?;
        Ok(self.calls(&run, 1).await?.remove(0))
    }

    /// Gives the Probe `name` a script, and returns the number of the run. With `always`, each call runs it.
    pub async fn begin(
        &self,
        name: &str,
        always: bool,
        steps: impl IntoIterator<Item = Value>,
    ) -> anyhow::Result<String> {
        let run = self.runs.fetch_add(1, Ordering::Relaxed).to_string();
        let steps: Vec<_> = steps.into_iter().enumerate().map(|(index, step)| numbered(index + 1, step)).collect();
        let probe = json!({
            "apiVersion": "probe.windlass.dev/v1", "kind": "Probe", "metadata": {"name": name},
            "spec": {"run": run, "always": always, "steps": steps},
        });
        self.server.objects().apply(&probe).await?;
        Ok(run)
    }

    /// Waits until `count` calls have completed the script of a run, and returns all calls that have begun the script.
    pub async fn calls(&self, run: &str, count: usize) -> anyhow::Result<Vec<Call>> {
        let what = format!("{count} calls of the script {run}");
        let ended = wait::until(&what, || async {
            let calls = self.calls_so_far(run);
            let ended = calls.iter().filter(|call| call.ended).count();
            if ended >= count { Ok(calls) } else { Err(calls) }
        });
        ended.await.with_context(|| format!("the host logged:\n{}", self.host.log()))
    }

    /// The calls so far that have begun the script of a run.
    #[must_use]
    pub fn calls_so_far(&self, run: &str) -> Vec<Call> {
        calls(&self.host.log(), run)
    }

    /// Applies an object as another client, and waits until the plugin's cache shows the result.
    pub async fn put(&self, object: &Value) -> anyhow::Result<Value> {
        self.put_as(NAME, object).await
    }

    /// Like [`Lab::put`], but waits for the cache of the Probe `name`.
    pub async fn put_as(&self, name: &str, object: &Value) -> anyhow::Result<Value> {
        let applied = self.server.objects().apply(object).await?;
        self.until_cached_by(name, &applied).await?;
        Ok(applied)
    }

    /// Waits until the plugin's cache shows this version of an object. Nothing else may change the object meanwhile.
    pub async fn until_cached(&self, object: &Value) -> anyhow::Result<()> {
        self.until_cached_by(NAME, object).await
    }

    /// Like [`Lab::until_cached`], but looks at the cache of the Probe `name`.
    pub async fn until_cached_by(&self, name: &str, object: &Value) -> anyhow::Result<()> {
        let metadata = &object["metadata"];
        let target = json!({
            "apiVersion": object["apiVersion"], "kind": object["kind"],
            "namespace": metadata["namespace"], "name": metadata["name"],
        });
        let read = json!({"call": "cache.get", "target": target, "fields": ["/metadata/resourceVersion"]});
        wait::until("the plugin's cache shows the object", || async {
            let call = self.run_as(name, [read.clone()]).await?;
            let cached = call.ok(1);
            let is_same = cached["metadata"]["resourceVersion"] == metadata["resourceVersion"];
            anyhow::ensure!(is_same, "{cached} instead of {object}");
            Ok(())
        })
        .await
    }

    /// The number of requests that the plugin has sent, whatever their result. Events do not count, nor do the writes
    /// to the status by which a script announces that it will run.
    #[must_use]
    pub fn sent(&self) -> u64 {
        let of = |resource: &str| self.proxy.count(&Match::any().resource(resource).agent(AGENT));
        self.proxy.count(&Match::any().agent(AGENT)) - of("probes/status") - of("events")
    }
}

/// A directory that contains only the plugin `probe`.
pub fn plugin_directory() -> anyhow::Result<TempDir> {
    let directory = tempfile::tempdir()?;
    std::fs::copy(paths::guest("probe")?, directory.path().join("probe.wasm"))?;
    Ok(directory)
}

/// Installs the definition of `Probe` and waits until the server serves it.
pub async fn install(objects: &Objects) -> anyhow::Result<()> {
    for document in crate::objects::documents(&paths::root().join("tests/guests/probe/crd.yaml"))? {
        objects.apply(&document).await?;
    }
    wait::until("Probes are served", || async { objects.list("Probe", "").await.map(|_| ()) }).await
}

impl Call {
    /// Returns the answer to the step `id`.
    ///
    /// # Panics
    /// If the step failed or has not run.
    #[must_use]
    #[track_caller]
    #[allow(clippy::needless_pass_by_value, reason = "a number or a text, as it comes")]
    pub fn ok(&self, id: impl ToString) -> &Value {
        let step = self.step(&id.to_string());
        step.answer.as_ref().unwrap_or_else(|error| panic!("{} {} failed: {error}", step.id, step.call))
    }

    /// Returns the error of the step `id`, which must have this reason.
    ///
    /// # Panics
    /// If the step succeeded, failed with another reason, or has not run.
    #[must_use]
    #[track_caller]
    #[allow(clippy::needless_pass_by_value, reason = "a number or a text, as it comes")]
    pub fn error(&self, id: impl ToString, reason: &str) -> &Value {
        let step = self.step(&id.to_string());
        let error = match &step.answer {
            Ok(value) => panic!("{} {} should have failed with {reason}: {value}", step.id, step.call),
            Err(error) => error,
        };
        assert_eq!(error["reason"], reason, "{} {}: {error}", step.id, step.call);
        error
    }

    #[track_caller]
    fn step(&self, id: &str) -> &Step {
        self.steps.iter().find(|step| step.id == id).unwrap_or_else(|| panic!("no step {id} has run: {self:?}"))
    }
}

fn numbered(number: usize, mut step: Value) -> Value {
    if step["id"].is_null() {
        step["id"] = number.to_string().into();
    }
    step
}

/// Extracts the calls of a run from the host's log. Each call has its own trace.
fn calls(log: &str, run: &str) -> Vec<Call> {
    let mut calls: Vec<(String, Call)> = Vec::new();
    for line in log.lines().filter(|line| line.contains("probe ")) {
        let Some((trace, word, content)) = parse(line) else { continue };
        if content["run"] != run {
            continue;
        }
        if word == "begin" {
            calls.push((trace, Call { request: content["request"].clone(), ..Call::default() }));
            continue;
        }
        let Some((_, call)) = calls.iter_mut().find(|(of, _)| *of == trace) else { continue };
        match word.as_str() {
            "result" => call.steps.push(step(&content)),
            "end" => call.ended = true,
            _ => {}
        }
    }
    calls.into_iter().map(|(_, call)| call).collect()
}

/// Splits a line that the plugin logged into the trace, the first word and the rest as JSON.
fn parse(line: &str) -> Option<(String, String, Value)> {
    let line: Value = serde_json::from_str(line).ok()?;
    let message = line["message"].as_str()?.strip_prefix("probe ")?;
    let (word, content) = message.split_once(' ')?;
    Some((line["trace_id"].as_str()?.to_owned(), word.to_owned(), serde_json::from_str(content).ok()?))
}

fn step(content: &Value) -> Step {
    let text = |field: &str| content[field].as_str().unwrap_or_default().to_owned();
    let answer = match content.get("error") {
        Some(error) => Err(error.clone()),
        None => Ok(content["ok"].clone()),
    };
    Step { id: text("id"), call: text("call"), answer }
}
