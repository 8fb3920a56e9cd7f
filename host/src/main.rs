//! The `windlass` binary: reads the command line and runs it.

mod admission;
mod cli;
mod clock;
mod controller;
mod directory;
mod dispatch;
mod feed;
mod files;
mod kinds;
mod manager;
mod outage;
mod policies;
mod policy;
mod resolve;
mod resync;
mod reviews;
mod route;
mod running;
mod shutdown;
mod supervise;
mod telemetry;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
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
