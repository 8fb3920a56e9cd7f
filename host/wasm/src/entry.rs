//! The two kinds of plugins, by the function that the host calls.

/// The function that the host calls in a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryPoint {
    /// `reconcile`: the plugin brings about what should be.
    Reconciler,
    /// `compose`: the plugin says what should be, and the host brings it about.
    Composer,
}
