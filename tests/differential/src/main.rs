//! Runs scripts by hand: `differential [--all] [--answers] [SCRIPT…]`, where a name is the beginning of scripts' names.
//! `--answers` prints all answers, `--all` also the differences that are accepted, and `--propose` prints entries for
//! `accepted.yaml` that lack their reason.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use windlass_differential::servers::Servers;
use windlass_differential::{accepted, suite};

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let (options, names): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|word| word.starts_with("--"));
    let has = |option: &str| options.iter().any(|given| given == option);
    let scripts = suite::scripts(&names)?;
    let accepted = if has("--all") { Vec::new() } else { accepted::read(&suite::accepted_file())? };
    let servers = Arc::new(Servers::start().await?);
    let outcomes = suite::run_all(Arc::clone(&servers), scripts).await;
    Arc::into_inner(servers).context("nothing runs any more")?.stop().await?;
    let outcomes = outcomes?;
    if has("--answers") {
        for outcome in &outcomes {
            println!("== {}: {}\nreal: {:#}\nours: {:#}", outcome.script, outcome.step, outcome.real, outcome.ours);
        }
    }
    let verdict = suite::judge(&outcomes, &accepted);
    if has("--propose") {
        for (script, steps) in &verdict.new_steps {
            println!("- reason: \n  script: {script}\n  steps:");
            for step in steps {
                println!("  - {}", serde_json::json!(step));
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    print!("{}", verdict.new);
    println!("{} steps, {} of them with differences", verdict.steps, verdict.differ);
    if names.is_empty() && !verdict.stale.is_empty() {
        println!("accepted, but equal now:\n{}", verdict.stale);
    }
    Ok(if verdict.new.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
