//! A collector that is reached by OTLP over HTTP.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Request};
use http_body_util::Full;
use serde::Deserialize;
use windlass_core::egress::HttpTarget;
use windlass_core::http::{HttpBody, HttpResponse};

use super::export::{Collect, ExportError, PartialRefusal};
use super::settings::TraceSettings;
use crate::egress::tls::Trust;
use crate::egress::{HttpLimits, post_own};

/// How long one request may take, as OpenTelemetry's own exporters have it.
const LIMIT: Duration = Duration::from_secs(10);
/// The most that is told of an answer that refuses, in bytes.
const MOST_TOLD: usize = 200;
/// The port on which collectors mostly take gRPC.
const GRPC: u16 = 4317;

/// Posts to a collector, on a connection of its own each time.
pub(super) struct HttpCollector {
    target: HttpTarget,
    headers: HeaderMap,
    trust: Arc<Trust>,
    limits: HttpLimits,
}

/// An `ExportTraceServiceResponse`. What cannot be read is left out.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OtlpAnswer {
    partial_success: OtlpPartialSuccess,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OtlpPartialSuccess {
    /// A number, or its text.
    rejected_spans: serde_json::Value,
    error_message: String,
}

impl HttpCollector {
    pub(super) fn new(settings: &TraceSettings, trust: Arc<Trust>) -> Self {
        let (target, headers) = (settings.collector.clone(), settings.headers.clone());
        Self { target, headers, trust, limits: HttpLimits { time: LIMIT, ..HttpLimits::default() } }
    }

    fn request(&self, body: Bytes) -> Result<Request<Full<Bytes>>, http::Error> {
        let mut request = Request::post(&self.target.path_and_query)
            .header(HOST, self.target.authority())
            .header(CONNECTION, HeaderValue::from_static("close"))
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .header(USER_AGENT, concat!("windlass/", env!("CARGO_PKG_VERSION")));
        if let Some(headers) = request.headers_mut() {
            headers.extend(self.headers.clone());
        }
        request.body(Full::new(body))
    }

    /// `why`, and a frequent mistake that may be the reason.
    fn told(&self, why: &str) -> String {
        let hint = if self.target.port == GRPC {
            format!(" (collectors mostly expect gRPC at port {GRPC}; the host speaks HTTP, mostly at 4318)")
        } else {
            String::new()
        };
        format!("{} {why}{hint}", self.target)
    }
}

impl Collect for HttpCollector {
    async fn export(&self, request: Bytes) -> Result<PartialRefusal, ExportError> {
        let request = self.request(request).map_err(|error| ExportError::Refused(error.to_string()))?;
        let posted = post_own(&self.target, request, &self.trust, &self.limits).await;
        let answer = posted.map_err(|error| ExportError::Later {
            why: self.told(&format!("cannot be reached: {}", error.message)),
            after: None,
        })?;
        read(&answer, |why| self.told(why))
    }
}

fn read(answer: &HttpResponse, told: impl Fn(&str) -> String) -> Result<PartialRefusal, ExportError> {
    let text = match &answer.body {
        HttpBody::Text(text) => text.as_str(),
        HttpBody::Bytes(_) => "",
    };
    match answer.status {
        200..300 => {
            let OtlpPartialSuccess { rejected_spans, error_message } =
                serde_json::from_str::<OtlpAnswer>(text).unwrap_or_default().partial_success;
            let spans = rejected_spans.as_u64().or_else(|| rejected_spans.as_str()?.parse().ok());
            let spans = spans.unwrap_or_default();
            let why = told(&format!("has refused {spans} of them: {}", shortened(&error_message)));
            Ok(PartialRefusal { spans, why })
        }
        status @ (429 | 502 | 503 | 504) => {
            let is_it = |name: &str| name.eq_ignore_ascii_case(RETRY_AFTER.as_str());
            let after = answer.headers.iter().find(|(name, _)| is_it(name));
            let after = after.and_then(|(_, value)| value.parse().ok()).map(Duration::from_secs);
            Err(ExportError::Later { why: told(&format!("answers {status}: {}", shortened(text))), after })
        }
        status => Err(ExportError::Refused(told(&format!("answers {status}: {}", shortened(text))))),
    }
}

/// The beginning of what a stranger wrote, on one line.
fn shortened(text: &str) -> String {
    let line: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    let line = line.trim();
    line[..line.floor_char_boundary(MOST_TOLD)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(status: u16, headers: &[(&str, &str)], body: &str) -> Result<PartialRefusal, ExportError> {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        read(&HttpResponse { status, headers, body: HttpBody::Text(body.to_owned()) }, str::to_owned)
    }

    #[test]
    fn an_answer_tells_what_was_taken_and_what_may_be_tried_again() {
        for all in ["", "{}", "no JSON", r#"{"partialSuccess":{}}"#] {
            assert_eq!(answered(200, &[], all).map(|rejection| rejection.spans), Ok(0), "{all}");
        }
        for some in [r#"{"partialSuccess":{"rejectedSpans":"3"}}"#, r#"{"partialSuccess":{"rejectedSpans":3}}"#] {
            assert_eq!(answered(200, &[], some).map(|rejection| rejection.spans), Ok(3), "{some}");
        }
        let later = answered(503, &[("retry-after", "7")], "busy\n");
        let why = "answers 503: busy".to_owned();
        assert_eq!(later, Err(ExportError::Later { why, after: Some(Duration::from_secs(7)) }));
        assert_eq!(answered(404, &[], "no"), Err(ExportError::Refused("answers 404: no".to_owned())));
        assert!(matches!(answered(302, &[], ""), Err(ExportError::Refused(_))), "nobody is followed");
    }
}
