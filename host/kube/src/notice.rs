//! What a line of a watch says.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use windlass_core::compact::Version;
use windlass_core::object::Object;

use crate::informer::InformerError;
use crate::parse::{ParseError, Parser};

/// A line of a watch.
pub(crate) enum Notice {
    Applied(Object),
    Deleted(Object),
    Bookmark {
        /// Everything up to this version has been told.
        version: Version,
        /// The objects that were there at the beginning have all been told (KEP-3157).
        initial_end: bool,
    },
}

#[derive(Deserialize)]
struct Event<'a> {
    r#type: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Marked<'a> {
    #[serde(borrow)]
    metadata: MarkedMetadata<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MarkedMetadata<'a> {
    #[serde(borrow)]
    resource_version: Cow<'a, str>,
    #[serde(default)]
    annotations: Option<Annotations>,
}

#[derive(Deserialize)]
struct Annotations {
    #[serde(rename = "k8s.io/initial-events-end", default)]
    initial_events_end: Option<String>,
}

impl Notice {
    /// Reads a line. An error event of the server's is an error here too.
    pub(crate) fn read(line: &[u8], parser: &mut Parser) -> Result<Self, InformerError> {
        let malformed = |source: ParseError| InformerError::Malformed { what: "watch event", source };
        let event: Event<'_> = serde_json::from_slice(line).map_err(|error| malformed(error.into()))?;
        let object = event.object.get();
        match event.r#type {
            "ADDED" | "MODIFIED" => parser.object(object).map(Self::Applied).map_err(malformed),
            "DELETED" => parser.object(object).map(Self::Deleted).map_err(malformed),
            "BOOKMARK" => {
                let Marked { metadata }: Marked<'_> =
                    serde_json::from_str(object).map_err(|error| malformed(error.into()))?;
                let end = metadata.annotations.and_then(|annotations| annotations.initial_events_end);
                Ok(Self::Bookmark {
                    version: Version::from(&*metadata.resource_version),
                    initial_end: end.as_deref() == Some("true"),
                })
            }
            _ => {
                let status: kube::core::Status = serde_json::from_str(object).unwrap_or_default();
                Err(InformerError::Ended { code: status.code, reason: status.reason, message: status.message })
            }
        }
    }
}
