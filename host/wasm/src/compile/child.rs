//! The compiler's process: it restricts itself, reads one component, compiles it, answers, and exits.

use std::io::{self, BufReader};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use rustix::process::{Resource, Rlimit, setrlimit};
use wasmtime::Engine;
use windlass_core::panics;

use crate::engine;
use crate::limits::Limits;
use crate::text::single_line;

use super::compile_here;
use super::order::{Haste, Order, Refusal, answer};

/// The niceness of a process whose result is not urgent.
const UNHURRIED_NICENESS: i32 = 10;

/// Enough for standard input and output, and for files that the standard library itself opens.
const OPEN_FILES_MAX: u64 = 16;

/// Runs as the compiler process of a host; see [`Compiler::Process`](super::Compiler::Process). Call this before
/// anything else is started, because it takes nearly all rights away from this process.
#[must_use]
pub fn compile_child() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> io::Result<()> {
    die_with_the_host()?;
    let mut input = BufReader::new(io::stdin().lock());
    let order = Order::read(&mut input)?;
    bind(&order)?;
    let bytes = order.read_component(&mut input)?;
    let compiled = catch_unwind(AssertUnwindSafe(|| compile(&order, &bytes)));
    let answered = compiled.unwrap_or_else(|panic| Err(crashed(panics::cause(&*panic))));
    answer(&mut io::stdout().lock(), &answered)
}

/// Makes this process die with the host, so that a killed host leaves no compiler behind. On other systems the closed
/// pipes have the same effect a little later.
fn die_with_the_host() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    Ok(())
}

/// Sets the limits that the system enforces.
fn bind(order: &Order) -> io::Result<()> {
    // If the machine runs out of memory, this process should be killed first.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    if order.haste == Haste::Unhurried {
        rustix::process::nice(UNHURRIED_NICENESS)?;
    }
    let limit = |resource, most: u64, grace: u64| {
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most.saturating_add(grace)) })
    };
    let memory = limit(Resource::As, mapped().saturating_add(order.memory_bytes), 0);
    if cfg!(target_os = "linux") {
        memory?;
    }
    // The first signal, SIGXCPU, reports this limit. The second, a second later, cannot be caught.
    limit(Resource::Cpu, order.cpu_seconds, 1)?;
    limit(Resource::Fsize, 0, 0)?;
    limit(Resource::Core, 0, 0)?;
    limit(Resource::Nofile, OPEN_FILES_MAX, 0)?;
    Ok(())
}

/// The address space of this process before it compiles anything. The memory limit is added to it, because this part
/// belongs to the program and not to the component.
fn mapped() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.map_or(1 << 30, |kib| kib << 10)
}

fn compile(order: &Order, bytes: &[u8]) -> Result<Vec<u8>, Refusal> {
    let limits = Limits { stack_bytes: order.stack_bytes, metering: order.metering, ..Limits::default() };
    let engine: Engine = engine::for_compiling(&limits, order.effort).map_err(|error| crashed(&error.to_string()))?;
    compile_here(&engine, order, bytes)
}

/// The refusal for an error or a panic of the compiler. Some code panics when it runs out of memory.
fn crashed(why: &str) -> Refusal {
    let memory = ["Cannot allocate memory", "Resource temporarily unavailable", "out of memory", "OutOfMemory"];
    if memory.iter().any(|sign| why.contains(sign)) { Refusal::Memory } else { Refusal::Crashed(single_line(why, 500)) }
}
