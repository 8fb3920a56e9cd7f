//! Caches that are older than the lease term in which they are used (ADR 11). A standby keeps its caches filled while
//! another replica runs the plugin. Before the first call, each old cache must be proven to be fresh.

use futures::FutureExt;
use futures::future::{BoxFuture, join_all, select_all};
use tokio::sync::watch;
use windlass_core::cache::freshness::Proof;
use windlass_core::cache::watch::WatchSpec;
use windlass_core::life::features::Feature;
use windlass_core::object::progress::{Progress as _, Stamp};
use windlass_kube::InformerStatus;

use super::watching::{KindLoss, Watching};
use super::{Controller, RESOLVE_BACKOFF_MIN};
use crate::admission::Admitted;
use crate::observe::status::ControllerState;
use crate::supervise::jittered;

/// Whether a cache whose last list began at `listed` may lack what was written before `since`. A list that began later
/// shows newer state.
fn is_old(listed: Option<Stamp>, since: Stamp) -> bool {
    listed.is_none_or(|listed| listed <= since)
}

/// Reports why the first unlisted watch in `watches` cannot be listed, and each change of that reason, until this
/// future is dropped.
async fn report_unlisted(
    mut watches: Vec<(WatchSpec, watch::Receiver<InformerStatus>)>,
    mut report: impl FnMut(Option<String>),
) {
    let mut reported = None;
    while !watches.is_empty() {
        let mut reason = None;
        for (spec, status) in &mut watches {
            let status = status.borrow_and_update();
            if let (false, None, Some(error)) = (status.synced, &reason, &status.error) {
                reason = Some(format!("cannot list and watch {spec}: {error}"));
            }
        }
        if reported != reason {
            reported.clone_from(&reason);
            report(reason);
        }
        let changes = watches.iter_mut().map(|(_, status)| status.changed().boxed());
        let (change, at, _) = select_all(changes).await;
        if change.is_err() {
            watches.remove(at);
        }
    }
}

