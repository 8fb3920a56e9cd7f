//! What a failed reconcile reports.

use std::fmt;

use crate::bindings::windlass::plugin::types;
use crate::error::{ApiError, Error, JsonError};
use crate::http::HttpError;

/// One thing that went wrong in a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Failure {
    /// An API error, passed on as it came: the host knows from its reason how to retry.
    Api(Box<ApiError>),
    /// Worth another attempt, after a backoff.
    Transient(String),
    /// Not worth another attempt until something changes.
    Terminal(String),
}

impl Failure {
    fn message_mut(&mut self) -> &mut String {
        match self {
            Self::Api(error) => &mut error.message,
            Self::Transient(message) | Self::Terminal(message) => message,
        }
    }
}

/// All that went wrong in a call: a reconcile attempts all its operations, and reports all that failed.
///
/// `?` turns the SDK's errors into it. To go on after a failure, collect:
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
pub struct Failures(Vec<Failure>);

impl Failures {
    /// No failure yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A failure that is worth another attempt, after a backoff.
    pub fn transient(message: impl Into<String>) -> Self {
        Self(vec![Failure::Transient(message.into())])
    }

    /// A failure that is not worth another attempt until something changes.
    pub fn terminal(message: impl Into<String>) -> Self {
        Self(vec![Failure::Terminal(message.into())])
    }

    /// The same failures, each with a text before its own, such as what was being done. They keep their classes.
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
        self.within(&text.to_string(), "")
    }

    /// The failures as the text of an error has them that wraps the one they were told of. Most have in their text what they wrap,
    /// and it is not said twice; the host says itself what was asked of which object, so of an API error there is the message alone.
    fn within(mut self, outer: &str, whole: &str) -> Self {
        for failure in &mut self.0 {
            let message = failure.message_mut();
            *message = match outer {
                _ if !whole.is_empty() && outer.contains(whole) => outer.replacen(whole, message, 1),
                _ if outer.contains(message.as_str()) => outer.to_owned(),
                "" => return self,
                _ => format!("{outer}: {message}"),
            };
        }
        self
    }

    /// Adds one more.
    pub fn push(&mut self, failure: impl Into<Failures>) {
        self.0.extend(failure.into().0);
    }

    /// Whether nothing has failed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The failures, in the order in which they were added.
    pub fn iter(&self) -> std::slice::Iter<'_, Failure> {
        self.0.iter()
    }

    /// What a call returns that collected these: the value if nothing failed.
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
        Self(vec![Failure::Api(Box::new(error))])
    }
}

/// An object that does not fit the plugin's types stays so until someone changes it.
impl From<JsonError> for Failures {
    fn from(error: JsonError) -> Self {
        Self::terminal(error.to_string())
    }
}

impl From<Error> for Failures {
    fn from(error: Error) -> Self {
        match error {
            Error::Api(error) => Self(vec![Failure::Api(error)]),
            Error::Json(error) => error.into(),
        }
    }
}

/// An error of any type, such as one that wraps the SDK's. The first of its sources that the SDK knows says how it is retried;
/// where there is none, it is worth another attempt. What the others say is told with it, and nothing twice.
impl From<Box<dyn std::error::Error + Send + Sync>> for Failures {
    fn from(error: Box<dyn std::error::Error + Send + Sync>) -> Self {
        told(&*error)
    }
}

/// As of an error that may be sent to other threads.
impl From<Box<dyn std::error::Error>> for Failures {
    fn from(error: Box<dyn std::error::Error>) -> Self {
        told(&*error)
    }
}

