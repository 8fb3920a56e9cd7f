//! The state of a guest that uses WASI: its handles, and the unfinished lines that it has written to its standard
//! streams. Used by `wasi`; a plugin without WASI has no such state.

use std::mem::take;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::time::Instant;
use wasmtime::component::{ResourceTable, ResourceTableError};
use wasmtime_wasi::{I32Exit, WasiCtx};
use wasmtime_wasi_http::FieldMapError;
use windlass_core::call::http::REQUEST_HEADER_BYTES_MAX;
use windlass_core::secret::confidential::Confidential;
use windlass_core::secret::known_secrets::REDACTED;

use crate::wasi_http_state::{HTTP_BODY_BYTES_MAX, HTTP_HEADER_BYTES_MAX, HttpState};

/// The maximum number of entries in an instance's table of handles, far more than a runtime needs. A pollable of a
/// clock takes two.
pub(crate) const WASI_HANDLES_MAX: usize = 4_096;
/// The maximum number of bytes that a guest may write at once; its toolchains' buffers are smaller.
pub(crate) const WASI_WRITE_BYTES_MAX: usize = 64 << 10;

/// The maximum size of an unfinished line that is kept if it may contain a secret, because a secret that is cut in two
/// is not found.
const UNENDED_LINE_BYTES_MAX: usize = 64 << 10;

/// The reason why WASI ended a call. This error travels through wasmtime as the cause of the trap.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WasiError {
    /// The guest called `exit`. There is no process whose exit code would matter.
    #[error("the plugin exited with exit code {0}; a call must end with an answer instead")]
    Exit(i32),
    /// The table of handles is full. Each handle costs memory in the host.
    #[error(
        "the plugin was stopped: it has more than {WASI_HANDLES_MAX} handles of WASI (streams, pollables) at once; it must drop \
         handles that it no longer needs"
    )]
    Handles,
    /// The guest polls an empty list, for which WASI specifies a trap.
    #[error("the plugin was stopped: it polls an empty list, so it would wait forever")]
    EmptyPoll,
    /// The guest wrote more than `check-write` permits, for which WASI specifies a trap.
    #[error("the plugin was stopped: it writes more than {WASI_WRITE_BYTES_MAX} bytes to a stream at once")]
    TooMuch,
    /// The sleeping guest would keep memory that other calls wait for.
    #[error(
        "the plugin was stopped: it sleeps while it holds the memory reserve, which is for calls that cannot go on without it; \
         return `requeue-after` instead of sleeping"
    )]
    Rests,
    /// The host does not support the import, and its type cannot express a refusal.
    #[error("the plugin was stopped: it calls `{0}`, which this host does not give to plugins")]
    Refused(String),
    /// The guest drops a stream before the stream's pollables, for which WASI specifies a trap.
    #[error("the plugin was stopped: it drops a stream of WASI before it drops the pollables of that stream")]
    Children,
    /// Impossible as long as there are only pollables of clocks and HTTP requests. Nothing would ever wake the call.
    #[error(
        "the call was stopped because of a bug in the host: it waits for something that is neither the clock nor an \
         HTTP request, and would never wake up"
    )]
    NeverReady,
    /// The host sends a request when its body is complete, so the guest would wait forever.
    #[error(
        "the plugin was stopped: it waits for the answer to an HTTP request whose body it has not finished, and the host sends whole \
         requests only"
    )]
    OpenBody,
    /// The host holds these bodies in memory.
    #[error(
        "the plugin was stopped: it has more than {} MiB of HTTP bodies at once, of requests that are not answered and of responses \
         that it has not read", HTTP_BODY_BYTES_MAX >> 20
    )]
    Bodies,
    /// Too many HTTP headers.
    #[error(
        "the plugin was stopped: its HTTP headers have more than {} KiB in one list, or {} MiB in all that it has not dropped",
        REQUEST_HEADER_BYTES_MAX >> 10, HTTP_HEADER_BYTES_MAX >> 20
    )]
    Headers,
    /// Impossible for a component that wasmtime has validated.
    #[error("the plugin was stopped: it uses a handle of WASI that it does not have")]
    NoHandle,
}

impl WasiError {
    /// The WASI error in `error`, if there is one: of this type, or of a type by which `wasmtime-wasi` expresses the
    /// same error.
    pub(crate) fn of(error: &wasmtime::Error) -> Option<Self> {
        let exit = || error.downcast_ref::<I32Exit>().map(|exit| Self::Exit(exit.0));
        let of_table = || error.downcast_ref::<ResourceTableError>().map(Self::of_table);
        let of_headers = || error.downcast_ref::<FieldMapError>().map(|_| Self::Headers);
        error.downcast_ref::<Self>().cloned().or_else(exit).or_else(of_table).or_else(of_headers)
    }

