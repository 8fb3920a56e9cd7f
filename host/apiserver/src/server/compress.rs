//! Compresses long responses for clients that accept it, as a real server does. Watches are never compressed.

use std::io::{self, Write as _};

use axum::body::{Body, Bytes, HttpBody as _, to_bytes};
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, VARY};
use http::{HeaderMap, HeaderValue};

/// Compressing a shorter body does not pay.
pub(super) const COMPRESSED_BYTES_MIN: u64 = 128 * 1024;

pub(super) async fn compress(asked: &HeaderMap, response: Response) -> Response {
    // A watch has no length. For a streamed body the header gives the length.
    let in_header = response.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let length = response.body().size_hint().exact().or(in_header);
    let is_long = length.is_some_and(|length| length > COMPRESSED_BYTES_MIN);
    if !is_long || !takes_gzip(asked) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // The body is in memory already, so this cannot fail.
    let bytes = to_bytes(body, usize::MAX).await.unwrap_or_default();
    let Ok(packed) = gzip(&bytes) else { return Response::from_parts(parts, Body::from(bytes)) };
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    Response::from_parts(parts, Body::from(packed))
}

/// A real server only looks for the word, without a quality.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let asked = headers.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    asked.is_some_and(|asked| asked.split(',').any(|word| word.trim() == "gzip"))
}

fn gzip(bytes: &Bytes) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes)?;
    encoder.finish()
}
