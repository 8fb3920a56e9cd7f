//! All feature gates in name order. Add a new gate to [`Feature`](super::Feature) too, at the same place;
//! docs/operating/run.md refers to `windlass features` and need not change.

use super::{FeatureGate, FeatureSpec, FeatureStage};

pub(super) static TABLE: [FeatureGate; 6] = [
    FeatureGate {
        name: "AutomaticExpectations",
        // Tests switch it off to show what it is for.
        history: &[FeatureSpec { since: (0, 1), stage: FeatureStage::Ga, default: true, locked: None }],
        needs: &[],
        description: "An object is not reconciled before the caches show what its last call wrote. UNSAFE when off: plugins decide \
                      on caches older than their own writes, and create or delete too much. Off is for tests that show this.",
    },
    FeatureGate {
        name: "ColdCompression",
        history: &[FeatureSpec { since: (0, 1), stage: FeatureStage::Beta, default: true, locked: None }],
        needs: &[],
        description: "Caches keep what nobody reads packed. Off: more memory, and no CPU for packing.",
    },
    FeatureGate {
        name: "ComparableResourceVersions",
        history: &[FeatureSpec { since: (0, 1), stage: FeatureStage::Beta, default: true, locked: None }],
        needs: &[],
        description: "Versions of objects are compared as numbers where the API server promises that they can be (1.35 and later). \
                      Off: whether a cache shows a write is told by UIDs and lists everywhere, which takes longer.",
    },
    FeatureGate {
        name: "FairDispatch",
        history: &[FeatureSpec { since: (0, 1), stage: FeatureStage::Beta, default: true, locked: None }],
        needs: &[],
        description: "Calls are shared out by the CPU that each plugin used. Off: first come, first served, so that a plugin with \
                      many objects holds up the others.",
    },
    FeatureGate {
        name: "FreshnessProof",
        // Can be off so that tests show what it is for, like automatic expectations.
        history: &[FeatureSpec { since: (0, 1), stage: FeatureStage::Ga, default: true, locked: None }],
        needs: &[],
        description: "A replica that takes a plugin over makes no call before its caches are proven to show all that the replica before \
                      it wrote. UNSAFE when off: plugins decide on caches older than that, and create or delete too much. Off is for \
                      tests that show this.",
    },
    FeatureGate {
        name: "WatchList",
        history: &[FeatureSpec { since: (0, 1), stage: FeatureStage::Alpha, default: false, locked: None }],
        needs: &[],
        description: "First lists come as the beginning of a watch where the API server can do that (1.34 and later by default), \
                      which spares its memory. Where it cannot, they come in pages.",
    },
];
