//! Runs informers under a storm, in this process, behind a proxy that disturbs their requests to the server.
//! Afterwards, stores and indexes must equal live lists, and every subscriber must have received each event once.
//!
//! Several writers change `ConfigMap`s directly and keep a ledger; subscribers come and go meanwhile. The short form
//! runs with all tests, and `WINDLASS_STORM=full` is for `docs/soak`. `WINDLASS_SEED` sets another seed. The seed
//! decides what writers, proxy and subscribers do, but on a busy machine not the order in which their actions
//! interleave.

mod crowd;
mod ledger;
mod replay;
mod view;
mod weather;
mod writer;

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::sleep;
use windlass_kube::{ConnectOptions, Discovery, InformerOptions, Informers, Subscription, client};
use windlass_proxy::{Match, Verb};
use windlass_tests::busy;
use windlass_tests::cluster::OwnCluster;
use windlass_tests::proxied::Proxied;
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::until;

use self::crowd::Crowd;
use self::replay::Stay;
use self::view::{Live, View};
use self::weather::{Figures, Forecast, Weather};
use self::writer::{Desk, Writer};

/// The page size of an informer's list.
const PAGE_OBJECTS_MAX: usize = 500;
const OWNERS: usize = 8;

/// The size of a storm.
#[derive(Clone, Debug)]
struct Size {
    objects: usize,
    writers: usize,
    /// The storm lasts until this many writes were made and this much time has passed.
    writes: u64,
    time: Duration,
    /// The time between two faults.
    pace: RangeInclusive<Duration>,
}

impl Size {
    fn chosen() -> Self {
        let pace = |least, most| Duration::from_millis(least)..=Duration::from_millis(most);
        if std::env::var("WINDLASS_STORM").is_ok_and(|size| size == "full") {
            Self { objects: 5_000, writers: 8, writes: 5_000, time: Duration::from_mins(1), pace: pace(10, 150) }
        } else {
            Self { objects: 500, writers: 4, writes: 1_000, time: Duration::ZERO, pace: pace(2, 30) }
        }
    }

    /// The number of pages of the longest list.
    fn pages(&self) -> u64 {
        (self.objects + OWNERS).div_ceil(PAGE_OBJECTS_MAX) as u64
    }
}

#[derive(Clone, Copy, Debug)]
struct Plan {
    forecast: Forecast,
    streaming: bool,
    /// The number of times that the server is killed.
    kills: u64,
}

/// The parts that all tasks of a storm share.
struct Storm {
    seed: u64,
    size: Size,
    plan: Plan,
    server: Server,
    cluster: Option<OwnCluster>,
    views: Vec<View>,
    desk: Arc<Desk>,
    owners: Arc<[(String, String)]>,
    random: SmallRng,
    compactions: u64,
}

fn seed(usual: u64) -> anyhow::Result<u64> {
    std::env::var("WINDLASS_SEED").map_or(Ok(usual), |text| text.parse().context("WINDLASS_SEED"))
}

async fn storm(server: Server, cluster: Option<OwnCluster>, plan: Plan) -> anyhow::Result<()> {
    let seed = seed(20_261_121)?;
    let (kind, size) = (server.kind, Size::chosen());
    let storm = Storm {
        seed,
        size: size.clone(),
        plan,
        views: View::all(server.objects().namespace()),
        server,
        cluster,
        desk: Arc::default(),
        owners: Arc::from([]),
        random: SmallRng::seed_from_u64(seed),
        compactions: 0,
    };
    storm.run().await.with_context(|| format!("seed {seed}, {kind:?} server, {plan:?}, {size:?}"))
}

impl Storm {
    async fn run(mut self) -> anyhow::Result<()> {
        let began = Instant::now();
        let proxy = Proxied::start(&self.server, self.seed).await?;
        self.owners = self.make_owners().await?;
        let writers = self.filled_writers().await?;
        let mut pages = 0;
        for view in &self.views {
            pages += view.live(self.server.objects()).await?.len().div_ceil(PAGE_OBJECTS_MAX) as u64;
        }

        let informers = self.informers(&proxy).await?;
        let (mut crowd, observers) = Crowd::open(&informers, &self.views).await?;
        let storm_began = Instant::now();
        let figures = self.rage(&proxy, &mut crowd, writers).await?;
        let lasted = storm_began.elapsed();

        let mut objects = 0;
        for (view, observer) in self.views.iter().zip(&observers) {
            let live = view.live(self.server.objects()).await?;
            objects += live.len();
            caught_up(&informers, view, observer, &live).await?;
            view.check(observer.store(), &live, &self.owners).with_context(|| format!("the store of {}", view.spec))?;
        }
        self.check_lists(&proxy, &observers, &figures, pages)?;
        let told = self.check_crowd(crowd, &observers).await?;
        let lists: Vec<_> = observers.iter().map(|it| it.status().lists).collect();
        println!(
            "figures: {:?}, {:?}: {} writes in {lasted:.1?}, {:.1?} in all; {objects} objects in the end; {figures}, {} \
             compactions; lists {lists:?}, asked for {}; watches asked for {}; {told}",
            self.server.kind,
            self.plan,
            self.desk.written.load(Ordering::Relaxed),
            began.elapsed(),
            self.compactions,
            proxy.count(&lists_of()),
            proxy.count(&Match::watches("configmaps")),
        );
        Ok(())
    }

