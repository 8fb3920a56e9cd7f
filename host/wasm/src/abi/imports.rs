//! The imports of one version of the interface.

use wasmtime::component::Linker;

use crate::state::CallState;

/// The imports for each kind of plugin, and nothing else.
pub(crate) struct Imports {
    pub(crate) reconcilers: Linker<CallState>,
    pub(crate) composers: Linker<CallState>,
}
