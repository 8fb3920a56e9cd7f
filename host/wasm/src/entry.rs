//! The two kinds of plugins, by the function that the host calls.

/// The function that the host calls in a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryPoint {
    /// `reconcile`: the plugin brings about what should be.
    Reconciler,
    /// `compose`: the plugin says what should be, and the host brings it about.
    Composer,
}

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
