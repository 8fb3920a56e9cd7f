//! The modes of a plugin that is always at work. A test makes many generations of it.

use serde_json::Value;
use windlass_sdk::{Failures, ObjectRef, Outcome, Request, cache, info};

/// The milliseconds after which it asks to run again.
const STEADY_REQUEUE_MILLIS: u32 = 1_000;
/// How often a call reads its object, so that it takes a while.
const STEADY_READS: usize = 10;

/// The objects over which a generation traps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Traps {
    Never,
    /// Those whose names begin with this text.
    OverBad,
    Always,
}

/// One generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Steady {
    pub(crate) number: u16,
    pub(crate) traps: Traps,
    pub(crate) is_wide: bool,
    /// It has a definition, which contains its number.
    pub(crate) brings: bool,
}

impl Steady {
    /// `N`, with `-traps` or `-spoils` `-wide` and `-brings` after it.
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
