//! The problems of a policy and their positions.

use std::fmt;
use std::path::PathBuf;

/// A policy or ceiling that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct PolicyError {
    pub path: PathBuf,
    /// All problems. There is at least one.
    pub problems: Vec<Problem>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line and the column, from 1. `None` if the problem concerns the whole file.
    pub place: Option<(u64, u64)>,
    /// The problem and how to fix it.
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
