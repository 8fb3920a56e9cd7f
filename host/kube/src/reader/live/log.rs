//! The logs of Pods, the only live read whose answer is not JSON.

use windlass_core::call::ports::{CallContext, LogQuery};
use windlass_core::error::{ApiError, ApiReason};

use super::LiveReaderInner;
use crate::client::api_error::RequestSubject;
use crate::client::headers;
use crate::client::request::{self, Query, READ_TIMEOUT};
use crate::target::{ResolvedTarget, Resolver};

impl LiveReaderInner {
    pub(super) async fn log(&self, call: &CallContext, query: LogQuery) -> Result<String, ApiError> {
        let mut subject = RequestSubject { verb: "get", resource: String::new(), object: Some(query.target.clone()) };
        if query.target.uid.is_some() {
            let message = "the server cannot check a uid when it reads a log: leave the uid out";
            return Err(subject.refuse(ApiReason::Invalid, message));
        }
        self.pay(&subject)?;
        let resolver = Resolver { discovery: &self.discovery, call, subject: &mut subject };
        let ResolvedTarget { resource, key } = resolver.object(query.target.clone(), "log").await?;
        let uri = parameters(&query).onto(&resource.object(&key, "log"));
        let headers = headers::of_call(call);
        let headers = headers.map_err(|error| subject.refuse(ApiReason::Invalid, error.to_string()))?;
        let most = usize::try_from(query.limit_bytes).unwrap_or(usize::MAX);
        match request::get_beginning(&self.client, &uri, headers, most, READ_TIMEOUT).await {
            Ok(bytes) => Ok(text(&bytes, most)),
            Err(error) => Err(self.failed(&subject, &resource, "log", &error).await),
        }
    }
}

fn parameters(query: &LogQuery) -> Query {
    let mut parameters = Query::default();
    parameters.add_some("container", query.container.as_deref());
    if query.previous {
        parameters.add("previous", "true");
    }
    let numbers = [("tailLines", query.tail_lines), ("sinceSeconds", query.since_seconds)];
    for (name, number) in numbers.into_iter().chain([("limitBytes", Some(query.limit_bytes))]) {
        parameters.add_some(name, number.map(|number| number.to_string()).as_deref());
    }
    parameters
}

/// Converts `bytes` to a text of at most `most` bytes. Bytes that are not UTF-8 may take more room as text.
fn text(bytes: &[u8], most: usize) -> String {
    let mut text = String::from_utf8_lossy(bytes).into_owned();
    text.truncate(text.floor_char_boundary(most));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_utf8_in_a_log_becomes_text_within_the_limit() {
        assert_eq!(text(b"a\xffb", 10), "a\u{fffd}b");
        assert_eq!(text(b"a\xffb", 3), "a");
        assert_eq!(text("\u{e9}".as_bytes(), 2), "\u{e9}");
    }
}
