//! The modes of a plugin that works all the time. A test makes many generations of it.

use serde_json::Value;
use windlass_sdk::{Failures, ObjectRef, Outcome, Request, cache, info};

/// The delay after which the plugin asks to run again, in milliseconds.
const STEADY_REQUEUE_MILLIS: u32 = 1_000;
/// The number of times that a call reads its object, so that the call takes a while.
const STEADY_READS: usize = 10;

/// The objects whose calls trap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Traps {
    Never,
    /// The objects whose names begin with `bad`.
    OverBad,
    Always,
}

/// One generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Steady {
    pub(crate) number: u16,
    pub(crate) traps: Traps,
    pub(crate) is_wide: bool,
    /// Whether the manifest has a definition, which contains the plugin's number.
    pub(crate) brings: bool,
}

impl Steady {
    /// Parses `N`, which may be followed by `-traps`, `-spoils`, `-wide` and `-brings`.
    pub(crate) fn parse(text: &str) -> Self {
        let mut parts = text.split('-');
        let number = parts.next().and_then(|it| it.parse().ok()).expect("chameleon: a number");
        let how: Vec<_> = parts.collect();
        let has = |what| how.contains(&what);
        let traps = match (has("traps"), has("spoils")) {
            (true, _) => Traps::Always,
            (false, true) => Traps::OverBad,
            (false, false) => Traps::Never,
        };
        Self { number, traps, is_wide: has("wide"), brings: has("brings") }
    }
}

pub(crate) fn reconcile(steady: Steady, request: &Request) -> Result<Outcome, Failures> {
    let (name, number) = (&request.name, steady.number);
    let traps = match steady.traps {
        Traps::Never => false,
        Traps::OverBad => name.starts_with("bad"),
        Traps::Always => true,
    };
    assert!(!traps, "chameleon {number} was told to trap");
    info!("steady begin {name} {number}");
    let namespace = request.namespace.clone().unwrap_or_default();
    for _ in 0..STEADY_READS {
        cache::get::<Value>(&ObjectRef::namespaced("v1", "ConfigMap", &namespace, name))?;
    }
    info!("steady end {name} {number}");
    Ok(Outcome::RequeueAfter(STEADY_REQUEUE_MILLIS))
}
