//! The exceptions from the rules about sizes, each with its reason. One that is not needed any more fails the tests.

use crate::findings::Exception;

/// Files that are too long.
pub(crate) const LONG_FILES: &[Exception] = &[];

/// Functions that are too long, as `path: name`.
pub(crate) const LONG_FUNCTIONS: &[Exception] = &[];
