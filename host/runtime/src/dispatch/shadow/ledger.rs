//! The record of comparing the next version of a plugin with the current one, for those who look at it, and for the
//! promotion that a policy asks for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use windlass_core::intent::IntentDifference;
use windlass_core::object::ObjectKey;

/// The most keys that are remembered. Calls about others are counted all the same.
const MOST_KEYS: usize = 10_000;
/// The most keys whose differences are kept, and the most differences of one.
const MOST_DIFFERING: usize = 100;
const MOST_DIFFERENCES: usize = 10;

/// The calls that were compared, of one next version and one current one.
#[derive(Debug, Default)]
pub(crate) struct ShadowLedger {
    compared: Mutex<Comparisons>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Comparisons {
    agreeing: u64,
    differing: u64,
    /// Calls that were not compared, and why the last of them was not.
    passed_over: u64,
    because: Option<&'static str>,
    /// The agreeing calls since the last one that differed, and when the first of them ended.
    in_a_row: u64,
    since: Option<Instant>,
    /// By controller and key: how the last call about it differed. Empty: it agreed.
    keys: BTreeMap<(Arc<str>, ObjectKey), Vec<IntentDifference>>,
    /// After how many calls and how long it is promoted by itself. None: it is promoted by hand.
    promoted_after: Option<(u32, Duration)>,
    /// Why it was not promoted although it was due.
    problem: Option<String>,
}

impl ShadowLedger {
    /// A call about `key` was compared, and this was `found`. Returns whether that is news: the call before did not differ.
    pub(crate) fn compared(&self, controller: &Arc<str>, key: &ObjectKey, mut found: Vec<IntentDifference>) -> bool {
        let mut compared = self.lock();
        if found.is_empty() {
            compared.agreeing += 1;
            compared.in_a_row += 1;
            compared.since.get_or_insert_with(Instant::now);
        } else {
            compared.differing += 1;
            (compared.in_a_row, compared.since) = (0, None);
        }
        let of = (controller.clone(), key.clone());
        found.truncate(MOST_DIFFERENCES);
        let has_room = compared.keys.len() < MOST_KEYS || compared.keys.contains_key(&of);
        let is_news = !found.is_empty() && has_room;
        let before = if has_room { compared.keys.insert(of, found) } else { None };
        drop(compared);
        self.changed.notify_waiters();
        is_news && before.is_none_or(|before| before.is_empty())
    }

    /// A call was not compared.
    pub(crate) fn passed_over(&self, because: &'static str) {
        let mut compared = self.lock();
        compared.passed_over += 1;
        compared.because = Some(because);
    }

    /// After so many calls and so long it is promoted by itself; None: by hand.
    pub(crate) fn is_promoted_after(&self, after: Option<(u32, Duration)>) {
        self.lock().promoted_after = after;
    }

    /// It was due, and could not be promoted.
    pub(crate) fn is_not_promoted(&self, problem: String) {
        self.lock().problem = Some(problem);
    }

    /// Completes when the last `calls` calls have agreed, and for so long no call has differed. Cancel-safe.
    pub(crate) async fn agrees(&self, calls: u32, time: Duration) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // From here on it misses nothing.
            changed.as_mut().enable();
            let (in_a_row, since) = {
                let compared = self.lock();
                (compared.in_a_row, compared.since)
            };
            let due = since.filter(|_| in_a_row >= calls.into()).map(|since| since + time);
            if due.is_some_and(|due| due <= Instant::now()) {
                return;
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
        }
    }

    /// For `/plugins`.
    pub(crate) fn to_json(&self) -> Value {
        let compared = self.lock();
        let differing: Vec<_> = compared.keys.iter().filter(|(_, found)| !found.is_empty()).collect();
        let told = differing.iter().take(MOST_DIFFERING).map(|((controller, key), found)| {
            let differences = found.iter().map(|it| json!({"about": it.about, "difference": it.text}));
            json!({
                "controller": &**controller, "key": key.to_string(), "differences": differences.collect::<Vec<_>>(),
            })
        });
        json!({
            "calls": {
                "agreeing": compared.agreeing, "differing": compared.differing, "notCompared": compared.passed_over,
                "notComparedBecause": compared.because, "agreeingInARow": compared.in_a_row,
                "agreeingForSeconds": compared.since.map_or(0, |since| since.elapsed().as_secs()),
            },
            "keys": {"agreeing": compared.keys.len() - differing.len(), "differing": differing.len()},
            "differing": told.collect::<Vec<_>>(),
            "promoteAfter": compared.promoted_after.map(|(calls, time)| json!({"calls": calls, "seconds": time.as_secs()})),
            "promotionProblem": compared.problem,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Comparisons> {
        self.compared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn enter(ledger: &ShadowLedger, name: &str, text: Option<&str>) {
        let found = text.map(|text| IntentDifference { about: "ConfigMap prod/a".to_owned(), text: text.to_owned() });
        ledger.compared(&"shops".into(), &ObjectKey::namespaced("prod", name), found.into_iter().collect());
    }

    #[tokio::test(start_paused = true)]
    async fn a_version_is_due_after_so_many_calls_and_so_long_without_a_difference() {
        let (ledger, time) = (ShadowLedger::default(), Duration::from_mins(10));
        let is_due = || ledger.agrees(3, time).now_or_never().is_some();
        for name in ["a", "b"] {
            enter(&ledger, name, None);
        }
        tokio::time::advance(time).await;
        assert!(!is_due(), "two calls");
        enter(&ledger, "c", None);
        assert!(is_due());
        enter(&ledger, "c", Some("data.a: 1 → 2"));
        (0..3).for_each(|_| enter(&ledger, "c", None));
        assert!(!is_due(), "its time begins anew");
        let began = Instant::now();
        ledger.agrees(3, time).await;
        assert!(began.elapsed().abs_diff(time) < Duration::from_millis(10), "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_hears_of_the_call_that_is_still_missing() {
        let ledger = Arc::new(ShadowLedger::default());
        let waiting = tokio::spawn({
            let ledger = ledger.clone();
            async move { ledger.agrees(1, Duration::ZERO).await }
        });
        tokio::task::yield_now().await;
        enter(&ledger, "a", None);
        waiting.await.expect("no panic");
    }

    #[test]
    fn of_each_key_the_last_call_is_told() {
        let ledger = ShadowLedger::default();
        enter(&ledger, "a", Some("data.a: 1 → 2"));
        enter(&ledger, "b", Some("data.a: 1 → 2"));
        enter(&ledger, "a", None);
        ledger.passed_over("it was busy");
        let told = ledger.to_json();
        assert_eq!(told["keys"], json!({"agreeing": 1, "differing": 1}));
        assert_eq!(told["calls"]["differing"], 2);
        assert_eq!((&told["calls"]["notCompared"], &told["calls"]["agreeingInARow"]), (&json!(1), &json!(1)));
        let differing = json!([{
            "controller": "shops", "key": "prod/b",
            "differences": [{"about": "ConfigMap prod/a", "difference": "data.a: 1 → 2"}],
        }]);
        assert_eq!(told["differing"], differing);
    }
}
