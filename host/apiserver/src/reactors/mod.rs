//! Reactors: rules that make the server answer as one does on a bad day. A rule says which requests it is about and
//! what happens to them: errors, delays, dropped connections, older states, disturbed watches, somebody else's edits.
//!
//! `document` is the format, `rules` keeps what is set and decides per request, `watches` disturbs events. What a
//! decision means for a request is carried out by `server/react`.

mod check;
mod document;
mod rules;
pub(crate) mod watches;

pub use check::ReactorError;
pub use document::{
    CallSelector, ClockLeap, CommitSide, ConnectionDrop, EditKind, ErrorAnswer, EventCount, ForeignEdit, Nothing,
    OlderState, Pause, Reaction, ReactorDocument, ReactorRule, RequestFilter, WatchCut, WatchEnd, WatchHide, WatchHold,
};
pub use rules::{ReactorCount, Reactors};

pub(crate) use rules::{ReactorDecision, RequestFacts};
