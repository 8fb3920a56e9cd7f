//! A client's connection that the proxy can reset or silence.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

/// Whether all connections are silent: open, but nothing is read or written.
#[derive(Debug, Default)]
pub(crate) struct Silence(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    silent: bool,
    /// Tasks that tried to read or write in the meantime.
    wakers: Vec<Waker>,
}

impl Silence {
    pub(crate) fn begin(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).silent = true;
    }

    pub(crate) fn end(&self) {
        let wakers = {
            let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.silent = false;
            std::mem::take(&mut waiting.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    fn poll_over(&self, context: &Context<'_>) -> Poll<()> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !waiting.silent {
            return Poll::Ready(());
        }
        waiting.wakers.push(context.waker().clone());
        Poll::Pending
    }
}

/// The socket of an accepted connection.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: TcpStream,
    silence: Arc<Silence>,
    /// Cancelled if the connection must end by a reset instead of a close.
    reset: CancellationToken,
}

impl Socket {
    pub(crate) fn new(stream: TcpStream, silence: Arc<Silence>, reset: CancellationToken) -> Self {
        Self { stream, silence, reset }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.reset.is_cancelled() {
            close_by_reset(&self.stream);
        }
    }
}

/// Makes the next close of `stream` a reset: with zero linger time, TCP sends RST and drops unsent data.
pub(crate) fn close_by_reset(stream: &TcpStream) {
    if let Err(error) = stream.set_zero_linger() {
        tracing::warn!(%error, "a connection closes without a reset");
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.silence.poll_over(context));
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.silence.poll_over(context));
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.silence.poll_over(context));
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.silence.poll_over(context));
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
