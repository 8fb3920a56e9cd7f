//! The failures that a reconcile reports.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::bindings::windlass::plugin::types;
use crate::error::{ApiError, ApiReason, Error, JsonError, Misfit};
use crate::http::{self, HttpError, HttpReason};
use crate::request::milliseconds;
use crate::texts;

/// One failure in a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Failure {
    /// An API error, passed on unchanged: the host decides by its reason how to retry.
    Api(Box<ApiError>),
    /// A failure to retry after a backoff.
    Transient(String),
    /// A failure to retry, but not before this time has passed. The backoff may be longer.
    TransientAfter {
        /// The text for people.
        message: String,
        /// The minimum delay of the retry, limited to ten minutes.
        after: Duration,
    },
    /// A failure that is not retried until something changes.
    Terminal(String),
}

impl Failure {
    fn message_mut(&mut self) -> &mut String {
        match self {
            Self::Api(error) => &mut error.message,
            Self::Transient(message) | Self::TransientAfter { message, .. } | Self::Terminal(message) => message,
        }
    }
}

/// All failures of a call: a reconcile attempts all its operations, and reports all that failed.
///
/// `?` converts the SDK's errors to this type. To continue after a failure, collect the failures:
///
/// ```
/// use windlass_sdk::{Failures, Outcome};
///
/// fn both(first: Result<(), Failures>, second: Result<(), Failures>) -> Result<Outcome, Failures> {
///     let mut failures = Failures::new();
///     failures.extend(first.err());
///     failures.extend(second.err());
///     failures.or(Outcome::Done)
/// }
/// assert!(both(Ok(()), Ok(())).is_ok());
/// assert!(both(Ok(()), Err(Failures::transient("too early"))).is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Failures(All);

/// The source of [`Failures`], because a transparent error shows only its text and its source.
#[derive(Debug, Clone, PartialEq, Default)]
struct All(Vec<Failure>);

impl Failures {
    /// No failure yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A failure to retry after a backoff.
    pub fn transient(message: impl Into<String>) -> Self {
        Self::one(Failure::Transient(message.into()))
    }

    /// A failure to retry after this time, which is limited to ten minutes, or after the backoff if that is longer.
    pub fn transient_after(message: impl Into<String>, after: Duration) -> Self {
        Self::one(Failure::TransientAfter { message: message.into(), after })
    }

    /// A failure that is not retried until something changes.
    pub fn terminal(message: impl Into<String>) -> Self {
        Self::one(Failure::Terminal(message.into()))
    }

    fn one(failure: Failure) -> Self {
        Self(All(vec![failure]))
    }

    /// The same failures, each with this text in front, such as the attempted action. They keep their classes.
    ///
    /// ```no_run
    /// # use windlass_sdk::{Failures, writes};
    /// # fn run(deployment: &serde_json::Value) -> Result<(), Failures> {
    /// writes::apply(deployment).owned().send().map_err(|error| Failures::from(error).context("apply the Deployment"))?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn context(self, text: impl fmt::Display) -> Self {
        let text = text.to_string();
        self.with_messages(|message| texts::before(&text, message))
    }

    /// The failures with the text of the error that wraps them. Most wrapping errors include the text of the wrapped
    /// error, which is not repeated. For an API error only the message appears, because the host itself adds the
    /// request and the object.
    fn within(self, outer: &str, whole: &str) -> Self {
        self.with_messages(|message| texts::around(outer, whole, message))
    }

    fn with_messages(mut self, otherwise: impl Fn(&str) -> String) -> Self {
        for failure in &mut self.0.0 {
            let message = failure.message_mut();
            *message = otherwise(message);
        }
        self
    }

    /// Adds a failure, unless it is already in the list.
    pub fn push(&mut self, failure: impl Into<Failures>) {
        for failure in failure.into().0.0 {
            if !self.0.0.contains(&failure) {
                self.0.0.push(failure);
            }
        }
    }

    /// Whether one of the failures is an API error with this reason.
    ///
    /// ```
    /// # use windlass_sdk::{ApiReason, Failures};
    /// # let failures = Failures::transient("too early");
    /// if failures.is(ApiReason::Conflict) {
    ///     // Another client was faster.
    /// }
    /// ```
    #[must_use]
    pub fn is(&self, reason: ApiReason) -> bool {
        self.iter().any(|failure| matches!(failure, Failure::Api(error) if error.reason == reason))
    }

    /// Whether there is no failure.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.0.is_empty()
    }

    /// The failures, in the order in which they were added.
    pub fn iter(&self) -> std::slice::Iter<'_, Failure> {
        self.0.0.iter()
    }

    /// The result of a call that collected these failures: the value if nothing failed.
    pub fn or<T>(self, value: T) -> Result<T, Self> {
        if self.is_empty() { Ok(value) } else { Err(self) }
    }
}

