//! Encodes spans as OTLP's JSON: IDs in hexadecimal, 64-bit numbers as text, enums as numbers.

use serde::{Serialize, Serializer};
use windlass_core::call::trace::{EndedSpan, SpanKind, SpanValue};

/// The longest text of one attribute, name or error, in bytes.
pub(super) const ATTRIBUTE_BYTES_MAX: usize = 2 << 10;

/// Encodes requests that share a resource.
#[derive(Debug)]
pub(super) struct Encoder {
    resource: Vec<(String, String)>,
}

impl Encoder {
    pub(super) fn new(resource: Vec<(String, String)>) -> Self {
        Self { resource }
    }

    /// An `ExportTraceServiceRequest`. `correction` is the number of nanoseconds by which the spans' clock is behind.
    pub(super) fn request(&self, spans: &[EndedSpan], correction: i64) -> Vec<u8> {
        let attributes = self.resource.iter().map(|(key, value)| OtlpAttribute { key, value: OtlpValue::text(value) });
        let request = OtlpRequest {
            resource_spans: [OtlpResourceSpans {
                resource: OtlpResource { attributes: attributes.collect() },
                scope_spans: [OtlpScopeSpans {
                    scope: OtlpScope { name: "windlass", version: env!("CARGO_PKG_VERSION") },
                    spans: spans.iter().map(|span| OtlpSpan::of(span, correction)).collect(),
                }],
            }],
        };
        serde_json::to_vec(&request).expect("text and numbers are JSON")
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OtlpRequest<'a> {
    resource_spans: [OtlpResourceSpans<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OtlpResourceSpans<'a> {
    resource: OtlpResource<'a>,
    scope_spans: [OtlpScopeSpans<'a>; 1],
}

#[derive(Serialize)]
struct OtlpResource<'a> {
    attributes: Vec<OtlpAttribute<'a>>,
}

#[derive(Serialize)]
struct OtlpScopeSpans<'a> {
    scope: OtlpScope,
    spans: Vec<OtlpSpan<'a>>,
}

#[derive(Serialize)]
struct OtlpScope {
    name: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OtlpSpan<'a> {
    trace_id: &'a str,
    span_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_span_id: Option<String>,
    name: &'a str,
    kind: u8,
    #[serde(serialize_with = "as_text")]
    start_time_unix_nano: u64,
    #[serde(serialize_with = "as_text")]
    end_time_unix_nano: u64,
    attributes: Vec<OtlpAttribute<'a>>,
    status: OtlpStatus<'a>,
}

#[derive(Serialize)]
struct OtlpAttribute<'a> {
    key: &'a str,
    value: OtlpValue<'a>,
}

#[derive(Serialize)]
enum OtlpValue<'a> {
    #[serde(rename = "stringValue")]
    Text(&'a str),
    #[serde(rename = "intValue", serialize_with = "as_text")]
    Whole(i64),
    #[serde(rename = "doubleValue")]
    Number(f64),
}

/// The status of a span. It is set only if the span failed: OTLP leaves it to readers whether a call that ended well
/// counts as a success.
#[derive(Serialize)]
struct OtlpStatus<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

impl<'a> OtlpSpan<'a> {
    fn of(span: &'a EndedSpan, correction: i64) -> Self {
        let hexadecimal = |id: u64| format!("{id:016x}");
        Self {
            trace_id: &span.trace_id,
            span_id: hexadecimal(span.id),
            parent_span_id: span.parent.map(hexadecimal),
            name: cut(&span.name),
            kind: match span.kind {
                SpanKind::Internal => 1,
                SpanKind::Client => 3,
            },
            start_time_unix_nano: span.start.saturating_add_signed(correction),
            end_time_unix_nano: span.end.saturating_add_signed(correction),
            attributes: span.attributes.iter().map(|(key, value)| OtlpAttribute { key, value: value.into() }).collect(),
            status: OtlpStatus { code: span.error.is_some().then_some(2), message: span.error.as_deref().map(cut) },
        }
    }
}

impl<'a> OtlpValue<'a> {
    fn text(text: &'a str) -> Self {
        Self::Text(cut(text))
    }
}

impl<'a> From<&'a SpanValue> for OtlpValue<'a> {
    fn from(value: &'a SpanValue) -> Self {
        match value {
            SpanValue::Text(text) => Self::text(text),
            SpanValue::Whole(number) => Self::Whole(*number),
            SpanValue::Number(number) => Self::Number(*number),
        }
    }
}

/// The beginning of `text`, up to the length that a span may have.
pub(super) fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(ATTRIBUTE_BYTES_MAX)]
}

/// As text, because JSON numbers cannot hold 64 bits.
fn as_text<S: Serializer>(number: &impl std::fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_span_is_written_by_the_rules_of_otlp_for_json() {
        let mut span = EndedSpan {
            trace_id: "4bf92f3577b34da6a3ce929d0e0e4736".into(),
            id: 0xab,
            parent: Some(1),
            name: "patch deployments.apps".into(),
            kind: SpanKind::Client,
            start: 1_795_000_000_000_001_001,
            end: 1_795_000_000_000_001_002,
            attributes: vec![],
            error: Some("no".to_owned()),
        };
        span.set("http.request.method", "PATCH");
        span.set("http.response.status_code", 422_u16);
        span.set("windlass.cpu_seconds", 0.5);
        let root = EndedSpan { parent: None, error: None, kind: SpanKind::Internal, ..span.clone() };
        let encoder = Encoder::new(vec![("service.name".to_owned(), "windlass".to_owned())]);
        let request: Value = serde_json::from_slice(&encoder.request(&[span, root], -1_000)).expect("JSON");
        let resource = &request["resourceSpans"][0];
        let name = json!([{"key": "service.name", "value": {"stringValue": "windlass"}}]);
        assert_eq!(resource["resource"]["attributes"], name);
        let scope = &resource["scopeSpans"][0];
        assert_eq!(scope["scope"]["name"], "windlass");
        let wanted = json!({
            "traceId": "4bf92f3577b34da6a3ce929d0e0e4736",
            "spanId": "00000000000000ab",
            "parentSpanId": "0000000000000001",
            "name": "patch deployments.apps",
            "kind": 3,
            "startTimeUnixNano": "1795000000000000001",
            "endTimeUnixNano": "1795000000000000002",
            "attributes": [
                {"key": "http.request.method", "value": {"stringValue": "PATCH"}},
                {"key": "http.response.status_code", "value": {"intValue": "422"}},
                {"key": "windlass.cpu_seconds", "value": {"doubleValue": 0.5}},
            ],
            "status": {"code": 2, "message": "no"},
        });
        assert_eq!(scope["spans"][0], wanted);
        let root = &scope["spans"][1];
        assert_eq!((&root["kind"], &root["status"], root.get("parentSpanId")), (&json!(1), &json!({}), None));
    }

    #[test]
    fn a_long_error_is_cut_between_two_characters() {
        assert_eq!(cut(&"ü".repeat(ATTRIBUTE_BYTES_MAX)).len(), ATTRIBUTE_BYTES_MAX);
        assert_eq!(cut(&format!("a{}", "ü".repeat(ATTRIBUTE_BYTES_MAX))).len(), ATTRIBUTE_BYTES_MAX - 1);
    }
}
