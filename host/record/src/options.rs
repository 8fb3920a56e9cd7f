//! The wish of whoever starts the host.

use std::path::PathBuf;

/// Which calls are recorded, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordOptions {
    /// The directory, which is made if it is missing. Each plugin has one of its own below it.
    pub directory: PathBuf,
    /// The share of calls that is recorded, from 0 to 1.
    pub sample: f64,
    /// The most that the files of one plugin have together, in bytes.
    pub limit: u64,
    /// JSON pointers of values in objects, configurations and HTTP bodies that are redacted too.
    pub redact: Vec<String>,
}
