//! Problems of a policy, and their places.

use std::fmt;
use std::path::PathBuf;

/// A policy or ceiling that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct PolicyError {
    pub path: PathBuf,
    /// All that is wrong; never empty.
    pub problems: Vec<Problem>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line and the column, from 1. None: it concerns the file as a whole.
    pub place: Option<(u64, u64)>,
    /// The problem, and what to do.
    pub what: String,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Problem { place, what }) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            match place {
                Some((line, column)) => write!(f, "{}:{line}:{column}: {what}", self.path.display())?,
                None => write!(f, "{}: {what}", self.path.display())?,
            }
        }
        Ok(())
    }
}
