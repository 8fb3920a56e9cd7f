//! Counts the requests of clients. Tests and demos compare the counts with the requests that a client should need.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The most kinds of requests that are counted separately; further kinds are counted by verb only. Without this limit,
/// clients could fill the memory, because they choose the User-Agent and the path.
const COUNTED_KINDS_MAX: usize = 4096;

/// Number of a client's requests of one kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestCount {
    /// The client's complete User-Agent.
    pub user_agent: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`; `unknown` for a method that
    /// the path does not support.
    pub verb: String,
    /// The resource with group and subresource, such as `deployments.apps/status`.
    pub resource: String,
    /// Number of requests.
    pub count: u64,
}

/// The counts of all requests so far.
#[derive(Default)]
pub(crate) struct RequestCounts(Mutex<BTreeMap<(String, &'static str, String), u64>>);

impl RequestCounts {
    pub(crate) fn count(&self, user_agent: &str, verb: &'static str, resource: String) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut key = (user_agent.to_owned(), verb, resource);
        if counts.len() >= COUNTED_KINDS_MAX && !counts.contains_key(&key) {
            key = (String::new(), verb, String::new());
        }
        *counts.entry(key).or_default() += 1;
    }

    /// All counts, ordered by client, verb and resource.
    pub(crate) fn all(&self) -> Vec<RequestCount> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts
            .iter()
            .map(|((user_agent, verb, resource), count)| RequestCount {
                user_agent: user_agent.clone(),
                verb: (*verb).to_owned(),
                resource: resource.clone(),
                count: *count,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changing_user_agents_cannot_fill_the_memory() {
        let counts = RequestCounts::default();
        for number in 0..COUNTED_KINDS_MAX + 10 {
            counts.count(&format!("agent-{number}"), "get", "pods".to_owned());
        }
        let counted = counts.all();
        assert_eq!(counted.len(), COUNTED_KINDS_MAX + 1);
        assert_eq!(counted.iter().map(|count| count.count).sum::<u64>(), COUNTED_KINDS_MAX as u64 + 10);
    }
}
