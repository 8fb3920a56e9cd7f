//! The modes, and the marker that a test patches.

use std::hint::black_box;

use crate::steady::Steady;

/// The marker that a test finds exactly once in the component's bytes. The test replaces it with the same prefix and
/// another mode, padded with dots to the same length.
static MARKER: [u8; 47] = *b"CHAMELEON-MODE=good............................";

/// The offset of the mode in the marker.
const CHAMELEON_PREFIX_BYTES: usize = 15;

/// The behaviour of the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Good,
    DescribeTraps,
    DescribeUnstable,
    DescribeImports,
    ManifestUnknownField,
    ManifestNotJson,
    ManifestOtherName,
    MissingCrd,
    ReconcileTraps,
    ReconcileTransient,
    ReconcileTerminal,
    ReconcileEmptyFailures,
    ReconcileLoops,
    ReconcileAllocates,
    Requeue,
    Hungry,
    Wide,
    Referring,
    Selecting,
    Mapping,
    /// With the number of the generation.
    Judging(u16),
    Concerned,
    Slim,
    Batch,
    /// The port of the server that the guest calls.
    Outside(u16),
    Finalizing,
    Choosy,
    Configured,
    Kinds,
    Timed,
    Bringing,
    BringingOther,
    Steady(Steady),
    /// The operator with this number, which has its own kind.
    Operator(u16),
}

impl Mode {
    /// Whether the primaries are `ConfigMap`s with any labels.
    pub(crate) fn is_wide(self) -> bool {
        matches!(self, Self::Wide | Self::Choosy | Self::Steady(Steady { is_wide: true, .. }))
    }
}

/// The mode in the marker.
pub(crate) fn chosen() -> Mode {
    // Without the black box, the compiler would evaluate the marker at build time.
    let marker = black_box(&MARKER);
    let name = String::from_utf8_lossy(&marker[CHAMELEON_PREFIX_BYTES..]);
    parse(name.trim_end_matches('.'))
}

/// # Panics
/// If the name is unknown: then the test has patched it wrongly.
fn parse(name: &str) -> Mode {
    if let Some(port) = name.strip_prefix("outside-") {
        return Mode::Outside(port.parse().expect("chameleon: a port"));
    }
    if let Some(steady) = name.strip_prefix("steady-") {
        return Mode::Steady(Steady::parse(steady));
    }
    if let Some(number) = name.strip_prefix("operator-") {
        return Mode::Operator(number.parse().expect("chameleon: a number"));
    }
    if let Some(number) = name.strip_prefix("judging-") {
        return Mode::Judging(number.parse().expect("chameleon: a number"));
    }
    match name {
        "good" => Mode::Good,
        "describe-traps" => Mode::DescribeTraps,
        "describe-unstable" => Mode::DescribeUnstable,
        "describe-imports" => Mode::DescribeImports,
        "manifest-unknown-field" => Mode::ManifestUnknownField,
        "manifest-not-json" => Mode::ManifestNotJson,
        "manifest-other-name" => Mode::ManifestOtherName,
        "missing-crd" => Mode::MissingCrd,
        "reconcile-traps" => Mode::ReconcileTraps,
        "reconcile-transient" => Mode::ReconcileTransient,
        "reconcile-terminal" => Mode::ReconcileTerminal,
        "reconcile-empty-failures" => Mode::ReconcileEmptyFailures,
        "reconcile-loops" => Mode::ReconcileLoops,
        "reconcile-allocates" => Mode::ReconcileAllocates,
        "requeue" => Mode::Requeue,
        "hungry" => Mode::Hungry,
        "wide" => Mode::Wide,
        "referring" => Mode::Referring,
        "selecting" => Mode::Selecting,
        "mapping" => Mode::Mapping,
        "concerned" => Mode::Concerned,
        "slim" => Mode::Slim,
        "batch" => Mode::Batch,
        "finalizing" => Mode::Finalizing,
        "choosy" => Mode::Choosy,
        "configured" => Mode::Configured,
        "kinds" => Mode::Kinds,
        "timed" => Mode::Timed,
        "bringing" => Mode::Bringing,
        "bringing-other" => Mode::BringingOther,
        _ => panic!("chameleon: there is no mode named {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_of_an_unpatched_chameleon_is_good() {
        assert_eq!(chosen(), Mode::Good);
    }
}
