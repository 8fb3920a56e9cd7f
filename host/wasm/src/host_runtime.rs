//! Work that leaves a guests' thread for the host's runtime, which has the I/O. Where both are the same (ADR 19), it stays.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures::FutureExt;
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

/// The reason why work has no result.
#[derive(Debug)]
pub enum NotDone {
    /// It panicked with this.
    Panicked(Box<dyn Any + Send>),
    /// The host's runtime goes away.
    Gone,
}

/// Does `work` on `host`, wherever it is waited for. It ends when this is dropped.
pub async fn run_on<T: Send + 'static>(
    host: &Handle,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, NotDone> {
    let work = AssertUnwindSafe(work).catch_unwind();
    if Handle::current().id() == host.id() {
        return work.await.map_err(NotDone::Panicked);
    }
    match AbortOnDropHandle::new(host.spawn(work.in_current_span())).await {
        Ok(done) => done.map_err(NotDone::Panicked),
        Err(_) => Err(NotDone::Gone),
    }
}

/// The same for work that ends at once or waits at once: it begins here, so that what ends (a write that would change
/// nothing) wakes nobody.
pub async fn begin_here<T: Send + 'static>(
    host: &Handle,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, NotDone> {
    let mut work = Box::pin(work);
    let begun = {
        let _entered = host.enter();
        catch_unwind(AssertUnwindSafe(|| work.as_mut().now_or_never()))
    };
    match begun {
        Ok(Some(done)) => Ok(done),
        Ok(None) => run_on(host, work).await,
        Err(panic) => Err(NotDone::Panicked(panic)),
    }
}
