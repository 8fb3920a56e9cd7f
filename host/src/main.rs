//! The `windlass` binary: reads the command line and runs it.

mod allocator;
mod cli;
mod telemetry;

use std::process::ExitCode;

use windlass_core::error::explained;

/// The exit code for a command line that cannot be run, as with clap.
const UNUSABLE: u8 = 2;

fn main() -> ExitCode {
    // Checked first, because it makes this program the compiler.
    if std::env::args_os().nth(1).is_some_and(|first| first == cli::COMPILER) {
        return windlass_wasm::compile_child();
    }
    let cli = cli::Cli::from_command_line();
    if cli.runs_for_long() {
        allocator::with_fixed_thresholds();
    }
    match cli.run() {
        Ok(code) => code,
        Err(error) => {
            // The log may be JSON or filtered, but the user must see why the program ended.
            eprintln!("windlass: {}", explained(&*error));
            if error.is::<cli::UsageError>() { ExitCode::from(UNUSABLE) } else { ExitCode::FAILURE }
        }
    }
}