    fn of_table(error: &ResourceTableError) -> Self {
        match error {
            ResourceTableError::Full => Self::Handles,
            ResourceTableError::HasChildren => Self::Children,
            ResourceTableError::NotPresent | ResourceTableError::WrongType => Self::NoHandle,
        }
    }

    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Exit(_) => "exit",
            Self::NeverReady => "host",
            Self::Handles
            | Self::EmptyPoll
            | Self::TooMuch
            | Self::Rests
            | Self::Refused(_)
            | Self::OpenBody
            | Self::Bodies
            | Self::Headers
            | Self::Children
            | Self::NoHandle => "wasi",
        }
    }
}

/// A standard output stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    Stdout,
    Stderr,
}

/// The state of one instance, which outlives a call if the instance does.
pub(crate) struct WasiState {
    /// The context of `wasmtime-wasi`, without arguments, environment, directories, sockets or names. It does not
    /// provide time, random data and output, because these are implemented here.
    pub(crate) ctx: WasiCtx,
    /// The host's side of all handles.
    pub(crate) table: ResourceTable,
    /// Shared with the pollables of the clock.
    pub(crate) timer: Arc<Timer>,
    /// Shared with the output streams.
    pub(crate) printed: Printed,
    stdout: Unended,
    stderr: Unended,
    /// The state of `wasi:http`.
    pub(crate) http: HttpState,
    /// The start of the monotonic clock, if time is real.
    pub(crate) epoch: Instant,
}

impl Default for WasiState {
    fn default() -> Self {
        let mut table = ResourceTable::new();
        table.set_max_capacity(WASI_HANDLES_MAX);
        let ctx = WasiCtx::builder().allow_tcp(false).allow_udp(false).allow_ip_name_lookup(false).build();
        let (stdout, stderr) = (Unended::default(), Unended::default());
        let (timer, printed) = (Arc::default(), Printed::default());
        Self { ctx, table, timer, printed, stdout, stderr, http: HttpState::default(), epoch: Instant::now() }
    }
}

impl WasiState {
    /// Whether more than half of the table is in use between two calls. Such an instance serves no further call, so
    /// each call has room for at least 2,048 handles, of which a pollable of a clock takes two.
    pub(crate) fn keeps_handles(&mut self) -> bool {
        self.table.iter_mut().nth(WASI_HANDLES_MAX / 2).is_some()
    }

    /// Records that headers behind handles may have grown by `bytes`. Fails if they are too large now.
    pub(crate) fn headers_grow(&mut self, bytes: usize) -> Result<(), WasiError> {
        self.http.headers_grow(bytes, self.table.iter_mut())
    }

    /// The unfinished line of `stream`.
    pub(crate) fn unended(&mut self, stream: Output) -> &mut Unended {
        match stream {
            Output::Stdout => &mut self.stdout,
            Output::Stderr => &mut self.stderr,
        }
    }
}

/// The guest's monotonic clock in nanoseconds, for the pollables of the clock, which cannot access the call.
#[derive(Debug, Default)]
pub(crate) struct Timer {
    now: AtomicU64,
    /// The earliest time for which a pollable waits since `now` was set. `None` if no pollable of the clock waits.
    due: Mutex<Option<u64>>,
}

impl Timer {
    /// Sets `now` for the pollables that are polled from here on.
    pub(crate) fn show(&self, now: u64) {
        self.now.store(now, Ordering::Relaxed);
        *self.locked_due() = None;
    }

    /// Whether the clock has reached `when`. If not, records `when` as a time to wait for.
    pub(crate) fn has_reached(&self, when: u64) -> bool {
        let is_past = when <= self.now.load(Ordering::Relaxed);
        if !is_past {
            let mut due = self.locked_due();
            *due = Some(due.map_or(when, |earlier| earlier.min(when)));
        }
        is_past
    }

    /// The earliest time for which a pollable waits. `None` if no pollable of the clock waits.
    pub(crate) fn due(&self) -> Option<u64> {
        *self.locked_due()
    }

    fn locked_due(&self) -> MutexGuard<'_, Option<u64>> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Output on its way from the streams to the log, because the streams cannot access the call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Printed(Arc<Mutex<Vec<(Output, Bytes)>>>);

impl Printed {
    pub(crate) fn add(&self, output: Output, bytes: Bytes) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((output, bytes));
    }

    pub(crate) fn take(&self) -> Vec<(Output, Bytes)> {
        take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// An unfinished line. It never exceeds [`UNENDED_LINE_BYTES_MAX`], or the maximum length of a line.
#[derive(Debug, Default)]
pub(crate) struct Unended {
    bytes: Vec<u8>,
    /// Whether the line is too long to be searched for secrets, and is not shown.
    is_withheld: bool,
}

impl Unended {
    /// Adds `bytes`, and passes each finished line to `log`. A line ends at a line feed, or at `limit` bytes, the
    /// maximum length of a line. Empty lines are omitted.
    ///
    /// If `config` has secrets, a line is passed on as a whole and redacted, however much longer than `limit` it is. A
    /// line of more than [`UNENDED_LINE_BYTES_MAX`] bytes is withheld.
    pub(crate) fn add(
        &mut self,
        bytes: &[u8],
        limit: usize,
        config: Option<&Confidential>,
        mut log: impl FnMut(String),
    ) {
        let config = config.filter(|config| config.has_secrets());
        let limit = if config.is_some() { limit.max(UNENDED_LINE_BYTES_MAX) } else { limit.max(4) };
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let mut part = part;
            while self.bytes.len() + part.len() > limit {
                if config.is_some() {
                    self.bytes.clear();
                    (self.is_withheld, part) = (true, &part[part.len() - 1..]);
                    break;
                }
                let (fits, rest) = part.split_at(limit - self.bytes.len());
                self.bytes.extend_from_slice(fits);
                part = rest;
                let kept = self.bytes.split_off(last_boundary(&self.bytes));
                self.end().into_iter().for_each(&mut log);
                self.bytes = kept;
            }
            self.bytes.extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.end().into_iter().for_each(&mut log);
            }
        }
    }

