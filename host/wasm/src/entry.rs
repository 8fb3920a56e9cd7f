//! The two kinds of plugins, by what the host calls.

/// What a plugin is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Entry {
    /// To bring about what should be.
    Reconciler,
    /// To say what should be; the host brings it about.
    Composer,
}
