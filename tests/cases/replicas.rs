//! Checks, by counting on the server, that no child is created or deleted in excess. The plugin `replicaset`, which has
//! no expectations of its own, runs behind a proxy that delays the events of its Pods by up to two seconds and loses
//! responses to its creations and deletions. Meanwhile, sets are scaled and Pods are deleted at random. `audit`
//! explains the count.
//!
//! `WINDLASS_REPLICAS=full` runs 200 operations. `WINDLASS_SEED=N` draws other operations.

pub(crate) mod audit;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures::future::try_join_all;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use windlass_proxy::{Fault, Loss, Match, RuleHandle, Verb};
use windlass_tests::children::{Entry, Parent, Recorder, uid};
use windlass_tests::host::Host;
use windlass_tests::proxied::Proxied;
use windlass_tests::server::{Kind, Server};
use windlass_tests::{paths, wait};

use audit::Figures;

const SEED: u64 = 20_261_121;
/// The longest delay of a Pod's event.
const EVENT_DELAY_MAX: Duration = Duration::from_secs(2);
/// The most replicas of a set.
const ASKED_REPLICAS_MAX: u64 = 8;

/// The size of the test.
#[derive(Clone, Copy, Debug)]
struct Form {
    /// The number of sets for each of the two paces.
    sets: usize,
    /// The number of operations on each set.
    operations: usize,
    lost_creations: f64,
    /// The share of responses to deletions that are lost. Each lost response delays its set by 20 s, until the server
    /// can no longer carry out the write.
    lost_deletions: f64,
    /// The longest that one operation may take.
    patience: Duration,
}

const SHORT: Form =
    Form { sets: 3, operations: 6, lost_creations: 0.2, lost_deletions: 0.0, patience: Duration::from_mins(1) };
const FULL: Form =
    Form { sets: 4, operations: 25, lost_creations: 0.2, lost_deletions: 0.05, patience: Duration::from_mins(5) };

/// The smallest size at which the count detects extra children.
const SHORTEST: Form = Form { sets: 2, operations: 3, ..SHORT };

/// The full size with ten times as many lost responses to deletions, each of which may take half a minute.
const FULL_OF_SURPLUS: Form = Form { lost_deletions: 0.005, ..FULL };

fn form(short: Form, full: Form) -> Form {
    if std::env::var("WINDLASS_REPLICAS").is_ok_and(|form| form == "full") { full } else { short }
}

/// How soon the operations on a set follow each other. This determines how they are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// Each operation starts when the set has as many Pods as it asks for, even if the host does not know this yet.
    /// Judged by need.
    Steady,
    /// Up to four operations at once. Judged by bounds.
    Hasty,
}

/// A directory with only the plugin `replicaset`.
pub(crate) fn plugin_directory() -> anyhow::Result<tempfile::TempDir> {
    let directory = tempfile::tempdir()?;
    std::fs::copy(paths::plugins()?.join("replicaset.wasm"), directory.path().join("replicaset.wasm"))?;
    Ok(directory)
}

/// A set whose Pods carry its name.
pub(crate) fn pod_set(name: &str, replicas: u64) -> Value {
    json!({
        "apiVersion": "examples.windlass.dev/v1", "kind": "PodSet", "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"set": name}},
            "template": {
                "metadata": {"labels": {"set": name}},
                "spec": {"containers": [{"name": "web", "image": "nginx"}]},
            },
        },
    })
}

/// The parts that the sets of one test share.
struct Stage<'a> {
    server: &'a Server,
    recorder: Recorder,
    form: Form,
    /// The UIDs of the Pods that the test deletes.
    by_hand: Mutex<BTreeSet<String>>,
}

/// One set and its course.
struct Course<'a> {
    stage: &'a Stage<'a>,
    name: String,
    uid: String,
    random: SmallRng,
    replicas: u64,
}

impl<'a> Course<'a> {
    async fn begin(stage: &'a Stage<'a>, name: String, seed: u64) -> anyhow::Result<Self> {
        let mut random = SmallRng::seed_from_u64(seed);
        let replicas = random.random_range(1..=ASKED_REPLICAS_MAX);
        let made = stage.server.objects().apply(&pod_set(&name, replicas)).await?;
        Ok(Self { stage, uid: uid(&made)?.to_owned(), name, random, replicas })
    }

