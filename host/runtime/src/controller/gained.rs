//! Notices when a controller could watch a configured kind that it works without. The controller then begins another
//! round. A kind that the policies grant later is noticed by [`Terms`](crate::admission::Terms).
//!
//! Each new round waits for running calls and runs all primaries. Kinds are often installed together, and the kinds of
//! an aggregated API may come and go, so a round does not end at once when a kind appears.

use futures::FutureExt;
use futures::future::{BoxFuture, select_all};
use windlass_core::object::ObjectKind;
use windlass_core::rights::principal::ServiceAccount;

use super::Controller;
use super::served::RESOLVE_BACKOFF;
use super::watching::{KindLoss, Watching};
use crate::admission::Needed;
use crate::admission::reviews::{REVIEW_BACKOFF, refused};

impl Controller {
    /// Completes some time after the controller could watch a kind that is left out. Poll this only while the
    /// controller is at work or a standby. Otherwise the controller could not begin while more and more kinds appear.
    pub(super) fn gained(&self, watching: &Watching) -> BoxFuture<'static, KindLoss> {
        let (left_out, account) = (&watching.left_out, &watching.impersonate);
        let mut gained: Vec<BoxFuture<'static, ObjectKind>> = vec![std::future::pending().boxed()];
        for kind in left_out.unserved.clone() {
            let controller = self.clone();
            gained.push(async move { controller.until_served(kind).await }.boxed());
        }
        for needed in left_out.refused.clone() {
            let (controller, account) = (self.clone(), account.clone());
            gained.push(async move { controller.until_allowed(account, needed).await }.boxed());
        }
        let handover = self.handover.clone();
        async move {
            let (kind, ..) = select_all(gained).await;
            tokio::time::sleep(handover.gains.next()).await;
            KindLoss::Gained(kind)
        }
        .boxed()
    }

    async fn until_served(&self, kind: ObjectKind) -> ObjectKind {
        let mut retries = RESOLVE_BACKOFF.begin();
        loop {
            let mark = self.parts.host.kinds.mark();
            if self.parts.host.discovery.resolve(&kind).await.is_ok_and(|resource| resource.is_watchable()) {
                return kind;
            }
            self.wait(Some(&kind), &mut retries, mark).await;
        }
    }

    /// Completes when the host, and the `account` that the plugin acts as, may have the watch.
    async fn until_allowed(&self, account: Option<ServiceAccount>, needed: Needed) -> ObjectKind {
        let mut retries = REVIEW_BACKOFF.begin();
        loop {
            tokio::time::sleep(retries.pause(windlass_world::random())).await;
            if self.is_allowed(None, &needed).await
                && (account.is_none() || self.is_allowed(account.as_ref(), &needed).await)
            {
                return needed.resource.kind.clone();
            }
        }
    }

    async fn is_allowed(&self, account: Option<&ServiceAccount>, needed: &Needed) -> bool {
        let review = refused(&self.parts.host.reviews, account, std::slice::from_ref(needed)).await;
        matches!(review, Ok(None))
    }
}

#[cfg(test)]
mod tests;
