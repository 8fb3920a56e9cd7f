//! Pauses objects: no call is made about an object while it has the annotation.

use crate::object::Object;
use crate::object::annotation;

/// The annotation that pauses a primary.
pub const ANNOTATION: &str = "windlass.dev/paused";

/// Whether `object` is paused: it has the annotation, with any value but `false`. An operator who writes `yes` at 3
/// a.m. means it.
#[must_use]
pub fn is_paused(object: &Object) -> bool {
    annotation::value_of(object, ANNOTATION).is_some_and(|value| value != "false")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::annotation::annotated;

    fn paused(annotations: &str) -> bool {
        is_paused(&annotated(annotations))
    }

    #[test]
    fn an_object_is_paused_by_its_annotation_unless_that_says_false() {
        for pausing in ["true", "yes", "", "True"] {
            assert!(paused(&format!(r#"{{"a":"b\"c","windlass.dev/paused":"{pausing}"}}"#)), "{pausing:?}");
        }
        assert!(!paused(r#"{"windlass.dev/paused":"false"}"#));
        assert!(!paused(r#"{"note":"windlass.dev/paused"}"#), "another annotation speaks of it");
        assert!(!paused("null"));
    }
}
