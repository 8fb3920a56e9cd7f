//! Query strings.

use windlass_core::object::path_segment::encode;

/// Enough for the query of most writes, so that it is allocated once.
const QUERY_BYTES: usize = 128;

/// Builds a query string with percent-encoded values.
#[derive(Debug, Default)]
pub(crate) struct Query(String);

impl Query {
    pub(crate) fn add(&mut self, name: &str, value: &str) {
        if self.0.is_empty() {
            self.0.reserve(QUERY_BYTES);
        }
        self.0.push(if self.0.is_empty() { '?' } else { '&' });
        self.0.push_str(name);
        self.0.push('=');
        encode(&mut self.0, value);
    }

    pub(crate) fn add_some(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.add(name, value);
        }
    }

    pub(crate) fn onto(&self, path: &str) -> String {
        [path, &self.0].concat()
    }
}
