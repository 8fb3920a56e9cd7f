//! Notices when the host may no longer list and watch a configured kind that the controller can work without. The
//! controller then begins another round, which leaves the kind out.

use std::future::pending;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::watch;
use windlass_core::object::ObjectKind;
use windlass_kube::InformerStatus;

use super::Controller;
use super::watching::{KindLoss, OptionalWatch, Watching};
use crate::admission::Needed;
use crate::admission::reviews::{REVIEW_BACKOFF, refused};

impl Controller {
    /// One future for each watch that the controller can work without. It completes when the host has lost the right to
    /// it.
    pub(super) fn forbidden(&self, watching: &Watching) -> Vec<BoxFuture<'static, KindLoss>> {
        let of = |OptionalWatch { needed, status }: &OptionalWatch| {
            let (controller, needed, status) = (self.clone(), needed.clone(), status.clone());
            async move { KindLoss::Forbidden(controller.until_forbidden(needed, status).await) }.boxed()
        };
        watching.optional.iter().map(of).collect()
    }

    /// Asks for a review only after the server has refused a list or a watch. If the review disagrees, the next round
    /// would not leave the kind out, so this one goes on.
    async fn until_forbidden(&self, needed: Needed, mut status: watch::Receiver<InformerStatus>) -> ObjectKind {
        let is_forbidden = |status: &InformerStatus| status.error.as_ref().is_some_and(|error| error.is_forbidden());
        let mut retries = REVIEW_BACKOFF.begin();
        loop {
            if status.wait_for(is_forbidden).await.is_err() {
                // The informer has ended, which is reported elsewhere.
                return pending().await;
            }
            let review = refused(&self.parts.host.reviews, None, std::slice::from_ref(&needed)).await;
            if matches!(review, Ok(Some(_))) {
                return needed.resource.kind.clone();
            }
            tokio::time::sleep(retries.pause(windlass_world::random())).await;
        }
    }
}
