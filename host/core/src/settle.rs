//! When all that a call has set in motion is over.
//!
//! A call ends by answering, by trapping, or at its deadline; a write that it has sent ends later. Whoever works for a
//! call holds a [`Hold`] (it is part of the call's context), and the worker waits for [`Settled`] before it says that
//! the key is done.

use std::convert::Infallible;

use tokio::sync::mpsc;

/// Held by everything that works for a call. Clones count; dropping the last one settles the call.
#[derive(Clone, Debug)]
pub struct Hold {
    _sender: mpsc::Sender<Infallible>,
}

/// Waits until no [`Hold`] of its call is left.
#[derive(Debug)]
pub struct Settled(mpsc::Receiver<Infallible>);

/// A hold and what waits for it and all its clones to be dropped.
#[must_use]
pub fn hold() -> (Hold, Settled) {
    let (sender, receiver) = mpsc::channel(1);
    (Hold { _sender: sender }, Settled(receiver))
}

impl Hold {
    /// A hold that nobody waits for.
    #[must_use]
    pub fn detached() -> Self {
        hold().0
    }
}

impl Settled {
    /// Completes when the last hold has been dropped.
    pub async fn wait(mut self) {
        // Nothing can be sent, so this ends with the last sender.
        let None = self.0.recv().await;
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_call_settles_with_its_last_hold() {
        let (first, settled) = hold();
        let second = first.clone();
        let mut waiting = std::pin::pin!(settled.wait());
        drop(first);
        assert_eq!(waiting.as_mut().now_or_never(), None);
        drop(second);
        assert_eq!(waiting.now_or_never(), Some(()));
    }
}
