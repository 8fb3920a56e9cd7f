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
/// where there is none, it is worth another attempt.
impl From<Box<dyn std::error::Error + Send + Sync>> for Failures {
    fn from(error: Box<dyn std::error::Error + Send + Sync>) -> Self {
        classified(&*error)
    }
}

/// As of an error that may be sent to other threads.
impl From<Box<dyn std::error::Error>> for Failures {
    fn from(error: Box<dyn std::error::Error>) -> Self {
        classified(&*error)
    }
}

fn classified(error: &(dyn std::error::Error + 'static)) -> Failures {
    let mut message = String::new();
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(known) = known(error) {
            return known;
        }
        let text = error.to_string();
        // Many say in their own text what their source says.
        if !message.ends_with(&text) {
            let colon = if message.is_empty() { "" } else { ": " };
            message = format!("{message}{colon}{text}");
        }
        cause = error.source();
    }
    Failures::transient(message)
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

    #[derive(Debug)]
    struct Wrapped(Error);

    impl fmt::Display for Wrapped {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "cannot read the settings: {}", self.0)
        }
    }

    impl std::error::Error for Wrapped {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn an_error_that_wraps_one_of_the_sdks_keeps_its_class() {
        let conflict = crate::error::tests::refused(crate::ApiReason::Conflict);
        let wrapped: Box<dyn std::error::Error + Send + Sync> = Wrapped(conflict.clone().into()).into();
        assert_eq!(Failures::from(wrapped), Failures::from(conflict));
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
    }

    #[test]
    fn an_object_of_another_shape_is_a_terminal_failure() {
        let source = serde_json::from_str::<u8>("\"text\"").unwrap_err();
        let failures = Failures::from(JsonError::new("the primary", source));
        let Some(Failure::Terminal(message)) = failures.iter().next() else { panic!("{failures:?}") };
        assert!(message.starts_with("the primary: invalid type"), "{message}");
    }
}
