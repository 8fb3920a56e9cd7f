//! The limits of a store and of its pulls.

use std::time::Duration;

use windlass_oci::RegistryLimits;

/// The limits of a store.
#[derive(Clone, Debug)]
pub struct StoreLimits {
    /// The size of all files together, in bytes.
    pub bytes: u64,
    /// The size of the plugins that are not in use, in bytes. They are kept for a return to an earlier version.
    pub unused_bytes: u64,
    /// The number of plugins that are not in use.
    pub unused_plugins: usize,
    /// The number of concurrent pulls. Further pulls wait.
    pub pulls: usize,
    /// The number of concurrent pulls from one server, so that a slow one leaves room for others.
    pub pulls_per_server: usize,
    /// The time for a manifest or a component from one server, after the wait for other pulls.
    pub pull_time: Duration,
    /// The limits of everything that a registry sends.
    pub registry: RegistryLimits,
}

impl Default for StoreLimits {
    fn default() -> Self {
        Self {
            bytes: 4 << 30,
            unused_bytes: 512 << 20,
            unused_plugins: 32,
            pulls: 4,
            pulls_per_server: 2,
            pull_time: Duration::from_mins(10),
            registry: RegistryLimits {
                manifest_bytes: 256 << 10,
                // The schedule waits instead: a pull that waits would keep others from pulling.
                busy_waits: 0,
                bytes_per_second: 128 << 10,
                ..RegistryLimits::default()
            },
        }
    }
}
