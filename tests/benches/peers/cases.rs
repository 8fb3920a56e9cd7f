//! The cases, and the sessions that run them: each session has a fresh server and a contender, and runs one case after
//! the other on the same objects.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::ValueEnum;
use serde::Serialize;
use serde_json::json;
use windlass_tests::process::{CPU_AT_REST_MAX, Usage, mebibytes};

use crate::contender::{Contender, Ready, Running};
use crate::density;
use crate::facts;
use crate::load::{self, Watches};
use crate::report::Sample;
use crate::server::{Counts, Server};
use crate::steady;

/// The longest time until a contender has settled.
const SETTLING_TIMEOUT: Duration = Duration::from_mins(1);
/// The rate at which children are touched.
const TOUCHES_PER_SECOND: u32 = 400;
/// The number of touches of each child.
const TOUCHES: usize = 3;
/// The rate of paced edits.
const EDITS_PER_SECOND: u32 = 10;
/// The number of paced edits: the 99th percentile needs some hundreds, and each takes a tenth of a second.
const PACED_EDITS: usize = 300;
/// The rate and the number of edits around a swap.
const SWAP_EDITS_PER_SECOND: u32 = 20;
const SWAP_EDITS: usize = 300;

/// A measured sequence of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Case {
    /// 1,000 new objects at once, until all children and all statuses are written.
    Converge,
    /// The same with 5,000 objects.
    Converge5000,
    /// One child of each object is touched, 400 per second; nothing has to be written.
    Noop,
    /// The Deployment of each object reports its status again, with another time, 400 per second: a change that no
    /// controller reads.
    Heartbeat,
    /// Specs change, first ten per second and then all at once: the time until each child has changed.
    Edit,
    /// A new version replaces the running one while specs change: the time until each child has changed.
    Swap,
    /// 10,000 objects with all their children, and 50,000 Pods, are in the cache and do not change: memory, and
    /// processor time at rest. Then one in a hundred Deployments reports its status each second.
    Steady,
    /// One operator with its own kind, which owns Pods and `ConfigMap`s: its memory.
    Density1,
    /// Ten such operators.
    Density10,
    /// A hundred.
    Density100,
    /// A thousand such operators, which only a host can run.
    Density1000,
    /// The drop-in operators beside their originals. It needs the originals' programs, so it runs only if it is named.
    Dropins,
}

impl Case {
    pub(crate) fn all() -> Vec<Self> {
        Self::value_variants().iter().copied().filter(|it| *it != Self::Dropins).collect()
    }

    /// The name in tables and files.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// Cases on the same objects.
pub(crate) struct Session {
    pub(crate) objects: usize,
    cases: Vec<Case>,
}

/// The sessions for the cases. If a case needs objects, the case `Converge` creates them, and is measured as well.
pub(crate) fn sessions(cases: &[Case], quick: bool) -> Vec<Session> {
    let is_small = |it: &Case| matches!(it, Case::Converge | Case::Noop | Case::Heartbeat | Case::Edit | Case::Swap);
    let small: Vec<_> = cases.iter().copied().filter(is_small).collect();
    let mut sessions = Vec::new();
    if !small.is_empty() {
        sessions.push(Session { objects: if quick { 200 } else { 1_000 }, cases: small });
    }
    for (case, objects, few) in LARGE {
        if cases.contains(&case) {
            sessions.push(Session { objects: if quick { few } else { objects }, cases: vec![case] });
        }
    }
    sessions
}

/// Cases with a separate session, with the number of objects or operators, and the number in a quick run.
const LARGE: [(Case, usize, usize); 6] = [
    (Case::Converge5000, 5_000, 1_000),
    (Case::Steady, 10_000, 500),
    (Case::Density1, 1, 1),
    (Case::Density10, 10, 3),
    (Case::Density100, 100, 5),
    (Case::Density1000, 1_000, 8),
];

impl Session {
    /// The server that all contenders share. `None` if each contender has its own server.
    pub(crate) async fn shared(&self) -> anyhow::Result<Option<Server>> {
        Ok(match self.case() {
            Some(Case::Steady) => Some(steady::fill(self.objects).await?),
            Some(_) if self.is_density() => Some(density::fill(self.objects).await?),
            _ => None,
        })
    }

