//! Counts what a plugin was denied, so that the operator sees it and the plugin cannot flood the log.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::Denial;

/// The number of different denials that are counted separately for one plugin. Further denials are counted together.
const DENIALS_MAX: usize = 256;
/// The verb and the resource of denials that are counted together.
const OTHER: &str = "other";

/// The denials of one plugin. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Denials(Arc<DenialsInner>);

#[derive(Debug, Default)]
struct DenialsInner {
    counted: Mutex<BTreeMap<DeniedKind, Count>>,
    news: Notify,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct DeniedKind {
    verb: String,
    resource: String,
    cause: &'static str,
}

#[derive(Debug)]
struct Count {
    times: u64,
    last: String,
    notice: DenialNotice,
}

/// Whether a denial has been logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DenialNotice {
    /// To be logged.
    Due,
    /// Logged in this interval, and repeated this many times since.
    Logged(u64),
    /// Logged in an earlier interval.
    Quiet,
}

/// The number of times a plugin was denied one verb on one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DenialCount {
    /// The API verb. `other` if there were too many kinds of denials.
    pub verb: String,
    /// The resource, as `resource_name` writes it. `other` if there were too many kinds of denials.
    pub resource: String,
    /// `manifest`, `policy`, `ceiling`, `host-namespace`, `namespace` or `other-plugin`.
    pub cause: &'static str,
    pub count: u64,
    /// The text of the last denial, with the missing rule.
    pub last: String,
}

impl Denials {
    pub(crate) fn note(&self, verb: &str, resource: &str, denial: &Denial) {
        let mut kind =
            DeniedKind { verb: verb.to_owned(), resource: resource.to_owned(), cause: denial.cause.as_str() };
        let mut counted = self.lock();
        if counted.len() >= DENIALS_MAX && !counted.contains_key(&kind) {
            kind = DeniedKind { verb: OTHER.to_owned(), resource: OTHER.to_owned(), cause: OTHER };
        }
        let new = Count { times: 0, last: String::new(), notice: DenialNotice::Quiet };
        let count = counted.entry(kind).or_insert(new);
        count.times += 1;
        count.last = denial.to_string();
        match &mut count.notice {
            DenialNotice::Due => {}
            DenialNotice::Logged(again) => *again += 1,
            DenialNotice::Quiet => {
                count.notice = DenialNotice::Due;
                self.0.news.notify_one();
            }
        }
    }

    /// All counts.
    #[must_use]
    pub fn snapshot(&self) -> Vec<DenialCount> {
        self.lock().iter().map(|(kind, count)| of(kind, count)).collect()
    }

    /// Waits until there are denials to log, and returns them: each kind once per interval. For one caller at a time.
    pub async fn to_log(&self) -> Vec<DenialCount> {
        loop {
            let due = self.due();
            if !due.is_empty() {
                return due;
            }
            self.0.news.notified().await;
        }
    }

    fn due(&self) -> Vec<DenialCount> {
        let mut counted = self.lock();
        let due = counted.iter_mut().filter(|(_, count)| count.notice == DenialNotice::Due);
        due.map(|(kind, count)| {
            count.notice = DenialNotice::Logged(0);
            of(kind, count)
        })
        .collect()
    }

    /// Starts a new interval: denials that continue are logged again.
    pub fn renew(&self) {
        for count in self.lock().values_mut() {
            count.notice = match count.notice {
                DenialNotice::Logged(0) | DenialNotice::Quiet => DenialNotice::Quiet,
                DenialNotice::Logged(_) | DenialNotice::Due => DenialNotice::Due,
            };
        }
        self.0.news.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<DeniedKind, Count>> {
        self.0.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn of(kind: &DeniedKind, count: &Count) -> DenialCount {
    let DeniedKind { verb, resource, cause } = kind.clone();
    DenialCount { verb, resource, cause, count: count.times, last: count.last.clone() }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::rights::grants::Cause;

    fn denial(resource: &str) -> Denial {
        Denial { access: format!("get {resource}"), cause: Cause::HostNamespace, missing: String::new() }
    }

    fn logged(denials: &Denials) -> usize {
        denials.to_log().now_or_never().map_or(0, |logged| logged.len())
    }

    #[test]
    fn each_kind_of_denial_is_logged_once_per_interval() {
        let denials = Denials::default();
        assert_eq!(logged(&denials), 0);
        for _ in 0..3 {
            denials.note("get", "pods", &denial("pods"));
        }
        assert_eq!((logged(&denials), logged(&denials)), (1, 0));
        denials.note("get", "pods", &denial("pods"));
        denials.note("get", "secrets", &denial("secrets"));
        assert_eq!(logged(&denials), 1, "the secrets are news");
        denials.renew();
        assert_eq!(logged(&denials), 1, "only the pods were asked for again");
        denials.renew();
        assert_eq!(logged(&denials), 0);
        denials.note("get", "secrets", &denial("secrets"));
        assert_eq!(logged(&denials), 1);
        let counts: Vec<_> = denials.snapshot().into_iter().map(|it| (it.resource, it.count)).collect();
        assert_eq!(counts, [("pods".to_owned(), 4), ("secrets".to_owned(), 2)]);
    }

    #[test]
    fn the_number_of_counts_is_bounded() {
        let denials = Denials::default();
        for number in 0..10 * 256 {
            let resource = format!("things{number}");
            denials.note("get", &resource, &denial(&resource));
        }
        let counts = denials.snapshot();
        assert_eq!(counts.len(), 256 + 1);
        assert_eq!(counts.iter().map(|it| it.count).sum::<u64>(), 10 * 256);
    }
}
