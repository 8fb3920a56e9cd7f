//! Bad weather for minutes. Every response of the server may fail, watches lag, replicas are killed, and the server
//! goes away and returns. Plugins are swapped for versions with other watches, some of which trap and are rolled back.
//! Children are edited and deleted by hand, and users keep changing primaries. In the middle of the full form, etcd is
//! restored from a backup. Then the bad weather ends, and soon all objects must be as wanted. Finally every primary is
//! edited once more, and must be reconciled soon: no key is lost.
//!
//! The form is short by default. `WINDLASS_WEATHER=full` takes a quarter of an hour, and `WINDLASS_WEATHER=SECONDS`
//! runs the full form for this many seconds. `WINDLASS_SEED=N` draws different weather, and `WINDLASS_WEATHER_LOGS=1`
//! keeps the replicas' logs even if the test passes. The seed decides what happens to the n-th write and to the n-th
//! read, and what users do, but not how these interleave.

mod alive;
mod fleet;
mod form;
mod going_back;
mod lag;
mod lines;
mod swaps;
mod truth;
mod users;
mod versions;
mod watched;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use futures::StreamExt as _;
use futures::TryStreamExt as _;
use futures::stream;
use serde_json::json;
use tokio::sync::Mutex;
use tokio::time::sleep_until;
use windlass_proxy::{Fault, Loss, Match, Weather};
use windlass_tests::cluster::OwnCluster;
use windlass_tests::objects::{self, Objects};
use windlass_tests::paths;
use windlass_tests::proxied::Proxied;
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::{until, until_within};

use self::fleet::Fleet;
use self::form::{Blow, Form};
use self::going_back::GoneBack;
use self::lag::Lag;
use self::users::{Known, Users, scale, webapp, webapp_name};
use self::watched::{Watched, Watching, percentile};
use crate::replicas::pod_set;

const WEATHER_SEED: u64 = 20_261_123;

/// How long the embedded server is unavailable. It cannot be killed without losing its state.
const SERVER_AWAY_TIME: Duration = Duration::from_secs(3);

/// The limit is generous, because the machine may be busy. The story does not measure this time.
const WEATHER_TIMEOUT: Duration = Duration::from_mins(4);

/// The number of users that make changes at once.
const CONCURRENT_URGENT_CHANGES: usize = 16;

/// The server, the proxy, and the replicas behind it.
struct Scene {
    form: Form,
    seed: u64,
    server: Server,
    /// `None` for the embedded server.
    cluster: Option<OwnCluster>,
    way: Proxied,
    fleet: Fleet,
    known: Arc<Mutex<Known>>,
    watched: Arc<Watched>,
    _watching: Watching,
    lag: Lag,
    /// `None` if etcd was not restored.
    gone_back: Option<GoneBack>,
    /// The elder replica's memory after the host had settled.
    settled: Option<u64>,
}

fn seed() -> anyhow::Result<u64> {
    std::env::var("WINDLASS_SEED").map_or(Ok(WEATHER_SEED), |text| text.parse().context("WINDLASS_SEED"))
}

async fn bad_weather(kind: Kind) -> anyhow::Result<()> {
    let (form, seed) = (Form::chosen()?, seed()?);
    let cluster = if kind == Kind::Real { Some(OwnCluster::start(&[]).await?) } else { None };
    let server = match &cluster {
        Some(cluster) => Server::join(cluster.running()?).await?,
        None => Server::start(kind).await?,
    };
    server.install_webapp().await?;
    serve_another_version(server.objects()).await?;
    let way = Proxied::start(&server, seed).await?;
    let fleet = Fleet::start(way.kubeconfig(), server.objects().namespace(), &form).await?;
    let objects = server.objects();
    until("the kinds are served", || objects.list("PodSet", "")).await?;
    let (watched, watching) = Watched::start(objects)?;
    let mut scene = Scene {
        form,
        seed,
        server,
        cluster,
        way,
        fleet,
        known: Arc::default(),
        watched,
        _watching: watching,
        lag: Lag::default(),
        gone_back: None,
        settled: None,
    };
    let ended = scene.run().await;
    if std::env::var_os("WINDLASS_WEATHER_LOGS").is_some() {
        println!("{}", scene.saved(kind));
    }
    ended.with_context(|| scene.saved(kind))?;
    scene.fleet.stop().await
}

/// Makes the server also serve [`versions::OTHER_API_VERSION`] of the WebApp API, with the same schema.
async fn serve_another_version(objects: &Objects) -> anyhow::Result<()> {
    for mut definition in objects::documents(&paths::example("crd.yaml"))? {
        let versions = definition["spec"]["versions"].as_array_mut().context("versions")?;
        let mut other = versions.first().context("a version")?.clone();
        other["name"] = json!(versions::OTHER_API_VERSION);
        other["storage"] = json!(false);
        versions.push(other);
        objects.apply(&definition).await?;
    }
    Ok(())
}

