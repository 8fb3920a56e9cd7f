//! The classes of faults.

/// The classes of faults. Coverage is reported for each class.
pub const FAULT_CLASSES: [&str; 23] = [
    "crash",
    "lost",
    "late-restart",
    "failover",
    "swap",
    "foreign-delete",
    "foreign-edit",
    "late",
    "hidden-events",
    "watch-ends",
    "twice",
    "error-403",
    "error-409",
    "error-422",
    "error-429",
    "error-500",
    "error-503",
    "error-504",
    "deleted-child",
    "annotated-child",
    "delay",
    "clock",
    "outage",
];
