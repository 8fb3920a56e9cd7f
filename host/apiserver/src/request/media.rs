//! Content negotiation: decides the form and encoding of the answer, and the encoding of the body.

use std::cmp::Reverse;

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};

use crate::status_error::ApiError;

/// The form of the objects in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Form {
    /// The objects themselves.
    #[default]
    Full,
    /// A table with rows for people (`as=Table`).
    Table,
    /// Only the metadata (`as=PartialObjectMetadata` or `…List`).
    Metadata,
}

/// The encoding of an answer or a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Encoding {
    #[default]
    Json,
    Yaml,
    Protobuf,
}

impl Encoding {
    /// All encodings, in the server's order of preference.
    const ALL: [Encoding; 3] = [Encoding::Json, Encoding::Yaml, Encoding::Protobuf];

    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Encoding::Json => "application/json",
            Encoding::Yaml => "application/yaml",
            Encoding::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }
}

/// The encodings that an endpoint offers. Custom resources have no protobuf, except for their metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    BuiltIn,
    Custom,
    /// Only JSON: the endpoint returns documents that are not objects, such as the version.
    JsonOnly,
}

impl Offer {
    fn has(self, form: Form, encoding: Encoding) -> bool {
        match (self, form, encoding) {
            (_, _, Encoding::Json) => true,
            (Offer::JsonOnly, ..) | (_, Form::Table, Encoding::Protobuf) => false,
            (_, _, Encoding::Yaml) | (Offer::BuiltIn, ..) | (Offer::Custom, Form::Metadata, _) => true,
            (Offer::Custom, ..) => false,
        }
    }

    fn encodings(self) -> impl Iterator<Item = Encoding> {
        Encoding::ALL.into_iter().filter(move |encoding| self.has(Form::Full, *encoding))
    }

    pub(crate) fn media_types(self) -> String {
        self.encodings().map(Encoding::media_type).collect::<Vec<_>>().join(", ")
    }
}

/// The media types of watches, as errors list them after the other media types.
const STREAMS: &str = ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

/// The form and encoding of a response: the first form and encoding that the client accepts and the endpoint offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Accepted {
    pub(crate) form: Form,
    pub(crate) encoding: Encoding,
    /// The version of aggregated discovery, if the client wants it (`as=APIGroupDiscoveryList;v=v2`).
    pub(crate) aggregated: Option<DiscoveryVersion>,
}

/// The versions of the aggregated discovery document. All have the same content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiscoveryVersion {
    V2,
    V2Beta1,
}

/// The kind of a PATCH body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchKind {
    Json,
    Merge,
    Strategic,
    Apply,
}

/// One media type of an Accept header, with its parameters.
struct Clause<'a> {
    media: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    /// The `q` parameter, in thousandths.
    quality: u32,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Clause<'a> {
        let mut parts = text.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let parameters: Vec<(&str, &str)> =
            parts.filter_map(|part| part.split_once('=')).map(|(key, value)| (key.trim(), value.trim())).collect();
        let mut clause = Clause { media, parameters, quality: 1000 };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to what fits")]
        if let Ok(quality) = clause.parameter("q").unwrap_or("1").parse::<f32>() {
            clause.quality = (quality.clamp(0.0, 1.0) * 1000.0) as u32;
        }
        clause
    }

    fn parameter(&self, name: &str) -> Option<&'a str> {
        self.parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    fn names(&self, encoding: Encoding) -> bool {
        self.media == encoding.media_type() || matches!(self.media, "*/*" | "application/*")
    }

    /// The form of answer that this clause asks for. Its encoding is set later.
    fn accepted(&self) -> Option<Accepted> {
        let plain = Accepted::default();
        let discovery = |version| Accepted { aggregated: Some(version), ..plain };
        match (self.parameter("as"), self.parameter("g"), self.parameter("v")) {
            (None, ..) => Some(plain),
            (Some("Table"), Some("meta.k8s.io"), Some("v1" | "v1beta1")) => {
                Some(Accepted { form: Form::Table, ..plain })
            }
            (
                Some("PartialObjectMetadata" | "PartialObjectMetadataList"),
                Some("meta.k8s.io"),
                Some("v1" | "v1beta1"),
            ) => Some(Accepted { form: Form::Metadata, ..plain }),
            (Some("APIGroupDiscoveryList"), Some("apidiscovery.k8s.io"), Some("v2")) => {
                Some(discovery(DiscoveryVersion::V2))
            }
            (Some("APIGroupDiscoveryList"), Some("apidiscovery.k8s.io"), Some("v2beta1")) => {
                Some(discovery(DiscoveryVersion::V2Beta1))
            }
            _ => None,
        }
    }
}

/// The best media type in the Accept header that the endpoint offers. A missing header accepts all. For built-in kinds,
/// at least one clause must be `*/*` or name a media type in full. `lists` is true if the endpoint can also be watched.
pub(crate) fn accepted(headers: &HeaderMap, offer: Offer, lists: bool) -> Result<Accepted, ApiError> {
    let given: Vec<&str> = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    let given = given.join(",");
    if given.trim().is_empty() {
        return Ok(Accepted::default());
    }
    let mut clauses: Vec<Clause> = given.split(',').map(Clause::parse).collect();
    let is_named =
        |clause: &Clause| clause.media == "*/*" || offer.encodings().any(|it| clause.media == it.media_type());
    if offer != Offer::Custom && !clauses.iter().any(is_named) {
        let streams = if lists { STREAMS } else { "" };
        return Err(ApiError::no_representation(&format!("{}{streams}", offer.media_types())));
    }
    let wildcards = |clause: &Clause| clause.media.matches('*').count();
    clauses.sort_by_key(|clause| (Reverse(clause.quality), wildcards(clause)));
    let found = clauses.iter().find_map(|clause| {
        let accepted = clause.accepted()?;
        let encoding = Encoding::ALL
            .into_iter()
            .find(|encoding| clause.names(*encoding) && offer.has(accepted.form, *encoding))?;
        Some(Accepted { encoding, ..accepted })
    });
    found.ok_or_else(|| ApiError::not_acceptable(&offer.media_types()))
}

