//! The modes of a plugin that is always at work, of which a test makes many generations.

use serde_json::Value;
use windlass_sdk::{Failures, ObjectRef, Outcome, Request, cache, info};

/// After so many milliseconds it asks to run again.
const AGAIN: u32 = 1_000;
/// So often a call reads its object, that it takes a while.
const READS: usize = 10;

/// One generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Steady {
    pub(crate) number: u16,
    pub(crate) traps: bool,
    /// It traps over some objects.
    pub(crate) spoils: bool,
    pub(crate) is_wide: bool,
}

impl Steady {
    /// `N`, with `-traps` or `-spoils` and `-wide` after it.
    pub(crate) fn parse(text: &str) -> Self {
        let mut parts = text.split('-');
        let number = parts.next().and_then(|it| it.parse().ok()).expect("chameleon: a number");
        let how: Vec<_> = parts.collect();
        let has = |what| how.contains(&what);
        Self { number, traps: has("traps"), spoils: has("spoils"), is_wide: has("wide") }
    }
}

pub(crate) fn reconcile(steady: Steady, request: &Request) -> Result<Outcome, Failures> {
    let (name, number) = (&request.name, steady.number);
    let traps = steady.traps || steady.spoils && name.starts_with("bad");
    assert!(!traps, "chameleon {number} was told to trap");
    info!("steady begin {name} {number}");
    let namespace = request.namespace.clone().unwrap_or_default();
    for _ in 0..READS {
        cache::get::<Value>(&ObjectRef::namespaced("v1", "ConfigMap", &namespace, name))?;
    }
    info!("steady end {name} {number}");
    Ok(Outcome::RequeueAfter(AGAIN))
}
