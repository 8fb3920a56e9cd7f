//! Turns a result into an HTTP response: status code, encoding, content type, warnings.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::response::Response;
use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, RETRY_AFTER};
use http::{HeaderValue, StatusCode, Version};
use serde::Serialize;
use serde_json::{Value, json};

use crate::clock::Moment;
use crate::object;
use crate::pieces::{self, Pieces};
use crate::protobuf::{self, ProtobufError};
use crate::request::media::{DiscoveryVersion, Encoding, Form};
use crate::resources::resource::ResourceType;
use crate::server::compress;
use crate::server::represent::{self, IncludeObject, List};
use crate::status_error::ApiError;
use crate::verbs::list::Page;
use crate::warnings::Warnings;

pub(super) const TEXT: &str = "text/plain; charset=utf-8";
const WARNING: HeaderName = HeaderName::from_static("warning");

/// The result of a request that succeeded.
pub(crate) enum Reply {
    Text(&'static str),
    /// A text with its media type.
    Bytes(&'static str, Vec<u8>),
    Json(Value),
    Created(Value),
    /// The `Status` of a completed deletion.
    Deleted(Value),
    Discovery(Value, DiscoveryVersion),
    Object {
        resource: Arc<ResourceType>,
        form: Form,
        include: IncludeObject,
        object: Arc<Value>,
        created: bool,
    },
    Page {
        resource: Arc<ResourceType>,
        form: Form,
        include: IncludeObject,
        page: Page,
    },
    Watch(Body),
}

/// Turns a reply into a response. Tables compute ages from `now`.
pub(crate) fn reply(reply: Reply, encoding: Encoding, now: Moment) -> Response {
    match reply {
        Reply::Text(text) => response(StatusCode::OK, TEXT, Body::from(text)),
        Reply::Bytes(media, bytes) => response(StatusCode::OK, media, Body::from(bytes)),
        Reply::Json(value) | Reply::Deleted(value) => document(StatusCode::OK, &value, encoding),
        Reply::Created(value) => document(StatusCode::CREATED, &value, encoding),
        Reply::Discovery(value, version) => {
            let version = match version {
                DiscoveryVersion::V2 => "v2",
                DiscoveryVersion::V2Beta1 => "v2beta1",
            };
            let media = format!("{};g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList", encoding.media_type());
            let mut answer = document(StatusCode::OK, &value, encoding);
            if let Ok(media) = HeaderValue::from_str(&media) {
                answer.headers_mut().insert(CONTENT_TYPE, media);
            }
            answer
        }
        Reply::Object { resource, form, include, object, created } => {
            let code = if created { StatusCode::CREATED } else { StatusCode::OK };
            match form {
                // This is the most frequent case. It writes the stored object without a copy.
                Form::Full => document(code, &object, encoding),
                form => document(code, &represent::one(&resource, form, include, true, &object, now), encoding),
            }
        }
        Reply::Page { resource, form, include, page } => match form {
            Form::Table => document(StatusCode::OK, &represent::table(&resource, include, &page, now), encoding),
            form => list(&represent::list(&resource, form == Form::Metadata, &page), encoding),
        },
        Reply::Watch(body) => {
            let stream = if encoding == Encoding::Json { "" } else { ";stream=watch" };
            response(StatusCode::OK, &format!("{}{stream}", encoding.media_type()), body)
        }
    }
}

pub(crate) fn error(error: &ApiError, encoding: Encoding) -> Response {
    if error.is_text() {
        let text = error.to_string();
        let mut answer = response(error.code(), TEXT, Body::from(text.clone()));
        if text.is_empty() {
            answer.headers_mut().remove(CONTENT_TYPE);
        }
        return answer;
    }
    let mut answer = document(error.code(), &error.to_status(), encoding);
    if let Some(seconds) = error.retry_after() {
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    answer
}

/// The response with an error after which the connection is closed, because the rest of the request is not read.
pub(crate) fn last(why: &ApiError, version: Version) -> Response {
    let mut answer = error(why, Encoding::Json);
    if version < Version::HTTP_2 {
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

/// The `Status` after a completed deletion.
pub(crate) fn deleted_status(resource: &ResourceType, object: &Value) -> Value {
    let mut details = json!({
        "name": object::name(object),
        "kind": resource.id.plural,
        "uid": object::uid(object),
    });
    if !resource.id.group.is_empty() {
        details["group"] = json!(resource.id.group);
    }
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details })
}

/// The response with a document in this encoding.
pub(super) fn document(code: StatusCode, value: &Value, encoding: Encoding) -> Response {
    let to_json = || serde_json::to_vec(value).map(|bytes| vec![bytes]);
    encoded(code, value, encoding, to_json, || protobuf::encode(value).map(|bytes| vec![bytes]))
}

fn list(list: &List, encoding: Encoding) -> Response {
    encoded(StatusCode::OK, list, encoding, || list.to_json(), || list.to_protobuf())
}

fn encoded<T: Serialize>(
    code: StatusCode,
    value: &T,
    encoding: Encoding,
    to_json: impl Fn() -> serde_json::Result<Pieces>,
    to_protobuf: impl FnOnce() -> Result<Pieces, ProtobufError>,
) -> Response {
    let json = || match to_json() {
        Ok(pieces) => in_pieces(code, Encoding::Json.media_type(), pieces),
        Err(problem) => error(&ApiError::internal(problem.to_string()), Encoding::Json),
    };
    match encoding {
        Encoding::Json => json(),
        // If an object cannot be written as YAML, it is written as JSON, which is also valid YAML.
        Encoding::Yaml => match serde_saphyr::to_string(value) {
            Ok(text) => response(code, encoding.media_type(), Body::from(text)),
            Err(_) => json(),
        },
        Encoding::Protobuf => match to_protobuf() {
            Ok(pieces) => in_pieces(code, encoding.media_type(), pieces),
            Err(problem) if code.is_success() => error(&ApiError::internal(problem.to_string()), encoding),
            Err(_) => json(),
        },
    }
}

/// Joins the pieces of a short body. A long body keeps its pieces, so that each is freed after it was sent.
fn in_pieces(code: StatusCode, media: &str, mut pieces: Pieces) -> Response {
    let length = pieces::length(&pieces);
    let is_short = u64::try_from(length).is_ok_and(|length| length <= compress::COMPRESSED_BYTES_MIN);
    if is_short && pieces.len() > 1 {
        pieces = vec![pieces.concat()];
    }
    let pieces = match <[Vec<u8>; 1]>::try_from(pieces) {
        Ok([only]) => return response(code, media, Body::from(only)),
        Err(pieces) => pieces.into_iter().map(|piece| Ok::<_, Infallible>(Bytes::from(piece))),
    };
    let mut response = response(code, media, Body::from_stream(futures::stream::iter(pieces)));
    response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
    response
}

fn response(code: StatusCode, media: &str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    if let Ok(media) = HeaderValue::from_str(media) {
        response.headers_mut().insert(CONTENT_TYPE, media);
    }
    response
}

/// Adds the warnings as RFC 7234 headers, which kubectl prints.
pub(super) fn with_warnings(mut answer: Response, warnings: &Warnings) -> Response {
    for value in warnings.header_values() {
        if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
            answer.headers_mut().append(WARNING, value);
        }
    }
    answer
}
