//! Text that no log, error or page may show, such as Secrets that the host read for a plugin.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::queue::outcome::{CallResult, Failure};
use crate::secret::known_secrets::{KnownSecrets, REDACTED, SecretForms};

/// The length in bytes beyond which a text is withheld instead of searched. Messages, log lines and labels are
/// displayed with at most a few kilobytes. Searching this many bytes for one secret takes about a millisecond on a
/// plugin thread.
const SEARCHED_TEXT_BYTES_MAX: usize = 256 << 10;
/// The work beyond which a text is withheld instead of searched: see [`SecretForms::work`]. With the maximum number of
/// secrets, this still allows texts as long as a log line, which take some tens of milliseconds.
const TEXT_WORK_MAX: usize = 96 << 20;

/// A text that may hold secrets. Cheap to clone. Code can read it like any text, but neither `{}` nor `{:?}`
/// shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Confidential {
    text: Arc<str>,
    secrets: Arc<[Arc<str>]>,
    forms: Arc<SecretForms>,
}

impl Confidential {
    /// `text`, which contains the values of `secrets`.
    pub fn holding(text: impl Into<Arc<str>>, secrets: impl IntoIterator<Item = Self>) -> Self {
        let secrets: Arc<[Arc<str>]> = secrets.into_iter().map(|secret| secret.text).collect();
        let mut known = KnownSecrets::default();
        secrets.iter().for_each(|secret| known.add(secret, &|_| Some(REDACTED.to_owned())));
        Self { text: text.into(), secrets, forms: Arc::new(known.forms_for_people()) }
    }

    /// The values of Secrets that the text is known to contain.
    #[must_use]
    pub fn secrets(&self) -> &[Arc<str>] {
        &self.secrets
    }

    /// Whether [`redact`](Self::redact) has anything to look for.
    #[must_use]
    pub fn has_secrets(&self) -> bool {
        !self.forms.is_empty()
    }

    /// Replaces the secrets of this text in `message`, which a plugin wrote, with [`REDACTED`]. Only secrets of at
    /// least [`SECRET_BYTES_MIN`](crate::secret::known_secrets::SECRET_BYTES_MIN) bytes are found. Call it before
    /// `message` is truncated.
    #[must_use]
    pub fn redact<'a>(&self, message: &'a str) -> Cow<'a, str> {
        let is_too_much = message.len() > SEARCHED_TEXT_BYTES_MAX || self.forms.work(message.len()) > TEXT_WORK_MAX;
        if self.has_secrets() && is_too_much {
            return REDACTED.into();
        }
        self.forms.replace(message)
    }

    /// Whether `message` contains a secret that [`redact`](Self::redact) would replace.
    #[must_use]
    pub fn stands_in(&self, message: &str) -> bool {
        self.redact(message) != message
    }

    /// Redacts the messages of a call's result.
    #[must_use]
    pub fn redact_result(&self, mut result: CallResult) -> CallResult {
        match &mut result {
            CallResult::Trapped { message, .. } => self.redact_in(message),
            CallResult::Failed(failures) => failures.iter_mut().for_each(|failure| match failure {
                Failure::Api(error) => self.redact_in(&mut error.message),
                Failure::Transient(message) | Failure::TransientAfter { message, .. } | Failure::Terminal(message) => {
                    self.redact_in(message);
                }
            }),
            CallResult::Done
            | CallResult::RequeueAfter(_)
            | CallResult::RequeueBackoff
            | CallResult::NotCalled { .. } => {}
        }
        result
    }

    /// As [`redact`](Self::redact), in place.
    pub fn redact_in(&self, message: &mut String) {
        if let Cow::Owned(redacted) = self.redact(message) {
            *message = redacted;
        }
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
    fn confidential_text_is_readable_but_not_displayed() {
        let password = Confidential::from("hunter2");
        assert_eq!((format!("{password:?}").as_str(), &*password), ("(confidential)", "hunter2"));
    }

    #[test]
    fn text_that_takes_too_long_to_search_is_withheld() {
        let one = Confidential::holding("{}", [Confidential::from("hunter22")]);
        let tokens = (0..900).map(|index| Confidential::from(format!("token-{index}")));
        let many = Confidential::holding("{}", tokens);
        let text = |length: usize| "a".repeat(length);
        for (config, shown, withheld) in
            [(&one, SEARCHED_TEXT_BYTES_MAX, SEARCHED_TEXT_BYTES_MAX + 1), (&many, 8 << 10, 64 << 10)]
        {
            assert!(!config.stands_in(&text(shown)), "{shown}");
            assert!(config.redact(&text(withheld)) == REDACTED, "{withheld}");
        }
        assert_eq!(
            Confidential::from("{}").redact(&text(SEARCHED_TEXT_BYTES_MAX + 1)).len(),
            SEARCHED_TEXT_BYTES_MAX + 1
        );
    }

    #[test]
    fn results_are_redacted_of_secrets_of_the_configuration() {
        let config = Confidential::holding("{}", ["hunter22", "true"].map(Confidential::from));
        let message = || "it is true that hunter22 is wrong".to_owned();
        for result in [
            CallResult::Trapped { reason: "trap", message: message() },
            CallResult::Failed(vec![Failure::Transient(message()), Failure::Terminal(message())]),
            CallResult::Failed(vec![Failure::TransientAfter { message: message(), after: std::time::Duration::ZERO }]),
        ] {
            let failure = config.redact_result(result).failure();
            assert!(
                failure.contains("it is true that <redacted> is wrong") && !failure.contains("hunter22"),
                "{failure}"
            );
        }
    }
}
