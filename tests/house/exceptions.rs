//! The exceptions from the rules about sizes, each with its reason. An exception that is no longer needed fails the
//! tests.

use crate::findings::Exception;

/// Files that are too long.
pub(crate) const LONG_FILES: &[Exception] = &[];

/// Functions that are too long, as `path: name`.
pub(crate) const LONG_FUNCTIONS: &[Exception] = &[];
