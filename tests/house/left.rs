//! How many breaches of each rule were left when the rule came. They may only become fewer; a rule without any has no number here.

pub(crate) const TOP_CIRCLES: usize = 3;
pub(crate) const FOLDER_CIRCLES: usize = 3;
pub(crate) const NAMES_TWICE: usize = 56;
pub(crate) const NAMES_IN_MANY_CRATES: usize = 12;
pub(crate) const LONG_FILES: usize = 3;
pub(crate) const SECTION_SIGNS: usize = 63;
pub(crate) const DOC_COMMENTS: usize = 899;
pub(crate) const WIDE_LINES: usize = 94;
pub(crate) const MISSING_FILES: usize = 49;
