//! Compiles a component to machine code.
//!
//! A compiler is a large program whose input is untrusted. So it runs in a process of its own (`child`), which is this
//! same program under another command. The system enforces limits on the memory and time of that process, and the
//! process has access to nothing worth stealing. Whatever happens there, the host and its plugins go on. `process` is
//! the host's side. The result is trusted as if it was compiled in this process, because the code will be run.

mod child;
mod order;
mod process;
mod size;

use std::ffi::OsString;
use std::fmt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wasmtime::Engine;

use crate::digest;
use crate::engine::{CompileEffort, for_compiling};
use crate::limits::{Limits, Value};
use crate::text::single_line;

pub use child::compile_child;
pub(crate) use order::Haste;
use order::{Order, Refusal};
pub(crate) use size::Size;
pub use size::TooMuch;

/// How plugins are compiled.
#[derive(Clone, Debug)]
pub enum Compiler {
    /// Each component is compiled in a process of its own, which must only call [`compile_child`].
    Process {
        /// The program, which must be of the same build as this program, because the code of other builds is refused.
        program: PathBuf,
        arguments: Vec<OsString>,
    },
    /// Compiles in this process, without limits other than `compile_deadline`. For tests and benchmarks.
    InProcess,
}

impl Compiler {
    /// Compiles in processes of this program, which are started with `arguments`.
    pub fn this_program(arguments: Vec<OsString>) -> std::io::Result<Self> {
        // The program's file may have been replaced or removed since the start. This path refers to the running
        // program.
        let running = PathBuf::from("/proc/self/exe");
        let program = if running.exists() { running } else { std::env::current_exe()? };
        Ok(Self::Process { program, arguments })
    }
}

/// The compiler was stopped or failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum CompileFailure {
    /// The component has more parts than a plugin may have.
    #[error(transparent)]
    TooMuch(#[from] TooMuch),
    /// The compiler needed more memory than allowed.
    #[error("compiling it needs more than {} of memory (raise it with `--limit compile-memory=SIZE`)", Bytes(*.limit))]
    Memory {
        /// `Limits::compile_memory_bytes`
        limit: u64,
    },
    /// The compiler used more processor time than allowed.
    #[error("compiling it needs more than {limit:?} of processor time (raise it with `--limit compile-cpu=TIME`)")]
    Cpu {
        /// `Limits::compile_cpu`
        limit: Duration,
    },
    /// The compiler took more wall time than allowed.
    #[error(
        "compiling it had not ended after {limit:?} (perhaps because the machine is busy; raise it with \
         `--limit compile-deadline=TIME`)"
    )]
    Deadline {
        /// `Limits::compile_deadline`
        limit: Duration,
    },
    /// The compiler was killed, but not by the host or by its own limits. Usually the system killed it.
    #[error(
        "the system killed the compiler, usually because the machine or the container has no memory left; give it more \
         memory, or lower `--limit compile-memory=SIZE`"
    )]
    Killed,
    /// The compiler has a bug.
    #[error("the compiler crashed on it ({how}); this is a bug in the compiler and affects no other plugin{}", trailing(.output))]
    Crashed {
        /// How the compiler ended, such as `signal SEGV`.
        how: String,
        /// The last output of the compiler.
        output: String,
    },
}

fn trailing(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

impl CompileFailure {
    /// The label of metrics.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::TooMuch(_) => "too-much",
            Self::Memory { .. } => "compile-memory",
            Self::Cpu { .. } => "compile-cpu",
            Self::Deadline { .. } => "compile-deadline",
            Self::Killed | Self::Crashed { .. } => "compile-crash",
        }
    }
}

/// A number of bytes, formatted for people.
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Value::Bytes(usize::try_from(self.0).unwrap_or(usize::MAX)).fmt(f)
    }
}

/// Identifies the limits within which a component is compiled and run, and the effort. With other terms, the same bytes
/// may have another result.
pub(crate) fn terms(limits: &Limits, effort: CompileEffort) -> String {
    // Another version of this program may refuse different components.
    let terms = format!("{} {}", env!("CARGO_PKG_VERSION"), Order::new(limits, (effort, Haste::Awaited), 0).line());
    let mut name = digest::sha256(terms.as_bytes());
    name.truncate(16);
    name
}

/// The reason why there is no machine code.
#[derive(Debug)]
pub(crate) enum CompileError {
    /// The bytes are not a component that this host can run.
    Invalid(String),
    Failure(CompileFailure),
    /// The host could not run the compiler.
    Host(String),
}

/// Compiles `bytes` for an engine within `limits`. May block until `compile_deadline`; ends early when the other end of
/// `cancelled` is closed.
pub(crate) fn compile(
    compiler: &Compiler,
    limits: &Limits,
    (effort, haste): (CompileEffort, Haste),
    bytes: &[u8],
    cancelled: &UnixStream,
) -> Result<Vec<u8>, CompileError> {
    let order = Order::new(limits, (effort, haste), bytes.len());
    let refusal = match compiler {
        Compiler::InProcess => {
            let engine = for_compiling(limits, effort).map_err(|error| CompileError::Host(error.to_string()))?;
            match compile_here(&engine, &order, bytes) {
                Ok(artefact) => return Ok(artefact),
                Err(refusal) => refusal,
            }
        }
        Compiler::Process { program, arguments } => {
            let deadline = limits.compile_deadline;
            match process::run(program, arguments, &order, bytes, deadline, cancelled) {
                Ok(artefact) => return Ok(artefact),
                Err(process::Ended::Refused(refusal)) => refusal,
                Err(process::Ended::Failed(failure)) => return Err(CompileError::Failure(failure)),
                Err(process::Ended::Host(why)) => return Err(CompileError::Host(why)),
            }
        }
    };
    Err(match refusal {
        Refusal::Invalid(why) => CompileError::Invalid(why),
        Refusal::TooMuch(problem) => CompileError::Failure(problem.into()),
        Refusal::Memory => CompileError::Failure(CompileFailure::Memory { limit: limits.compile_memory_bytes }),
        Refusal::Crashed(output) => CompileError::Failure(CompileFailure::Crashed { how: "panic".to_owned(), output }),
    })
}

/// Compiles in this process.
fn compile_here(engine: &Engine, order: &Order, bytes: &[u8]) -> Result<Vec<u8>, Refusal> {
    size::check(bytes, order).map_err(Refusal::TooMuch)?;
    engine.precompile_component(bytes).map_err(|error| match error.downcast_ref::<wasmtime::OutOfMemory>() {
        Some(_) => Refusal::Memory,
        None => Refusal::Invalid(single_line(&format!("{error:#}"), 1000)),
    })
}