    async fn steadily(mut self) -> anyhow::Result<Figures> {
        self.until_converged().await?;
        for _ in 0..self.stage.form.operations {
            self.operate().await?;
            self.until_converged().await?;
            if self.random.random_bool(0.3) {
                self.until_settled().await?;
            }
        }
        self.until_settled().await?;
        Ok(self.judged(audit::by_need))
    }

    async fn hastily(mut self) -> anyhow::Result<Figures> {
        let mut left = self.stage.form.operations;
        while left > 0 {
            let burst = self.random.random_range(1..=left.min(4));
            for _ in 0..burst {
                self.operate().await?;
            }
            left -= burst;
            self.until_settled().await?;
        }
        Ok(self.judged(audit::by_bounds))
    }

    async fn operate(&mut self) -> anyhow::Result<()> {
        match self.random.random_range(0..3) {
            0 if self.replicas < ASKED_REPLICAS_MAX => self.scale(self.replicas + 1..=ASKED_REPLICAS_MAX).await,
            1 if self.replicas > 0 => self.scale(0..=self.replicas - 1).await,
            _ => self.delete_some().await,
        }
    }

    async fn scale(&mut self, to: std::ops::RangeInclusive<u64>) -> anyhow::Result<()> {
        self.replicas = self.random.random_range(to);
        let patch = json!({"spec": {"replicas": self.replicas}});
        self.stage.server.objects().merge("PodSet", &self.name, &patch).await?;
        // Wait until the recorder has the new spec. Otherwise the old spec would look like the new one, already
        // fulfilled.
        let replicas = self.replicas;
        self.stage
            .recorder
            .until("the new spec is seen", &self.uid, wait::CONDITION_TIMEOUT, |it| it.asked == replicas)
            .await
    }

    async fn delete_some(&mut self) -> anyhow::Result<()> {
        let live: Vec<_> = self.stage.recorder.parent(&self.uid).live.into_iter().collect();
        let count = self.random.random_range(1..=3);
        let chosen: Vec<_> = live.sample(&mut self.random, count).cloned().collect();
        for child in chosen {
            let Some(name) = self.stage.recorder.name(&child) else { continue };
            self.stage.by_hand.lock().expect("nobody panics with it").insert(child.clone());
            if let Err(error) = self.stage.server.objects().delete("Pod", &name).await {
                // The host deleted the Pod first. Then the deletion counts as the host's, which makes no difference to
                // the bounds.
                ensure!(format!("{error:#}").contains("not found"), "{error:#}");
            }
            self.stage
                .recorder
                .until("the Pod goes", &self.uid, wait::CONDITION_TIMEOUT, |it| !it.live.contains(&child))
                .await?;
        }
        Ok(())
    }

    async fn until_converged(&self) -> anyhow::Result<()> {
        let patience = self.stage.form.patience;
        self.stage.recorder.until("the set has its Pods", &self.uid, patience, Parent::is_converged).await
    }

    async fn until_settled(&self) -> anyhow::Result<()> {
        let patience = self.stage.form.patience;
        let settled = |it: &Parent| it.is_converged() && it.is_reported();
        self.stage.recorder.until("the set has its Pods and says so", &self.uid, patience, settled).await
    }

    fn judged(&self, judge: fn(&[&Entry], &BTreeSet<String>) -> Figures) -> Figures {
        let entries = self.stage.recorder.entries();
        let own: Vec<_> = entries.iter().filter(|entry| entry.parent == self.uid).collect();
        judge(&own, &self.stage.by_hand.lock().expect("nobody panics with it"))
    }
}

/// The figures of a whole test.
#[derive(Debug)]
struct RunTotals {
    steady: Figures,
    hasty: Figures,
    delayed: u64,
    lost: u64,
}

impl RunTotals {
    fn surplus(&self) -> u64 {
        [self.steady, self.hasty].iter().map(|it| it.created_in_surplus + it.deleted_in_surplus).sum()
    }
}