fn told(error: &(dyn std::error::Error + 'static)) -> Failures {
    if let Some(known) = known(error) {
        return known;
    }
    match error.source() {
        Some(source) => told(source).within(&error.to_string(), &source.to_string()),
        None => Failures::transient(error.to_string()),
    }
}

fn known(error: &(dyn std::error::Error + 'static)) -> Option<Failures> {
    if let Some(failures) = error.downcast_ref::<Failures>() {
        return Some(failures.clone());
    }
    if let Some(error) = error.downcast_ref::<ApiError>() {
        return Some(error.clone().into());
    }
    if let Some(error) = error.downcast_ref::<HttpError>() {
        return Some(error.failures());
    }
    match error.downcast_ref::<Error>() {
        Some(Error::Api(error)) => Some(Failures(vec![Failure::Api(error.clone())])),
        Some(Error::Json(error)) => Some(Failures::terminal(error.to_string())),
        None => error.downcast_ref::<JsonError>().map(|error| Failures::terminal(error.to_string())),
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Api(error) => error.fmt(f),
            Self::Transient(message) | Self::Terminal(message) => f.write_str(message),
        }
    }
}

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, failure) in self.0.iter().enumerate() {
            write!(f, "{}{failure}", if index == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

impl std::error::Error for Failures {}

impl From<Failures> for Vec<types::Failure> {
    fn from(failures: Failures) -> Self {
        let convert = |failure| match failure {
            Failure::Api(error) => types::Failure::Api((*error).into()),
            Failure::Transient(message) => types::Failure::Transient(message),
            Failure::Terminal(message) => types::Failure::Terminal(message),
        };
        failures.0.into_iter().map(convert).collect()
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
    fn failures_are_collected_from_errors_of_any_kind() {
        let results = [Ok(1), Err(Failures::transient("first")), Err(Failures::terminal("second"))];
        let failures: Failures = results.into_iter().filter_map(Result::err).collect();
        assert_eq!(failures.iter().count(), 2);
    }

    /// Says what it wraps, as many do, or leaves that to who prints its source.
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

    fn saying(text: &str, source: impl Into<Box<dyn std::error::Error>>) -> Box<dyn std::error::Error> {
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
    fn an_error_that_wraps_one_of_the_api_keeps_its_class_and_says_what_was_said_around_it() {
        let expected = Failures::from(conflict("the settings: the shop: changed"));
        assert_eq!(Failures::from(saying("the settings", saying("the shop", conflict("changed")))), expected);
        assert_eq!(
            Failures::from(silent("the settings", silent("the shop", Error::from(conflict("changed"))))),
            expected
        );
        assert_eq!(Failures::from(saying("the settings", silent("the shop", conflict("changed")))), expected);
        assert_eq!(Failures::from(silent("the settings", saying("the shop", conflict("changed")))), expected);
        assert_eq!(Failures::from(conflict("changed")).context("the shop").context("the settings"), expected);
        assert_eq!(Failures::from(silent("", conflict("changed"))), conflict("changed").into());
    }

    #[test]
    fn what_is_said_around_several_failures_is_said_of_each() {
        let mut both = Failures::terminal("never");
        both.push(conflict("changed"));
        let mut expected = Failures::terminal("both: never");
        expected.push(conflict("both: changed"));
        assert_eq!(Failures::from(saying("both", both.clone())), expected);
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
            matches!(&Failures::from(wrapped).0[..], [Failure::Terminal(_)]),
            "another attempt would be as malformed"
        );
        let wrapped: Box<dyn std::error::Error> = failures.clone().into();
        assert_eq!(Failures::from(wrapped), failures);
        let other: Box<dyn std::error::Error> = "something else".into();
        assert_eq!(Failures::from(other), Failures::transient("something else"));
        assert_eq!(Failures::from(silent("so", "something else")), Failures::transient("so: something else"));
    }

    #[test]
    fn an_object_of_another_shape_is_a_terminal_failure() {
        let source = serde_json::from_str::<u8>("\"text\"").unwrap_err();
        let failures = Failures::from(JsonError::new("the primary", source));
        let Some(Failure::Terminal(message)) = failures.iter().next() else { panic!("{failures:?}") };
        assert!(message.starts_with("the primary: invalid type"), "{message}");
    }
}
