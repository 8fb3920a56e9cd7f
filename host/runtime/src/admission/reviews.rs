//! Checks that the service account that a plugin impersonates may make the watches that the host makes for the plugin,
//! and that the host itself may make the watches that the plugin can do without.
//!
//! The host reads with its own rights and shares the results. So through a cache, a plugin could see objects that its
//! account may not see. Therefore each watch is reviewed before it begins, and periodically while it runs. Reviews of
//! the host's own rights only show which of the configured kinds to leave out.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::retry::{Period, RetryPolicy};
use windlass_core::rights::principal::{Principal, Role, ServiceAccount};
use windlass_kube::client::Connection;
use windlass_kube::{ReviewError, ReviewVerdict, may_watch};

use crate::admission::Needed;
use crate::supervise::jittered_policy;

/// Time between two reviews of a running controller. With jitter, at most 5 min.
const REVIEW_INTERVAL: Duration = Duration::from_secs(150);
/// Backoff between reviews of watches that were denied, or could not be reviewed.
pub(crate) const REVIEW_BACKOFF: RetryPolicy = jittered_policy(Duration::from_secs(2), REVIEW_INTERVAL);
/// The period of the reviews of a running controller.
const REVIEW_PERIOD: Period = Period::sliding(REVIEW_INTERVAL).jitter(1.0, 2.0);

/// The watches that a controller needs and its account, or the host, may not make; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WatchRefusal {
    /// `None` for the host.
    account: Option<ServiceAccount>,
    denied: Vec<DeniedWatch>,
}

/// One denied watch.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DeniedWatch {
    verb: &'static str,
    resource: String,
    namespace: Option<Arc<str>>,
    reason: String,
}

impl fmt::Display for WatchRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { account, denied } = self;
        match account {
            Some(ServiceAccount { namespace, name }) => write!(f, "system:serviceaccount:{namespace}:{name} may not ")?,
            None => f.write_str("the host may not ")?,
        }
        for (index, DeniedWatch { verb, resource, namespace, reason }) in denied.iter().enumerate() {
            let comma = if index == 0 { "" } else { "; nor " };
            write!(f, "{comma}{verb} {resource}")?;
            match namespace {
                Some(namespace) => write!(f, " in {namespace}")?,
                None => f.write_str(" in all namespaces")?,
            }
            write!(f, " ({})", if reason.is_empty() { "none of its roles allows it" } else { reason })?;
        }
        f.write_str(match account {
            Some(_) => ": bind a role with this right to the account, or change `impersonate` in the policy",
            None => ": `windlass rbac` prints the roles for its account",
        })
    }
}

/// Answers reviews: the API server, or a test double.
pub(crate) trait Reviewer: Send + Sync {
    /// Asks if `account`, or the host if it is `None`, may have the watch `needed`.
    fn review(
        &self,
        account: Option<&ServiceAccount>,
        needed: &Needed,
    ) -> impl Future<Output = Result<ReviewVerdict, ReviewError>> + Send;
}

/// Reviews by the API server, made in the host's own name.
pub(crate) struct ServerReviews {
    connection: Connection,
    role: Principal,
}

impl ServerReviews {
    pub(crate) fn new(connection: Connection, replica: &Arc<str>) -> Self {
        let role = Principal::of_host(Role::Reviews, replica.clone());
        Self { connection, role }
    }
}

impl Reviewer for ServerReviews {
    async fn review(&self, account: Option<&ServiceAccount>, needed: &Needed) -> Result<ReviewVerdict, ReviewError> {
        may_watch(&self.connection.client, &self.role, account, &needed.resource, needed.namespace()).await
    }
}

