//! The load: `WebApp`s that are created, changed and watched, as by users.
//!
//! Children are watched only as metadata, so that the server always encodes their events separately for us. With whole
//! objects, it would encode an event once for us together with a contender that reads JSON, but twice beside a
//! contender that reads protobuf.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;
use windlass_tests::objects::Objects;

/// If nothing changes for this long, the controller is stuck.
const STUCK_AFTER: Duration = Duration::from_mins(2);
/// The number of our concurrent requests.
pub(crate) const CONCURRENT_REQUESTS_MAX: usize = 32;
/// The longest duration of a watch on the server; then the watch is resumed.
const WATCH_SECONDS: u32 = 290;

/// The image of a new `WebApp`.
pub(crate) const IMAGE: &str = "nginx:1.27";

/// A change that a watch reported.
pub(crate) struct Seen {
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    /// For a child, its own generation. For a `WebApp`, the observed generation in its status, or `None` without a
    /// status.
    pub(crate) generation: Option<i64>,
    pub(crate) at: Instant,
}

/// Watches of all three kinds. They end when this is dropped.
pub(crate) struct Watches {
    seen: UnboundedReceiver<anyhow::Result<Seen>>,
    tasks: Vec<AbortHandle>,
}

type Opened<K> = BoxFuture<'static, kube::Result<BoxStream<'static, kube::Result<WatchEvent<K>>>>>;

impl Watches {
    /// Watches everything from now on.
    pub(crate) async fn start(objects: &Objects) -> anyhow::Result<Self> {
        let (sender, seen) = unbounded_channel();
        let mut tasks = Vec::new();
        let parameters = || WatchParams::default().timeout(WATCH_SECONDS);
        let api = objects.api("WebApp")?;
        let version = version_of(&api).await?;
        let open = move |version: String| -> Opened<DynamicObject> {
            let api = api.clone();
            Box::pin(async move { Ok(api.watch(&parameters(), &version).await?.boxed()) })
        };
        let observed = |app: &DynamicObject| app.data["status"]["observedGeneration"].as_i64();
        tasks.push(spawn(sender.clone(), "WebApp", version, open, observed));
        for kind in ["Deployment", "Service"] {
            let api = objects.api(kind)?;
            let version = version_of(&api).await?;
            let open = move |version: String| -> Opened<_> {
                let api = api.clone();
                Box::pin(async move { Ok(api.watch_metadata(&parameters(), &version).await?.boxed()) })
            };
            tasks.push(spawn(sender.clone(), kind, version, open, |child| child.metadata.generation));
        }
        Ok(Self { seen, tasks })
    }

    /// Returns the next change. Returns an error if nothing changes for too long, or if a watch fails.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Seen> {
        let next = tokio::time::timeout(STUCK_AFTER, self.seen.recv()).await;
        next.with_context(|| format!("nothing has changed for {STUCK_AFTER:?}"))?.context("all watches have ended")?
    }

    /// Whether there are changes that were not taken yet.
    pub(crate) fn is_behind(&self) -> bool {
        !self.seen.is_empty()
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

fn spawn<K: ResourceExt + Send + 'static>(
    sender: UnboundedSender<anyhow::Result<Seen>>,
    kind: &'static str,
    version: String,
    open: impl Fn(String) -> Opened<K> + Send + 'static,
    generation: fn(&K) -> Option<i64>,
) -> AbortHandle {
    let task = async move {
        let Err(error) = follow(&sender, kind, version, open, generation).await;
        // This fails only if nothing listens any more, so the error is not needed.
        let _ = sender.send(Err(error));
    };
    tokio::spawn(task).abort_handle()
}

/// Watches, and resumes the watch. It ends only with an error, because no event may be missed.
async fn follow<K: ResourceExt>(
    sender: &UnboundedSender<anyhow::Result<Seen>>,
    kind: &'static str,
    mut version: String,
    open: impl Fn(String) -> Opened<K>,
    generation: fn(&K) -> Option<i64>,
) -> anyhow::Result<std::convert::Infallible> {
    loop {
        let mut events = open(version.clone()).await?;
        while let Some(event) = events.try_next().await? {
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    version = object.resource_version().context("an object has a version")?;
                    let (name, generation) = (object.name_any(), generation(&object));
                    sender.send(Ok(Seen { kind, name, generation, at: Instant::now() }))?;
                }
                WatchEvent::Deleted(object) => {
                    version = object.resource_version().context("an object has a version")?;
                }
                WatchEvent::Bookmark(bookmark) => version = bookmark.metadata.resource_version,
                WatchEvent::Error(status) => bail!("{status:?}"),
            }
        }
    }
}