    /// Objects that are never changed, so that the garbage collector leaves their dependents alone.
    async fn make_owners(&self) -> anyhow::Result<Arc<[(String, String)]>> {
        let mut owners = Vec::new();
        for number in 0..OWNERS {
            let name = format!("owner-{number}");
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
            let object = self.server.objects().apply(&object).await?;
            self.desk.ledger.lock().expect("no panic").wrote(&object)?;
            owners.push((object["metadata"]["uid"].as_str().context("a UID")?.to_owned(), name));
        }
        Ok(owners.into())
    }

    async fn filled_writers(&self) -> anyhow::Result<Vec<Writer>> {
        let mut filling = JoinSet::new();
        for number in 0..self.size.writers {
            let count = self.size.objects / self.size.writers;
            let objects = self.server.objects().clone();
            let may_lose = self.plan.kills > 0;
            let mut writer = Writer::new(objects, &self.desk, self.seed, number as u64, &self.owners, count, may_lose);
            filling.spawn(async move { writer.fill().await.map(|()| writer) });
        }
        filling.join_all().await.into_iter().collect()
    }

    async fn informers(&self, proxy: &Proxied) -> anyhow::Result<Informers> {
        let options = ConnectOptions { kubeconfig: Some(proxy.kubeconfig().to_owned()), ..ConnectOptions::default() };
        let connection = client::connect(&options).await?;
        let options = InformerOptions {
            streaming_lists: self.plan.streaming,
            cold_after: Some(Duration::from_secs(1)),
            reachability: connection.reachability.clone(),
            ..InformerOptions::default()
        };
        let discovery = Discovery::new(connection.client.clone()).compare_versions(true);
        Ok(Informers::with_options(connection.client, discovery, options))
    }

    /// Runs the writers while faults occur. When this returns, all faults have ended.
    async fn rage(&mut self, proxy: &Proxied, crowd: &mut Crowd, writers: Vec<Writer>) -> anyhow::Result<Figures> {
        let mut weather = Weather::begin(proxy, self.plan.forecast, self.size.pages());
        let mut writing = JoinSet::new();
        let (began, Size { writes, time, .. }) = (Instant::now(), self.size.clone());
        for writer in writers {
            writing.spawn(writer.run(move |written| written >= writes && began.elapsed() >= time));
        }
        let mut killed = 0;
        loop {
            let pause = sleep(self.random.random_range(self.size.pace.clone()));
            tokio::select! {
                () = pause => {}
                ended = writing.join_next() => match ended {
                    Some(ended) => ended??,
                    None => break,
                },
            }
            self.happen(crowd, &mut weather).await?;
            // Kill the server at even intervals: of writes or of time, whichever takes longer.
            let share = (killed + 1, self.plan.kills + 1);
            let written = self.desk.written.load(Ordering::Relaxed) * share.1 >= writes * share.0;
            let due = began.elapsed() * u32::try_from(share.1)? >= time * u32::try_from(share.0)?;
            if let Some(cluster) = self.cluster.as_mut().filter(|_| killed < self.plan.kills && written && due) {
                cluster.restart().await?;
                killed += 1;
            }
        }
        ensure!(killed == self.plan.kills, "the server was killed {killed} times");
        Ok(weather.end())
    }

    /// Injects one fault, or lets a subscriber join or leave.
    async fn happen(&mut self, crowd: &mut Crowd, weather: &mut Weather<'_>) -> anyhow::Result<()> {
        let is_bad = self.plan.forecast == Forecast::Everything;
        match self.random.random_range(0..100) {
            0..50 => crowd.join(&mut self.random)?,
            50..80 => crowd.leave(&mut self.random).await?,
            96..98 if is_bad => weather.outage(&mut self.random).await,
            98.. if is_bad => {
                if let Some(server) = self.server.embedded() {
                    server.compact();
                    self.compactions += 1;
                }
            }
            _ => weather.cut(&mut self.random),
        }
        Ok(())
    }

    /// Checks that each informer listed once, not counting the lists that a fault forced.
    fn check_lists(
        &self,
        proxy: &Proxied,
        observers: &[Subscription],
        figures: &Figures,
        pages: u64,
    ) -> anyhow::Result<()> {
        let (asked, taken) = (proxy.count(&lists_of()), observers.iter().map(|it| it.status().lists).sum::<u64>());
        let each = observers.len() as u64;
        if self.plan.forecast == Forecast::Cuts && self.plan.kills == 0 {
            let expected = if self.plan.streaming { 0 } else { pages };
            ensure!((asked, taken) == (expected, each), "{asked} requests for {taken} lists instead of {expected}");
            return Ok(());
        }
        // Each of these faults ends the watch of every informer, or disturbs its next list.
        let blows = (self.compactions + self.plan.kills) * each;
        ensure!(taken <= each + figures.relists + blows, "{taken} lists were taken though {figures}");
        let spoilt = figures.spoilt_lists + figures.outages * each + blows;
        ensure!(asked <= (taken + spoilt) * self.size.pages(), "{asked} requests for {taken} lists though {figures}");
        ensure!(self.plan.streaming || asked >= taken, "{asked} requests for {taken} lists");
        Ok(())
    }

