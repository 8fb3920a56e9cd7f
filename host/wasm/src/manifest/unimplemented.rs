//! What a manifest may say and this version does not carry out. Each has its issue; none is silently ignored.

use super::Manifest;

impl Manifest {
    /// Where the manifest asks for something that this version does not implement, and what.
    #[must_use]
    pub fn unimplemented(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (present, field) in
            [(!self.metrics.is_empty(), "metrics: metrics of plugins"), (!self.http.is_empty(), "http: HTTP requests")]
        {
            if present {
                found.push(field.to_owned());
            }
        }
        found
    }
}
