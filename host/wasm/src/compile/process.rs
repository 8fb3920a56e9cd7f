//! The host's side of a compiler's process: starts it, sends it the bytes, receives the answer, and ends it in any
//! case.
//!
//! All of this happens on one thread, which must be the one that started the process: on Linux, a process that is set
//! to die with its parent dies when the parent's *thread* ends.

use std::ffi::OsString;
use std::io::{ErrorKind, Read, Write as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::Signal;

use crate::text::single_line;

use super::CompileFailure;
use super::order::{Haste, Order, Refusal, answered};

/// The maximum size of the code for a component of `component` bytes. Machine code is about three times as large as
/// WebAssembly. The remaining room is for images of memories: a few bytes can request a large image, which the host
/// would have to hold.
fn code_bytes_max(component: usize) -> usize {
    (64_usize << 20).saturating_add(component.saturating_mul(16))
}

/// The maximum size of the compiler's error output that is kept.
const KEPT_ERROR_OUTPUT_BYTES_MAX: usize = 4096;
/// With more threads, compiling would slow down the guests, and the threads would wait for each other's allocations.
const COMPILE_THREADS_MAX: usize = 4;
/// The interval at which the host checks whether a process that has closed its pipes has ended.
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The reason why there is no code.
pub(super) enum Ended {
    Refused(Refusal),
    Failed(CompileFailure),
    Host(String),
}

/// Makes `program` compile `bytes`.
pub(super) fn run(
    program: &Path,
    arguments: &[OsString],
    order: &Order,
    bytes: &[u8],
    deadline: Duration,
    cancelled: &UnixStream,
) -> Result<Vec<u8>, Ended> {
    let until = Instant::now() + deadline;
    let host = |error: std::io::Error| Ended::Host(format!("the compiler's process: {error}"));
    let mut process = Process(start(program, arguments, order.haste).map_err(|error| {
        Ended::Host(format!("cannot start the compiler's process, {}: {error}", program.display()))
    })?);
    let line = order.line();
    let mut pipes = Pipes::of(&mut process.0, [line.as_bytes(), bytes]).map_err(host)?;
    let most = code_bytes_max(bytes.len());
    match pipes.exchange(until, most, cancelled).map_err(host)? {
        Exchange::Ended => {}
        Exchange::Late => return Err(Ended::Failed(CompileFailure::Deadline { limit: deadline })),
        Exchange::Cancelled => return Err(Ended::Host("the load was cancelled".to_owned())),
        Exchange::Flood => {
            return Err(Ended::Failed(CompileFailure::Crashed {
                how: format!("more than {} MiB of code for {} bytes", most >> 20, bytes.len()),
                output: String::new(),
            }));
        }
    }
    let output = String::from_utf8_lossy(&pipes.errors).into_owned();
    if let Some(answer) = answered(std::mem::take(&mut pipes.answer)) {
        return answer.map_err(Ended::Refused);
    }
    match process.status(until).map_err(host)? {
        None => Err(Ended::Failed(CompileFailure::Deadline { limit: deadline })),
        Some(status) => Err(Ended::Failed(failure(status, &output, order))),
    }
}

fn start(program: &Path, arguments: &[OsString], haste: Haste) -> std::io::Result<Child> {
    let threads = match haste {
        Haste::Awaited => {
            std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(COMPILE_THREADS_MAX)
        }
        Haste::Unhurried => 1,
    };
    Command::new(program)
        .arg0("windlass")
        .args(arguments)
        .env_clear()
        // The process only needs to know how many threads compile, and that they should not reserve a heap each,
        // because address space is limited.
        .env("RAYON_NUM_THREADS", threads.to_string())
        .env("MALLOC_ARENA_MAX", "2")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
}

/// A process that is killed when this is dropped.
struct Process(Child);

impl Process {
    /// Waits for the process to end, but not beyond `until`. `None` if it has not ended by then.
    fn status(&mut self, until: Instant) -> std::io::Result<Option<ExitStatus>> {
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(Some(status));
            }
            if Instant::now() >= until {
                return Ok(None);
            }
            std::thread::sleep(EXIT_POLL_INTERVAL);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // This fails if the process has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The data that is exchanged over the pipes.
struct Pipes<'a> {
    /// `None` once all input has been sent.
    input: Option<ChildStdin>,
    left: [&'a [u8]; 2],
    output: ChildStdout,
    /// `None` once the pipe is closed.
    error_output: Option<ChildStderr>,
    answer: Vec<u8>,
    errors: Vec<u8>,
}

enum Exchange {
    Ended,
    Late,
    Cancelled,
    Flood,
}

impl<'a> Pipes<'a> {
    fn of(child: &mut Child, input: [&'a [u8]; 2]) -> std::io::Result<Self> {
        let missing = || std::io::Error::other("it has no pipes");
        let pipes = Self {
            input: Some(child.stdin.take().ok_or_else(missing)?),
            left: input,
            output: child.stdout.take().ok_or_else(missing)?,
            error_output: Some(child.stderr.take().ok_or_else(missing)?),
            answer: Vec::new(),
            errors: Vec::new(),
        };
        if let Some(input) = &pipes.input {
            ioctl_fionbio(input, true)?;
        }
        ioctl_fionbio(&pipes.output, true)?;
        if let Some(errors) = &pipes.error_output {
            ioctl_fionbio(errors, true)?;
        }
        Ok(pipes)
    }

    /// Sends and receives data until the process has closed its output.
    fn exchange(&mut self, until: Instant, most: usize, cancelled: &UnixStream) -> std::io::Result<Exchange> {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Exchange::Late);
            }
            if self.wait(left, cancelled)? {
                return Ok(Exchange::Cancelled);
            }
            self.write_input()?;
            if let Some(errors) = &mut self.error_output
                && read_available(errors, &mut buffer, &mut self.errors)?
            {
                self.error_output = None;
            }
            // Only the end of the error output is kept, because it says more than the beginning.
            let surplus = self.errors.len().saturating_sub(KEPT_ERROR_OUTPUT_BYTES_MAX);
            self.errors.drain(..surplus);
            if read_available(&mut self.output, &mut buffer, &mut self.answer)? {
                return Ok(Exchange::Ended);
            }
            if self.answer.len() > most {
                return Ok(Exchange::Flood);
            }
        }
    }

    /// Waits until any of the pipes is ready. Returns whether the load was cancelled.
    fn wait(&self, most: Duration, cancelled: &UnixStream) -> std::io::Result<bool> {
        let mut polled = vec![PollFd::new(cancelled, PollFlags::IN), PollFd::new(&self.output, PollFlags::IN)];
        polled.extend(self.error_output.as_ref().map(|errors| PollFd::new(errors, PollFlags::IN)));
        polled.extend(self.input.as_ref().map(|input| PollFd::new(input, PollFlags::OUT)));
        let most = Timespec::try_from(most).map_err(std::io::Error::other)?;
        match poll(&mut polled, Some(&most)) {
            Ok(_) => Ok(!polled[0].revents().is_empty()),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn write_input(&mut self) -> std::io::Result<()> {
        let Some(input) = &mut self.input else { return Ok(()) };
        while let Some(part) = self.left.iter_mut().find(|part| !part.is_empty()) {
            match input.write(part) {
                Ok(written) => *part = &part[written..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The process has ended or is ending; its exit status says more.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
                Err(error) => return Err(error),
            }
        }
        self.input = None;
        Ok(())
    }
}

/// Appends available data to `to`. Returns whether the end was reached.
fn read_available(from: &mut impl Read, buffer: &mut [u8], to: &mut Vec<u8>) -> std::io::Result<bool> {
    match from.read(buffer) {
        Ok(0) => Ok(true),
        Ok(read) => {
            to.extend_from_slice(&buffer[..read]);
            Ok(false)
        }
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The reason why a process ended without an answer.
fn failure(status: ExitStatus, output: &str, order: &Order) -> CompileFailure {
    let memory = CompileFailure::Memory { limit: order.memory_bytes };
    let is = |signal: Signal| status.signal() == Some(signal.as_raw());
    // Rust prints this text before it aborts for lack of memory.
    if output.contains("memory allocation of ") {
        memory
    } else if is(Signal::XCPU) {
        CompileFailure::Cpu { limit: Duration::from_secs(order.cpu_seconds) }
    } else if is(Signal::KILL) {
        CompileFailure::Killed
    } else {
        let how = match (status.signal(), status.code()) {
            (Some(number), _) => Signal::from_named_raw(number)
                .map_or_else(|| format!("signal {number}"), |signal| format!("signal {signal:?}")),
            (None, code) => format!("exit code {}", code.unwrap_or_default()),
        };
        CompileFailure::Crashed { how, output: single_line(output.trim(), 500) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::CompileEffort;
    use crate::limits::Limits;

    fn failed(wait_status: i32, output: &str) -> &'static str {
        failure(
            ExitStatus::from_raw(wait_status),
            output,
            &Order::new(&Limits::default(), (CompileEffort::Full, Haste::Awaited), 0),
        )
        .reason()
    }

    #[test]
    fn the_way_the_compiler_ended_determines_the_limit_named() {
        assert_eq!(failed(Signal::XCPU.as_raw(), ""), "compile-cpu");
        assert_eq!(failed(Signal::ABORT.as_raw(), "memory allocation of 4096 bytes failed"), "compile-memory");
        assert_eq!(failed(Signal::ABORT.as_raw(), "thread panicked while panicking"), "compile-crash");
        assert_eq!(failed(Signal::SEGV.as_raw(), ""), "compile-crash");
        assert_eq!(failed(Signal::KILL.as_raw(), ""), "compile-crash");
        assert_eq!(failed(1 << 8, ""), "compile-crash");
    }

    /// The result of compiling with `script` within `deadline`.
    fn ordered(script: &str, bytes: &[u8], deadline: Duration, cancelled: &UnixStream) -> Result<Vec<u8>, Ended> {
        let arguments = ["-c".into(), script.into()];
        let order = Order::new(&Limits::default(), (CompileEffort::Full, Haste::Awaited), bytes.len());
        run(Path::new("/bin/sh"), &arguments, &order, bytes, deadline, cancelled)
    }

    #[test]
    fn a_process_that_neither_reads_nor_answers_is_ended_at_the_deadline() {
        let (cancelled, _waiting) = UnixStream::pair().expect("a pair");
        let ended = ordered("exec sleep 600", &vec![0; 1 << 20], Duration::from_millis(200), &cancelled);
        assert!(matches!(ended, Err(Ended::Failed(CompileFailure::Deadline { .. }))));
        // The deadline also ends a process that has closed its output.
        let ended = ordered("exec >&- 2>&-; exec sleep 600", &[], Duration::from_millis(200), &cancelled);
        assert!(matches!(ended, Err(Ended::Failed(CompileFailure::Deadline { .. }))));
    }

    #[test]
    fn a_compiler_process_without_a_waiting_host_is_ended() {
        let (cancelled, waiting) = UnixStream::pair().expect("a pair");
        drop(waiting);
        let ended = ordered("exec sleep 600", &[], Duration::from_mins(10), &cancelled);
        assert!(matches!(ended, Err(Ended::Host(_))));
    }

    #[test]
    fn an_incomplete_answer_of_the_compiler_is_refused() {
        let (cancelled, _waiting) = UnixStream::pair().expect("a pair");
        let time = Duration::from_mins(1);
        let whole = r"cat >/dev/null; printf 'A\003\000\000\000\000\000\000\000abc'";
        assert!(matches!(ordered(whole, b"component", time, &cancelled), Ok(code) if code == b"abc"));
        let half = r"cat >/dev/null; printf 'A\004\000\000\000\000\000\000\000abc'";
        assert!(matches!(
            ordered(half, b"component", time, &cancelled),
            Err(Ended::Failed(CompileFailure::Crashed { .. }))
        ));
        let flood = "cat /dev/zero >&2 & exec sleep 600";
        let short = Duration::from_millis(300);
        assert!(matches!(ordered(flood, &[], short, &cancelled), Err(Ended::Failed(CompileFailure::Deadline { .. }))));
    }

    #[test]
    fn the_compiler_does_not_get_the_hosts_environment() {
        let (cancelled, _waiting) = UnixStream::pair().expect("a pair");
        let script = "export -p >&2; exit 3";
        let Err(Ended::Failed(CompileFailure::Crashed { how, output })) =
            ordered(script, &[], Duration::from_mins(1), &cancelled)
        else {
            panic!("it answered nothing");
        };
        assert_eq!(how, "exit code 3");
        assert!(!output.contains("HOME=") && !output.contains("CARGO"), "{output}");
    }
}
