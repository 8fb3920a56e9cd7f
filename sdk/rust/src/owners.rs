//! Claims existing objects by their labels.

use crate::bindings::windlass::plugin::owners;
use crate::error::ApiError;
use crate::failure::Failures;
use crate::object::ObjectKind;

pub use owners::Claimed;

/// Makes the primary the controller of all matching objects of its namespace that have no controller, and releases
/// objects that it controls and that no longer match. It does not touch objects of other controllers.
///
/// A claim attempts all changes, and returns every error. Afterwards `cache::list` with `owned` returns the objects:
///
/// ```no_run
/// # use windlass_sdk::{Failures, cache, owners};
/// # fn run() -> Result<(), Failures> {
/// owners::claim("v1", "Pod", "app=shop")?;
/// let pods = cache::list("v1", "Pod").owned().iter().collect::<Result<Vec<serde_json::Value>, _>>()?;
/// # Ok(())
/// # }
/// ```
pub fn claim(api_version: &str, kind: &str, label_selector: &str) -> Result<Claimed, Failures> {
    crate::native::owners::claim(&ObjectKind::new(api_version, kind), label_selector)
        .map_err(|errors| errors.into_iter().map(ApiError::from).collect())
}
