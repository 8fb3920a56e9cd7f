//! The plugin's log. The host adds the plugin, the controller, the object and the trace to each line.
//!
//! The macros [`trace!`](crate::trace), [`debug!`](crate::debug), [`info!`](crate::info), [`warn!`](crate::warn) and
//! [`error!`](crate::error) take a message, which may capture variables, and fields:
//!
//! ```
//! let (name, replicas) = ("shop", 2);
//! windlass_sdk::info!("scaled {name}", replicas = replicas);
//! ```
//!
//! In a native test, lines go to stderr too.

use std::fmt::Display;

pub use crate::bindings::windlass::plugin::log::Level;

/// Writes a line. The macros are more convenient.
pub fn write(level: Level, message: &str, fields: &[(&str, &dyn Display)]) {
    let fields: Vec<_> = fields.iter().map(|(key, value)| ((*key).to_owned(), value.to_string())).collect();
    crate::native::log::log(level, message, &fields);
}

/// Writes a line at a [`Level`]: `log_at!(Level::Info, "message", key = value)`.
#[macro_export]
macro_rules! log_at {
    ($level:expr, $message:literal $(, $key:ident = $value:expr)* $(,)?) => {
        $crate::log::write($level, &::std::format!($message), &[$((::std::stringify!($key), &$value)),*])
    };
}

/// Writes a line about a detail.
#[macro_export]
macro_rules! trace {
    ($($line:tt)*) => { $crate::log_at!($crate::log::Level::Trace, $($line)*) };
}

/// Writes a line for debugging.
#[macro_export]
macro_rules! debug {
    ($($line:tt)*) => { $crate::log_at!($crate::log::Level::Debug, $($line)*) };
}

/// Writes a line about something that the plugin did.
#[macro_export]
macro_rules! info {
    ($($line:tt)*) => { $crate::log_at!($crate::log::Level::Info, $($line)*) };
}

/// Writes a line about something that needs attention.
#[macro_export]
macro_rules! warn {
    ($($line:tt)*) => { $crate::log_at!($crate::log::Level::Warn, $($line)*) };
}

/// Writes a line about a failure.
#[macro_export]
macro_rules! error {
    ($($line:tt)*) => { $crate::log_at!($crate::log::Level::Error, $($line)*) };
}
