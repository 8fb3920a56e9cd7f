//! Windlass and its peers with the same work, each on its own real kube-apiserver: time, processor time of the
//! controller and of the server, requests, memory. `make bench PEERS=1` builds all contenders and runs this program;
//! docs/benchmarks.md explains the figures and has recorded results.
//!
//! A round runs every contender once, in a random order. Contenders are compared within a round.
#![allow(clippy::cast_precision_loss, reason = "figures for people")]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures the time of the world")]

mod cases;
mod contender;
mod density;
mod dropins;
mod facts;
#[path = "../support/load.rs"]
mod load;
mod plot;
mod report;
mod server;
mod steady;

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::Parser;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

use cases::Case;
use contender::{Contender, Prepared};
use report::{Report, Sample};

/// Compares windlass with its peers.
#[derive(Parser)]
struct Arguments {
    /// Run only these cases. Default: all.
    #[arg(long, value_enum, value_delimiter = ',')]
    cases: Vec<Case>,
    /// Run only these contenders. Default: all; with --quick, the main ones in Rust and Go.
    #[arg(long, value_enum, value_delimiter = ',')]
    contenders: Vec<Contender>,
    /// The number of rounds. Default: 3; with --quick, 1.
    #[arg(long)]
    rounds: Option<u32>,
    /// Run one round with few objects, to test that the benchmark works.
    #[arg(long)]
    quick: bool,
    /// The seed for the order of the contenders in each round. Default: the time.
    #[arg(long)]
    seed: Option<u64>,
    /// The directory for the results. Default: target/bench.
    #[arg(long)]
    output: Option<PathBuf>,
    /// An argument that `cargo bench` adds.
    #[arg(long, hide = true)]
    bench: bool,
}

impl Arguments {
    fn cases(&self) -> Vec<Case> {
        if self.cases.is_empty() { Case::all() } else { self.cases.clone() }
    }

    fn contenders(&self) -> Vec<Contender> {
        match (self.contenders.is_empty(), self.quick) {
            (false, _) => self.contenders.clone(),
            (true, true) => Contender::first(),
            (true, false) => Contender::all(),
        }
    }
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    // The load uses only one thread, to leave the processors to the contender and the server.
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(run(&arguments))
}

async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let seed = arguments.seed.unwrap_or(now);
    let rounds = arguments.rounds.unwrap_or(if arguments.quick { 1 } else { 3 });
    let output = arguments.output.clone().unwrap_or_else(|| windlass_tests::paths::root().join("target/bench"));
    std::fs::create_dir_all(&output).with_context(|| format!("make {}", output.display()))?;
    let mut random = SmallRng::seed_from_u64(seed);
    if arguments.cases.contains(&Case::Dropins) {
        measure_dropins(rounds, arguments.quick, &mut random, &output).await?;
    }
    let sessions = cases::sessions(&arguments.cases(), arguments.quick);
    if sessions.is_empty() {
        return Ok(());
    }
    println!("{rounds} rounds, shuffled by --seed {seed}; contenders log to {}/logs", output.display());
    let prepared = Prepared::all(&arguments.contenders(), &output.join("logs")).await?;
    let mut report = Report::new(facts::Facts::of_here(prepared.server_version.clone())?, seed);
    for round in 1..=rounds {
        for session in &sessions {
            let mut order: Vec<_> = prepared.contenders.iter().filter(|it| session.has(it.contender)).collect();
            order.shuffle(&mut random);
            let shared = session.shared().await.context("fill a server for all contenders")?;
            for contender in order {
                let context = format!("round {round}: {} of {} objects", contender.name(), session.objects);
                let samples = session.run(shared.as_ref(), contender, round).await.with_context(|| context.clone())?;
                samples.iter().for_each(Sample::print);
                report.add(samples);
                // The report is written after each contender, so that an interrupted run also has results.
                report.write(&output)?;
            }
            if let Some(shared) = shared {
                shared.stop().await?;
            }
        }
    }
    println!("\n{}", report.tables());
    println!("{}/peers.json has every figure, and peers-*.svg the plots", output.display());
    Ok(())
}

/// Runs the case `dropins`, and prints its tables.
async fn measure_dropins(rounds: u32, quick: bool, random: &mut SmallRng, output: &Path) -> anyhow::Result<()> {
    let (subjects, extent) = (dropins::subjects()?, dropins::Extent::new(quick));
    let server = server::Server::start().await?;
    let facts = facts::Facts::of_here(server.version().await?)?;
    server.stop().await?;
    let mut results = dropins::table::Results::new(facts, extent, &subjects)?;
    for round in 1..=rounds {
        println!("round {round} of {rounds}: {} drop-ins and their originals", subjects.len());
        let figures = dropins::round(&subjects, extent, random).await.with_context(|| format!("round {round}"))?;
        println!("    {}", serde_json::to_string(&figures)?);
        results.rounds.push(figures);
        // The results are written after each round, so that an interrupted run also has results.
        results.write(output)?;
    }
    println!("\n{}", results.tables());
    println!("{}/dropins.json has every figure", output.display());
    Ok(())
}
