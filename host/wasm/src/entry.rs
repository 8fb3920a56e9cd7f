//! The exports of plugins that the host calls.

/// An export to call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Export {
    /// The entry point, together with `describe`.
    Entry,
    /// `map` and `matches`, an optional export of a reconciler.
    Mapper,
    /// `customize`, an optional export of a composer.
    Customize,
}