/// All watches in `needed` that the account, or the host if there is none, may not have, so that one role can fix them
/// all. `None` if it may watch everything.
pub(crate) async fn refused<R: Reviewer>(
    reviewer: &R,
    account: Option<&ServiceAccount>,
    needed: &[Needed],
) -> Result<Option<WatchRefusal>, ReviewError> {
    let mut denied = Vec::new();
    for need in needed {
        if let ReviewVerdict::Denied { verb, reason } = reviewer.review(account, need).await? {
            let (resource, namespace) = (need.resource_name(), need.namespace().map(Arc::from));
            denied.push(DeniedWatch { verb, resource, namespace, reason });
        }
    }
    Ok((!denied.is_empty()).then(|| WatchRefusal { account: account.cloned(), denied }))
}

/// Completes when the account may no longer watch something in `needed`. While reviews fail, the last answer holds.
pub(crate) async fn until_refused<R: Reviewer>(
    reviewer: &R,
    account: &ServiceAccount,
    needed: &[Needed],
) -> WatchRefusal {
    loop {
        tokio::time::sleep(REVIEW_PERIOD.pause(Duration::ZERO, windlass_world::random())).await;
        match refused(reviewer, Some(account), needed).await {
            Ok(Some(refusal)) => return refusal,
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "cannot review watches: the last review still holds"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::time::Instant;
    use windlass_core::object::ObjectKind;
    use windlass_kube::Resource;

    use super::*;

    /// Returns these answers in order, and then the last one again and again.
    struct Scripted(Mutex<Vec<Option<ReviewVerdict>>>);

    impl Reviewer for Scripted {
        async fn review(&self, _: Option<&ServiceAccount>, _: &Needed) -> Result<ReviewVerdict, ReviewError> {
            let mut answers = self.0.lock().expect("no panic");
            let answer = if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() };
            answer.ok_or_else(|| ReviewError::Unnameable("as the test says".to_owned()))
        }
    }

    fn needed() -> Vec<Needed> {
        let resource = Resource {
            kind: ObjectKind::new("v1", "Secret"),
            plural: "secrets".to_owned(),
            namespaced: true,
            subresources: vec![],
            verbs: vec![],
            comparable: false,
        };
        vec![Needed { resource: Arc::new(resource), key: None }]
    }

    fn account() -> ServiceAccount {
        ServiceAccount { namespace: "prod".into(), name: "deployer".into() }
    }

    fn denied() -> ReviewVerdict {
        ReviewVerdict::Denied { verb: "watch", reason: String::new() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_is_reviewed_again_and_again_and_silence_denies_nothing() {
        let script = Scripted(Mutex::new(vec![
            Some(ReviewVerdict::Allowed),
            None,
            Some(ReviewVerdict::Allowed),
            Some(denied()),
        ]));
        let began = Instant::now();
        let refusal = until_refused(&script, &account(), &needed()).await;
        let message = refusal.to_string();
        assert!(
            message.contains("system:serviceaccount:prod:deployer may not watch secrets in all namespaces"),
            "{message}"
        );
        let rounds = began.elapsed().as_secs_f64() / 150.0;
        assert!((2.0..8.1).contains(&rounds), "{rounds}");
    }

    #[tokio::test]
    async fn all_that_is_denied_is_said_at_once() {
        let script = Scripted(Mutex::new(vec![Some(ReviewVerdict::Allowed), Some(denied())]));
        let [one] = &needed()[..] else { panic!("one") };
        let other = Resource { plural: "pods".to_owned(), ..(*one.resource).clone() };
        let needed = [one.clone(), one.clone(), Needed { resource: Arc::new(other), ..one.clone() }];
        let refusal =
            refused(&script, Some(&account()), &needed).await.expect("it is answered").expect("two are denied");
        let message = refusal.to_string();
        assert!(
            message.contains("may not watch secrets in all namespaces (none of its roles allows it); nor watch pods"),
            "{message}"
        );
    }

    #[test]
    fn a_denied_account_is_reviewed_soon_and_then_rarely() {
        let mut pauses = REVIEW_BACKOFF.begin();
        let all: Vec<_> = (0..12).map(|_| pauses.pause(windlass_world::random())).collect();
        assert!(all[0] < Duration::from_secs(5) && all[11] >= Duration::from_secs(150), "{all:?}");
    }
}
