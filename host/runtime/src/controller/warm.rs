//! Caches that are older than the right to decide by them: what a replica keeps filled while another one runs the
//! plugin, and what has to be proven before the first call (ADR 11).

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use windlass_core::freshness::Proof;
use windlass_core::progress::{Progress as _, Stamp};

use super::watching::{KindLoss, Watching};
use super::{Controller, FIRST_RETRY};
use crate::admission::Admitted;
use crate::observe::status::ControllerState;
use crate::supervise::jittered;

/// Whether a cache whose last list began at `listed` may lack what was written before `since`: whatever a list shows
/// that began later is newer.
fn is_old(listed: Option<Stamp>, since: Stamp) -> bool {
    listed.is_none_or(|listed| listed <= since)
}

impl Controller {
    /// Completes when the caches hold their first lists, and are proven to have all that the lease's last holder wrote,
    /// or the calls of an earlier round have seen in other caches. What was listed since the controller subscribed
    /// needs no proof.
    pub(super) fn fresh(&self, watching: &Watching) -> BoxFuture<'static, ()> {
        let (synced, informers): (BoxFuture<'static, ()>, _) =
            (watching.synced().boxed(), self.parts.host.informers.clone());
        let (readable, since) = (watching.readable.clone(), watching.since);
        // The calls of the round at work have read these.
        let read = self.handover.active_round().map(|active| active.watches.clone()).unwrap_or_default();
        let is_first = !self.term.is_shared && !self.handover.prior.has_run();
        async move {
            synced.await;
            if is_first {
                return;
            }
            let unread = readable.iter().filter(|readable| !read.contains(&readable.spec));
            let old = unread.filter(|readable| is_old(readable.store.listed(), since));
            if join_all(old.map(|readable| informers.prove(&readable.spec))).await.contains(&Proof::Lost) {
                // Its kind has gone, which ends the round.
                std::future::pending::<()>().await;
            }
        }
        .boxed()
    }

    /// Keeps the caches filled that it would need, while another replica runs it; for ever.
    pub(crate) async fn keep_warm(&self) {
        loop {
            let definitions = self.parts.host.kinds.snapshot();
            let Some(Admitted { resolved, live, terms }) = self.admitted().await else {
                return std::future::pending().await;
            };
            let mut watching = self.subscribe(resolved, live, &terms);
            let (bound, revoked) = self.bound(&watching, terms);
            let gone = self.gone(&watching, &definitions, revoked);
            // What they tell is nobody's affair yet, and must not heap up.
            let drained = std::mem::take(&mut watching.subscriptions)
                .into_iter()
                .map(async |(mut subscription, _)| while subscription.next().await.is_some() {});
            self.say(
                ControllerState::StandingBy,
                Some("another replica holds its lease; its caches are kept".to_owned()),
            );
            let drained = async {
                join_all(drained).await;
                std::future::pending::<()>().await;
            };
            let loss = tokio::select! {
                never = bound => match never {},
                loss = gone => loss,
                () = drained => continue,
            };
            if let KindLoss::OverBudget(_) = loss {
                return std::future::pending().await;
            }
            tokio::time::sleep(jittered(FIRST_RETRY)).await;
            if let KindLoss::NotServed(kind) | KindLoss::Redefined(kind) = loss {
                self.parts.host.discovery.invalidate(kind.group());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_began_before_is_old_however_late_it_ended() {
        let [before, since, after] = [(); 3].map(|()| Stamp::take());
        assert!(is_old(None, since) && is_old(Some(before), since) && is_old(Some(since), since));
        assert!(!is_old(Some(after), since));
    }
}
