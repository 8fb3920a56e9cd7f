//! Reactors: rules that simulate a troubled server. A rule selects requests and says what happens to them: errors,
//! delays, dropped connections, older states, disturbed watches, or writes by another client.
//!
//! `document` defines the format, `rules` keeps the rules and decides about each request, and `watches` disturbs
//! events. `server/react` carries out a decision.

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
