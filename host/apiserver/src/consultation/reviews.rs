//! The common part of admission reviews and conversion reviews.

use serde_json::Value;

use crate::object::text;

/// The supported versions of both.
pub(crate) const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// The first version that both sides support.
pub(crate) fn version(listed: &[&str]) -> &'static str {
    listed.iter().find_map(|known| VERSIONS.iter().find(|own| *own == known)).unwrap_or(&VERSIONS[0])
}

/// Checks that the answer is a review of this kind. The error has a real server's text.
pub(crate) fn check_type(review: &Value, version: &str, kind: &str) -> Result<(), String> {
    let found = (text(review, "/apiVersion"), text(review, "/kind"));
    if found == (version, kind) {
        return Ok(());
    }
    let shown = if found.0.contains('/') { found.0.to_owned() } else { format!("/{}", found.0) };
    Err(format!("expected webhook response of {version}, Kind={kind}, got {shown}, Kind={}", found.1))
}

/// Checks that the answer refers to this question.
pub(crate) fn check_uid(review: &Value, expected: &str) -> Result<(), String> {
    let found = text(review, "/response/uid");
    if found == expected { Ok(()) } else { Err(format!("expected response.uid={expected:?}, got {found:?}")) }
}