    /// Whether the session includes this contender.
    pub(crate) fn has(&self, contender: Contender) -> bool {
        match self.case() {
            Some(Case::Steady) => contender.caches_pods(),
            Some(Case::Density1000) => contender.can_be_many() && contender.is_a_host(),
            Some(_) if self.is_density() => contender.can_be_many(),
            _ => true,
        }
    }

    fn case(&self) -> Option<Case> {
        self.cases.first().copied()
    }

    fn is_density(&self) -> bool {
        let is_it = |case| matches!(case, Case::Density1 | Case::Density10 | Case::Density100 | Case::Density1000);
        self.case().is_some_and(is_it)
    }

    /// Runs the cases, and returns a sample for each.
    pub(crate) async fn run(&self, shared: Option<&Server>, ready: &Ready, round: u32) -> anyhow::Result<Vec<Sample>> {
        let (contender, objects, load) = (ready.contender, self.objects, facts::load());
        let measured = match (shared, self.case()) {
            (Some(server), Some(case)) if self.is_density() => {
                let figures = density::run(server, ready, self.objects, round).await?;
                vec![(case, figures, Counts::default())]
            }
            (Some(server), Some(case)) => {
                let (figures, counts) = steady::run(server, ready, self.objects, round).await?;
                vec![(case, figures, counts)]
            }
            _ => self.run_fresh(ready, round).await?,
        };
        let sample = |(case, figures, counts): (Case, Figures, Counts)| Sample {
            round,
            contender,
            case,
            objects,
            load: load.clone(),
            figures,
            requests: counts.requests,
        };
        Ok(measured.into_iter().map(sample).collect())
    }

    /// Runs the cases on a server for this contender alone.
    async fn run_fresh(&self, ready: &Ready, round: u32) -> anyhow::Result<Vec<(Case, Figures, Counts)>> {
        let server = Server::start().await?;
        let running = ready.start(&server, &format!("{}-{round}", self.objects)).await?;
        let watches = Watches::start(&server.objects).await?;
        let mut bench = Bench { server, running, watches, objects: self.objects };
        bench.settle().await?;
        let converge = if self.cases.contains(&Case::Converge5000) { Case::Converge5000 } else { Case::Converge };
        let (figures, counts) = bench.converge().await?;
        let mut measured = vec![(converge, figures, counts)];
        if self.cases.contains(&Case::Noop) {
            let (figures, counts) = bench.noop().await?;
            measured.push((Case::Noop, figures, counts));
        }
        if self.cases.contains(&Case::Heartbeat) {
            let (figures, counts) = bench.heartbeat().await?;
            measured.push((Case::Heartbeat, figures, counts));
        }
        if self.cases.contains(&Case::Edit) {
            let (figures, counts) = bench.edit().await?;
            measured.push((Case::Edit, figures, counts));
        }
        if self.cases.contains(&Case::Swap) && ready.contender.is_a_controller() {
            let (swapped, figures, counts) = bench.swap(ready, &format!("{}-{round}-next", self.objects)).await?;
            bench = swapped;
            measured.push((Case::Swap, figures, counts));
        }
        let Bench { server, running, .. } = bench;
        running.stop().await?;
        server.stop().await?;
        Ok(measured)
    }
}

/// Figures by their names.
pub(crate) type Figures = BTreeMap<&'static str, f64>;

/// A server and a running contender.
struct Bench {
    server: Server,
    running: Running,
    watches: Watches,
    objects: usize,
}

/// The state before a case.
struct Before {
    counts: Counts,
    controller: Usage,
    server: Duration,
}

impl Bench {
    /// Waits until the contender has nothing more to do.
    async fn settle(&mut self) -> anyhow::Result<()> {
        let (process, began) = (self.running.process()?, Instant::now());
        let mut last = process.cpu()?;
        while began.elapsed() < SETTLING_TIMEOUT {
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.running.is_alive()?;
            let now = process.cpu()?;
            if now.saturating_sub(last) < CPU_AT_REST_MAX {
                return Ok(());
            }
            last = now;
        }
        Ok(())
    }

