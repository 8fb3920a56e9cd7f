//! Bad weather for minutes: every answer of the server may fail, replicas are killed, the server goes away and comes back,
//! plugins are swapped, children are edited and deleted by hand, and users go on changing things. Then it ends, and soon all
//! is as it should be.
//!
//! Short by default. `WINDLASS_WEATHER=full` is a quarter of an hour of it, `WINDLASS_WEATHER=SECONDS` as full but shorter;
//! `WINDLASS_SEED=N` is other weather, and `WINDLASS_WEATHER_LOGS=1` keeps the replicas' logs though all is well. The seed decides the fate of the n-th write and of the n-th read, and what users do; in
//! which order that meets is up to the machine.

mod fleet;
mod form;
mod lines;
mod truth;
mod users;
mod watched;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use futures::StreamExt as _;
use futures::TryStreamExt as _;
use futures::stream;
use tokio::time::sleep_until;
use windlass_proxy::{Fault, Loss, Match, Weather};
use windlass_tests::cluster::OwnCluster;
use windlass_tests::proxied::Proxied;
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::{until, until_within};

use self::fleet::Fleet;
use self::form::{Blow, Form};
use self::users::{Users, scale, webapp, webapp_name};
use self::watched::{Watched, Watching, percentile};
use crate::replicas::pod_set;

const SEED: u64 = 20_261_123;

/// How long the embedded server is away. It cannot be killed without losing its state.
const AWAY: Duration = Duration::from_secs(3);

/// Enough for what is no bar of the story: other things may run on the machine.
const PATIENCE: Duration = Duration::from_mins(4);

/// How many users at once change what must be changed soon.
const AT_ONCE: usize = 16;

/// The server, the way to it, and the replicas behind that.
struct Scene {
    form: Form,
    seed: u64,
    server: Server,
    /// None: the embedded server.
    cluster: Option<OwnCluster>,
    way: Proxied,
    fleet: Fleet,
    watched: Arc<Watched>,
    _watching: Watching,
}

fn seed() -> anyhow::Result<u64> {
    std::env::var("WINDLASS_SEED").map_or(Ok(SEED), |text| text.parse().context("WINDLASS_SEED"))
}

async fn bad_weather(kind: Kind) -> anyhow::Result<()> {
    let (form, seed) = (Form::chosen()?, seed()?);
    let cluster = if kind == Kind::Real { Some(OwnCluster::start(&[]).await?) } else { None };
    let server = match &cluster {
        Some(cluster) => Server::join(cluster.running()?).await?,
        None => Server::start(kind).await?,
    };
    server.install_webapp().await?;
    let way = Proxied::start(&server, seed).await?;
    let fleet = Fleet::start(way.kubeconfig(), server.objects().namespace(), &form).await?;
    let objects = server.objects();
    until("the kinds are served", || objects.list("PodSet", "")).await?;
    let (watched, watching) = Watched::start(objects)?;
    let mut scene = Scene { form, seed, server, cluster, way, fleet, watched, _watching: watching };
    let ended = scene.run().await;
    if std::env::var_os("WINDLASS_WEATHER_LOGS").is_some() {
        println!("{}", scene.saved(kind));
    }
    ended.with_context(|| scene.saved(kind))?;
    scene.fleet.stop().await
}

impl Scene {
    async fn run(&mut self) -> anyhow::Result<()> {
        let kind = self.server.kind;
        self.make().await?;
        if self.form.measures {
            self.compare_throughput().await?;
        }
        let remembered = self.rage().await?;
        let took = self.converges("after the weather", self.form.patience).await?;
        println!("figures: {kind:?}: converged {:.1} s after the weather", took.as_secs_f64());
        self.fleet.is_healthy().await?;
        self.judge_memory(remembered)?;
        self.judge_lines()
    }

