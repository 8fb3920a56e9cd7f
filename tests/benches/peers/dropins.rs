//! The case `dropins`: all drop-in operators in one host, beside their originals, each a process. Both find the same
//! objects on a fresh server. A drop-in takes part if its original's program is there (`tests/originals`).

mod code;
pub(crate) mod table;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use kube::{Client, Config};
use rand::RngExt;
use rand::rngs::SmallRng;
use serde::Serialize;
use serde_json::{Value, json};
use windlass_apiserver::Condition;
use windlass_tests::host::Host;
use windlass_tests::objects::documents;
use windlass_tests::originals::{Effect, Original, Reaction, Subject, start_host};
use windlass_tests::process::{Process, mebibytes};
use windlass_tests::{paths, wait};

use crate::load::{self, CONCURRENT_REQUESTS_MAX};
use crate::server::Server;

/// The longest time until an operator is at rest after its start.
const DROPINS_REST_TIMEOUT: Duration = Duration::from_mins(10);
/// The time at rest before operators count as idle: what follows a start is over then, such as collected garbage.
const IDLE_AFTER: Duration = Duration::from_secs(30);
/// The longest time until a change has its effect.
const EFFECT_TIMEOUT: Duration = Duration::from_mins(2);
/// The pause before a change, if the original does not poll.
const CHANGE_PAUSE: Duration = Duration::from_millis(200);
/// The number of Secrets, and the number of `ConfigMap`s, in each namespace.
const OBJECTS_OF_NAMESPACE: usize = 20;

/// The extent of a run.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Extent {
    namespaces: usize,
    /// The number of changes whose effect is timed, for each drop-in.
    changes: usize,
    /// The time for which operators at rest are watched.
    watch_time: Duration,
}

impl Extent {
    pub(crate) fn new(quick: bool) -> Self {
        let (namespaces, changes, seconds) = if quick { (5, 3, 10) } else { (50, 20, 30) };
        Self { namespaces, changes, watch_time: Duration::from_secs(seconds) }
    }

    pub(crate) fn objects(self) -> usize {
        self.namespaces * OBJECTS_OF_NAMESPACE * 2
    }
}

/// The figures of one side.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Side {
    /// The memory of each process, in MiB, by its name.
    pub(crate) memory: BTreeMap<String, f64>,
    /// The anonymous part of the memory of all processes, in MiB. The rest is pages of files, such as code, which the
    /// system may drop and read again.
    pub(crate) anonymous: f64,
    pub(crate) watches: f64,
    /// The processor time of all processes, in milliseconds a second.
    pub(crate) cpu_at_rest: f64,
    /// The median time from a change to its effect, in milliseconds, by the drop-in's name.
    pub(crate) reactions: BTreeMap<String, f64>,
}

/// The figures of a round.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Round {
    pub(crate) originals: Side,
    pub(crate) host: Side,
}

/// The drop-ins whose originals are there.
pub(crate) fn subjects() -> anyhow::Result<Vec<Subject>> {
    let all = Subject::names()?.iter().map(|name| Subject::read(name)).collect::<Result<Vec<_>, _>>()?;
    let subjects: Vec<_> = all.into_iter().filter(Subject::has_program).collect();
    ensure!(!subjects.is_empty(), "no original is there: tests/originals/README.md says how to add them");
    Ok(subjects)
}

/// Runs the originals and then the host, each on a fresh server.
pub(crate) async fn round(subjects: &[Subject], extent: Extent, random: &mut SmallRng) -> anyhow::Result<Round> {
    let plugins = tempfile::tempdir()?;
    for subject in subjects {
        subject.install(plugins.path())?;
    }
    // As in all cases, each plugin is compiled before the measurement. Here that includes the better code, which a host
    // compiles while plugins already run: a host that runs for a minute has it.
    let server = Server::start().await?;
    load(&server, subjects).await?;
    let host = start_host(server.kubeconfig()?, plugins.path()).await?;
    comes_to_rest(host_process(&host)?).await?;
    host.kill().await?;
    server.stop().await?;
    let originals = side(subjects, extent, random, None).await.context("the originals")?;
    let host = side(subjects, extent, random, Some(plugins.path())).await.context("the host")?;
    Ok(Round { originals, host })
}

/// The processes of one side.
enum Programs {
    Originals(Vec<(String, Original)>),
    Host(Host),
}

