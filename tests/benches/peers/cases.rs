//! The cases, and the sessions that run them: a fresh server, a contender, and one case after the other on the same objects.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde::Serialize;
use serde_json::json;

use crate::contender::{Contender, Ready, Running};
use crate::facts;
use crate::load::{self, Watches};
use crate::process::Usage;
use crate::report::Sample;
use crate::server::{Counts, Server};
use crate::steady;

/// Nothing has changed for so long: then the contender is stuck.
const PATIENCE: Duration = Duration::from_mins(2);
/// A second in which a contender uses less than this has nothing to do.
const AT_REST: Duration = Duration::from_millis(30);
/// The longest wait for that.
const SETTLING: Duration = Duration::from_mins(1);
/// The rate at which children are touched.
const TOUCHES_PER_SECOND: u32 = 400;
/// How often each child is touched.
const TOUCHES: usize = 3;
/// The rate of paced edits.
const EDITS_PER_SECOND: u32 = 10;
/// How many of those there are: a percentile of 99 needs some hundreds, and each takes a tenth of a second.
const PACED_EDITS: usize = 300;

/// A course of events that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Case {
    /// 1,000 new objects at once, until all children and all status are written.
    Converge,
    /// The same with 5,000.
    Converge5000,
    /// A child of each is touched, 400 a second: nothing is to be done.
    Noop,
    /// Specs change, ten a second and then all at once: the time until each child has changed.
    Edit,
    /// 10,000 objects with all their children, and 50,000 Pods, are cached and do not change: memory, and the time at rest.
    Steady,
}

impl Case {
    pub(crate) fn all() -> Vec<Self> {
        Self::value_variants().to_vec()
    }

    /// Its name in tables and files.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// Cases on the same objects.
pub(crate) struct Session {
    pub(crate) objects: usize,
    cases: Vec<Case>,
}

/// The sessions that the cases need. A case that needs objects has them created by `Converge`, which is measured then, too.
pub(crate) fn sessions(cases: &[Case], quick: bool) -> Vec<Session> {
    let small: Vec<_> = cases.iter().copied().filter(|it| !matches!(it, Case::Converge5000 | Case::Steady)).collect();
    let mut sessions = Vec::new();
    if !small.is_empty() {
        sessions.push(Session { objects: if quick { 200 } else { 1_000 }, cases: small });
    }
    for (case, objects, few) in [(Case::Converge5000, 5_000, 1_000), (Case::Steady, 10_000, 500)] {
        if cases.contains(&case) {
            sessions.push(Session { objects: if quick { few } else { objects }, cases: vec![case] });
        }
    }
    sessions
}

impl Session {
    /// The server that all contenders share. None: each has its own.
    pub(crate) async fn shared(&self) -> anyhow::Result<Option<Server>> {
        Ok(if self.is_steady() { Some(steady::fill(self.objects).await?) } else { None })
    }

    /// Whether it is for this contender.
    pub(crate) fn has(&self, contender: Contender) -> bool {
        !self.is_steady() || contender.caches_pods()
    }

    fn is_steady(&self) -> bool {
        self.cases.contains(&Case::Steady)
    }

    /// Runs its cases, and returns a sample for each.
    pub(crate) async fn run(&self, shared: Option<&Server>, ready: &Ready, round: u32) -> anyhow::Result<Vec<Sample>> {
        let (contender, objects, load) = (ready.contender, self.objects, facts::load());
        let measured = match shared {
            Some(server) => {
                let (figures, counts) = steady::run(server, ready, round).await?;
                vec![(Case::Steady, figures, counts)]
            }
            None => self.run_fresh(ready, round).await?,
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

    /// On a server that is the contender's alone.
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
        if self.cases.contains(&Case::Edit) {
            let (figures, counts) = bench.edit().await?;
            measured.push((Case::Edit, figures, counts));
        }
        let Bench { server, running, .. } = bench;
        running.stop().await?;
        server.stop().await?;
        Ok(measured)
    }
}

/// Figures by their names.
pub(crate) type Figures = BTreeMap<&'static str, f64>;

/// A server and a contender at work.
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
    /// Waits until the contender has nothing left to do.
    async fn settle(&mut self) -> anyhow::Result<()> {
        let (process, began) = (self.running.process()?, Instant::now());
        let mut last = process.cpu()?;
        while began.elapsed() < SETTLING {
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.running.is_alive()?;
            let now = process.cpu()?;
            if now.saturating_sub(last) < AT_REST {
                return Ok(());
            }
            last = now;
        }
        Ok(())
    }

