//! The bodies of requests, as guests write them.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::Frame;
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};
use wasmtime_wasi_http::Error;
use wasmtime_wasi_http::p2::bindings::http::types::ErrorCode;
use windlass_core::call::http::REQUEST_BODY_BYTES_MAX;

use super::HeldBytes;
use crate::wasi_state::{WASI_WRITE_BYTES_MAX, WasiError};

/// The body of a request as the guest writes it: `wasi:http/types.outgoing-body`, its stream, and the data for the
/// request.
#[derive(Clone)]
pub(crate) struct OutgoingBody(Arc<Mutex<WrittenBody>>);

struct WrittenBody {
    bytes: Vec<u8>,
    held: HeldBytes,
    /// The number in the request's header `content-length`.
    length: Option<u64>,
    has_stream: bool,
    end: BodyEnd,
}

/// Whether and how a body has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyEnd {
    /// The body has not ended.
    Open,
    Whole,
    /// The body has more than [`REQUEST_BODY_BYTES_MAX`] bytes. The beginning is passed on, so that the port refuses
    /// it.
    TooLarge,
    /// The guest dropped the body without finishing it.
    Aborted,
}

impl OutgoingBody {
    pub(crate) fn new(length: Option<u64>, held: HeldBytes) -> Self {
        let body = WrittenBody { bytes: Vec::new(), held, length, has_stream: false, end: BodyEnd::Open };
        Self(Arc::new(Mutex::new(body)))
    }

    /// The stream to write the body to. It can be taken only once.
    pub(crate) fn stream(&self) -> Option<BodyStream> {
        let is_first = !std::mem::replace(&mut self.written().has_stream, true);
        is_first.then(|| BodyStream(self.clone()))
    }

    /// Records that the guest has written the whole body.
    pub(crate) fn finish(&self) -> Result<(), ErrorCode> {
        let mut written = self.written();
        let size = written.bytes.len() as u64;
        if written.end == BodyEnd::TooLarge {
            return Err(ErrorCode::HttpRequestBodySize(Some(size)));
        }
        let is_as_said = written.length.is_none_or(|length| length == size);
        written.end = if is_as_said { BodyEnd::Whole } else { BodyEnd::Aborted };
        if is_as_said { Ok(()) } else { Err(ErrorCode::HttpRequestBodySize(Some(size))) }
    }

    /// Records that the guest drops the body without finishing it.
    pub(crate) fn abort(&self) {
        let mut written = self.written();
        if written.end == BodyEnd::Open {
            written.end = BodyEnd::Aborted;
        }
    }

    fn written(&self) -> MutexGuard<'_, WrittenBody> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The body is either complete or not available yet.
impl http_body::Body for OutgoingBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let mut written = self.written();
        match written.end {
            // The request that waits for this body is polled again whenever the guest waits.
            BodyEnd::Open => Poll::Pending,
            BodyEnd::Aborted => Poll::Ready(Some(Err(Error::HttpProtocolError))),
            BodyEnd::Whole | BodyEnd::TooLarge => {
                let bytes = std::mem::take(&mut written.bytes);
                written.held.clear();
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes.into()))))
            }
        }
    }
}

/// The stream of an [`OutgoingBody`]. It is always ready.
pub(crate) struct BodyStream(OutgoingBody);

#[async_trait::async_trait]
impl Pollable for BodyStream {
    async fn ready(&mut self) {}
}

impl OutputStream for BodyStream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        if bytes.len() > WASI_WRITE_BYTES_MAX {
            return Err(StreamError::Trap(WasiError::TooMuch.into()));
        }
        let mut written = self.0.written();
        if written.end != BodyEnd::Open {
            return Err(StreamError::Closed);
        }
        // One byte beyond the limit is enough to show that there are too many.
        let fits = bytes.len().min(REQUEST_BODY_BYTES_MAX + 1 - written.bytes.len());
        written.bytes.extend_from_slice(&bytes[..fits]);
        written.held.add(fits);
        if written.held.is_too_much() {
            return Err(StreamError::Trap(WasiError::Bodies.into()));
        }
        if written.bytes.len() > REQUEST_BODY_BYTES_MAX {
            written.end = BodyEnd::TooLarge;
            let error = ErrorCode::HttpRequestBodySize(Some(written.bytes.len() as u64));
            return Err(StreamError::LastOperationFailed(error.into()));
        }
        Ok(())
    }

    fn write_zeroes(&mut self, length: usize) -> StreamResult<()> {
        // Any length beyond the limit is refused, so one byte more than the limit stands for it.
        self.write(vec![0; length.min(WASI_WRITE_BYTES_MAX + 1)].into())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        if self.0.written().end == BodyEnd::Open { Ok(WASI_WRITE_BYTES_MAX) } else { Err(StreamError::Closed) }
    }
}