/// The form of an OpenAPI document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenApiForm {
    Json,
    /// The protobuf messages of gnostic. Here only version 2 of OpenAPI has them.
    Protobuf,
}

/// The best form of an OpenAPI document that the client accepts. `None` if the client accepts no available form. Reads
/// the header like the handler in `kube-openapi/pkg/handler/handler.go`, which ignores parameters.
pub(crate) fn openapi(headers: &HeaderMap, has_protobuf: bool) -> Option<OpenApiForm> {
    let given: Vec<&str> = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    let given = given.join(",");
    let given = if given.is_empty() { "*/*" } else { &given };
    let mut clauses: Vec<Clause> = given.split(',').map(Clause::parse).collect();
    clauses.sort_by_key(|clause| (Reverse(clause.quality), clause.media.matches('*').count()));
    clauses.iter().find_map(|clause| match clause.media {
        "*/*" | "application/*" | "application/json" => Some(OpenApiForm::Json),
        "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
        | "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
            if has_protobuf =>
        {
            Some(OpenApiForm::Protobuf)
        }
        _ => None,
    })
}

/// The media type of the body, without parameters.
fn content_type(headers: &HeaderMap) -> &str {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("application/json");
    value.split(';').next().unwrap_or(value).trim()
}

/// The encoding of an object in the body.
///
/// Without a content type, it is JSON, as in `NegotiateInputSerializerForMediaType` in
/// `k8s.io/apiserver/pkg/endpoints/handlers/negotiation/negotiate.go`.
pub(crate) fn body_encoding(headers: &HeaderMap, offer: Offer) -> Result<Encoding, ApiError> {
    if headers.get(CONTENT_TYPE).is_none_or(HeaderValue::is_empty) {
        return Ok(Encoding::Json);
    }
    let given = content_type(headers);
    Encoding::ALL
        .into_iter()
        .find(|encoding| given.eq_ignore_ascii_case(encoding.media_type()) && offer.has(Form::Full, *encoding))
        .ok_or_else(|| ApiError::unsupported_media(&offer.media_types()))
}

/// The kind of a patch. `strategic` is false for custom resources, which have no strategic merge patch.
pub(crate) fn patch_kind(headers: &HeaderMap, strategic: bool) -> Result<PatchKind, ApiError> {
    match content_type(headers) {
        "application/json-patch+json" => Ok(PatchKind::Json),
        "application/merge-patch+json" => Ok(PatchKind::Merge),
        "application/strategic-merge-patch+json" if strategic => Ok(PatchKind::Strategic),
        "application/apply-patch+yaml" => Ok(PatchKind::Apply),
        _ if strategic => Err(ApiError::no_such_body()),
        _ => {
            let types = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
            Err(ApiError::unsupported_media(types))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accept(value: &'static str, offer: Offer) -> Result<Accepted, ApiError> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(value));
        accepted(&headers, offer, false)
    }

    #[test]
    fn the_first_offered_form_is_used() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(accept(kubectl, Offer::BuiltIn).map(|accepted| accepted.form), Ok(Form::Table));
    }

    #[test]
    fn protobuf_is_for_built_in_kinds_and_metadata() {
        let encoding = |value, offer| accept(value, offer).map(|accepted| accepted.encoding).ok();
        let typed = "application/vnd.kubernetes.protobuf,application/json";
        assert_eq!(encoding(typed, Offer::BuiltIn), Some(Encoding::Protobuf));
        assert_eq!(encoding(typed, Offer::Custom), Some(Encoding::Json));
        assert_eq!(encoding("application/vnd.kubernetes.protobuf", Offer::Custom), None);
        let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        assert_eq!(encoding(metadata, Offer::Custom), Some(Encoding::Protobuf));
        let table = "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1";
        assert_eq!(encoding(table, Offer::BuiltIn), None);
    }

    #[test]
    fn the_clients_preferred_encoding_is_used() {
        let encoding = |value| accept(value, Offer::BuiltIn).map(|accepted| accepted.encoding);
        assert_eq!(encoding("application/json;q=0.5,application/yaml"), Ok(Encoding::Yaml));
        assert_eq!(encoding("*/*,application/yaml"), Ok(Encoding::Yaml));
        assert_eq!(encoding("text/html,*/*;q=0.8"), Ok(Encoding::Json));
    }

    #[test]
    fn a_form_that_is_not_offered_is_refused() {
        let refused = |value, offer| accept(value, offer).expect_err("there is no such form").to_string();
        let types = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
        for value in ["text/html", "application/*", "odd"] {
            let why = format!("406: Not Acceptable\n\nAvailable representations: {types}");
            assert_eq!(refused(value, Offer::BuiltIn), why);
        }
        let why = "only the following media types are accepted: application/json, application/yaml";
        assert_eq!(refused("text/html", Offer::Custom), why);
        assert!(accept("application/json;as=Table;v=v9;g=meta.k8s.io", Offer::BuiltIn).is_err());
    }
}