impl<F: Into<Failures>> Extend<F> for Failures {
    fn extend<I: IntoIterator<Item = F>>(&mut self, failures: I) {
        failures.into_iter().for_each(|failure| self.push(failure));
    }
}

impl<F: Into<Failures>> FromIterator<F> for Failures {
    fn from_iter<I: IntoIterator<Item = F>>(failures: I) -> Self {
        let mut all = Self::new();
        all.extend(failures);
        all
    }
}

impl<'a> IntoIterator for &'a Failures {
    type Item = &'a Failure;
    type IntoIter = std::slice::Iter<'a, Failure>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl From<ApiError> for Failures {
    fn from(error: ApiError) -> Self {
        Self::one(Failure::Api(Box::new(error)))
    }
}

/// Terminal: an object that does not fit the plugin's types needs a change to fit them.
impl From<JsonError> for Failures {
    fn from(error: JsonError) -> Self {
        Self::terminal(error.to_string())
    }
}

impl From<Error> for Failures {
    fn from(error: Error) -> Self {
        match error {
            Error::Api(error) => Self::one(Failure::Api(error)),
            Error::Json(error) => error.into(),
        }
    }
}

/// An error of any type, such as one that wraps the SDK's. The first of its sources that the SDK knows decides how it
/// is retried. An error without such a source is transient. The texts of the wrapping errors come first, without
/// repeats. A text counts as repeated if it is at the beginning or end of another text, or is separated by punctuation
/// from the words around it (by spaces, if it has several words).
impl From<Box<dyn std::error::Error + Send + Sync>> for Failures {
    fn from(error: Box<dyn std::error::Error + Send + Sync>) -> Self {
        failures_of(&*error)
    }
}

/// Converts errors that cannot be sent to other threads, in the same way as errors that can.
impl From<Box<dyn std::error::Error>> for Failures {
    fn from(error: Box<dyn std::error::Error>) -> Self {
        failures_of(&*error)
    }
}

