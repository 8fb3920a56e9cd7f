//! Combines several errors into one (apimachinery: `util/errors`).

use std::fmt;

/// At least one error, without duplicates of the same text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aggregate<E>(Vec<E>);

impl<E: fmt::Display> Aggregate<E> {
    /// The errors in `results`, in order. `None` if there are none.
    pub fn of(results: impl IntoIterator<Item = Option<E>>) -> Option<Self> {
        let mut errors: Vec<E> = Vec::new();
        let mut texts = Vec::new();
        for error in results.into_iter().flatten() {
            let text = error.to_string();
            if !texts.contains(&text) {
                texts.push(text);
                errors.push(error);
            }
        }
        (!errors.is_empty()).then_some(Self(errors))
    }

    /// Whether `matches` holds for any of its errors.
    pub fn is(&self, matches: impl FnMut(&E) -> bool) -> bool {
        self.0.iter().any(matches)
    }

    /// The errors in order.
    pub fn iter(&self) -> std::slice::Iter<'_, E> {
        self.0.iter()
    }
}

impl<'a, E: fmt::Display> IntoIterator for &'a Aggregate<E> {
    type Item = &'a E;
    type IntoIter = std::slice::Iter<'a, E>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<E: fmt::Display> fmt::Display for Aggregate<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, error) in self.0.iter().enumerate() {
            write!(f, "{}{error}", if at == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for Aggregate<E> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{ApiError, ApiReason};

    fn error(reason: ApiReason, resource: &str) -> ApiError {
        ApiError::refused(reason, "get", resource, None, "refused")
    }

    #[test]
    fn empty_results_and_duplicate_messages_are_dropped() {
        let (lost, found) = (error(ApiReason::NotFound, "pods"), error(ApiReason::Conflict, "pods"));
        let all = Aggregate::of([None, Some(lost.clone()), None, Some(found.clone()), Some(lost.clone())]);
        let all = all.expect("errors");
        assert!(all.iter().eq([&lost, &found]));
        assert_eq!(all.to_string(), format!("{lost}; {found}"));
        assert_eq!(Aggregate::<ApiError>::of([None, None]), None);
        assert_eq!(Aggregate::of([Some(lost.clone())]).expect("one").to_string(), lost.to_string());
    }

    #[test]
    fn an_aggregate_matches_if_any_error_does() {
        let all = Aggregate::of([ApiReason::NotFound, ApiReason::Conflict].map(|reason| Some(error(reason, "pods"))));
        let is = |reason| all.as_ref().is_some_and(|all| all.is(|error| error.reason == reason));
        assert!(is(ApiReason::NotFound) && is(ApiReason::Conflict) && !is(ApiReason::Timeout));
    }
}
