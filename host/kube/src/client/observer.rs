//! Tells one observer how each request to the API server was answered.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::{Method, StatusCode};

/// A request to the API server that has ended.
#[derive(Clone, Copy, Debug)]
pub struct EndedRequest<'a> {
    /// Its method.
    pub method: &'a Method,
    /// The answer's status. None: there was no answer.
    pub code: Option<StatusCode>,
    /// The time until the answer began. A watch's answer goes on for much longer.
    pub took: Duration,
}

/// Hears of requests.
type Observer = Box<dyn Fn(&EndedRequest<'_>) + Send + Sync>;

/// Where those are told that wait to hear how requests end. Clones share it.
#[derive(Clone, Default)]
pub struct RequestObserver(Arc<OnceLock<Observer>>);

impl RequestObserver {
    /// From now on, `observer` hears of each request that is answered or fails. Those that are given up before that are
    /// not told. A second observer is not taken, and is dropped.
    pub fn observe(&self, observer: impl Fn(&EndedRequest<'_>) + Send + Sync + 'static) {
        let _ = self.0.set(Box::new(observer));
    }

    pub(crate) fn tell(&self, request: &EndedRequest<'_>) {
        if let Some(observer) = self.0.get() {
            observer(request);
        }
    }
}
