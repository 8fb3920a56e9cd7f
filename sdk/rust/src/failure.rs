//! What a failed reconcile reports.

use crate::bindings::windlass::plugin::types;
use crate::error::{ApiError, Error, JsonError};

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

    #[test]
    fn an_object_of_another_shape_is_a_terminal_failure() {
        let source = serde_json::from_str::<u8>("\"text\"").unwrap_err();
        let failures = Failures::from(JsonError::new("the primary", source));
        let Some(Failure::Terminal(message)) = failures.iter().next() else { panic!("{failures:?}") };
        assert!(message.starts_with("the primary: invalid type"), "{message}");
    }
}
