//! Reads the variants of core's types as manifests write them: `{"type": "label", "key": "app"}`. Refuses fields that a
//! variant does not have, which serde by itself does not do for a variant without content.

use serde::{Deserialize, Deserializer};

/// Reads a variant without content.
pub(crate) fn nothing_else<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Nothing {}

    Nothing::deserialize(deserializer).map(|Nothing {}| ())
}

/// Defines a function that reads a variant whose content is one field of this name.
macro_rules! only_field {
    ($field:ident: $content:ty) => {
        fn $field<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<$content, D::Error> {
            #[derive(serde::Deserialize)]
            #[serde(deny_unknown_fields)]
            struct OnlyField {
                $field: $content,
            }

            serde::Deserialize::deserialize(deserializer).map(|OnlyField { $field }| $field)
        }
    };
}

pub(crate) use only_field;