impl Controller {
    /// Completes with `fresh`. Until then it shows what keeps the controller waiting for the first lists: an operator
    /// may have to grant a missing right.
    pub(super) fn showing_waits(&self, watching: &Watching, fresh: BoxFuture<'static, ()>) -> BoxFuture<'static, ()> {
        let specs = watching.readable.iter().map(|readable| readable.spec.clone());
        let statuses = watching.subscriptions.iter().map(|(subscription, _)| subscription.statuses());
        let (watches, this) = (specs.zip(statuses).collect(), self.clone());
        async move {
            let reports = report_unlisted(watches, |reason| this.report_state(ControllerState::Syncing, reason));
            tokio::select! {
                biased;
                () = fresh => {}
                () = async { reports.await; std::future::pending().await } => {}
            }
        }
        .boxed()
    }

    /// Completes when the caches hold their first lists, and are proven to have all that the lease's last holder wrote,
    /// and all that the calls of an earlier round wrote or have seen in other caches. Caches that were listed after the
    /// controller subscribed need no proof.
    pub(super) fn fresh(&self, watching: &Watching) -> BoxFuture<'static, ()> {
        let (synced, informers): (BoxFuture<'static, ()>, _) =
            (watching.synced().boxed(), self.parts.host.informers.clone());
        let (readable, since) = (watching.readable.clone(), watching.since);
        // The calls of the working round read these caches, so they need no proof.
        let read = self.handover.active_round().map(|active| active.watches.clone()).unwrap_or_default();
        let is_first = !self.term.is_shared && !self.has_worked();
        let needs_no_proof = is_first || !self.parts.host.features.enabled(Feature::FreshnessProof);
        async move {
            synced.await;
            if needs_no_proof {
                return;
            }
            let unread = readable.iter().filter(|readable| !read.contains(&readable.spec));
            let old = unread.filter(|readable| is_old(readable.store.listed(), since));
            if join_all(old.map(|readable| informers.prove(&readable.spec))).await.contains(&Proof::Lost) {
                // The kind has gone, which ends the round.
                std::future::pending::<()>().await;
            }
        }
        .boxed()
    }

    /// Whether the controller has been at work in this process, even if it was removed in the meantime.
    fn has_worked(&self) -> bool {
        self.parts.host.earlier_rounds.has(self.parts.plugin.name(), self.name())
    }

    /// Shows that another replica runs the plugin, and that this replica does not keep its caches because they are too
    /// large.
    fn show_not_warm(&self) {
        let why = "another replica holds its lease; its caches are not kept, because they are too large";
        self.report_state(ControllerState::StandingBy, Some(why.to_owned()));
    }

    /// Keeps the caches that the plugin would need filled while another replica runs it. Never completes.
    pub(crate) async fn keep_warm(&self) {
        if self.stands_for_kinds() {
            return std::future::pending().await;
        }
        loop {
            let excesses = self.parts.suspension.over(|_| self.show_not_warm()).await;
            let definitions = self.parts.host.kinds.snapshot();
            let Some(Admitted { resolved, live, terms }) = self.admitted().await else {
                return std::future::pending().await;
            };
            let mut watching = self.subscribe(resolved, live, &terms);
            let (bound, revoked) = self.bound(&watching, terms);
            let gone = self.gone(&watching, excesses, &definitions, revoked);
            let gained = self.gained(&watching);
            // The events are discarded so that they do not pile up: a standby has no use for them.
            let drained = std::mem::take(&mut watching.subscriptions)
                .into_iter()
                .map(async |(mut subscription, _)| while subscription.next().await.is_some() {});
            self.report_state(
                ControllerState::StandingBy,
                Some("another replica holds its lease; its caches are kept".to_owned()),
            );
            let drained = async {
                join_all(drained).await;
                std::future::pending::<()>().await;
            };
            let loss = tokio::select! {
                biased;
                never = bound => match never {},
                loss = gone => loss,
                loss = gained => loss,
                () = drained => continue,
            };
            if let KindLoss::OverBudget(excess) = &loss {
                let (plugin, controller) = (self.parts.plugin.name(), self.name());
                tracing::warn!(
                    %plugin, controller, error = %excess,
                    "this replica keeps no caches for now of a plugin that another replica runs: they are too large"
                );
                continue;
            }
            tokio::time::sleep(jittered(RESOLVE_BACKOFF_MIN)).await;
            if let KindLoss::NotServed(kind) | KindLoss::Redefined(kind) = loss {
                self.parts.host.discovery.invalidate(kind.group());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use windlass_core::object::ObjectKind;
    use windlass_kube::InformerError;

    use super::*;

    #[test]
    fn the_first_watch_that_cannot_be_listed_is_reported_until_it_can() {
        let kinds = ["ConfigMap", "Secret"].map(|kind| WatchSpec::all(ObjectKind::new("v1", kind)));
        let senders = [(); 2].map(|()| watch::Sender::<InformerStatus>::default());
        let watches = kinds.into_iter().zip(senders.iter().map(watch::Sender::subscribe)).collect();
        let reported = Mutex::new(Vec::new());
        let mut reports = report_unlisted(watches, |reason| reported.lock().expect("no panic").push(reason)).boxed();
        let mut step = || {
            assert!(reports.as_mut().now_or_never().is_none(), "it goes on");
            std::mem::take(&mut *reported.lock().expect("no panic"))
        };
        let fails = |status: &mut InformerStatus| status.error = Some(Arc::new(InformerError::Interrupted));
        let syncs = |status: &mut InformerStatus| {
            (status.synced, status.error) = (true, None);
        };
        let of = |kind: &str| {
            vec![Some(format!("cannot list and watch {kind}: the list was interrupted before it was complete"))]
        };
        let [one, other] = &senders;
        assert_eq!(step(), [], "nothing has failed yet");
        other.send_modify(fails);
        assert_eq!(step(), of("v1 Secret"));
        one.send_modify(fails);
        assert_eq!(step(), of("v1 ConfigMap"));
        one.send_modify(fails);
        assert_eq!(step(), [], "it was reported already");
        one.send_modify(syncs);
        assert_eq!(step(), of("v1 Secret"));
        one.send_modify(fails);
        assert_eq!(step(), [], "its list is there");
        other.send_modify(syncs);
        assert_eq!(step(), [None]);
    }

    #[test]
    fn a_list_that_began_before_is_old_however_late_it_ended() {
        let [before, since, after] = [(); 3].map(|()| Stamp::take());
        assert!(is_old(None, since) && is_old(Some(before), since) && is_old(Some(since), since));
        assert!(!is_old(Some(after), since));
    }
}
