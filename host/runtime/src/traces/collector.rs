//! A collector that receives OTLP over HTTP.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Request};
use http_body_util::Full;
use serde::Deserialize;
use windlass_core::call::http::{HttpBody, HttpReason, HttpResponse};
use windlass_core::rights::egress::HttpTarget;

use super::export::{Collect, ExportError, PartialRefusal};
use super::settings::TraceSettings;
use crate::egress::post_own;
use windlass_egress::HttpLimits;
use windlass_egress::tls::Trust;

/// The longest part of a refusal that is quoted, in bytes.
const SHOWN_REFUSAL_BYTES_MAX: usize = 200;
/// The port on which collectors usually accept gRPC.
const GRPC_PORT: u16 = 4317;

/// Posts to a collector, on a new connection each time.
pub(super) struct HttpCollector {
    target: HttpTarget,
    headers: HeaderMap,
    trust: Arc<Trust>,
    limits: HttpLimits,
}

/// An `ExportTraceServiceResponse`. Unreadable fields are ignored.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OtlpAnswer {
    partial_success: OtlpPartialSuccess,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OtlpPartialSuccess {
    /// A number, or a number as text.
    rejected_spans: serde_json::Value,
    error_message: String,
}

impl HttpCollector {
    /// `trust` has the certificate authorities that all requests trust.
    pub(super) fn new(settings: &TraceSettings, trust: Arc<Trust>) -> Self {
        let (target, headers) = (settings.collector.clone(), settings.headers.clone());
        let trust = settings.trust.clone().unwrap_or(trust);
        Self { target, headers, trust, limits: HttpLimits { time: settings.timeout, ..HttpLimits::default() } }
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

    /// `why` after the name of the collector, with a hint if the port suggests a frequent mistake.
    fn with_hint(&self, why: &str) -> String {
        let hint = if self.target.port == GRPC_PORT {
            format!(" (collectors mostly expect gRPC at port {GRPC_PORT}; the host speaks HTTP, mostly at 4318)")
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
        let answer = posted.map_err(|error| {
            if error.reason == HttpReason::TooLarge {
                // A retry would get an equally long answer.
                return ExportError::Refused(self.with_hint(&format!("answers too much: {}", error.message)));
            }
            let why = self.with_hint(&format!("cannot be reached: {}", error.message));
            ExportError::Later { why, after: None }
        })?;
        read(&answer, |why| self.with_hint(why))
    }
}

fn read(answer: &HttpResponse, with_hint: impl Fn(&str) -> String) -> Result<PartialRefusal, ExportError> {
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
            let why = with_hint(&with_words(&format!("has refused {spans} of a batch"), &error_message));
            Ok(PartialRefusal { spans, why })
        }
        status @ (429 | 502 | 503 | 504) => {
            let is_it = |name: &str| name.eq_ignore_ascii_case(RETRY_AFTER.as_str());
            let after = answer.headers.iter().find(|(name, _)| is_it(name));
            let after = after.and_then(|(_, value)| value.parse().ok()).map(Duration::from_secs);
            Err(ExportError::Later { why: with_hint(&with_words(&format!("answers {status}"), text)), after })
        }
        status => Err(ExportError::Refused(with_hint(&with_words(&format!("answers {status}"), text)))),
    }
}

/// `what`, followed by the beginning of the collector's own text, if any, on one line.
fn with_words(what: &str, text: &str) -> String {
    let line: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    let line = line.trim();
    let line = &line[..line.floor_char_boundary(SHOWN_REFUSAL_BYTES_MAX)];
    if line.is_empty() { what.to_owned() } else { format!("{what}: {line}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::egress::tests::{listener, ok, serving, tls_server};
    use crate::traces::TraceFlags;

    /// The collector at this URL, with only these environment variables set.
    fn collector(url: String, variables: &[(&str, &str)]) -> HttpCollector {
        let flags = TraceFlags { endpoint: Some(url), sampling: None };
        let variable = |name: &str| Some(variables.iter().find(|(known, _)| *known == name)?.1.to_owned());
        let settings = TraceSettings::read(&flags, variable).expect("settings").expect("a collector");
        HttpCollector::new(&settings, Arc::default())
    }

    async fn exported(collector: &HttpCollector) -> Result<u64, ExportError> {
        collector.export(Bytes::from_static(b"{}")).await.map(|refusal| refusal.spans)
    }

    #[tokio::test]
    async fn a_collector_behind_tls_is_asked_if_the_variable_names_its_authority() {
        let (server, authority) = tls_server().await;
        let file = authority.path().to_str().expect("UTF-8");
        let url = format!("https://localhost:{}", server.port());
        let trusting = collector(url.clone(), &[("OTEL_EXPORTER_OTLP_CERTIFICATE", file)]);
        assert_eq!(exported(&trusting).await, Ok(0), "nothing is refused");
        let error = exported(&collector(url, &[])).await.expect_err("its authority is not trusted");
        assert!(matches!(&error, ExportError::Later { why, .. } if why.contains("no TLS with localhost")), "{error:?}");
    }

    #[tokio::test]
    async fn a_request_carries_its_content_type_and_the_configured_headers() {
        let (server, mut requests) = serving(ok("{}")).await;
        let headers = ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20abc,user-agent=me");
        let url = format!("http://{server}/otlp?team=a");
        assert_eq!(exported(&collector(url, &[headers])).await, Ok(0));
        let request = requests.recv().await.expect("it was asked");
        assert!(request.starts_with("POST /otlp/v1/traces?team=a HTTP/1.1\r\n"), "{request}");
        for line in
            ["content-type: application/json", "authorization: Bearer abc", "user-agent: me", "connection: close"]
        {
            assert_eq!(request.matches(&format!("{line}\r\n")).count(), 1, "{line} in {request}");
        }
    }

    #[tokio::test]
    async fn a_silent_collector_times_out_after_the_configured_milliseconds() {
        // This server accepts the connection, and never reads.
        let silent = listener().await;
        let url = format!("http://{}", silent.local_addr().expect("bound"));
        let error = exported(&collector(url, &[("OTEL_EXPORTER_OTLP_TIMEOUT", "50")])).await.expect_err("no answer");
        assert!(matches!(&error, ExportError::Later { why, .. } if why.contains("50ms")), "{error:?}");
    }

    #[tokio::test]
    async fn an_answer_without_end_is_not_asked_for_again() {
        let (server, _told) = serving(ok(&"x".repeat(2 << 20))).await;
        let error = exported(&collector(format!("http://{server}"), &[])).await.expect_err("too much");
        assert!(matches!(&error, ExportError::Refused(why) if why.contains("too much")), "{error:?}");
    }

    fn answered(status: u16, headers: &[(&str, &str)], body: &str) -> Result<PartialRefusal, ExportError> {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        read(&HttpResponse { status, headers, body: HttpBody::Text(body.to_owned()) }, str::to_owned)
    }

    #[test]
    fn an_answer_yields_the_refused_spans_and_whether_to_retry() {
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
        assert_eq!(answered(413, &[], ""), Err(ExportError::Refused("answers 413".to_owned())));
        assert!(matches!(answered(302, &[], ""), Err(ExportError::Refused(_))), "redirects are not followed");
    }
}
