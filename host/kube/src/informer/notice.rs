//! Parses the events of a watch.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use windlass_core::object::Object;
use windlass_core::object::compact::Version;

use crate::client::request::{VALUE_BYTES_MAX, WatchEnd, WatchStream};
use crate::informer::error::InformerError;
use crate::informer::parse::{ObjectParser, ParseError, SeenObject};

/// An event of a watch.
pub(crate) enum Notice {
    Applied(Object),
    Deleted(Object),
    /// The watch's `where` does not admit the object in this state, which may be its last one.
    Excluded(Object),
    Bookmark {
        /// Everything up to this version has been sent.
        version: Version,
        /// All initial objects have been sent (KEP-3157).
        initial_end: bool,
    },
}

/// The next item of a watch.
pub(crate) enum NextNotice {
    Notice(Notice),
    /// The stream ended between two events.
    End,
    /// The stream ended within an event.
    Torn,
}

#[derive(Deserialize)]
struct WireEvent<'a> {
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
    /// Reads the next event of `stream`. An error event of the server becomes an error. Cancel-safe.
    pub(crate) async fn next(stream: &mut WatchStream, parser: &mut ObjectParser) -> Result<NextNotice, InformerError> {
        let read = Self::read(stream, parser).await;
        stream.advance();
        match read {
            Ok(notice) => notice.map(NextNotice::Notice),
            Err(WatchEnd::Clean) => Ok(NextNotice::End),
            Err(WatchEnd::Torn) => Ok(NextNotice::Torn),
            Err(WatchEnd::TooLarge) => Err(InformerError::TooLarge { most: VALUE_BYTES_MAX }),
        }
    }

    async fn read(
        stream: &mut WatchStream,
        parser: &mut ObjectParser,
    ) -> Result<Result<Self, InformerError>, WatchEnd> {
        match Self::read_whole(stream.line().await?, parser) {
            // The line may be a part of an event, or more than one.
            Err(InformerError::Malformed { .. }) => Ok(Self::read_any(stream.value().await?, parser)),
            read => Ok(read),
        }
    }

    fn changed(object: SeenObject) -> Self {
        match object {
            SeenObject::Admitted(object) => Self::Applied(object),
            SeenObject::Excluded(object) => Self::Excluded(object),
        }
    }

    fn deleted(object: SeenObject) -> Self {
        match object {
            SeenObject::Admitted(object) => Self::Deleted(object),
            SeenObject::Excluded(object) => Self::Excluded(object),
        }
    }

    /// Parses a line that consists of one event.
    pub(crate) fn read_whole(line: &[u8], parser: &mut ObjectParser) -> Result<Self, InformerError> {
        match parser.event(line) {
            Some(("ADDED" | "MODIFIED", object)) => Ok(Self::changed(object)),
            Some(("DELETED", object)) => Ok(Self::deleted(object)),
            _ => Self::read_any(line, parser),
        }
    }

    /// Parses an event in any layout.
    fn read_any(line: &[u8], parser: &mut ObjectParser) -> Result<Self, InformerError> {
        let malformed = |source: ParseError| InformerError::Malformed { what: "watch event", source };
        let event: WireEvent<'_> = serde_json::from_slice(line).map_err(|error| malformed(error.into()))?;
        let object = event.object.get();
        match event.r#type {
            "ADDED" | "MODIFIED" => parser.seen(object).map(Self::changed).map_err(malformed),
            "DELETED" => parser.seen(object).map(Self::deleted).map_err(malformed),
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

#[cfg(test)]
mod tests {
    use windlass_core::cache::watch::WatchSpec;
    use windlass_core::object::ObjectKind;

    use super::*;

    /// Formats as `+name`, `-name`, `=version` for a bookmark, `!` for an error.
    fn read(line: &str) -> String {
        let mut parser = ObjectParser::new(&WatchSpec::all(ObjectKind::new("v1", "Pod"))).expect("no pointers");
        match Notice::read_whole(line.as_bytes(), &mut parser) {
            Ok(Notice::Applied(object)) => format!("+{}", object.header.key),
            Ok(Notice::Deleted(object)) => format!("-{}", object.header.key),
            Ok(Notice::Excluded(object)) => format!("~{}", object.header.key),
            Ok(Notice::Bookmark { version, initial_end }) => {
                format!("={version}{}", if initial_end { "." } else { "" })
            }
            Err(error) => format!("!{error}"),
        }
    }

    #[test]
    fn a_watch_line_is_read_in_any_layout() {
        for line in [
            r#"{"type":"MODIFIED","object":{"metadata":{"name":"a"}}}"#,
            r#"{"type":"ADDED","object":{"metadata":{"name":"a"}}} "#,
            r#" { "object" : {"metadata":{"name":"a"}} , "type" : "ADDED" }"#,
            r#"{"type":"MODIFIED","more":{},"object":{"metadata":{"name":"a"}},"most":[]}"#,
        ] {
            assert_eq!(read(line), "+a", "{line}");
        }
        assert_eq!(read(r#"{"type":"DELETED","object":{"metadata":{"name":"a"}}}"#), "-a");
        assert_eq!(read(r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}"#), "=7");
    }

    #[test]
    fn text_after_the_object_of_a_watch_line_is_not_taken_for_it() {
        for line in [
            r#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}}"#,
            r#"{"type":"ADDED","object":{"metadata":{"name":"a"}}"#,
            r#"{"type":"ADDED","object":{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}}"#,
            r#"{"type":"ADDED","object":}"#,
            r#"{"type":"ERROR","object":{"metadata":{"name":"a"},"code":410}}"#,
        ] {
            assert!(read(line).starts_with('!'), "{line}: {}", read(line));
        }
    }
}
