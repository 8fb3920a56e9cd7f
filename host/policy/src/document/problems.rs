//! Collects the problems of a document while it is parsed.

use std::fmt::Write as _;
use std::path::Path;

use serde::Deserialize;
use serde_path_to_error::{Path as FieldPath, Segment, Track};
use serde_saphyr::{Location, Spanned};
use windlass_manifest::did_you_mean;

use crate::PolicyError;
use crate::problem::Problem;

/// The maximum number of problems that a message lists.
const LISTED_PROBLEMS_MAX: usize = 10;
/// The field of a [`Spanned`] that holds the parsed value. No document has a field of this name.
const WRITTEN: &str = "value";

/// The problems found in one document so far.
#[derive(Default)]
pub struct DocumentProblems(pub Vec<Problem>);

impl DocumentProblems {
    /// Adds a problem that concerns the whole document.
    pub fn whole(&mut self, what: String) {
        self.0.push(Problem { place: None, what });
    }

    /// Adds a problem with `value`, at its position.
    pub fn at<T>(&mut self, value: &Spanned<T>, what: String) {
        self.0.push(Problem { place: Some(place(value.referenced)), what });
    }

    /// Parses the YAML document `text`. If that fails, records the problem and returns `None`.
    pub fn yaml<'a, T: Deserialize<'a>>(&mut self, text: &'a [u8]) -> Option<T> {
        let mut track = Track::new();
        let read = serde_saphyr::with_deserializer_from_slice_with_options(text, options(), |yaml| {
            T::deserialize(serde_path_to_error::Deserializer::new(yaml, &mut track))
        });
        match read {
            Ok(value) => Some(value),
            Err(error) => {
                let place = error.location().map(place);
                let field = field(&track.path());
                let what = explained(&error);
                self.0
                    .push(Problem { place, what: if field.is_empty() { what } else { format!("`{field}`: {what}") } });
                None
            }
        }
    }

    /// Returns the document `read` from `path`, or an error with all problems found in it.
    pub fn or<T>(mut self, path: &Path, read: Option<T>) -> Result<T, PolicyError> {
        let more = self.0.len().saturating_sub(LISTED_PROBLEMS_MAX);
        if more > 0 {
            self.0.truncate(LISTED_PROBLEMS_MAX);
            self.whole(format!("and {more} more problems"));
        }
        match read {
            Some(value) if self.0.is_empty() => Ok(value),
            _ => Err(PolicyError { path: path.to_owned(), problems: self.0 }),
        }
    }
}

/// The line and the column.
pub(super) fn place(location: Location) -> (u64, u64) {
    (location.line(), location.column())
}

/// The path of the field with the problem, in the form `rules[1].verbs`. Empty if the problem concerns the whole
/// document.
fn field(path: &FieldPath) -> String {
    let mut field = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => {
                // Writing to a `String` cannot fail.
                let _ = write!(field, "[{index}]");
            }
            Segment::Map { key } | Segment::Enum { variant: key } if key != WRITTEN => {
                field.push_str(if field.is_empty() { "" } else { "." });
                field.push_str(key);
            }
            Segment::Map { .. } | Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    field
}

/// The parser's message on one line, with a suggestion if a name is misspelt.
fn explained(error: &serde_saphyr::Error) -> String {
    let message = error.without_snippet().to_string();
    let message = message.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    // The line number is already part of the problem.
    let message = message.rsplit_once(" at line ").map_or(&*message, |(message, _)| message);
    match did_you_mean(message) {
        Some(hint) => format!("{message}; {hint}"),
        None => plain(message),
    }
}

/// The message without the parser's advice to programmers.
fn plain(message: &str) -> String {
    let message = message.strip_suffix(", set DuplicateKeyPolicy in Options if acceptable").unwrap_or(message);
    match message {
        it if it.contains("Documents {") => "there are several documents in it: leave only one".to_owned(),
        it if it.starts_with("budget breached") => format!("it is too large or nested too deeply ({it})"),
        it => it.split("; use Option<").next().unwrap_or_default().to_owned(),
    }
}

/// The parser's limits: enough for any policy, and small enough to stop aliases that multiply the content.
fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_documents: 1,
            max_depth: 16,
            max_nodes: 50_000,
            max_events: 100_000,
            max_aliases: 100,
            max_anchors: 100,
        },
    }
}
