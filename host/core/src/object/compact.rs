//! Compact UIDs and versions: every object of every cache has one of each.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

/// The UID of one incarnation of an object. API servers generate UUIDs; anything else is kept as text.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Uid(UidForm);

#[derive(Clone, PartialEq, Eq, Hash)]
enum UidForm {
    /// Only a UUID in canonical form, so that it prints as received.
    Uuid(Uuid),
    Other(Arc<str>),
}

impl Uid {
    /// The text as received.
    #[must_use]
    pub fn text(&self) -> Arc<str> {
        match &self.0 {
            UidForm::Uuid(uuid) => Arc::from(&*uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer())),
            UidForm::Other(text) => Arc::clone(text),
        }
    }

    /// Whether `text` is this UID.
    #[must_use]
    pub fn is(&self, text: &str) -> bool {
        match &self.0 {
            UidForm::Uuid(uuid) => *uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()) == *text,
            UidForm::Other(other) => **other == *text,
        }
    }
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        let canonical = |uuid: &Uuid| *uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()) == *text;
        match Uuid::try_parse(text).ok().filter(canonical) {
            Some(uuid) => Self(UidForm::Uuid(uuid)),
            None => Self(UidForm::Other(text.into())),
        }
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            UidForm::Uuid(uuid) => uuid.hyphenated().fmt(f),
            UidForm::Other(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.text(), f)
    }
}

/// A `resourceVersion`: opaque, except that decimal numbers can be compared where the server promises it (KEP-5504).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Version(VersionForm);

#[derive(Clone, PartialEq, Eq, Hash)]
enum VersionForm {
    /// Only a number without leading zeros, so that it prints as received.
    Number(u64),
    Other(Arc<str>),
}

impl Version {
    /// Compares two versions. `None` if they cannot be compared. Decimal numbers can, at any length.
    #[must_use]
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        match (&self.0, &other.0) {
            (VersionForm::Number(mine), VersionForm::Number(theirs)) => Some(mine.cmp(theirs)),
            (VersionForm::Other(_), _) | (_, VersionForm::Other(_)) => {
                let (mine, theirs) = (self.to_string(), other.to_string());
                let numbers = is_number(&mine) && is_number(&theirs);
                numbers.then(|| mine.len().cmp(&theirs.len()).then_with(|| mine.cmp(&theirs)))
            }
        }
    }

    /// The version as a number. `None` if it is not a number, or larger than any server writes.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        match &self.0 {
            VersionForm::Number(number) => Some(*number),
            VersionForm::Other(_) => None,
        }
    }

    /// Whether the server sent no version.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, VersionForm::Other(text) if text.is_empty())
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit())
}

impl From<&str> for Version {
    fn from(text: &str) -> Self {
        match text.parse() {
            Ok(number) if is_number(text) => Self(VersionForm::Number(number)),
            _ => Self(VersionForm::Other(text.into())),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            VersionForm::Number(number) => number.fmt(f),
            VersionForm::Other(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_uid_prints_as_received() {
        for text in ["0b5e2f4c-6f0a-4c3d-9d0e-2f1f3a4b5c6d", "0B5E2F4C-6F0A-4C3D-9D0E-2F1F3A4B5C6D", "u-1", ""] {
            let uid = Uid::from(text);
            assert_eq!((&*uid.text(), &*uid.to_string()), (text, text));
            assert!(uid.is(text) && !uid.is("other"));
        }
    }

    #[test]
    fn every_version_prints_as_received() {
        for text in ["", "0", "7", "007", "18446744073709551615", "99999999999999999999999", "a1", "-1", "+1"] {
            assert_eq!(Version::from(text).to_string(), text);
        }
        assert!(Version::from("").is_empty() && !Version::from("0").is_empty());
    }

    #[test]
    fn versions_compare_as_numbers_of_any_length() {
        let compare = |a: &str, b: &str| Version::from(a).compare(&Version::from(b));
        assert_eq!(compare("9", "10"), Some(Ordering::Less));
        assert_eq!(compare("99999999999999999999999", "100000000000000000000000"), Some(Ordering::Less));
        assert_eq!(compare("100000000000000000000000", "7"), Some(Ordering::Greater));
        assert_eq!(compare("7", "7"), Some(Ordering::Equal));
        for other in ["", "007", "a1", "-1", "+1"] {
            assert_eq!(compare("7", other), None);
        }
    }

    #[test]
    fn uids_and_versions_are_small() {
        assert!(size_of::<Uid>() <= 24 && size_of::<Version>() <= 16);
    }
}