    /// How many changes are reconciled while one write of a plugin in twenty has an unknown outcome, and while none has.
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
        self.converges("before the weather", PATIENCE).await?;
        Ok(())
    }

    /// Makes the primaries, in fair weather.
    async fn make(&self) -> anyhow::Result<()> {
        let objects = self.server.objects();
        let began = Instant::now();
        let apps = (0..self.form.webapps).map(|number| webapp(number, 1));
        let sets = (0..self.form.sets).map(|number| pod_set(&users::set_name(number), 2));
        let all = apps.chain(sets).map(|object| async move { objects.apply(&object).await.map(|_| ()) });
        stream::iter(all).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        self.converges("as made", PATIENCE).await?;
        println!("figures: {:?}: all made in {:.1?}", self.server.kind, began.elapsed());
        Ok(())
    }

    async fn converges(&self, when: &str, patience: Duration) -> anyhow::Result<Duration> {
        let began = Instant::now();
        let Form { webapps, sets, .. } = self.form;
        let what = format!("everything is as it should be {when}");
        until_within(patience, &what, || truth::holds(self.server.objects(), webapps, sets)).await?;
        Ok(began.elapsed())
    }

    /// How many changes a second are reconciled if all `WebApp`s are scaled at once. What counts is the time until four in five
    /// are: a change whose outcome is unknown waits until it is known, and must not hold up the others.
    async fn throughput(&self, replicas: u64) -> anyhow::Result<f64> {
        let objects = self.server.objects();
        self.watched.take();
        let began = Instant::now();
        let all = (0..self.form.webapps)
            .map(|number| async move { scale(objects, &self.watched, "WebApp", &webapp_name(number), replicas).await });
        stream::iter(all).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        let enough = self.form.webapps * 4 / 5;
        until_within(PATIENCE, "four in five changes are reconciled", || async {
            let reconciled = self.watched.reconciled();
            if reconciled >= enough { Ok(()) } else { Err(reconciled) }
        })
        .await?;
        let took = began.elapsed();
        #[allow(clippy::cast_precision_loss, reason = "some hundreds")]
        let rate = enough as f64 / took.as_secs_f64();
        Ok(rate)
    }

    /// The weather, from its beginning to its end. Returns the elder's memory when it had settled.
    async fn rage(&mut self) -> anyhow::Result<Option<u64>> {
        let form = self.form.clone();
        self.watched.take();
        let end = Arc::<AtomicBool>::default();
        let objects = self.server.objects().clone();
        let users = Users::new(objects, Arc::clone(&self.watched), self.seed, form.webapps, form.sets);
        let began = tokio::time::Instant::now();
        let spell = self.way.begin(&Weather::new(form.rate).slow(form.slow.clone()));
        let using = tokio::spawn(users.run(form.pace, Arc::clone(&end)));
        let mut remembered = None;
        for (at, blow) in form.blows() {
            sleep_until(began + at).await;
            match blow {
                Blow::Kill => self.fleet.kill().await?,
                Blow::Swap => self.fleet.swap()?,
                Blow::Outage => self.outage().await?,
                Blow::Look => remembered = Some(self.fleet.memory()?),
            }
        }
        sleep_until(began + form.lasts).await;
        end.store(true, Ordering::Relaxed);
        let deeds = using.await?;
        let (kind, seconds) = (self.server.kind, began.elapsed().as_secs());
        println!(
            "figures: {kind:?}: seed {}: {seconds} s of {spell}; {} kills, {} outages, {} swaps; {deeds:?}",
            self.seed,
            self.fleet.kills(),
            form.outages,
            self.fleet.swaps()
        );
        let (took, late) = self.watched.take();
        let [p50, p99, most] = [50, 99, 100].map(|percent| percentile(&took, percent));
        println!(
            "figures: {kind:?}: from a change to its reconcile in the weather: p50 {p50:.1?}, p99 {p99:.1?}, at most {most:.1?}, \
             of {}; {late} not yet at its end",
            took.len()
        );
        drop(spell);
        Ok(remembered)
    }

    /// The server is killed and started again; it remembers no history.
    async fn outage(&mut self) -> anyhow::Result<()> {
        if let Some(cluster) = &mut self.cluster {
            return cluster.restart().await;
        }
        self.way.go_dark();
        self.server.embedded().context("the embedded server")?.compact();
        sleep_until(tokio::time::Instant::now() + AWAY).await;
        self.way.come_back();
        Ok(())
    }

    fn judge_memory(&self, remembered: Option<u64>) -> anyhow::Result<()> {
        let now = self.fleet.memory()?;
        println!("figures: {:?}: the elder has {now} KiB; {remembered:?} when it had settled", self.server.kind);
        let Some(before) = remembered else { return Ok(()) };
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

    /// Writes the replicas' logs to files. Says where, and all that brings this weather back.
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

#[tokio::test(flavor = "multi_thread")]
async fn after_bad_weather_all_is_as_it_should_be_on_the_embedded_server() -> anyhow::Result<()> {
    bad_weather(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn after_bad_weather_all_is_as_it_should_be_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    bad_weather(Kind::Real).await
}
