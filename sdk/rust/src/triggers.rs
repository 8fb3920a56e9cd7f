//! Why the host makes this call now, for the log and for people.
//!
//! A key is queued only once, even if many events occur, so the list may be incomplete: a plugin's actions must not
//! depend on it.
//!
//! ```no_run
//! # use windlass_sdk::{info, triggers};
//! let because: Vec<String> = triggers::list().iter().map(ToString::to_string).collect();
//! info!("called", because = because.join(", "));
//! ```

use std::fmt;

use crate::native::triggers;

pub use crate::bindings::windlass::plugin::triggers::Trigger;

/// The events that have queued the key since its previous call, oldest first, and at most eight. In a test it is empty
/// unless the test adds some ([`testing::Host::trigger`](crate::testing::Host::trigger)).
#[must_use]
pub fn list() -> Vec<Trigger> {
    triggers::list()
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.object {
            Some(object) => write!(f, "{} {object}", self.reason),
            None => f.write_str(&self.reason),
        }
    }
}
