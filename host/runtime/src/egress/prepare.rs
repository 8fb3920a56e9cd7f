//! Turns a plugin's request into an HTTP request, or refuses a request that cannot be sent as it is.

use bytes::Bytes;
use http::header::{CONNECTION, HOST, HeaderName, HeaderValue, USER_AGENT};
use http::{Method, Request, Uri};
use http_body_util::Full;
use windlass_core::call::http::{HttpBody, HttpError, HttpReason, HttpRequest};
use windlass_core::rights::egress::{HttpTarget, is_hosts_header, is_method};
use windlass_egress::{HttpLimits, failed};

/// A request, and where it goes.
pub(super) struct Outgoing {
    pub(super) target: HttpTarget,
    pub(super) request: Request<Full<Bytes>>,
}

/// Checks `request` of `plugin`, and adds the host's own headers.
pub(super) fn prepare(request: HttpRequest, limits: &HttpLimits, plugin: &str) -> Result<Outgoing, HttpError> {
    let HttpRequest { method, url, headers, body, timeout: _ } = request;
    if !is_method(&method) {
        return Err(invalid("the method cannot be sent: it must be in capitals, like `GET`".to_owned()));
    }
    let target = HttpTarget::parse(&url).map_err(|error| invalid(error.to_string()))?;
    let unreadable = |_| invalid("the path or the query of the URL is not valid".to_owned());
    let uri: Uri = target.path_and_query.parse().map_err(unreadable)?;
    let mut prepared = Request::new(Full::new(bytes(body, limits)?));
    *prepared.method_mut() = Method::from_bytes(method.as_bytes()).map_err(|error| invalid(error.to_string()))?;
    *prepared.uri_mut() = uri;
    let agent = concat!("windlass/", env!("CARGO_PKG_VERSION"));
    let host = |text: &str| HeaderValue::from_str(text).map_err(|error| invalid(error.to_string()));
    prepared.headers_mut().insert(HOST, host(&target.authority())?);
    prepared.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    let count = headers.len();
    let size: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    if count > limits.headers || size > limits.header_bytes {
        let (most, most_bytes) = (limits.headers, limits.header_bytes);
        return Err(invalid(format!(
            "{count} headers of {size} bytes: at most {most} headers of {most_bytes} bytes can be sent"
        )));
    }
    for (name, value) in headers {
        let (name, value) = header(&name, &value)?;
        prepared.headers_mut().append(name, value);
    }
    if !prepared.headers().contains_key(USER_AGENT) {
        // Names the plugin, because a server's operator may want to know which program asks. It reveals nothing about
        // the cluster.
        prepared.headers_mut().insert(USER_AGENT, host(&format!("{agent} ({plugin})"))?);
    }
    Ok(Outgoing { target, request: prepared })
}

fn bytes(body: Option<HttpBody>, limits: &HttpLimits) -> Result<Bytes, HttpError> {
    let bytes: Bytes = match body {
        None => Bytes::new(),
        Some(HttpBody::Text(text)) => text.into(),
        Some(HttpBody::Bytes(bytes)) => bytes.into(),
    };
    if bytes.len() > limits.request_bytes {
        let (size, most) = (bytes.len(), limits.request_bytes);
        return Err(invalid(format!("the body has {size} bytes: at most {most} can be sent")));
    }
    Ok(bytes)
}

fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), HttpError> {
    // The error repeats neither the name nor the value: they may be long, or a secret in the wrong place.
    let named =
        HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid("the name of a header is not valid".to_owned()))?;
    if is_hosts_header(named.as_str()) {
        return Err(invalid(format!("only the host sets the header `{named}`")));
    }
    let value = HeaderValue::from_bytes(value.as_bytes())
        .map_err(|_| invalid(format!("the value of the header `{named}` has characters that a header cannot have")))?;
    Ok((named, value))
}

fn invalid(message: String) -> HttpError {
    failed(HttpReason::InvalidRequest, message)
}
