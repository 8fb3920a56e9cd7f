//! All feature gates in name order. Add a new gate to [`Feature`](super::Feature) too, at the same place;
//! docs/operating/run.md refers to `windlass features` and need not change.

use super::{FeatureGate, FeatureSpec, FeatureStage};

pub(super) static TABLE: [FeatureGate; 7] = [
    FeatureGate {
        name: "AutomaticExpectations",
        // Tests switch the gate off to show the effect of the feature.
        history: &[FeatureSpec { since: (0, 1), stage: FeatureStage::Ga, default: true, locked: None }],
        needs: &[],
        description: "An object is reconciled only after the caches show the writes of its last call. UNSAFE when off: plugins decide \
                      on caches older than their own writes, and create or delete too much. Off is for tests that show this.",
    },
    FeatureGate {
        name: "ColdCompression",
        history: &[FeatureSpec { since: (0, 1), stage: FeatureStage::Beta, default: true, locked: None }],
        needs: &[],
        description: "Caches compress objects that are not read. Off: more memory, and no CPU for compression.",
    },
    FeatureGate {
        name: "ComparableResourceVersions",
        history: &[FeatureSpec { since: (0, 1), stage: FeatureStage::Beta, default: true, locked: None }],
        needs: &[],
        description: "Versions of objects are compared as numbers if the API server guarantees that this is possible (1.35 and later). \
                      Off: UIDs and lists decide whether a cache shows a write, which takes longer.",
    },
    FeatureGate {
        name: "FairDispatch",
        history: &[FeatureSpec { since: (0, 1), stage: FeatureStage::Beta, default: true, locked: None }],
        needs: &[],
        description: "Plugins share the time for calls fairly, by the CPU that each has used. Off: first come, first served, so that a \
                      plugin with many objects delays other plugins.",
    },
    FeatureGate {
        name: "FreshnessProof",
        // Tests switch the gate off to show the effect of the feature.
        history: &[FeatureSpec { since: (0, 1), stage: FeatureStage::Ga, default: true, locked: None }],
        needs: &[],
        description: "A replica that takes over a plugin makes no calls before its caches are proven to show all writes of the previous \
                      replica. UNSAFE when off: plugins decide on older caches, and create or delete too much. Off is for tests \
                      that show this.",
    },
    FeatureGate {
        name: "SavedCalls",
        history: &[FeatureSpec { since: (0, 1), stage: FeatureStage::Alpha, default: false, locked: None }],
        needs: &[],
        description: "A call of a reconciler is not made if it would read the same as the last call about its object, and that call \
                      changed nothing. Some of these calls are made nevertheless, to see whether they do change nothing. Plugins \
                      must not depend on anything but what they read.",
    },
    FeatureGate {
        name: "WatchList",
        history: &[FeatureSpec { since: (0, 1), stage: FeatureStage::Alpha, default: false, locked: None }],
        needs: &[],
        description: "First lists are requested as the beginning of a watch if the API server supports that (1.34 and later by default), \
                      which saves memory in the server. Otherwise, they are requested in pages.",
    },
];