    /// Reads the counts first, because the server needs processor time for them, which must not belong to the case.
    async fn before(&self) -> anyhow::Result<Before> {
        let counts = self.server.counts().await?;
        let (controller, server) = (self.running.process()?.usage()?, self.server.process()?.cpu()?);
        Ok(Before { counts, controller, server })
    }

    /// The figures that all cases have, and the requests except the benchmark's own (`ours`).
    async fn after(&mut self, before: &Before, ours: &[(&str, u64)]) -> anyhow::Result<(Figures, Counts)> {
        self.settle().await?;
        let (controller, server) = (self.running.process()?.usage()?, self.server.process()?.cpu()?);
        let memory = self.running.process()?.memory()?;
        let counts = self.server.counts().await?.since(&before.counts, ours);
        let requests: u64 =
            counts.requests.iter().filter(|(it, _)| !it.starts_with("WATCH")).map(|(_, count)| count).sum();
        let figures = Figures::from([
            ("controller_cpu_s", controller.cpu.saturating_sub(before.controller.cpu).as_secs_f64()),
            ("server_cpu_s", server.saturating_sub(before.server).as_secs_f64()),
            ("requests", requests as f64),
            ("conflicts", counts.conflicts as f64),
            ("asked_mib", mebibytes(counts.request_bytes)),
            ("told_mib", mebibytes(counts.response_bytes)),
            ("pss_mib", mebibytes(memory.proportional)),
            ("anonymous_mib", mebibytes(memory.anonymous)),
            ("peak_rss_mib", mebibytes(memory.peak)),
            ("context_switches", controller.switches.saturating_sub(before.controller.switches) as f64),
        ]);
        Ok((figures, counts))
    }

    /// Creates all `WebApp`s at once. The time is from the first creation to the last child or status.
    async fn converge(&mut self) -> anyhow::Result<(Figures, Counts)> {
        let before = self.before().await?;
        let began = Instant::now();
        let (mut at, mut created) = (began, Duration::ZERO);
        let creating = async {
            load::create(&self.server.objects, 0..self.objects).await?;
            created = began.elapsed();
            anyhow::Ok(())
        };
        let watching = async {
            let mut missing: HashSet<_> = (0..self.objects)
                .flat_map(|number| ["WebApp", "Deployment", "Service"].map(|kind| (kind, load::name(number))))
                .collect();
            while !missing.is_empty() {
                let seen = self.watches.next().await?;
                if seen.kind == "Service" || seen.generation.is_some() {
                    missing.remove(&(seen.kind, seen.name));
                    at = seen.at;
                }
            }
            anyhow::Ok(())
        };
        futures::future::try_join(creating, watching).await?;
        let (mut figures, counts) = self.after(&before, &[("POST webapps", self.objects as u64)]).await?;
        figures.insert("time_s", (at - began).as_secs_f64());
        figures.insert("created_s", created.as_secs_f64());
        figures.insert("ready_s", self.running.start.as_secs_f64());
        per_object(&mut figures, self.objects);
        Ok((figures, counts))
    }

    /// Changes a label of each Deployment several times: the controller gets the events, and has nothing to do.
    async fn noop(&mut self) -> anyhow::Result<(Figures, Counts)> {
        let before = self.before().await?;
        let pace = Some(Duration::from_secs(1) / TOUCHES_PER_SECOND);
        for touch in 0..TOUCHES {
            let label = json!({"metadata": {"labels": {"touched": format!("t{touch}")}}});
            load::patch(&self.server.objects, "Deployment", self.objects, pace, |_| label.clone()).await?;
        }
        let touches = self.objects * TOUCHES;
        let (mut figures, counts) = self.after(&before, &[("PATCH deployments", touches as u64)]).await?;
        per_object(&mut figures, touches);
        Ok((figures, counts))
    }

