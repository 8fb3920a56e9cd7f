//! The saving of JSON pointers, compared with whole objects, for a guest that lists 1,000 Pods in pages and reads three
//! fields of each.
//!
//! The guest `probe` does this (`cache.walk`) as any plugin would: it parses each object. The host's reads are real,
//! from a store that an informer fills from the embedded API server. `make bench`; docs/benchmarks.md has recorded
//! results.
#![allow(clippy::cast_precision_loss, reason = "figures for people")]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures the time of the world")]

// The Pods of the cache's benchmark.
#[allow(dead_code, reason = "the cache's benchmark needs more of it")]
#[path = "../../host/kube/benches/engine/corpus.rs"]
mod corpus;
#[allow(dead_code, reason = "other benchmarks need more of it")]
#[path = "support/mod.rs"]
mod support;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use windlass_core::cache::watch::WatchSpec;
use windlass_core::call::ports::{CallContext, Ports};
use windlass_core::object::{ObjectKey, ObjectKind};
use windlass_core::queue::outcome::CallResult;
use windlass_kube::Subscription;
use windlass_tests::paths;
use windlass_wasm::{CallLimits, Called, Plugin, Request, Sandbox, SandboxOptions};

use self::support::Cached;

const SEED: u64 = 20_261_121;
const PODS: usize = 1_000;
/// The number of measured calls of each kind, after two calls for the warm-up.
const MEASURED_CALLS: usize = 21;
const WARM_UP_CALLS: usize = 2;
const FIELDS: [&str; 3] = ["/spec/nodeName", "/status/phase", "/status/podIP"];

fn main() -> anyhow::Result<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(measure())
}

async fn measure() -> anyhow::Result<()> {
    let Cached { ports, cache, .. } = &Cached::start(WatchSpec::all(pod_kind()), PODS, fill).await?;
    let sandbox = Sandbox::new(SandboxOptions { threads: 1, concurrent_calls: 1, ..SandboxOptions::default() })?;
    let plugin = sandbox.load(&paths::guest("probe")?).await?;

    println!(
        "{PODS} Pods by pages of 500, {} fields of each looked at; medians of {MEASURED_CALLS} calls",
        FIELDS.len()
    );
    let idle = Walk { query: json!({"kind": {"apiVersion": "v1", "kind": "Pod"}, "labelSelector": "no=such"}) };
    let whole = Walk { query: json!({"kind": {"apiVersion": "v1", "kind": "Pod"}}) };
    let fields = Walk { query: json!({"kind": {"apiVersion": "v1", "kind": "Pod"}, "fields": FIELDS}) };
    for (name, walk) in [("none of them", idle), ("whole", whole), ("three fields", fields)] {
        println!("{name}: {}", walk.measure(&plugin, ports).await);
    }
    println!("they are {} bytes of text in all", bytes(cache));
    Ok(())
}

fn pod_kind() -> ObjectKind {
    ObjectKind::new("v1", "Pod")
}

/// Creates the Pods, with their statuses.
async fn fill(client: &Client) -> anyhow::Result<()> {
    let pods: Vec<Value> =
        corpus::pods(PODS, SEED).iter().map(|pod| serde_json::from_str(&pod.json)).collect::<Result<_, _>>()?;
    let text = |pod: &Value, field: &str| pod["metadata"][field].as_str().unwrap_or_default().to_owned();
    for name in pods.iter().map(|pod| text(pod, "namespace")).collect::<BTreeSet<_>>() {
        support::namespace(client, &name).await?;
    }
    for mut pod in pods {
        let api = support::api(client, Some(&text(&pod, "namespace")), "Pod", "pods");
        let status = json!({"status": pod["status"].take()});
        for of_the_server in ["managedFields", "resourceVersion", "uid", "ownerReferences"] {
            pod["metadata"][of_the_server].take();
        }
        pod["apiVersion"] = json!("v1");
        pod["kind"] = json!("Pod");
        let name = text(&pod, "name");
        support::create(&api, pod).await?;
        api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await?;
    }
    Ok(())
}

fn bytes(subscription: &Subscription) -> usize {
    subscription.store().all().iter().map(|pod| pod.text().len()).sum()
}

/// A list that the guest reads page by page.
struct Walk {
    query: Value,
}

impl Walk {
    async fn measure(&self, plugin: &Arc<Plugin>, ports: &Ports) -> String {
        let (mut cpu, mut wall) = (Vec::new(), Vec::new());
        for number in 0..MEASURED_CALLS + WARM_UP_CALLS {
            let began = Instant::now();
            let called = self.call(plugin, ports).await;
            assert_eq!(called.result, CallResult::Done);
            if number >= WARM_UP_CALLS {
                wall.push(began.elapsed());
                cpu.push(called.cpu);
            }
        }
        let (cpu, wall) = (median(cpu), median(wall));
        let each = cpu.as_secs_f64() * 1e6 / PODS as f64;
        format!("{:.2} ms of CPU, {each:.2} µs a Pod; {:.2} ms of time", milliseconds(cpu), milliseconds(wall))
    }

    async fn call(&self, plugin: &Arc<Plugin>, ports: &Ports) -> Called {
        let key = ObjectKey::namespaced("default", "probe");
        let steps = json!([{"id": "1", "call": "cache.walk", "query": self.query, "pointers": FIELDS}]);
        let probe = json!({
            "apiVersion": "probe.windlass.dev/v1", "kind": "Probe", "metadata": {"name": "probe", "generation": 1},
            "spec": {"run": "1", "always": true, "steps": steps},
        });
        let call = Arc::new(context(plugin, &key));
        let request = Request {
            controller: call.controller.clone(),
            key,
            uid: None,
            object: Some(probe.to_string().into()),
            deleting: false,
            attempt: 0,
            trace_id: call.trace_id.clone(),
        };
        plugin.reconcile(request, ports, call, CallLimits::default()).await
    }
}

fn context(plugin: &Arc<Plugin>, key: &ObjectKey) -> CallContext {
    CallContext {
        trace_id: "0af7651916cd43dd8448eb211c80319c".into(),
        ..CallContext::detached(
            support::principal(plugin.name().clone()),
            "probe",
            ObjectKind::new("probe.windlass.dev/v1", "Probe"),
            key.clone(),
        )
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
