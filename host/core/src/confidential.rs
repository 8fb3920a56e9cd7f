//! Text that no log, error or page may show: what the host read from Secrets for a plugin.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A text that may hold secrets. Cheap to clone. It reads like any text, but neither `{}` nor `{:?}` shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Confidential(Arc<str>);

impl Deref for Confidential {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<T: Into<Arc<str>>> From<T> for Confidential {
    fn from(text: T) -> Self {
        Self(text.into())
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
