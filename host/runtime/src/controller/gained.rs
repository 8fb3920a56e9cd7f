//! Notices when a controller could watch a configured kind that it works without. The controller then begins another
//! round. A kind that the policies grant later is noticed by [`Terms`](crate::admission::Terms).

use futures::FutureExt;
use futures::future::{BoxFuture, select_all};
use windlass_core::object::ObjectKind;
use windlass_core::rights::principal::ServiceAccount;

use super::Controller;
use super::served::RESOLVE_BACKOFF;
use crate::admission::Needed;
use crate::admission::left_out::LeftOut;
use crate::admission::reviews::{REVIEW_BACKOFF, refused};

impl Controller {
    /// Completes with a kind in `left_out` that is served now, or that `account` may watch now.
    pub(super) fn gained(
        &self,
        left_out: &LeftOut,
        account: Option<&ServiceAccount>,
    ) -> BoxFuture<'static, ObjectKind> {
        let mut gained: Vec<BoxFuture<'static, ObjectKind>> = vec![std::future::pending().boxed()];
        for kind in left_out.unserved.clone() {
            let controller = self.clone();
            gained.push(async move { controller.until_served(kind).await }.boxed());
        }
        for needed in left_out.refused.clone() {
            let (controller, account) = (self.clone(), account.cloned());
            gained
                .extend(account.map(|account| async move { controller.until_allowed(account, needed).await }.boxed()));
        }
        select_all(gained).map(|(kind, ..)| kind).boxed()
    }

    async fn until_served(&self, kind: ObjectKind) -> ObjectKind {
        let mut retries = RESOLVE_BACKOFF.begin();
        loop {
            let mark = self.parts.host.kinds.mark();
            if self.parts.host.discovery.resolve(&kind).await.is_ok() {
                return kind;
            }
            self.wait(Some(&kind), &mut retries, mark).await;
        }
    }

    async fn until_allowed(&self, account: ServiceAccount, needed: Needed) -> ObjectKind {
        let mut retries = REVIEW_BACKOFF.begin();
        loop {
            tokio::time::sleep(retries.pause(windlass_world::random())).await;
            let review = refused(&self.parts.host.reviews, &account, std::slice::from_ref(&needed)).await;
            if matches!(review, Ok(None)) {
                return needed.resource.kind.clone();
            }
        }
    }
}

#[cfg(test)]
mod tests;