fn seed() -> u64 {
    std::env::var("WINDLASS_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(SEED)
}

fn faults(proxy: &Proxied, form: Form) -> (RuleHandle, [RuleHandle; 2]) {
    let late =
        proxy.add(Fault::DelayEvents(Duration::ZERO..=EVENT_DELAY_MAX).on(Match::watches("pods.").agent("windlass/")));
    let lost = [(Verb::Create, form.lost_creations), (Verb::Delete, form.lost_deletions)].map(|(verb, probability)| {
        let requests = Match::verb(verb).resource("pods.").agent("windlass/");
        proxy.add(Fault::Lose(Loss::Reset).on(requests).with_probability(probability))
    });
    (late, lost)
}

async fn run_sets(kind: Kind, form: Form, arguments: &[&str]) -> anyhow::Result<RunTotals> {
    let (seed, begun) = (seed(), Instant::now());
    let server = Server::start(kind).await?;
    let proxy = Proxied::start(&server, seed).await?;
    let plugins = plugin_directory()?;
    let arguments = [&["--grants=manifest"], arguments].concat();
    let host = Host::run_with(proxy.kubeconfig(), server.objects().namespace(), plugins.path(), &arguments)?;
    host.says("controller started").await?;
    let recorder = Recorder::start(server.objects(), "PodSet", &["Pod"]).await?;
    let (late, lost) = faults(&proxy, form);
    let stage = Stage { server: &server, recorder, form, by_hand: Mutex::default() };

    let course = |pace: Pace, number: usize| {
        let name = format!("{pace:?}-{number}").to_lowercase();
        let own_seed = seed.wrapping_add(number as u64 * 2 + u64::from(pace == Pace::Hasty));
        let stage = &stage;
        async move {
            let course = Course::begin(stage, name.clone(), own_seed).await?;
            let ended = if pace == Pace::Steady { course.steadily().await } else { course.hastily().await };
            ended.map(|figures| (pace, figures)).with_context(|| name)
        }
    };
    let courses = [Pace::Steady, Pace::Hasty].into_iter().flat_map(|pace| (0..form.sets).map(move |at| (pace, at)));
    let ended = try_join_all(courses.map(|(pace, at)| course(pace, at))).await;
    let ended = ended.with_context(|| format!("the host logged:\n{}", host.log()))?;
    nothing_is_left_over(&stage).await?;

    let lost = lost.iter().map(RuleHandle::fired).sum();
    let mut totals = RunTotals { steady: Figures::default(), hasty: Figures::default(), delayed: late.fired(), lost };
    for (pace, figures) in ended {
        *(if pace == Pace::Steady { &mut totals.steady } else { &mut totals.hasty }) += figures;
    }
    let operations = 2 * form.sets * form.operations;
    println!(
        "figures: {kind:?} {arguments:?} seed {seed}: {operations} operations in {:.0?}: {totals:?}",
        begun.elapsed()
    );
    let status = host.terminate().await?;
    ensure!(status.success(), "SIGTERM must stop the host cleanly: {status}");
    Ok(totals)
}

/// Waits until the recorder knows each Pod of the namespace. Without expectations, a Pod may just have been created.
async fn nothing_is_left_over(stage: &Stage<'_>) -> anyhow::Result<()> {
    wait::until("the record knows all", || async {
        for pod in &stage.server.objects().list("Pod", "").await? {
            let is_live = pod["metadata"]["deletionTimestamp"].is_null();
            let known = stage.recorder.name(uid(pod)?);
            ensure!(!is_live || known.is_some(), "the record does not know {pod}");
        }
        Ok(())
    })
    .await
}

async fn never_one_too_many(kind: Kind) -> anyhow::Result<()> {
    let totals = run_sets(kind, form(SHORT, FULL), &[]).await?;
    assert_eq!(totals.surplus(), 0, "{totals:?}");
    assert!(totals.lost > 0 && totals.delayed > 0, "{totals:?}");
    Ok(())
}

/// Runs the operations with expectations switched off. The count must then show extra children.
async fn some_too_many_without_expectations(kind: Kind) -> anyhow::Result<()> {
    let totals =
        run_sets(kind, form(SHORTEST, FULL_OF_SURPLUS), &["--feature-gates=AutomaticExpectations=false"]).await?;
    assert!(totals.surplus() > 0, "{totals:?}");
    Ok(())
}

/// Two of the three Pods exist before the set does.
async fn orphans_and_strangers(kind: Kind) -> anyhow::Result<()> {
    let server = Server::start(kind).await?;
    let plugins = plugin_directory()?;
    let objects = server.objects();
    let host = Host::run(server.kubeconfig(), objects.namespace(), plugins.path())?;
    host.says("controller started").await?;
    let recorder = Recorder::start(objects, "PodSet", &["Pod"]).await?;
    // Start another host after the Pods exist, so that its first lists contain them. A host whose caches do not show a
    // Pod yet when the set arrives would create one more.
    ensure!(host.terminate().await?.success(), "it ends cleanly");
    for name in ["first", "second"] {
        let template = pod_set("web", 3)["spec"]["template"].clone();
        let mut orphan = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}});
        orphan["metadata"]["labels"] = template["metadata"]["labels"].clone();
        orphan["spec"] = template["spec"].clone();
        objects.apply(&orphan).await?;
    }
    let host = Host::run(server.kubeconfig(), objects.namespace(), plugins.path())?;
    host.says("controller started").await?;
    let made = objects.apply(&pod_set("web", 3)).await?;
    let settled = |it: &Parent| it.is_converged() && it.is_reported();
    recorder.until("the set has three Pods", uid(&made)?, wait::CONDITION_TIMEOUT, settled).await?;
    let pods = objects.list("Pod", "").await?;
    assert_eq!(pods.len(), 3, "two were adopted and one was made: {pods:#?}");

    let second =
        uid(&objects.merge("Pod", "second", &json!({"metadata": {"labels": {"set": "other"}}})).await?)?.to_owned();
    let replaced = |it: &Parent| settled(it) && !it.live.contains(&second);
    recorder.until("the stranger is replaced", uid(&made)?, wait::CONDITION_TIMEOUT, replaced).await?;
    let second = objects.get("Pod", "second").await?.context("it stays")?;
    assert_eq!(second["metadata"]["ownerReferences"].as_array().map_or(0, Vec::len), 0, "{second}");
    Ok(())
}

