//! Content negotiation: which form of an answer the client accepts, and what its body is in.

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};

use crate::status_error::ApiError;

/// The form in which objects are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Form {
    /// The objects themselves.
    #[default]
    Full,
    /// Rows for people (`as=Table`).
    Table,
    /// `metadata` alone (`as=PartialObjectMetadata` or `…List`).
    Metadata,
}

/// The encoding of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Encoding {
    #[default]
    Json,
    Yaml,
}

/// The encoding of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyEncoding {
    Json,
    Yaml,
    Protobuf,
}

/// The media types that a body may have.
pub(crate) const BODY_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// The first form that the client accepts and this server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Accepted {
    pub(crate) form: Form,
    pub(crate) encoding: Encoding,
    /// Discovery in one document (`as=APIGroupDiscoveryList;v=v2`), with its version.
    pub(crate) aggregated: Option<DiscoveryVersion>,
}

/// Versions of the aggregated discovery document; their content is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiscoveryVersion {
    V2,
    V2Beta1,
}

/// How a PATCH body is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchKind {
    Json,
    Merge,
    Strategic,
    Apply,
}

/// The first acceptable of the media types in the Accept header; none given accepts all.
pub(crate) fn accepted(headers: &HeaderMap) -> Result<Accepted, ApiError> {
    let given: Vec<&str> = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    let given = given.join(",");
    if given.trim().is_empty() {
        return Ok(Accepted::default());
    }
    let found = given.split(',').find_map(acceptable);
    found.ok_or_else(|| ApiError::not_acceptable("application/json, application/yaml"))
}

fn acceptable(media: &str) -> Option<Accepted> {
    let mut parts = media.split(';').map(str::trim);
    let encoding = match parts.next()? {
        "application/json" | "application/*" | "*/*" => Encoding::Json,
        "application/yaml" => Encoding::Yaml,
        _ => return None,
    };
    let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
    let parameter = |name: &str| parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
    let plain = Accepted { form: Form::Full, encoding, aggregated: None };
    match (parameter("as"), parameter("g"), parameter("v")) {
        (None, ..) => Some(plain),
        (Some("Table"), Some("meta.k8s.io"), Some("v1" | "v1beta1")) => Some(Accepted { form: Form::Table, ..plain }),
        (Some("PartialObjectMetadata" | "PartialObjectMetadataList"), Some("meta.k8s.io"), Some("v1" | "v1beta1")) => {
            Some(Accepted { form: Form::Metadata, ..plain })
        }
        (Some("APIGroupDiscoveryList"), Some("apidiscovery.k8s.io"), Some("v2")) => {
            Some(Accepted { aggregated: Some(DiscoveryVersion::V2), ..plain })
        }
        (Some("APIGroupDiscoveryList"), Some("apidiscovery.k8s.io"), Some("v2beta1")) => {
            Some(Accepted { aggregated: Some(DiscoveryVersion::V2Beta1), ..plain })
        }
        _ => None,
    }
}

/// The media type of the body, without parameters.
fn content_type(headers: &HeaderMap) -> &str {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("application/json");
    value.split(';').next().unwrap_or(value).trim()
}

/// The encoding of an object in the body.
pub(crate) fn body_encoding(headers: &HeaderMap) -> Result<BodyEncoding, ApiError> {
    match content_type(headers) {
        "application/json" | "" => Ok(BodyEncoding::Json),
        "application/yaml" => Ok(BodyEncoding::Yaml),
        "application/vnd.kubernetes.protobuf" => Ok(BodyEncoding::Protobuf),
        _ => Err(ApiError::unsupported_media(BODY_TYPES)),
    }
}

/// The kind of a patch. Custom resources have no strategic one.
pub(crate) fn patch_kind(headers: &HeaderMap, strategic: bool) -> Result<PatchKind, ApiError> {
    match content_type(headers) {
        "application/json-patch+json" => Ok(PatchKind::Json),
        "application/merge-patch+json" => Ok(PatchKind::Merge),
        "application/strategic-merge-patch+json" if strategic => Ok(PatchKind::Strategic),
        "application/apply-patch+yaml" => Ok(PatchKind::Apply),
        _ => {
            let merge = "application/json-patch+json, application/merge-patch+json";
            let strategic = if strategic { ", application/strategic-merge-patch+json" } else { "" };
            Err(ApiError::unsupported_media(&format!("{merge}{strategic}, application/apply-patch+yaml")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn accept(value: &'static str) -> Result<Accepted, ApiError> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(value));
        accepted(&headers)
    }

    #[test]
    fn the_first_form_that_we_have_is_taken() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(accept(kubectl).map(|accepted| accepted.form), Ok(Form::Table));
        let typed = "application/vnd.kubernetes.protobuf,application/json";
        assert_eq!(accept(typed), Ok(Accepted::default()));
    }

    #[test]
    fn a_form_that_we_do_not_have_is_refused() {
        assert!(accept("application/vnd.kubernetes.protobuf").is_err());
        assert!(accept("application/json;as=Table;v=v9;g=meta.k8s.io").is_err());
    }
}
