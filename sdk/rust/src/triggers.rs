//! Why this call is made now, for a line of the log and for people.
//!
//! A key is queued once, however much happens, so these are not all things that have happened: what a plugin does must
//! not depend on them.
//!
//! ```no_run
//! # use windlass_sdk::{info, triggers};
//! let because: Vec<String> = triggers::list().iter().map(ToString::to_string).collect();
//! info!("called", because = because.join(", "));
//! ```

use std::fmt;

use crate::native::triggers;

pub use crate::bindings::windlass::plugin::triggers::Trigger;

/// The things that have queued the key since the call before, the oldest first, and at most eight. None in a test,
/// unless it sets some ([`testing::Host::trigger`](crate::testing::Host::trigger)).
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