/// Another client has already made the change that the plugin wants, but the cache does not show it yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_another_client_deleted_first_is_no_failure() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    let (objects, proxy) = (server.objects(), Proxied::start(&server, SEED).await?);
    let plugins = plugin_directory()?;
    let host = Host::run_with(
        proxy.kubeconfig(),
        objects.namespace(),
        plugins.path(),
        &["--grants=manifest", "--log-level", "windlass::audit=debug,info"],
    )?;
    host.says("controller started").await?;
    let recorder = Recorder::start(objects, "PodSet", &["Pod"]).await?;
    let made = objects.apply(&pod_set("web", 1)).await?;
    let settled = |it: &Parent| it.is_converged() && it.is_reported();
    recorder.until("the set has its Pod", uid(&made)?, wait::CONDITION_TIMEOUT, settled).await?;

    let held = proxy.add(Fault::Hold.on(Match::watches("pods.").agent("windlass/")));
    let pods = objects.list("Pod", "").await?;
    objects.delete("Pod", pods[0]["metadata"]["name"].as_str().context("a name")?).await?;
    objects.merge("PodSet", "web", &json!({"spec": {"replicas": 0}})).await?;
    host.says("code=404 outcome=refused").await?;
    held.remove();
    recorder.until("the set has none", uid(&made)?, wait::CONDITION_TIMEOUT, settled).await?;
    assert!(!host.log().contains("the call failed"), "{}", host.log());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn orphans_are_adopted_and_strangers_released_on_the_embedded_server() -> anyhow::Result<()> {
    orphans_and_strangers(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn orphans_are_adopted_and_strangers_released_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    orphans_and_strangers(Kind::Real).await
}

#[tokio::test(flavor = "multi_thread")]
async fn no_child_too_many_is_created_or_deleted_on_the_embedded_server() -> anyhow::Result<()> {
    never_one_too_many(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn no_child_too_many_is_created_or_deleted_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    never_one_too_many(Kind::Real).await
}

#[tokio::test(flavor = "multi_thread")]
async fn disabling_expectations_makes_extra_children_on_the_embedded_server() -> anyhow::Result<()> {
    some_too_many_without_expectations(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn disabling_expectations_makes_extra_children_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    some_too_many_without_expectations(Kind::Real).await
}