fn failures_of(error: &(dyn std::error::Error + 'static)) -> Failures {
    if let Some(known) = known(error) {
        return known;
    }
    match error.source() {
        Some(source) => failures_of(source).within(&error.to_string(), &source.to_string()),
        None => Failures::transient(error.to_string()),
    }
}

fn known(error: &(dyn std::error::Error + 'static)) -> Option<Failures> {
    if let Some(failures) = find::<Failures>(error) {
        return Some(failures.clone());
    }
    if let Some(all) = error.downcast_ref::<All>() {
        return Some(Failures(all.clone()));
    }
    if let Some(error) = find::<ApiError>(error) {
        return Some(error.clone().into());
    }
    if let Some(error) = find::<HttpError>(error) {
        return Some(error.failures());
    }
    match error.downcast_ref() {
        Some(HttpReason::InvalidRequest) => return Some(Failures::terminal(error.to_string())),
        Some(HttpReason::NotGranted) => return Some(http::not_granted(error.to_string())),
        _ => {}
    }
    match find::<Error>(error) {
        Some(Error::Api(error)) => Some(Failures::one(Failure::Api(error.clone()))),
        Some(Error::Json(error)) => Some(Failures::terminal(error.to_string())),
        None => {
            (find::<JsonError>(error).is_some() || error.is::<Misfit>()).then(|| Failures::terminal(error.to_string()))
        }
    }
}

/// Finds an error of this type, even in a box. A box is an error itself, with the source of its content.
fn find<'a, E: std::error::Error + 'static>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a E> {
    let shared = || error.downcast_ref::<Arc<E>>().map(Arc::as_ref);
    error.downcast_ref().or_else(|| error.downcast_ref::<Box<E>>().map(Box::as_ref)).or_else(shared)
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Api(error) => error.fmt(f),
            Self::Transient(message) | Self::TransientAfter { message, .. } | Self::Terminal(message) => {
                f.write_str(message)
            }
        }
    }
}

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for All {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, failure) in self.0.iter().enumerate() {
            write!(f, "{}{failure}", if index == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

impl std::error::Error for Failures {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

impl std::error::Error for All {}

impl From<Failures> for Vec<types::Failure> {
    fn from(failures: Failures) -> Self {
        let failure = |message| types::Failure { message, api: None, terminal: false, retry_after_ms: None };
        let convert = |one| match one {
            Failure::Api(error) => types::Failure { api: Some((*error).into()), ..failure(String::new()) },
            Failure::Transient(message) => failure(message),
            Failure::TransientAfter { message, after } => {
                types::Failure { retry_after_ms: Some(milliseconds(after)), ..failure(message) }
            }
            Failure::Terminal(message) => types::Failure { terminal: true, ..failure(message) },
        };
        failures.0.0.into_iter().map(convert).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_keep_the_order_in_which_they_were_added() {
        let mut failures = Failures::transient("first");
        failures.push(Failures::terminal("second"));
        let expected = [Failure::Transient("first".into()), Failure::Terminal("second".into())];
        assert!(failures.iter().eq(&expected));
    }

    #[test]
    fn equal_failures_are_kept_once() {
        let mut failures = Failures::new();
        failures.extend([conflict("changed"), conflict("changed"), conflict("changed again")].map(Failures::from));
        failures.push(Failures::new());
        failures.extend(None::<Failures>);
        failures.push(Failures::transient("changed"));
        assert_eq!(failures.to_string().matches("changed").count(), 3, "{failures}");
        assert_eq!(failures.iter().count(), 3);
    }

    #[test]
    fn a_set_of_failures_has_the_reason_of_any_of_them() {
        let mut failures = Failures::transient("conflict");
        assert!(!failures.is(crate::ApiReason::Conflict));
        failures.push(conflict("changed"));
        assert!(failures.is(crate::ApiReason::Conflict) && !failures.is(crate::ApiReason::NotFound));
    }

    #[test]
    fn failures_are_collected_from_errors_of_any_kind() {
        let results = [Ok(1), Err(Failures::transient("first")), Err(Failures::terminal("second"))];
        let failures: Failures = results.into_iter().filter_map(Result::err).collect();
        assert_eq!(failures.iter().count(), 2);
    }

    /// An error that wraps another. Its text includes the text of its source, as for many errors, or leaves that to the
    /// code that prints the source.
    #[derive(Debug)]
    struct Wrapped {
        text: String,
        source: Box<dyn std::error::Error>,
    }

    impl fmt::Display for Wrapped {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(&self.text)
        }
    }

    impl std::error::Error for Wrapped {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&*self.source)
        }
    }

    fn including(text: &str, source: impl Into<Box<dyn std::error::Error>>) -> Box<dyn std::error::Error> {
        let source = source.into();
        Box::new(Wrapped { text: format!("{text}: {source}"), source })
    }

    fn silent(text: &str, source: impl Into<Box<dyn std::error::Error>>) -> Box<dyn std::error::Error> {
        Box::new(Wrapped { text: text.to_owned(), source: source.into() })
    }

    fn conflict(message: &str) -> ApiError {
        ApiError { message: message.to_owned(), ..crate::error::tests::refused(crate::ApiReason::Conflict) }
    }

    #[test]
    fn a_wrapped_api_error_keeps_its_class_and_the_wrappers_messages() {
        let expected = Failures::from(conflict("the settings: the shop: changed"));
        assert_eq!(Failures::from(including("the settings", including("the shop", conflict("changed")))), expected);
        assert_eq!(
            Failures::from(silent("the settings", silent("the shop", Error::from(conflict("changed"))))),
            expected
        );
        assert_eq!(Failures::from(including("the settings", silent("the shop", conflict("changed")))), expected);
        assert_eq!(Failures::from(silent("the settings", including("the shop", conflict("changed")))), expected);
        assert_eq!(Failures::from(conflict("changed")).context("the shop").context("the settings"), expected);
        assert_eq!(Failures::from(silent("", conflict("changed"))), conflict("changed").into());
    }

    #[test]
    fn context_around_several_failures_is_added_to_each() {
        let mut both = Failures::terminal("never");
        both.push(conflict("changed"));
        let mut expected = Failures::terminal("both: never");
        expected.push(conflict("both: changed"));
        assert_eq!(Failures::from(including("both", both.clone())), expected);
        assert_eq!(Failures::from(silent("both", both.clone())), expected);
        assert_eq!(both.context("both"), expected);
    }

    #[test]
    fn an_error_that_wraps_one_of_the_sdks_keeps_its_class() {
        let failures = Failures::terminal("first");
        let malformed = HttpError::Failed {
            target: "GET x".to_owned(),
            reason: crate::http::HttpReason::InvalidRequest,
            message: "no scheme".to_owned(),
        };
        let wrapped: Box<dyn std::error::Error> = Box::new(malformed);
        assert!(
            matches!(&Failures::from(wrapped).0.0[..], [Failure::Terminal(_)]),
            "another attempt would be as malformed"
        );
        let wrapped: Box<dyn std::error::Error> = failures.clone().into();
        assert_eq!(Failures::from(wrapped), failures);
        let other: Box<dyn std::error::Error> = "something else".into();
        assert_eq!(Failures::from(other), Failures::transient("something else"));
        assert_eq!(Failures::from(silent("so", "something else")), Failures::transient("so: something else"));
    }

    /// The result of `#[error(transparent)]` on a type that holds one error: text and source are that error's.
    #[derive(Debug)]
    struct Transparent<E>(E);

    impl<E: fmt::Display> fmt::Display for Transparent<E> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.fmt(f)
        }
    }

    impl<E: std::error::Error> std::error::Error for Transparent<E> {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            self.0.source()
        }
    }

    fn through<E: std::error::Error + 'static>(error: E) -> Failures {
        let transparent: Box<dyn std::error::Error> = Box::new(Transparent(Transparent(error)));
        Failures::from(transparent)
    }

    fn misfit() -> JsonError {
        JsonError::new("the primary", serde_json::from_str::<u8>("\"text\"").unwrap_err())
    }

    fn failed(reason: crate::http::HttpReason) -> HttpError {
        HttpError::Failed { target: "GET x".to_owned(), reason, message: "no scheme".to_owned() }
    }

    #[test]
    fn a_transparent_error_keeps_its_sources_class_and_repeats_no_text() {
        assert_eq!(through(Error::from(conflict("changed"))), conflict("changed").into());
        assert_eq!(through(Error::from(misfit())), misfit().into());
        assert_eq!(through(misfit()), misfit().into());
        assert_eq!(
            through(failed(crate::http::HttpReason::InvalidRequest)),
            Failures::terminal("GET x: invalid-request: no scheme")
        );
        assert_eq!(through(failed(crate::http::HttpReason::Dns)), Failures::transient("GET x: dns: no scheme"));
        assert_eq!(
            through(failed(crate::http::HttpReason::NotGranted)),
            http::not_granted("GET x: not-granted: no scheme".to_owned())
        );
        // The failure is transient, because another response may fit the type.
        assert_eq!(through(HttpError::from(misfit())), Failures::transient(misfit().to_string()));
        let mut both = Failures::terminal("never");
        both.push(conflict("changed"));
        assert_eq!(through(both.clone()), both);
        let around = silent("the shop", Transparent(Error::from(conflict("changed"))));
        assert_eq!(Failures::from(around), conflict("the shop: changed").into());
    }

    #[test]
    fn an_error_in_a_box_of_its_type_keeps_its_class() {
        let alone = |error: Box<dyn std::error::Error>| Failures::from(error);
        assert_eq!(alone(Box::new(Box::new(conflict("changed")))), conflict("changed").into());
        assert_eq!(alone(Box::new(Box::new(Error::from(conflict("changed"))))), conflict("changed").into());
        assert_eq!(alone(Box::new(std::sync::Arc::new(Error::from(misfit())))), misfit().into());
        assert_eq!(alone(Box::new(Box::new(misfit()))), misfit().into());
        assert_eq!(alone(Box::new(Box::new(Failures::terminal("never")))), Failures::terminal("never"));
        let malformed = failed(crate::http::HttpReason::InvalidRequest);
        let expected = Failures::terminal(malformed.to_string());
        assert_eq!(alone(Box::new(Box::new(malformed))), expected);
        assert_eq!(
            Failures::from(silent("the shop", Box::new(conflict("changed")))),
            conflict("the shop: changed").into()
        );
    }

    #[test]
    fn context_precedes_every_message() {
        assert_eq!(Failures::transient("no").context("cannot read"), Failures::transient("cannot read: no"));
        assert_eq!(Failures::from(conflict("shop")).context("shop: shop"), conflict("shop: shop: shop").into());
        assert_eq!(Failures::terminal("never").context(""), Failures::terminal("never"));
        assert_eq!(Failures::terminal("").context("never"), Failures::terminal("never"));
    }

    #[test]
    fn a_wrapped_message_counts_as_included_only_if_it_stands_on_its_own() {
        for (outer, inner, expected) in [
            ("cannot read", "no", "cannot read: no"),
            ("cannot read shop", "shop", "cannot read shop: shop"),
            ("shop is closed", "shop", "shop is closed: shop"),
            ("cannot read: shop-1", "shop", "cannot read: shop-1: shop"),
            ("no file a/shop/b", "shop", "no file a/shop/b: shop"),
            ("über", "ber", "über: ber"),
            ("cannot boot: no disk-full-flag", "disk full", "cannot boot: no disk-full-flag: disk full"),
            ("ramdisk full", "disk full", "ramdisk full: disk full"),
            ("no words", " ", "no words:  "),
            ("shop: shop", "shop", "shop: shop"),
            ("cannot read (shop), as before", "shop", "cannot read (shop), as before"),
            ("cannot read “shop”", "shop", "cannot read “shop”: shop"),
            ("cannot read - shop", "shop", "cannot read - shop"),
            ("cannot read: shop.", "shop", "cannot read: shop."),
            ("shop: cannot read", "shop", "shop: cannot read"),
            ("cannot boot because disk full, as ever", "disk full", "cannot boot because disk full, as ever"),
            ("two:\nshop\ntill", "shop", "two:\nshop\ntill"),
            ("shop", "shop", "shop"),
        ] {
            assert_eq!(
                Failures::from(silent(outer, inner)),
                Failures::transient(expected),
                "{outer:?} around {inner:?}"
            );
        }
        // If the text occurs more than once, its last occurrence is the wrapped error's: context comes before it.
        let twice = silent("shop: shop", silent("shop", "closed"));
        assert_eq!(Failures::from(twice), Failures::transient("shop: shop: closed"));
    }

    #[test]
    fn an_object_that_does_not_fit_is_a_terminal_failure() {
        let error = crate::json::read::<[u8; 1]>("the primary", r#"["text"]"#).unwrap_err();
        let expected = "the primary: [0]: text where a whole number is wanted";
        assert_eq!(Failures::from(error), Failures::terminal(expected));
    }
}
