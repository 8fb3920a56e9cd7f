//! Requests to the API server, under client-go's names (k8s.io/component-base/metrics/prometheus/restclient).

use http::Uri;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use windlass_kube::EndedRequest;

use super::MetricLabels;

/// client-go's buckets of `rest_client_request_duration_seconds`.
const SECONDS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];

/// Counts requests to the API server. Clones share it.
#[derive(Clone)]
pub(super) struct RestClientMetrics {
    requests: Family<MetricLabels, Counter>,
    seconds: Family<MetricLabels, Histogram, fn() -> Histogram>,
}

impl RestClientMetrics {
    pub(super) fn registered(registry: &mut Registry) -> Self {
        let (requests, seconds) = (Family::default(), Family::new_with_constructor(histogram as fn() -> Histogram));
        let help = "Requests to the API server, by method, HTTP status and host; the status of one without an answer is <error>";
        registry.register("rest_client_requests", help, requests.clone());
        let help = "The time until the API server began its answer, by method and host";
        registry.register("rest_client_request_duration_seconds", help, seconds.clone());
        Self { requests, seconds }
    }

    /// Counts a request to `host`.
    pub(super) fn count(&self, host: &str, request: &EndedRequest<'_>) {
        let method = request.method.as_str();
        let code = request.code.map_or_else(|| "<error>".to_owned(), |code| code.as_str().to_owned());
        let labels = vec![("code", code), ("host", host.to_owned()), ("method", method.to_owned())];
        self.requests.get_or_create_owned(&labels).inc();
        let labels = vec![("host", host.to_owned()), ("verb", method.to_owned())];
        self.seconds.get_or_create_owned(&labels).observe(request.took.as_secs_f64());
    }
}

fn histogram() -> Histogram {
    Histogram::new(SECONDS)
}

/// The host and port of a server's URL, in the form of client-go's label.
pub(super) fn host_of(server: &str) -> String {
    let authority = server.parse::<Uri>().ok().and_then(|uri| uri.authority().map(ToString::to_string));
    authority.unwrap_or_else(|| server.to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{Method, StatusCode};

    use super::*;

    #[test]
    fn requests_are_counted_under_the_names_and_labels_of_client_go() {
        let mut registry = Registry::default();
        let metrics = RestClientMetrics::registered(&mut registry);
        let host = host_of("https://10.0.0.1:6443");
        for (method, code) in [(Method::GET, Some(StatusCode::OK)), (Method::PATCH, None), (Method::PATCH, None)] {
            metrics.count(&host, &EndedRequest { method: &method, code, took: Duration::from_millis(30) });
        }
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("into a text");
        for line in [
            r#"rest_client_requests_total{code="200",host="10.0.0.1:6443",method="GET"} 1"#,
            r#"rest_client_requests_total{code="<error>",host="10.0.0.1:6443",method="PATCH"} 2"#,
            r#"rest_client_request_duration_seconds_bucket{le="0.025",host="10.0.0.1:6443",verb="PATCH"} 0"#,
            r#"rest_client_request_duration_seconds_bucket{le="0.1",host="10.0.0.1:6443",verb="PATCH"} 2"#,
        ] {
            assert!(text.lines().any(|it| it == line), "{line} in {text}");
        }
    }
}