impl Programs {
    async fn start(server: &Server, subjects: &[Subject], plugins: Option<&Path>) -> anyhow::Result<Self> {
        if let Some(plugins) = plugins {
            return Ok(Self::Host(start_host(server.kubeconfig()?, plugins).await?));
        }
        let mut originals = Vec::new();
        for subject in subjects {
            originals.push((subject.name.clone(), subject.start_original(server.kubeconfig()?).await?));
        }
        Ok(Self::Originals(originals))
    }

    fn processes(&mut self) -> anyhow::Result<Vec<(String, Process)>> {
        match self {
            Self::Originals(originals) => {
                originals.iter_mut().map(|(name, original)| Ok((name.clone(), original.process()?))).collect()
            }
            Self::Host(host) => Ok(vec![("windlass".to_owned(), host_process(host)?)]),
        }
    }

    async fn end(self) -> anyhow::Result<()> {
        match self {
            Self::Originals(originals) => {
                for (_, original) in originals {
                    original.end().await?;
                }
                Ok(())
            }
            Self::Host(host) => host.kill().await,
        }
    }
}

/// Waits until a process is idle and compiles nothing. Compilers run as its children.
async fn comes_to_rest(process: Process) -> anyhow::Result<()> {
    wait::until_within(DROPINS_REST_TIMEOUT, "the process is at rest", || async {
        process.at_rest(DROPINS_REST_TIMEOUT).await?;
        ensure!(!process.has_children()?, "it compiles");
        Ok(())
    })
    .await
}

fn host_process(host: &Host) -> anyhow::Result<Process> {
    Ok(Process(host.id().with_context(|| format!("the host runs; it logged:\n{}", host.log()))?))
}

/// Measures one side: the host with the plugins of a directory, or the originals.
async fn side(
    subjects: &[Subject],
    extent: Extent,
    random: &mut SmallRng,
    plugins: Option<&Path>,
) -> anyhow::Result<Side> {
    let server = Server::start().await?;
    load(&server, subjects).await?;
    fill(&server, extent.namespaces).await?;
    let before = server.watches().await?;
    let mut programs = Programs::start(&server, subjects, plugins).await?;
    for (name, process) in programs.processes()? {
        comes_to_rest(process).await.with_context(|| format!("{name} comes to rest"))?;
    }
    tokio::time::sleep(IDLE_AFTER).await;
    let used = cpu(&mut programs)?;
    tokio::time::sleep(extent.watch_time).await;
    let cpu_at_rest = cpu(&mut programs)?.saturating_sub(used).as_secs_f64() * 1e3 / extent.watch_time.as_secs_f64();
    let (mut memory, mut anonymous) = (BTreeMap::new(), 0.0);
    for (name, process) in programs.processes()? {
        let its = process.memory()?;
        memory.insert(name, mebibytes(its.proportional));
        anonymous += mebibytes(its.anonymous);
    }
    let watches = server.watches().await? - before;
    let mut reactions = BTreeMap::new();
    for subject in subjects {
        let Some(reaction) = &subject.reaction else { continue };
        let time = reaction_time(&server, reaction, extent.changes, random).await;
        reactions.insert(subject.name.clone(), time.with_context(|| subject.name.clone())?);
    }
    programs.end().await?;
    server.stop().await?;
    Ok(Side { memory, anonymous, watches, cpu_at_rest, reactions })
}

fn cpu(programs: &mut Programs) -> anyhow::Result<Duration> {
    programs.processes()?.into_iter().map(|(_, process)| process.cpu()).sum()
}

/// Creates what the reactions need before the operators start.
async fn load(server: &Server, subjects: &[Subject]) -> anyhow::Result<()> {
    for entry in subjects.iter().filter_map(|subject| subject.reaction.as_ref()).flat_map(|it| &it.load) {
        let objects = match entry.as_str() {
            Some(path) => documents(&paths::root().join(path))?,
            None => vec![entry.clone()],
        };
        for object in objects {
            wait::until("an object is loaded", || apply(server.client(), &object)).await?;
        }
    }
    Ok(())
}

/// Creates namespaces with Secrets and `ConfigMap`s of about 2 KB.
async fn fill(server: &Server, namespaces: usize) -> anyhow::Result<()> {
    for namespace in 0..namespaces {
        let object =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("fill-{namespace:03}")}});
        apply(server.client(), &object).await?;
    }
    let create = async |number: usize| {
        let (namespace, number) = (number % namespaces, number / namespaces);
        for (kind, field) in [("Secret", "stringData"), ("ConfigMap", "data")] {
            let metadata = json!({"name": format!("fill-{number:03}"), "namespace": format!("fill-{namespace:03}")});
            let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": metadata});
            object[field] = json!({"settings.yaml": format!("number: {number}\n").repeat(150)});
            let api = api(server.client(), &object).await?;
            api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        }
        anyhow::Ok(())
    };
    let all = stream::iter(0..namespaces * OBJECTS_OF_NAMESPACE).map(Ok);
    all.try_for_each_concurrent(CONCURRENT_REQUESTS_MAX, create).await
}