impl Scene {
    async fn run(&mut self) -> anyhow::Result<()> {
        let kind = self.server.kind;
        self.make().await?;
        if self.form.measures {
            self.compare_throughput().await?;
        }
        self.rage().await?;
        let took = self.converges("after the weather", self.form.patience).await?;
        println!("figures: {kind:?}: converged {:.1} s after the weather", took.as_secs_f64());
        self.swap_in_calm().await?;
        let took = alive::each_follows(self.server.objects(), &self.watched, self.form.follows).await?;
        println!("figures: {kind:?}: from an edit of each primary to its reconcile: {}", spread(&took));
        self.fleet.is_healthy().await?;
        self.judge_memory()?;
        self.judge_lines()
    }

    /// Compares the rates at which changes are reconciled: without faults, and while one write of a plugin in twenty
    /// has an unknown outcome.
    async fn compare_throughput(&self) -> anyhow::Result<()> {
        let kind = self.server.kind;
        let fair = self.throughput(2).await?;
        let unknown = Fault::Lose(Loss::Error).on(Match::writes().agent("(webapp@")).with_probability(0.05);
        let unknown = self.way.add(unknown);
        let foul = self.throughput(3).await?;
        println!(
            "figures: {kind:?}: {fair:.1} changes a second; {foul:.1} with {} unknown outcomes, which is {:.2} of it",
            unknown.fired(),
            foul / fair
        );
        unknown.remove();
        self.converges("before the weather", WEATHER_TIMEOUT).await?;
        Ok(())
    }

    /// Creates the primaries, without faults.
    async fn make(&self) -> anyhow::Result<()> {
        let objects = self.server.objects();
        let began = Instant::now();
        let apps = (0..self.form.webapps).map(|number| webapp(number, 1));
        let sets = (0..self.form.sets).map(|number| pod_set(&users::set_name(number), 2));
        let all = apps.chain(sets).map(|object| async move { objects.apply(&object).await.map(|_| ()) });
        stream::iter(all).buffer_unordered(CONCURRENT_URGENT_CHANGES).try_collect::<()>().await?;
        self.known.lock().await.look(objects).await?;
        self.converges("as made", WEATHER_TIMEOUT).await?;
        println!("figures: {:?}: all made in {:.1?}", self.server.kind, began.elapsed());
        Ok(())
    }

    async fn converges(&self, when: &str, patience: Duration) -> anyhow::Result<Duration> {
        let began = Instant::now();
        let known = self.known.lock().await;
        let what = format!("everything is as it should be {when}");
        until_within(patience, &what, || truth::holds(self.server.objects(), &known)).await?;
        Ok(began.elapsed())
    }

    /// The rate at which changes are reconciled if all `WebApp`s are scaled at once. It is measured until four in five
    /// are reconciled: a change with an unknown outcome waits until the outcome is known, and must not delay the
    /// others.
    async fn throughput(&self, replicas: u64) -> anyhow::Result<f64> {
        let objects = self.server.objects();
        self.watched.take();
        let began = Instant::now();
        let all = (0..self.form.webapps)
            .map(|number| async move { scale(objects, &self.watched, "WebApp", &webapp_name(number), replicas).await });
        stream::iter(all).buffer_unordered(CONCURRENT_URGENT_CHANGES).try_collect::<Vec<_>>().await?;
        let enough = self.form.webapps * 4 / 5;
        until_within(WEATHER_TIMEOUT, "four in five changes are reconciled", || async {
            let reconciled = self.watched.reconciled();
            if reconciled >= enough { Ok(()) } else { Err(reconciled) }
        })
        .await?;
        let took = began.elapsed();
        #[allow(clippy::cast_precision_loss, reason = "some hundreds")]
        let rate = enough as f64 / took.as_secs_f64();
        Ok(rate)
    }