    /// Ends the line and returns it. `None` if it is empty.
    pub(crate) fn end(&mut self) -> Option<String> {
        let Self { bytes, is_withheld } = take(self);
        if is_withheld {
            return Some(REDACTED.to_owned());
        }
        let text = String::from_utf8_lossy(&bytes);
        let line = text.trim_end();
        (!line.is_empty()).then(|| line.to_owned())
    }
}

/// The parts of a printed line, of at most `limit` bytes each.
pub(crate) fn pieces(mut line: &str, limit: usize) -> impl Iterator<Item = &str> {
    let limit = limit.max(4);
    std::iter::from_fn(move || {
        let (piece, rest) = line.split_at(line.floor_char_boundary(limit));
        line = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Where the last character of `bytes` begins, if that character may be incomplete. Otherwise the end of `bytes`.
fn last_boundary(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &mut Unended, bytes: &[u8], limit: usize) -> Vec<String> {
        let mut lines = Vec::new();
        text.add(bytes, limit, None, |line| lines.push(line));
        lines
    }

    #[test]
    fn lines_end_at_line_feeds_and_the_rest_waits() {
        let mut text = Unended::default();
        assert_eq!(lines(&mut text, b"one\r\ntwo\n\nthr", 100), ["one", "two"]);
        assert_eq!(lines(&mut text, b"ee", 100), [""; 0]);
        assert_eq!(lines(&mut text, b"\nfour", 100), ["three"]);
        assert_eq!((text.end(), text.end()), (Some("four".to_owned()), None));
    }

    #[test]
    fn a_line_without_an_end_is_cut_between_characters_at_the_limit() {
        let mut text = Unended::default();
        assert_eq!(lines(&mut text, "aaaaaüüüü".as_bytes(), 6), ["aaaaa", "üüü"]);
        assert_eq!(text.end().as_deref(), Some("ü"));
        assert_eq!(lines(&mut text, &[0xff; 9], 4).len(), 2, "bytes that are not text have no boundaries");
        assert!(text.bytes.len() <= 4);
    }

    #[test]
    fn a_secret_is_found_wherever_its_line_would_be_cut() {
        let secret = "hunter22-and-more";
        let config = Confidential::holding("{}", [Confidential::from(secret)]);
        let printed = |text: &str| {
            let (mut unended, mut lines) = (Unended::default(), Vec::new());
            let mut log = |line: String| lines.extend(pieces(&config.redact(&line), 100).map(str::to_owned));
            // In chunks, as from a buffer.
            text.as_bytes().chunks(7).for_each(|part| unended.add(part, 100, Some(&config), &mut log));
            unended.end().into_iter().for_each(&mut log);
            lines
        };
        for before in 80..101 {
            let lines = printed(&format!("{}{secret}{}", "a".repeat(before), "b".repeat(50)));
            assert_eq!(lines.concat(), format!("{}<redacted>{}", "a".repeat(before), "b".repeat(50)));
            assert!(lines.len() == 2 && lines.iter().all(|line| line.len() <= 100), "{lines:?}");
        }
        let too_long =
            format!("{}{secret}{}", "a".repeat(UNENDED_LINE_BYTES_MAX - 8), "b".repeat(UNENDED_LINE_BYTES_MAX));
        assert_eq!(printed(&format!("{too_long}\nshort\n")), [REDACTED, "short"]);
    }

    #[test]
    fn a_handle_that_was_given_back_makes_room_for_another() {
        let table = &mut WasiState::default().table;
        let handles: Vec<_> = (0..WASI_HANDLES_MAX).map(|_| table.push("").expect("there is room")).collect();
        let error = table.push(()).map(drop).expect_err("it is full");
        assert_eq!(WasiError::of(&error.into()), Some(WasiError::Handles));
        let given_back = handles.into_iter().next().expect("there are handles");
        table.delete(given_back).expect("it was given");
        assert!(table.push(()).is_ok(), "there is room again");
    }

    #[test]
    fn a_timer_is_due_when_its_first_pollable_is() {
        let timer = Timer::default();
        timer.show(10);
        assert_eq!([5, 10, 30, 20].map(|when| timer.has_reached(when)), [true, true, false, false]);
        assert_eq!(timer.due(), Some(20));
        timer.show(20);
        assert_eq!((timer.has_reached(20), timer.due()), (true, None));
    }
}
