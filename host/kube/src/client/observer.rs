//! Reports the result of each request to the API server to one observer.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::{Method, StatusCode};

/// A request to the API server that has ended.
#[derive(Clone, Copy, Debug)]
pub struct EndedRequest<'a> {
    pub method: &'a Method,
    /// The status of the answer. `None` if there was no answer.
    pub code: Option<StatusCode>,
    /// The time until the answer began. The answer to a watch continues for much longer.
    pub took: Duration,
}

/// Called for each request.
type RequestCallback = Box<dyn Fn(&EndedRequest<'_>) + Send + Sync>;

/// Reports requests to an observer, once one is set. Clones share the observer.
#[derive(Clone, Default)]
pub struct RequestObserver(Arc<OnceLock<RequestCallback>>);

impl RequestObserver {
    /// Reports each request to `observer` from now on, once it is answered or fails. Requests that are cancelled
    /// earlier are not reported. If there is an observer already, this one is dropped.
    pub fn observe(&self, observer: impl Fn(&EndedRequest<'_>) + Send + Sync + 'static) {
        let _ = self.0.set(Box::new(observer));
    }

    pub(crate) fn report(&self, request: &EndedRequest<'_>) {
        if let Some(observer) = self.0.get() {
            observer(request);
        }
    }
}