async fn version_of(api: &Api<DynamicObject>) -> anyhow::Result<String> {
    let list = api.list_metadata(&ListParams::default().limit(1)).await?;
    list.metadata.resource_version.context("a list has a version")
}

/// The name of the `WebApp` with this number, and of its children.
pub(crate) fn name(number: usize) -> String {
    format!("app-{number:05}")
}

/// Creates the `WebApp`s with these numbers, as fast as the server accepts them.
pub(crate) async fn create(objects: &Objects, numbers: Range<usize>) -> anyhow::Result<()> {
    let api = objects.api("WebApp")?;
    let create = async |number: usize| {
        let spec = json!({"image": IMAGE, "replicas": 2, "port": 8080});
        let app = json!({
            "apiVersion": "apps.kubedojo.io/v1beta1", "kind": "WebApp", "metadata": {"name": name(number)}, "spec": spec,
        });
        api.create(&PostParams::default(), &serde_json::from_value(app)?).await?;
        anyhow::Ok(())
    };
    stream::iter(numbers).map(Ok).try_for_each_concurrent(CONCURRENT_REQUESTS_MAX, create).await
}

/// A Pod of about 4 KB, including the fields that the server adds.
pub(crate) fn pod(number: usize) -> Value {
    let labels = json!({"app": format!("app-{}", number / 10), "tier": "web", "pod-template-hash": "7c9d6f5b8"});
    let variables: Vec<_> =
        (0..12).map(|variable| json!({"name": format!("VARIABLE_{variable}"), "value": format!("{number}")})).collect();
    let container = json!({
        "name": "web", "image": "nginx:1.27", "env": variables, "ports": [{"containerPort": 8080}],
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": 8080}},
    });
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("pod-{number:06}"), "labels": labels},
        "spec": {"containers": [container], "nodeName": format!("node-{}", number % 100)},
    })
}

/// Sends a merge patch to each of `count` objects of a kind, and returns the time of each request. `pace` is the time
/// between two requests. `None` sends them as fast as the server accepts them.
pub(crate) async fn patch(
    objects: &Objects,
    kind: &str,
    count: usize,
    pace: Option<Duration>,
    patch: impl Fn(usize) -> Value,
) -> anyhow::Result<Vec<Instant>> {
    let api = objects.api(kind)?;
    let began = tokio::time::Instant::now();
    let send = |number: usize| {
        let (api, body) = (&api, patch(number));
        async move {
            if let Some(pace) = pace {
                tokio::time::sleep_until(began + pace * u32::try_from(number)?).await;
            }
            let sent = Instant::now();
            api.patch(&name(number), &PatchParams::default(), &Patch::Merge(body)).await?;
            anyhow::Ok(sent)
        }
    };
    // Requests are sent in order, so that each waits until its own time. A slow answer delays only the request 32
    // places after it.
    stream::iter(0..count).map(send).buffered(CONCURRENT_REQUESTS_MAX).try_collect().await
}

/// Changes the image of each `WebApp` at a pace, and returns the times until their Deployments changed, sorted.
pub(crate) async fn edit_each(
    objects: &Objects,
    watches: &mut Watches,
    count: usize,
    pace: Option<Duration>,
    image: &str,
) -> anyhow::Result<Vec<Duration>> {
    while watches.is_behind() {
        watches.next().await?;
    }
    let mut changed = BTreeMap::new();
    let body = json!({"spec": {"image": image}});
    let editing = patch(objects, "WebApp", count, pace, |_| body.clone());
    let watching = async {
        while changed.len() < count {
            let seen = watches.next().await?;
            if seen.kind == "Deployment" {
                // The first event after the change counts, because nothing else changes Deployments now.
                changed.entry(seen.name).or_insert(seen.at);
            }
        }
        anyhow::Ok(())
    };
    let (sent, ()) = futures::future::try_join(editing, watching).await?;
    let mut times: Vec<_> =
        sent.iter().enumerate().filter_map(|(number, sent)| Some(*changed.get(&name(number))? - *sent)).collect();
    times.sort_unstable();
    Ok(times)
}

/// The time below which `percent` percent of the times are; for a small number of times, the largest.
pub(crate) fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}
