//! Requests to run an object's key: a user sets an annotation of the primary to a new value, as with Flux's
//! `reconcile.fluxcd.io/requestedAt`.
//!
//! The change itself is the request. The host keeps no value and writes nothing, so a restart requests nothing.

use crate::object::Object;
use crate::object::annotation;

/// Any value will do; by convention it is the time in RFC 3339.
pub const ANNOTATION: &str = "windlass.dev/run-requested-at";

/// Whether the change of a primary from `old` to `new` requests a run: the annotation is new or has another value.
/// Removing it requests nothing.
#[must_use]
pub fn is_made(old: &Object, new: &Object) -> bool {
    let requested = annotation::value_of(new, ANNOTATION);
    requested.is_some() && requested != annotation::value_of(old, ANNOTATION)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::annotation::annotated;

    #[test]
    fn only_a_new_value_is_a_request() {
        let at = |time: &str| annotated(&format!(r#"{{"a":"b","windlass.dev/run-requested-at":"{time}"}}"#));
        assert!(is_made(&annotated("null"), &at("2026-01-01T00:00:00Z")));
        assert!(is_made(&at("2026-01-01T00:00:00Z"), &at("now")));
        assert!(is_made(&at("now"), &at("")), "an empty value is one, too");
        assert!(!is_made(&at("now"), &at("now")));
        assert!(!is_made(&at("now"), &annotated("{}")), "a removal");
        assert!(!is_made(&annotated("{}"), &annotated(r#"{"note":"windlass.dev/run-requested-at"}"#)));
    }
}