/// The median time from a change to its effect, in milliseconds.
async fn reaction_time(
    server: &Server,
    reaction: &Reaction,
    changes: usize,
    random: &mut SmallRng,
) -> anyhow::Result<f64> {
    let client = client_of(server, reaction.user.as_deref()).await?;
    let pause = reaction.period_seconds.map_or(CHANGE_PAUSE, Duration::from_secs);
    let mut times = Vec::new();
    for number in 1..=changes {
        tokio::time::sleep(pause.mul_f64(random.random())).await;
        let change = numbered(&reaction.apply, number)?;
        let effect: Effect = serde_json::from_value(numbered(&serde_json::to_value(&reaction.effect)?, number)?)?;
        let api = api_of(server.client(), &effect.api_version, &effect.kind, effect.namespace.as_deref()).await?;
        let parameters = WatchParams::default().fields(&format!("metadata.name={}", effect.name));
        let mut events = api.watch(&parameters, "0").await?.boxed();
        let began = Instant::now();
        apply(&client, &change).await?;
        let waiting = async {
            while let Some(event) = events.try_next().await? {
                let is_shown = match event {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                        !effect.absent && shows(&serde_json::to_value(object)?, &effect)?
                    }
                    WatchEvent::Deleted(_) => effect.absent,
                    _ => false,
                };
                if is_shown {
                    return Ok(began.elapsed());
                }
            }
            anyhow::bail!("the watch has ended")
        };
        let waited = tokio::time::timeout(EFFECT_TIMEOUT, waiting).await;
        times.push(waited.with_context(|| format!("change {number} has no effect: {effect:?}"))??);
    }
    times.sort();
    Ok(load::percentile(&times, 50).as_secs_f64() * 1e3)
}

fn shows(object: &Value, effect: &Effect) -> anyhow::Result<bool> {
    let has_values = effect.values.iter().all(|(pointer, value)| object.pointer(pointer) == Some(value));
    let Some(cel) = &effect.cel else { return Ok(has_values) };
    let condition = Condition::compile(cel).map_err(anyhow::Error::msg)?;
    Ok(has_values && condition.holds(object).map_err(anyhow::Error::msg)?)
}

/// Replaces `{n}` in all texts.
fn numbered(value: &Value, number: usize) -> anyhow::Result<Value> {
    Ok(serde_json::from_str(&value.to_string().replace("{n}", &number.to_string()))?)
}

/// A client of this user, who may do everything, or of an administrator.
async fn client_of(server: &Server, user: Option<&str>) -> anyhow::Result<Client> {
    let Some(user) = user else { return Ok(server.client().clone()) };
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "bench-user"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    });
    apply(server.client(), &binding).await?;
    let read = Kubeconfig::read_from(server.kubeconfig()?)?;
    let mut config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
    config.auth_info.impersonate = Some(user.to_owned());
    let client = Client::try_from(config)?;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    wait::until("the user may do everything", || namespaces.get("default")).await?;
    Ok(client)
}

async fn apply(client: &Client, object: &Value) -> anyhow::Result<()> {
    let name = object["metadata"]["name"].as_str().context("an object has a name")?;
    api(client, object).await?.patch(name, &PatchParams::apply("bench").force(), &Patch::Apply(object)).await?;
    Ok(())
}

/// The API of an object's kind, in its namespace.
async fn api(client: &Client, object: &Value) -> anyhow::Result<Api<DynamicObject>> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let (version, kind) = (text("/apiVersion").unwrap_or_default(), text("/kind").unwrap_or_default());
    api_of(client, version, kind, text("/metadata/namespace")).await
}

async fn api_of(client: &Client, version: &str, kind: &str, place: Option<&str>) -> anyhow::Result<Api<DynamicObject>> {
    let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
    let (resource, capabilities) = pinned_kind(client, &GroupVersionKind::gvk(group, version, kind)).await?;
    Ok(match capabilities.scope {
        Scope::Cluster => Api::all_with(client.clone(), &resource),
        Scope::Namespaced => Api::namespaced_with(client.clone(), place.unwrap_or("default"), &resource),
    })
}
