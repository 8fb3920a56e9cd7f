//! Objects that an operator has paused: no call is made about them until the annotation is gone.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;

use crate::object::Object;

/// The annotation that pauses a primary.
pub const ANNOTATION: &str = "windlass.dev/paused";

/// Whether `object` is paused: it carries the annotation, with any value but `false`. Who writes `yes` at 3 a.m. means it.
#[must_use]
pub fn is_paused(object: &Object) -> bool {
    #[derive(Deserialize)]
    struct PausedObject<'a> {
        #[serde(borrow, default)]
        metadata: PauseMetadata<'a>,
    }
    #[derive(Default, Deserialize)]
    struct PauseMetadata<'a> {
        #[serde(borrow, default)]
        annotations: Option<BTreeMap<Cow<'a, str>, Cow<'a, str>>>,
    }
    let text = object.glance();
    // Hardly any object has it, and looking for it is quicker than reading.
    if !text.contains(ANNOTATION) {
        return false;
    }
    let annotations = serde_json::from_str::<PausedObject<'_>>(&text).ok().and_then(|top| top.metadata.annotations);
    annotations.is_some_and(|annotations| annotations.get(ANNOTATION).is_some_and(|value| value != "false"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{Header, ObjectKey};

    fn paused(annotations: &str) -> bool {
        let header = Header {
            key: ObjectKey::namespaced("prod", "shop"),
            uid: "u-1".into(),
            version: "1".into(),
            generation: 1,
            labels: [].into(),
            owners: [].into(),
            own_fields: None,
            conditions: crate::conditions::Conditions::default(),
            deleting: false,
        };
        is_paused(&Object::new(header, format!(r#"{{"metadata":{{"annotations":{annotations}}}}}"#)))
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
