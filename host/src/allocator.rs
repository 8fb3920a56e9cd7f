//! Keeps the memory of a long-running host small.
//!
//! glibc adapts its allocator to the largest blocks that a process has freed: after a plugin or a list of 20 MB, it
//! maps no block below 20 MB on its own, and the heap of each thread keeps up to 40 MB that are free. A host with nine
//! plugins kept 150 MiB in this way. Fixed thresholds end it. glibc reads them only from the environment when a process
//! starts (<https://sourceware.org/glibc/manual/latest/html_node/Memory-Allocation-Tunables.html>), except by a
//! function of C.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) use self::glibc::with_fixed_thresholds;

/// Other allocators return free memory by themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn with_fixed_thresholds() {}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod glibc {
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    /// Larger blocks are mapped on their own, and returned when they are freed. In bytes, as is the next.
    const MAPPED_FROM: &str = "1048576";
    /// A heap keeps at most this much free memory at its end.
    const KEPT_MAX: &str = "4194304";

    /// The variables, each with its value.
    const THRESHOLDS: [(&str, &str); 2] =
        [("MALLOC_MMAP_THRESHOLD_", MAPPED_FROM), ("MALLOC_TRIM_THRESHOLD_", KEPT_MAX)];

    /// Starts this program again, in this process and with the same arguments, unless the environment has thresholds.
    /// Returns if it has, or if the program cannot be started again. The host then works, too, with more memory.
    pub(crate) fn with_fixed_thresholds() {
        if THRESHOLDS.iter().any(|(name, _)| std::env::var_os(name).is_some()) {
            return;
        }
        let Ok(program) = std::env::current_exe() else { return };
        let mut arguments = std::env::args_os();
        let mut again = Command::new(program);
        if let Some(name) = arguments.next() {
            again.arg0(name);
        }
        // This returns only an error, and no work has begun that could be lost.
        let _not_possible = again.args(arguments).envs(THRESHOLDS).exec();
    }
}