    /// Compares the subscribers' events with the stores and the ledger. Returns the figures.
    async fn check_crowd(&self, crowd: Crowd, observers: &[Subscription]) -> anyhow::Result<String> {
        let continuous = self.plan.forecast == Forecast::Cuts && self.plan.kills == 0;
        let all = crowd.close(continuous).await?;
        let ledger = self.desk.ledger.lock().expect("no panic");
        let (mut events, mut deletions, mut unseen) = (0, 0, 0);
        let subscribers = all.len();
        for (view, replay, claim) in all {
            events += replay.events;
            if claim.stay == Stay::Throughout {
                deletions += replay.deletions;
                unseen += replay.unseen;
            }
            let what = || format!("what a subscriber of {} was told, who claims {claim:?}", self.views[view].spec);
            if claim.stay != Stay::Passing {
                let stored = observers[view].store().all();
                ensure!(replay.state.values().eq(&stored), "{}: its end is not the store's", what());
            }
            replay.check(&self.views[view], &ledger, claim).with_context(what)?;
        }
        let lost = self.desk.unknown.load(Ordering::Relaxed);
        Ok(format!(
            "{events} events to {subscribers} subscribers; {deletions} deletions to those who stayed, {unseen} of them \
             unseen by a watch; {lost} writes without an answer"
        ))
    }
}

fn lists_of() -> Match {
    Match::verb(Verb::List).resource("configmaps")
}

/// Waits until the store equals the server's state, which no longer changes.
async fn caught_up(informers: &Informers, view: &View, observer: &Subscription, live: &Live) -> anyhow::Result<()> {
    until("the store catches up", || async {
        // A new subscriber wakes an informer that waits before its next attempt.
        drop(informers.subscribe(view.spec.clone()));
        live.difference(&observer.store().all()).map_or(Ok(()), |difference| Err(difference.to_string()))
    })
    .await
    .with_context(|| format!("{}, whose informer is {:?}", view.spec, observer.status()))
}

async fn cuts(kind: Kind, streaming: bool) -> anyhow::Result<()> {
    let _turn = busy::turn().await?;
    let server = Server::start(kind).await?;
    storm(server, None, Plan { forecast: Forecast::Cuts, streaming, kills: 0 }).await
}

async fn everything(kind: Kind, streaming: bool) -> anyhow::Result<()> {
    let _turn = busy::turn().await?;
    let server = Server::start(kind).await?;
    storm(server, None, Plan { forecast: Forecast::Everything, streaming, kills: 0 }).await
}

/// Runs a storm in which the server is killed. Only the real server can be killed: the embedded one would lose its
/// state.
async fn kills(arguments: &[&'static str], streaming: bool) -> anyhow::Result<()> {
    let _turn = busy::turn().await?;
    let cluster = OwnCluster::start(arguments).await?;
    let server = Server::join(cluster.running()?).await?;
    storm(server, Some(cluster), Plan { forecast: Forecast::Cuts, streaming, kills: 2 }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn cut_watches_lose_nothing_and_need_no_list_on_the_embedded_server() -> anyhow::Result<()> {
    cuts(Kind::Embedded, false).await
}

#[tokio::test(flavor = "multi_thread")]
async fn cut_watches_lose_nothing_and_need_no_list_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    cuts(Kind::Real, false).await
}

#[tokio::test(flavor = "multi_thread")]
async fn cut_streamed_lists_lose_nothing_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    cuts(Kind::Real, true).await
}

#[tokio::test(flavor = "multi_thread")]
async fn plugins_converge_under_every_kind_of_fault_on_the_embedded_server() -> anyhow::Result<()> {
    everything(Kind::Embedded, false).await
}

#[tokio::test(flavor = "multi_thread")]
async fn plugins_converge_under_every_kind_of_fault_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    everything(Kind::Real, false).await
}

#[tokio::test(flavor = "multi_thread")]
async fn plugins_converge_with_streamed_lists_too_on_the_embedded_server() -> anyhow::Result<()> {
    everything(Kind::Embedded, true).await
}

#[tokio::test(flavor = "multi_thread")]
async fn plugins_converge_with_streamed_lists_too_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    everything(Kind::Real, true).await
}

/// A server that has just started has no history, so it answers a resumed watch with 410.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_under_load_costs_a_list_and_nothing_else() -> anyhow::Result<()> {
    kills(&[], false).await
}
