//! Fails the writes to a client that does not read its answer, so that it cannot hold the connection for its maximum
//! age.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// How long a write may make no progress.
pub(crate) const STALL_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection whose writes fail after [`STALL_TIMEOUT`] without progress.
pub(crate) struct StallGuard<S> {
    inner: S,
    /// The deadline of the waiting write.
    limit: Option<Pin<Box<Sleep>>>,
}

impl<S> StallGuard<S> {
    pub(crate) fn new(inner: S) -> Self {
        Self { inner, limit: None }
    }

    /// Returns `written`, or an error if the write has waited too long.
    fn within_limit<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.limit = None;
            return written;
        }
        let limit = self.limit.get_or_insert_with(|| Box::pin(tokio::time::sleep(STALL_TIMEOUT)));
        limit.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StallGuard<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StallGuard<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.within_limit(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(context, bytes);
        self.within_limit(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(context);
        self.within_limit(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.inner).poll_shutdown(context);
        self.within_limit(context, shut)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_write_to_a_stalled_reader_fails_and_to_a_slow_one_succeeds() {
        let (mut reader, writer) = tokio::io::duplex(4);
        let mut writer = StallGuard::new(writer);
        let slowly = async {
            let mut taken = [0; 4];
            for _ in 0..4 {
                tokio::time::sleep(STALL_TIMEOUT / 2).await;
                reader.read_exact(&mut taken).await.expect("written");
            }
        };
        let (written, ()) = tokio::join!(writer.write_all(&[0; 20]), slowly);
        written.expect("taken bit by bit");
        let began = Instant::now();
        let stalled = writer.write_all(&[0; 20]).await.expect_err("the client does not read");
        assert_eq!((stalled.kind(), began.elapsed().as_secs()), (io::ErrorKind::TimedOut, STALL_TIMEOUT.as_secs()));
    }
}
