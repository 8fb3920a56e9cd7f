//! The `windlass` binary: reads the command line and runs it.

mod admin;
mod admission;
mod author;
mod circuit;
mod cli;
mod clock;
mod composite;
mod config;
mod controller;
mod directory;
mod dispatch;
mod egress;
mod feed;
mod files;
mod finalize;
mod generation;
mod guards;
mod install;
mod kinds;
mod leadership;
mod leftovers;
mod manager;
mod metrics;
mod outage;
mod overdue;
mod pause;
mod phases;
mod policies;
mod policy;
mod resolve;
mod resync;
mod reuse;
mod reviews;
mod route;
mod running;
mod shutdown;
mod slow_lane;
mod status;
mod supervise;
mod telemetry;
mod turns;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    // Before anything else of the host: it is another program then.
    if std::env::args_os().nth(1).is_some_and(|first| first == cli::COMPILER) {
        return windlass_wasm::compile_child();
    }
    let cli = cli::Cli::parse();
    match cli.run() {
        Ok(code) => code,
        Err(error) => {
            // The log may be JSON or filtered; whoever started this must see why it ended.
            eprintln!("windlass: {}", telemetry::explained(&error));
            ExitCode::FAILURE
        }
    }
}