    /// Lets each Deployment report its status several times: the controller gets the events, and reads nothing of them.
    async fn heartbeat(&mut self) -> anyhow::Result<(Figures, Counts)> {
        let before = self.before().await?;
        for _ in 0..TOUCHES {
            let pace = Some(Duration::from_secs(1) / TOUCHES_PER_SECOND);
            steady::heartbeat(&self.server.objects, self.objects, pace).await?;
        }
        let reports = self.objects * TOUCHES;
        let (mut figures, counts) = self.after(&before, &[("PATCH deployments/status", reports as u64)]).await?;
        per_object(&mut figures, reports);
        Ok((figures, counts))
    }

    /// Changes the specs of some `WebApp`s at a pace, and then the specs of all at once.
    async fn edit(&mut self) -> anyhow::Result<(Figures, Counts)> {
        let before = self.before().await?;
        let paced = PACED_EDITS.min(self.objects);
        let pace = Duration::from_secs(1) / EDITS_PER_SECOND;
        let slowly = self.edit_each(paced, Some(pace), "nginx:1.28").await?;
        let at_once = self.edit_each(self.objects, None, "nginx:1.29").await?;
        let edits = paced + self.objects;
        let (mut figures, counts) = self.after(&before, &[("PATCH webapps", edits as u64)]).await?;
        for ([p50, p99], sorted) in
            [(["paced_p50_ms", "paced_p99_ms"], slowly), (["at_once_p50_ms", "at_once_p99_ms"], at_once)]
        {
            figures.insert(p50, percentile(&sorted, 50));
            figures.insert(p99, percentile(&sorted, 99));
        }
        per_object(&mut figures, edits);
        Ok((figures, counts))
    }

    /// The times from each change to the change of its Deployment, sorted.
    async fn edit_each(&mut self, count: usize, pace: Option<Duration>, image: &str) -> anyhow::Result<Vec<Duration>> {
        self.settle().await?;
        load::edit_each(&self.server.objects, &mut self.watches, count, pace, image).await
    }

    /// Changes specs at a pace, and replaces the contender with a new version in the middle: the longest time that a
    /// change waits.
    async fn swap(mut self, ready: &Ready, occasion: &str) -> anyhow::Result<(Self, Figures, Counts)> {
        self.settle().await?;
        let counts = self.server.counts().await?;
        let Self { server, running, mut watches, objects } = self;
        let count = SWAP_EDITS.min(objects);
        let pace = Duration::from_secs(1) / SWAP_EDITS_PER_SECOND;
        let replacing = async {
            // A third of the edits come before the new version.
            tokio::time::sleep(pace * u32::try_from(count / 3)?).await;
            ready.replace(running, &server, occasion).await
        };
        let editing = load::edit_each(&server.objects, &mut watches, count, Some(pace), "nginx:1.30");
        let (times, running) = futures::future::try_join(editing, replacing).await?;
        ensure!(running.is_replaced()?, "{}: the edits were over before the new version took over", ready.name());
        let mut bench = Self { server, running, watches, objects };
        bench.settle().await?;
        let counts = bench.server.counts().await?.since(&counts, &[("PATCH webapps", count as u64)]);
        let figures = Figures::from([
            ("swap_p50_ms", percentile(&times, 50)),
            ("swap_p90_ms", percentile(&times, 90)),
            ("swap_worst_ms", percentile(&times, 100)),
            ("conflicts", counts.conflicts as f64),
        ]);
        Ok((bench, figures, counts))
    }
}

/// Divides the figures by the number of objects, changes or touches.
fn per_object(figures: &mut Figures, count: usize) {
    for (of, name, unit) in [
        ("controller_cpu_s", "controller_cpu_each_ms", 1e3),
        ("server_cpu_s", "server_cpu_each_ms", 1e3),
        ("requests", "requests_each", 1.0),
        ("context_switches", "context_switches_each", 1.0),
    ] {
        let each = figures[of] * unit / count as f64;
        figures.insert(name, each);
    }
}

/// In milliseconds.
fn percentile(sorted: &[Duration], percent: usize) -> f64 {
    load::percentile(sorted, percent).as_secs_f64() * 1e3
}
