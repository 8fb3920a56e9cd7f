//! Runs scripts by hand: `differential [--all] [--answers] [--update] [SCRIPT…]`, where each SCRIPT is the beginning of
//! script names. `--answers` prints all answers, `--all` also prints the accepted differences, and `--update` writes
//! the differences to `accepted.yaml`, with the known reasons.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, ensure};
use windlass_differential::accepted::Accepted;
use windlass_differential::servers::Servers;
use windlass_differential::suite;

const OPTIONS: [&str; 3] = ["--all", "--answers", "--update"];

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let (options, names): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|word| word.starts_with("--"));
    ensure!(options.iter().all(|given| OPTIONS.contains(&given.as_str())), "options are {OPTIONS:?}");
    let has = |option: &str| options.iter().any(|given| given == option);
    let scripts = suite::scripts(&names)?;
    let accepted = Accepted::read(&suite::accepted_file())?;
    let servers = Arc::new(Servers::start().await?);
    let outcomes = suite::run_all(Arc::clone(&servers), scripts).await;
    Arc::into_inner(servers).context("all scripts have ended")?.stop().await;
    let outcomes = outcomes?;
    if has("--answers") {
        for outcome in &outcomes {
            println!("== {}\nreal: {:#}\nours: {:#}", outcome.title(), outcome.real, outcome.ours);
        }
    }
    if has("--update") {
        accepted.updated(&outcomes).write(&suite::accepted_file())?;
        return Ok(ExitCode::SUCCESS);
    }
    let accepted = if has("--all") { Accepted::default() } else { accepted };
    let verdict = suite::judge(&outcomes, &accepted);
    print!("{}", verdict.new);
    println!("{} steps, {} of them with differences", verdict.steps, verdict.differ);
    if !verdict.gone.is_empty() {
        println!("accepted, but equal now:\n{}", verdict.gone);
    }
    Ok(if verdict.new.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
