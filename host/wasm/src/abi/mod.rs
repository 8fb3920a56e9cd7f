//! The versions of the WIT package that this host supports, one module each. The newest module contains the behaviour.
//! An older module converts its types and delegates to the newest. `linked` has the parts that all versions share.

mod imports;
pub(crate) mod linked;
pub(crate) mod v0_2_0;
pub(crate) mod v0_3_0;

use std::fmt;

/// A version of `windlass:plugin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AbiVersion {
    /// `windlass:plugin@0.2.0`
    V0_2_0,
    /// `windlass:plugin@0.3.0`
    V0_3_0,
}

impl AbiVersion {
    /// All versions, the newest last.
    pub const ALL: [Self; 2] = [Self::V0_2_0, Self::V0_3_0];
    /// The version that the SDKs use.
    pub const NEWEST: Self = Self::V0_3_0;

    /// The version in WIT's notation.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V0_2_0 => "0.2.0",
            Self::V0_3_0 => "0.3.0",
        }
    }

    /// Whether the mapper of a plugin of this version has the function `matches`.
    #[must_use]
    pub fn has_matches(self) -> bool {
        match self {
            Self::V0_2_0 => false,
            Self::V0_3_0 => true,
        }
    }
}

impl fmt::Display for AbiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_is_the_last() {
        assert_eq!(AbiVersion::ALL.last(), Some(&AbiVersion::NEWEST));
    }
}
