//! The host's knowledge of a guest that uses WASI: its handles, and what it has written to its standard streams without
//! ending the line. `wasi` works with it; who uses no WASI has none of it.

use slab::Slab;
use tokio::time::Instant;
use windlass_core::confidential::Confidential;
use windlass_core::known_secrets::REDACTED;

/// More handles than a runtime needs, and few enough to be nothing.
pub(crate) const MOST_HANDLES: usize = 4_096;
/// Bytes that a guest may write at a time; its toolchains' buffers are smaller.
pub(crate) const WRITTEN_AT_ONCE: usize = 64 << 10;

/// The most bytes of a line that is kept until it ends, where it may have a secret: one that is cut in two is not found.
const LONGEST_KEPT: usize = 64 << 10;

/// The end of a call at WASI. It travels through wasmtime as the cause of the trap.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WasiError {
    /// `exit`, whatever the code: nobody waits for the end of a process here.
    #[error("the plugin ended itself with exit code {0}, and a call ends with an answer")]
    Exit(u8),
    /// Each costs the host memory.
    #[error(
        "the plugin was stopped: it has more than {MOST_HANDLES} handles of WASI (streams, pollables) at once; it must drop \
         those that it has done with"
    )]
    Handles,
    /// A trap by WASI's own words.
    #[error("the plugin was stopped: it polls an empty list, which nothing would ever end")]
    EmptyPoll,
    /// More than `check-write` permits, which is a trap by WASI's own words.
    #[error("the plugin was stopped: it writes more than {WRITTEN_AT_ONCE} bytes to a stream at once")]
    TooMuch,
    /// Others wait for what it would keep.
    #[error(
        "the plugin was stopped: it sleeps while it has memory that is kept back for calls that cannot go on; answer with a later \
         time instead (`requeue-after`)"
    )]
    Rests,
    /// Nothing stands behind the import, and its type has no way to say so.
    #[error("the plugin was stopped: it calls `{0}`, and a plugin has no files, sockets or HTTP by WASI")]
    Refused(String),
    /// An impossible thing for a component that was checked.
    #[error("the plugin was stopped: it uses a handle of WASI that it does not have")]
    NoHandle,
}

impl WasiError {
    /// A fixed label.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Exit(_) => "exit",
            Self::Handles | Self::EmptyPoll | Self::TooMuch | Self::Rests | Self::Refused(_) | Self::NoHandle => "wasi",
        }
    }
}

/// The other side of a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// Standard input: at its end.
    Input,
    /// A stream to write to.
    Output(Output),
    /// Ready from this time of the monotonic clock on, in nanoseconds.
    Pollable(u64),
    /// Nothing: an object of an interface that is only refused.
    Nothing,
}

/// A standard stream to write to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    Stdout,
    Stderr,
}

/// The state of one instance; it outlives a call if the instance does.
#[derive(Debug)]
pub(crate) struct WasiState {
    handles: Slab<Item>,
    stdout: Unended,
    stderr: Unended,
    /// The beginning of the monotonic clock, where time is real.
    pub(crate) epoch: Instant,
}

impl Default for WasiState {
    fn default() -> Self {
        let (stdout, stderr) = (Unended::default(), Unended::default());
        Self { handles: Slab::new(), stdout, stderr, epoch: Instant::now() }
    }
}

impl WasiState {
    /// A handle of `item`.
    pub(crate) fn give(&mut self, item: Item) -> Result<u32, WasiError> {
        if self.handles.len() >= MOST_HANDLES {
            return Err(WasiError::Handles);
        }
        u32::try_from(self.handles.insert(item)).map_err(|_| WasiError::Handles)
    }

    /// The other side of `handle`.
    pub(crate) fn item(&self, handle: u32) -> Result<Item, WasiError> {
        self.handles.get(handle as usize).copied().ok_or(WasiError::NoHandle)
    }

    /// The guest has dropped `handle`.
    pub(crate) fn take_back(&mut self, handle: u32) -> Result<(), WasiError> {
        self.handles.try_remove(handle as usize).map(drop).ok_or(WasiError::NoHandle)
    }

    /// Whether more than half of its handles are in use, between two calls.
    pub(crate) fn keeps_handles(&self) -> bool {
        self.handles.len() > MOST_HANDLES / 2
    }

    /// The text of `stream` since its last line's end.
    pub(crate) fn unended(&mut self, stream: Output) -> &mut Unended {
        match stream {
            Output::Stdout => &mut self.stdout,
            Output::Stderr => &mut self.stderr,
        }
    }
}

