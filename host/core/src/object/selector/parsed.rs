//! Selectors of watches, parsed once when a plugin is loaded and compared by their text.

use std::fmt::{self, Display};
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer};

/// A parsed selector with its text. The text is sent to the server and is part of the cache's identity, so two texts
/// with the same meaning are two selectors.
#[derive(Clone)]
pub struct ParsedSelector<S> {
    text: Arc<str>,
    selector: Arc<S>,
}

impl<S> ParsedSelector<S> {
    /// The text, byte for byte as written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl<S: FromStr> FromStr for ParsedSelector<S> {
    type Err = S::Err;

    fn from_str(text: &str) -> Result<Self, S::Err> {
        Ok(Self { text: text.into(), selector: Arc::new(text.parse()?) })
    }
}

impl<S> Deref for ParsedSelector<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.selector
    }
}

impl<S> PartialEq for ParsedSelector<S> {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl<S> Eq for ParsedSelector<S> {}

impl<S> Hash for ParsedSelector<S> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl<S> fmt::Debug for ParsedSelector<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl<S> Display for ParsedSelector<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl<'de, S: FromStr<Err: Display>> Deserialize<'de> for ParsedSelector<S> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::selector::Selector;

    #[test]
    fn selectors_are_compared_by_their_texts() {
        let parsed = |text: &str| text.parse::<ParsedSelector<Selector>>().expect("a selector");
        assert_eq!(parsed("app=a"), parsed("app=a"));
        assert_ne!(parsed("app=a"), parsed("app = a"), "equal to the server, but in two caches");
        assert_eq!(parsed(" app=a ").text(), " app=a ");
    }
}
