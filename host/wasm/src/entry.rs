//! The exports of plugins that the host calls.

/// An export that is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Export {
    /// That of the entry point, with `describe`.
    Entry,
    /// `map`, which a reconciler may have.
    Mapper,
    /// `customize`, which a composer may have.
    Customize,
}
