//! Compresses long responses for clients that accept it, as a real server does. Watches are never compressed.

use std::io::{self, Write as _};

use axum::body::{Body, Bytes, HttpBody as _, to_bytes};
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, VARY};
use http::{HeaderMap, HeaderValue};

/// The shortest body that is compressed. For shorter bodies, compression is not worth the time.
pub(super) const COMPRESSED_BYTES_MIN: u64 = 128 * 1024;

pub(super) async fn compress(asked: &HeaderMap, response: Response) -> Response {
    // The length of a streamed body is in the header. A watch has no length.
    let in_header = response.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let length = response.body().size_hint().exact().or(in_header);
    let is_long = length.is_some_and(|length| length > COMPRESSED_BYTES_MIN);
    if !is_long || !takes_gzip(asked) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // This cannot fail, because the body is already in memory.
    let bytes = to_bytes(body, usize::MAX).await.unwrap_or_default();
    let Ok(packed) = gzip(&bytes) else { return Response::from_parts(parts, Body::from(bytes)) };
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    Response::from_parts(parts, Body::from(packed))
}

/// Whether the client accepts gzip. Like a real server, this only searches for the word and ignores qualities.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let asked = headers.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    asked.is_some_and(|asked| asked.split(',').any(|word| word.trim() == "gzip"))
}

fn gzip(bytes: &Bytes) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes)?;
    encoder.finish()
}
