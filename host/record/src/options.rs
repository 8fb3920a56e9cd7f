//! The options of recording.

use std::path::PathBuf;

/// Which calls to record, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordOptions {
    /// The directory. It is created if it does not exist. Each plugin has its own directory below it.
    pub directory: PathBuf,
    /// The share of calls to record, from 0 to 1.
    pub sample: f64,
    /// The maximum total size of one plugin's files, in bytes.
    pub limit: u64,
    /// JSON pointers to further values to redact, in objects, configurations and HTTP bodies.
    pub redact: Vec<String>,
}