/// Text whose line has not ended, never more than [`LONGEST_KEPT`] or than a line may have.
#[derive(Debug, Default)]
pub(crate) struct Unended {
    bytes: Vec<u8>,
    /// The line is too long to look for secrets in it, and is not shown.
    is_withheld: bool,
}

impl Unended {
    /// Adds `bytes`, and hands each line that has ended to `tell`: at a line feed, or at `limit` bytes, the most that a line
    /// may have. Empty lines are left out.
    ///
    /// If `config` has secrets, a line is handed over as one, without them, however much longer than `limit` it is. One of more than
    /// [`LONGEST_KEPT`] bytes is withheld.
    pub(crate) fn add(
        &mut self,
        bytes: &[u8],
        limit: usize,
        config: Option<&Confidential>,
        mut tell: impl FnMut(String),
    ) {
        let config = config.filter(|config| config.has_secrets());
        let limit = if config.is_some() { limit.max(LONGEST_KEPT) } else { limit.max(4) };
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
                self.end().into_iter().for_each(&mut tell);
                self.bytes = kept;
            }
            self.bytes.extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.end().into_iter().for_each(&mut tell);
            }
        }
    }

    /// The line as it is, which ends here. None: it is empty.
    pub(crate) fn end(&mut self) -> Option<String> {
        let Self { bytes, is_withheld } = std::mem::take(self);
        if is_withheld {
            return Some(REDACTED.to_owned());
        }
        let text = String::from_utf8_lossy(&bytes);
        let line = text.trim_end();
        (!line.is_empty()).then(|| line.to_owned())
    }
}

/// The parts of a line that was printed, of at most `limit` bytes each.
pub(crate) fn pieces(mut line: &str, limit: usize) -> impl Iterator<Item = &str> {
    let limit = limit.max(4);
    std::iter::from_fn(move || {
        let (piece, rest) = line.split_at(line.floor_char_boundary(limit));
        line = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Where the last character of `bytes` begins, if it may go on behind them; else their end.
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
    fn a_line_without_end_is_cut_between_characters_at_the_most_that_a_line_may_have() {
        let mut text = Unended::default();
        assert_eq!(lines(&mut text, "aaaaaüüüü".as_bytes(), 6), ["aaaaa", "üüü"]);
        assert_eq!(text.end().as_deref(), Some("ü"));
        assert_eq!(lines(&mut text, &[0xff; 9], 4).len(), 2, "what is no text has no boundaries");
        assert!(text.bytes.len() <= 4);
    }

    #[test]
    fn a_secret_is_found_wherever_its_line_would_be_cut() {
        let secret = "hunter22-and-more";
        let config = Confidential::holding("{}", [Confidential::from(secret)]);
        let printed = |text: &str| {
            let (mut unended, mut lines) = (Unended::default(), Vec::new());
            let mut tell = |line: String| lines.extend(pieces(&config.redact(&line), 100).map(str::to_owned));
            // As a buffer would hand it over.
            text.as_bytes().chunks(7).for_each(|part| unended.add(part, 100, Some(&config), &mut tell));
            unended.end().into_iter().for_each(&mut tell);
            lines
        };
        for before in 80..101 {
            let lines = printed(&format!("{}{secret}{}", "a".repeat(before), "b".repeat(50)));
            assert_eq!(lines.concat(), format!("{}<redacted>{}", "a".repeat(before), "b".repeat(50)));
            assert!(lines.len() == 2 && lines.iter().all(|line| line.len() <= 100), "{lines:?}");
        }
        let too_long = format!("{}{secret}{}", "a".repeat(LONGEST_KEPT - 8), "b".repeat(LONGEST_KEPT));
        assert_eq!(printed(&format!("{too_long}\nshort\n")), [REDACTED, "short"]);
    }

    #[test]
    fn a_handle_that_was_given_back_makes_room_for_another() {
        let mut state = WasiState::default();
        for _ in 0..MOST_HANDLES {
            state.give(Item::Nothing).expect("there is room");
        }
        assert_eq!(state.give(Item::Input), Err(WasiError::Handles));
        state.take_back(7).expect("it was given");
        let handle = state.give(Item::Input).expect("there is room again");
        assert_eq!((state.item(handle), state.take_back(u32::MAX)), (Ok(Item::Input), Err(WasiError::NoHandle)));
    }
}
