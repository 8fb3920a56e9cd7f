//! The versions of the WIT package that this host supports, one module each. The newest module contains the behaviour.
//! An older module converts its types and delegates to the newest.

pub(crate) mod v0_2_0;

use std::fmt;

/// A version of `windlass:plugin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AbiVersion {
    /// `windlass:plugin@0.2.0`
    V0_2_0,
}

impl AbiVersion {
    pub const ALL: [Self; 1] = [Self::V0_2_0];

    /// The version in WIT's notation.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V0_2_0 => "0.2.0",
        }
    }
}

impl fmt::Display for AbiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
