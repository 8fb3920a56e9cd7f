//! Parses the versions that tools print.

use std::fmt;

/// A version such as `1.26.8`, with as many parts as were given.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ToolVersion(Vec<u32>);

impl ToolVersion {
    /// The first version in `text`, which may contain more: `go version go1.26.8 linux/amd64`.
    pub(crate) fn find(text: &str) -> Option<Self> {
        text.split(|character: char| !character.is_ascii_digit() && character != '.').find_map(Self::whole)
    }

    fn whole(text: &str) -> Option<Self> {
        let parts: Option<Vec<u32>> = text.trim_end_matches('.').split('.').map(|part| part.parse().ok()).collect();
        parts.filter(|parts| parts.len() > 1).map(Self)
    }
}

impl fmt::Display for ToolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, part) in self.0.iter().enumerate() {
            write!(f, "{}{part}", if index > 0 { "." } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_the_output_of_tools() {
        for (text, version) in [
            ("go version go1.26.8 linux/amd64", "1.26.8"),
            ("rustc 1.95.0 (59807616e 2026-04-14)", "1.95.0"),
            ("rustc 1.97.0-nightly (59807616e 2026-04-14)", "1.97.0"),
            ("0.17.0\n", "0.17.0"),
            ("0.18.0-dev.12+abcdef", "0.18.0"),
            ("componentize-py 0.25.1", "0.25.1"),
            ("v20.11.1", "20.11.1"),
            ("go version devel go1.27-abc", "1.27"),
        ] {
            assert_eq!(ToolVersion::find(text).expect(text).to_string(), version);
        }
        assert_eq!(ToolVersion::find("nothing here 7"), None);
    }

    #[test]
    fn versions_are_ordered_by_number() {
        let version = |text| ToolVersion::find(text).expect(text);
        assert!(version("1.9") < version("1.10"));
        assert!(version("1.24") < version("1.24.1"));
        assert!(version("2.0") > version("1.99.99"));
    }
}
