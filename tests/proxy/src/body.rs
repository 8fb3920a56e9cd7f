//! Response bodies, and the faults that change them.

use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;

/// An error that ends a body early: it breaks the client's connection, or its HTTP/2 stream.
pub(crate) type BodyError = Box<dyn std::error::Error + Send + Sync>;
/// The body of the proxy's response.
pub(crate) type Outgoing = UnsyncBoxBody<Bytes, BodyError>;

/// As a whole.
pub(crate) fn whole(bytes: impl Into<Bytes>) -> Outgoing {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// Piece by piece.
pub(crate) fn streamed(pieces: impl Stream<Item = Result<Bytes, BodyError>> + Send + 'static) -> Outgoing {
    StreamBody::new(pieces.map(|piece| piece.map(Frame::data))).boxed_unsync()
}

/// `body` in pieces of up to `bytes`, with a pause before each.
pub(crate) fn slow(body: Outgoing, bytes: usize, every: Duration) -> Outgoing {
    streamed(stream::unfold((body, Bytes::new()), move |(mut body, mut rest)| async move {
        while rest.is_empty() {
            match body.frame().await? {
                Ok(frame) => rest = frame.into_data().unwrap_or_default(),
                Err(error) => return Some((Err(error), (body, rest))),
            }
        }
        tokio::time::sleep(every).await;
        let piece = rest.split_to(bytes.min(rest.len()));
        Some((Ok(piece), (body, rest)))
    }))
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_slow_body_is_the_same_body() {
        let second = Duration::from_secs(1);
        let began = Instant::now();
        let mut body = slow(whole("abcdefgh"), 3, second);
        let mut pieces = Vec::new();
        while let Some(frame) = body.frame().await {
            pieces.push((frame.expect("no error").into_data().expect("data"), began.elapsed()));
        }
        assert_eq!(pieces, [("abc".into(), second), ("def".into(), 2 * second), ("gh".into(), 3 * second)]);
    }
}
