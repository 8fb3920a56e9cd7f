//! What the host follows besides plugins as long as it runs: the definitions of kinds, and the operator's policies.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use windlass_kube::{InformerError, RequestError};

use super::Host;
use crate::kinds;
use crate::policies::PolicyFiles;
use crate::supervise::supervise;

/// Follows the definitions of kinds, from the moment that a controller needs one, until `stop`.
pub(super) async fn kinds(host: Arc<Host>, stop: CancellationToken) {
    let Host { kinds, informers, discovery, panics, .. } = &*host;
    if stop.run_until_cancelled(kinds.wanted()).await.is_none() {
        return;
    }
    let subscription = informers.subscribe(kinds::definitions());
    let forbidden = subscription.when(|status| {
        let error = status.error.as_deref();
        matches!(error, Some(InformerError::List(RequestError::Refused { status, .. })) if status.code == 403)
    });
    let tell = async {
        forbidden.await;
        tracing::info!(
            "this host may not list and watch CustomResourceDefinitions: kinds that come and go are noticed later"
        );
        std::future::pending::<()>().await;
    };
    let subscription = tokio::sync::Mutex::new(subscription);
    let follow = async || kinds.follow(&mut *subscription.lock().await, |group| discovery.invalidate(group)).await;
    tokio::select! {
        () = stop.cancelled() => {}
        () = tell => {}
        _ = supervise("kinds", panics, &stop, follow) => tracing::warn!(
            "the cache of CustomResourceDefinitions is larger than one may be: kinds that come and go are noticed later"
        ),
    }
}

/// Follows the files of policies until `stop`.
pub(super) async fn policies(host: Arc<Host>, files: PolicyFiles, stop: CancellationToken) {
    let files = tokio::sync::Mutex::new(files);
    let follow = async || {
        let mut files = files.lock().await;
        tokio::join!(host.policies.follow(&mut files), host.policies.show(&host.status));
    };
    stop.run_until_cancelled(supervise("policies", &host.panics, &stop, follow)).await;
}
