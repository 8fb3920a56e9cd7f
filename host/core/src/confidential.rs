//! Text that no log, error or page may show: what the host read from Secrets for a plugin.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A text that may hold secrets. Cheap to clone. It reads like any text, but neither `{}` nor `{:?}` shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Confidential {
    text: Arc<str>,
    secrets: Arc<[Arc<str>]>,
}

impl Confidential {
    /// `text`, in which the values of `secrets` stand.
    pub fn holding(text: impl Into<Arc<str>>, secrets: impl IntoIterator<Item = Self>) -> Self {
        Self { text: text.into(), secrets: secrets.into_iter().map(|secret| secret.text).collect() }
    }

    /// The values of Secrets that are known to stand in the text.
    #[must_use]
    pub fn secrets(&self) -> &[Arc<str>] {
        &self.secrets
    }
}

impl Deref for Confidential {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl<T: Into<Arc<str>>> From<T> for Confidential {
    fn from(text: T) -> Self {
        Self::holding(text, [])
    }
}

impl fmt::Debug for Confidential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(confidential)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_confidential_is_not_shown_and_can_be_read() {
        let password = Confidential::from("hunter2");
        assert_eq!((format!("{password:?}").as_str(), &*password), ("(confidential)", "hunter2"));
    }
}
