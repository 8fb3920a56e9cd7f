//! A connection that ends when its peer has sent too much. It counts every byte that arrives: interim answers,
//! trailers, and the framing of chunks and TLS records are not part of a body, but they are read as well.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The peer has sent more than may be read.
#[derive(Debug, thiserror::Error)]
#[error("the peer has sent more than {most} bytes, framing included")]
pub struct TooMuch {
    most: usize,
}

/// A stream that fails once a maximum number of bytes has been read.
pub struct BoundedStream<S> {
    inner: S,
    most: usize,
    read: usize,
}

impl<S> BoundedStream<S> {
    /// Bounds `inner`: at most `most` bytes are read from it.
    pub fn new(inner: S, most: usize) -> Self {
        Self { inner, most, read: 0 }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BoundedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        self.read += buffer.filled().len() - before;
        if self.read > self.most {
            return Poll::Ready(Err(io::Error::other(TooMuch { most: self.most })));
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BoundedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