    /// The counts first: the server pays for them, and not as a part of the case.
    async fn before(&self) -> anyhow::Result<Before> {
        let counts = self.server.counts().await?;
        let (controller, server) = (self.running.process()?.usage()?, self.server.process()?.cpu()?);
        Ok(Before { counts, controller, server })
    }

    /// The figures that all cases have, and the requests except for `ours`.
    async fn after(&mut self, before: &Before, ours: &[(&str, u64)]) -> anyhow::Result<(Figures, Counts)> {
        self.settle().await?;
        let (controller, server) = (self.running.process()?.usage()?, self.server.process()?.cpu()?);
        let memory = self.running.process()?.memory()?;
        let counts = self.server.counts().await?.since(&before.counts, ours);
        let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let requests: u64 =
            counts.requests.iter().filter(|(it, _)| !it.starts_with("WATCH")).map(|(_, count)| count).sum();
        let figures = Figures::from([
            ("controller_cpu_s", controller.cpu.saturating_sub(before.controller.cpu).as_secs_f64()),
            ("server_cpu_s", server.saturating_sub(before.server).as_secs_f64()),
            ("requests", requests as f64),
            ("conflicts", counts.conflicts as f64),
            ("asked_mib", mebibytes(counts.asked_bytes)),
            ("told_mib", mebibytes(counts.told_bytes)),
            ("pss_mib", mebibytes(memory.proportional)),
            ("anonymous_mib", mebibytes(memory.anonymous)),
            ("peak_rss_mib", mebibytes(memory.peak)),
            ("context_switches", controller.switches.saturating_sub(before.controller.switches) as f64),
        ]);
        Ok((figures, counts))
    }

    /// All `WebApp`s are created at once. The time runs from the first to the last child or status, whichever comes last.
    async fn converge(&mut self) -> anyhow::Result<(Figures, Counts)> {
        let before = self.before().await?;
        let began = Instant::now();
        let (mut at, mut created) = (began, Duration::ZERO);
        let creating = async {
            load::create(&self.server.objects, self.objects).await?;
            created = began.elapsed();
            anyhow::Ok(())
        };
        let watching = async {
            let mut missing: HashSet<_> = (0..self.objects)
                .flat_map(|number| ["WebApp", "Deployment", "Service"].map(|kind| (kind, load::name(number))))
                .collect();
            while !missing.is_empty() {
                let seen = self.watches.next(PATIENCE).await?;
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

    /// Each Deployment gets another label, some times: the controller hears of it and has nothing to do.
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

    /// The specs of some `WebApp`s change at a pace, and then those of all at once.
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

    /// The times from each change to its Deployment's, sorted.
    async fn edit_each(&mut self, count: usize, pace: Option<Duration>, image: &str) -> anyhow::Result<Vec<Duration>> {
        self.settle().await?;
        while self.watches.is_behind() {
            self.watches.next(PATIENCE).await?;
        }
        let mut changed = BTreeMap::new();
        let body = json!({"spec": {"image": image}});
        let editing = load::patch(&self.server.objects, "WebApp", count, pace, |_| body.clone());
        let watching = async {
            while changed.len() < count {
                let seen = self.watches.next(PATIENCE).await?;
                if seen.kind == "Deployment" {
                    // The first since the change: nobody else changes Deployments now.
                    changed.entry(seen.name).or_insert(seen.at);
                }
            }
            anyhow::Ok(())
        };
        let (sent, ()) = futures::future::try_join(editing, watching).await?;
        let mut times: Vec<_> = sent
            .iter()
            .enumerate()
            .filter_map(|(number, sent)| Some(*changed.get(&load::name(number))? - *sent))
            .collect();
        times.sort_unstable();
        Ok(times)
    }
}

/// Divides among the objects, changes or touches.
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

/// In milliseconds; of few figures the largest.
fn percentile(sorted: &[Duration], percent: usize) -> f64 {
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)].as_secs_f64() * 1e3
}
