//! A guest that attacks its host: one build, many plugins. A test selects the attack by patching the component's bytes.
//! This also changes the plugin's name, so that one directory can contain all of them.
//!
//! The README lists the attacks, and the tests which show that they fail. The guest uses the raw bindings, because the
//! SDK would refuse many attacks, and because small components are compiled quickly.

mod describing;
mod flooding;
mod manifest;
mod marker;
mod outside;
mod spending;
mod trespassing;
mod trials;

use windlass_sdk::bindings::exports::windlass::plugin::reconciler::{Guest, Outcome};
use windlass_sdk::bindings::windlass::plugin::types::{Failure, Request};

/// The result of a `reconcile`.
pub(crate) type Answer = Result<Outcome, Vec<Failure>>;

struct Hostile;

impl Guest for Hostile {
    fn describe() -> String {
        let mode = marker::mode();
        describing::describe(&mode).unwrap_or_else(|| manifest::of(&mode))
    }

    fn reconcile(request: Request) -> Answer {
        let mode = marker::mode_of(&request);
        let families = [spending::reconcile, flooding::reconcile, trespassing::reconcile, outside::reconcile];
        let answer = families.into_iter().find_map(|reconcile| reconcile(&mode, &request));
        answer.unwrap_or_else(|| panic!("hostile: there is no mode named {mode}"))
    }
}

windlass_sdk::export_guest!(Hostile);