    /// Runs the bad weather from its beginning to its end.
    async fn rage(&mut self) -> anyhow::Result<()> {
        let form = self.form.clone();
        self.watched.take();
        let end = Arc::<AtomicBool>::default();
        let (objects, known) = (self.server.objects().clone(), Arc::clone(&self.known));
        let users = Users::new(objects, Arc::clone(&self.watched), known, self.seed).await;
        let began = tokio::time::Instant::now();
        let spell = self.way.begin(&Weather::new(form.rate).slow(form.slow.clone()));
        let using = tokio::spawn(users.run(form.pace, Arc::clone(&end)));
        for (at, blow) in form.blows() {
            sleep_until(began + at).await;
            self.strike(blow).await.with_context(|| format!("{blow:?} after {at:?}"))?;
        }
        sleep_until(began + form.lasts).await;
        end.store(true, Ordering::Relaxed);
        let deeds = using.await?;
        let (kind, seconds, swaps) = (self.server.kind, began.elapsed().as_secs(), self.fleet.swaps());
        println!(
            "figures: {kind:?}: seed {}: {seconds} s of {spell}, {} events late; {} kills, {} outages, {swaps:?}; {deeds:?}",
            self.seed,
            self.lag.late_events(),
            self.fleet.kills(),
            form.outages,
        );
        if let Some(gone_back) = &self.gone_back {
            println!(
                "figures: {kind:?}: etcd went back by {:?}: {}",
                form.goes_back.unwrap_or_default(),
                gone_back.aftermath(&self.way)
            );
        }
        let (took, late) = self.watched.take();
        println!(
            "figures: {kind:?}: from a change to its reconcile in the weather: {}; {late} not yet at its end",
            spread(&took)
        );
        drop(spell);
        Ok(())
    }

    async fn strike(&mut self, blow: Blow) -> anyhow::Result<()> {
        match blow {
            Blow::Kill => self.fleet.kill().await,
            Blow::Swap => self.swap_in_weather().await,
            Blow::Outage => self.outage().await,
            Blow::BackUp => self.back_up().await,
            Blow::Restore => self.restore().await,
            Blow::CatchUp => {
                self.lag.end();
                Ok(())
            }
            Blow::Look => {
                self.settled = Some(self.fleet.memory()?);
                Ok(())
            }
        }
    }

    /// Kills the server and starts it again. It loses its history.
    async fn outage(&mut self) -> anyhow::Result<()> {
        if let Some(cluster) = &mut self.cluster {
            return cluster.restart().await;
        }
        self.way.go_dark();
        self.server.embedded().context("the embedded server")?.compact();
        sleep_until(tokio::time::Instant::now() + SERVER_AWAY_TIME).await;
        self.way.come_back();
        Ok(())
    }

    /// Backs up etcd. The embedded server has none.
    async fn back_up(&mut self) -> anyhow::Result<()> {
        match &mut self.cluster {
            Some(cluster) => cluster.back_up().await,
            None => Ok(()),
        }
    }

    /// Restores etcd from the backup. Users pause meanwhile, and then look which objects exist.
    async fn restore(&mut self) -> anyhow::Result<()> {
        let Some(cluster) = &mut self.cluster else { return Ok(()) };
        let mut known = self.known.lock().await;
        let before = known.clone();
        cluster.restore().await?;
        self.watched.forget_all();
        known.look(self.server.objects()).await?;
        self.gone_back = Some(GoneBack::new(&before, &known, &self.way));
        Ok(())
    }

    fn judge_memory(&self) -> anyhow::Result<()> {
        let (now, settled) = (self.fleet.memory()?, self.settled);
        println!("figures: {:?}: the elder has {now} KiB; {settled:?} when it had settled", self.server.kind);
        let Some(before) = settled else { return Ok(()) };
        ensure!(now * 10 <= before * 11, "its memory grew by more than a tenth: from {before} to {now} KiB");
        Ok(())
    }

    fn judge_lines(&self) -> anyhow::Result<()> {
        let logs = self.fleet.logs();
        for log in &logs {
            ensure!(!log.text.contains("panicked"), "{} panicked", log.of);
        }
        let judgement = lines::judge(&logs);
        print!("{judgement}");
        let faults = judgement.faults();
        ensure!(faults.is_empty(), "lines that do not help an operator:\n{}", faults.join("\n"));
        Ok(())
    }

    /// Writes the replicas' logs to files. Returns the place of the files, and the settings that reproduce this
    /// weather.
    fn saved(&self, kind: Kind) -> String {
        let save = || -> anyhow::Result<PathBuf> {
            let directory = tempfile::Builder::new().prefix("windlass-weather-").tempdir()?.keep();
            for log in self.fleet.logs() {
                std::fs::write(directory.join(format!("{}.log", log.of)), log.text)?;
            }
            Ok(directory)
        };
        format!("seed {}, {kind:?} server, {:?}; the replicas' logs are in {:?}", self.seed, self.form, save())
    }
}

/// The times that changes took, shortest first.
fn spread(took: &[Duration]) -> String {
    let [p50, p99, most] = [50, 99, 100].map(|percent| percentile(took, percent));
    format!("p50 {p50:.1?}, p99 {p99:.1?}, at most {most:.1?}, of {}", took.len())
}

#[tokio::test(flavor = "multi_thread")]
async fn after_bad_weather_all_plugins_have_converged_on_the_embedded_server() -> anyhow::Result<()> {
    bad_weather(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn after_bad_weather_all_plugins_have_converged_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    bad_weather(Kind::Real).await
}
