//! Remembers by digest which components were refused, because a file that cost the compiler a minute should not cost
//! another minute each time that it is delivered again or the host is restarted.
//!
//! Only refusals that follow from the bytes and the limits are remembered: with another limit, the file is tried again.
//! They are not remembered forever, because the compiler may have failed due to the state of the machine. `obtain` uses
//! this module.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::artefacts::Artefacts;
use crate::compile::{CompileFailure, terms};
use crate::component::ComponentError;
use crate::engine::CompileEffort;
use crate::limits::Limits;
use crate::load_error::LoadProblem;

/// How long a file is refused without another attempt.
const REFUSAL_REMEMBERED_FOR: Duration = Duration::from_hours(1);
/// More refusals than a directory of plugins can cause.
const REMEMBERED_REFUSALS_MAX: usize = 1_000;

/// The refusals that are remembered for the limits of one sandbox.
#[derive(Debug)]
pub(crate) struct Refusals {
    /// The terms for each effort.
    terms: [(CompileEffort, String); 2],
    known: Mutex<HashMap<(String, CompileEffort), (Refused, Instant)>>,
}

/// The reason for a refusal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Refused {
    Compile(String),
    NoRoom(String),
    Stopped(CompileFailure),
    Component(ComponentError),
}

impl Refused {
    /// `None` if the problem says nothing about the bytes.
    fn of(problem: &LoadProblem) -> Option<Self> {
        Some(match problem {
            LoadProblem::Compile(why) => Self::Compile(why.clone()),
            LoadProblem::NoRoom(why) => Self::NoRoom(why.clone()),
            // The machine may have been busy or short of memory.
            LoadProblem::Stopped(CompileFailure::Deadline { .. } | CompileFailure::Killed) => return None,
            LoadProblem::Stopped(failure) => Self::Stopped(failure.clone()),
            LoadProblem::Component(error) => Self::Component(error.clone()),
            _ => return None,
        })
    }
}

impl From<Refused> for LoadProblem {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Compile(why) => Self::Compile(why),
            Refused::NoRoom(why) => Self::NoRoom(why),
            Refused::Stopped(failure) => Self::Stopped(failure),
            Refused::Component(error) => Self::Component(error),
        }
    }
}

impl Refusals {
    pub(crate) fn new(limits: &Limits) -> Self {
        let terms = [CompileEffort::Full, CompileEffort::Quick].map(|effort| (effort, terms(limits, effort)));
        Self { terms, known: Mutex::default() }
    }

    /// The reason why the component with `digest` is refused if it is compiled with `effort`, if this host, or one with
    /// the same cache, found that recently.
    pub(crate) fn of(&self, digest: &str, effort: CompileEffort, artefacts: Option<&Artefacts>) -> Option<LoadProblem> {
        self.at(Instant::now(), (digest, effort), artefacts)
    }

    fn at(
        &self,
        now: Instant,
        (digest, effort): (&str, CompileEffort),
        artefacts: Option<&Artefacts>,
    ) -> Option<LoadProblem> {
        let name = (digest.to_owned(), effort);
        let here = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&name).cloned();
        let here = here.map(|(refused, since)| (refused, now.saturating_duration_since(since)));
        let kept = || {
            let (text, age) = artefacts?.refusal(digest, self.terms(effort))?;
            Some((serde_json::from_slice(&text).ok()?, age))
        };
        let (refused, age) = here.or_else(kept)?;
        (age < REFUSAL_REMEMBERED_FOR).then(|| {
            tracing::info!(digest, ?age, "refused without compiling it, because the same bytes were refused before");
            refused.into()
        })
    }

    /// Remembers that the component with `digest` has this `problem`, if the bytes are its cause.
    pub(crate) fn keep(
        &self,
        (digest, effort): (&str, CompileEffort),
        problem: &LoadProblem,
        artefacts: Option<&Artefacts>,
    ) {
        let Some(refused) = Refused::of(problem) else { return };
        if let (Some(artefacts), Ok(text)) = (artefacts, serde_json::to_vec(&refused)) {
            artefacts.keep_refusal(digest, self.terms(effort), &text);
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED_REFUSALS_MAX {
            known.clear();
        }
        known.insert((digest.to_owned(), effort), (refused, Instant::now()));
    }

    fn terms(&self, effort: CompileEffort) -> &str {
        self.terms.iter().find(|(of, _)| *of == effort).map_or("", |(_, terms)| terms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusals() -> Refusals {
        Refusals::new(&Limits::default())
    }

    #[test]
    fn a_refusal_caused_by_the_bytes_is_remembered_word_for_word() {
        let memory = LoadProblem::Stopped(CompileFailure::Memory { limit: 1 << 30 });
        let of_the_bytes = [LoadProblem::Compile("no".to_owned()), LoadProblem::NoRoom("no".to_owned()), memory];
        for problem in of_the_bytes {
            let refusals = refusals();
            assert!(refusals.of("a", CompileEffort::Full, None).is_none());
            refusals.keep(("a", CompileEffort::Full), &problem, None);
            assert_eq!(
                refusals.of("a", CompileEffort::Full, None).expect("it is known").to_string(),
                problem.to_string()
            );
            assert!(refusals.of("b", CompileEffort::Full, None).is_none());
            assert!(refusals.of("a", CompileEffort::Quick, None).is_none(), "another effort may have another result");
        }
    }

    #[test]
    fn failures_of_the_machine_or_the_host_are_not_remembered() {
        let late = LoadProblem::Stopped(CompileFailure::Deadline { limit: Duration::from_secs(1) });
        let killed = LoadProblem::Stopped(CompileFailure::Killed);
        for problem in [late, killed, LoadProblem::Host("no".to_owned()), LoadProblem::NotAFile] {
            let refusals = refusals();
            refusals.keep(("a", CompileEffort::Full), &problem, None);
            assert!(refusals.of("a", CompileEffort::Full, None).is_none(), "{problem}");
        }
    }

    #[test]
    fn an_old_refusal_is_tried_again() {
        let refusals = refusals();
        refusals.keep(("a", CompileEffort::Full), &LoadProblem::Compile("no".to_owned()), None);
        let later = Instant::now() + REFUSAL_REMEMBERED_FOR;
        assert!(refusals.at(later, ("a", CompileEffort::Full), None).is_none());
    }

    #[test]
    fn remembered_refusals_are_bounded() {
        let refusals = refusals();
        for number in 0..3 * REMEMBERED_REFUSALS_MAX {
            refusals.keep((&number.to_string(), CompileEffort::Full), &LoadProblem::Compile("no".to_owned()), None);
        }
        assert!(refusals.known.lock().expect("not poisoned").len() <= REMEMBERED_REFUSALS_MAX);
        assert!(refusals.of(&(3 * REMEMBERED_REFUSALS_MAX - 1).to_string(), CompileEffort::Full, None).is_some());
    }
}
