//! What happens where there is no host: the crate compiles natively so that the logic of plugins can be tested.

/// Panics, outside the host, with the name of the function that only the host has.
pub(crate) fn needs_host(function: &str) {
    let is_hosted = cfg!(target_arch = "wasm32");
    assert!(is_hosted, "{function} needs the Windlass host; in a native test, test the logic around it");
}
