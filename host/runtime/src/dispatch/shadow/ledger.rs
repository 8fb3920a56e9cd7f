//! The results of comparing the next version of a plugin with the current one. `/plugins` shows them, and a policy may
//! promote the next version because of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;
use windlass_core::call::intent::IntentDifference;
use windlass_core::object::ObjectKey;

/// The most keys that are remembered. Calls about further keys are only counted.
const REMEMBERED_KEYS_MAX: usize = 10_000;
/// The most keys whose differences are kept.
const DIFFERING_KEYS_MAX: usize = 100;
/// The most differences of one key.
const KEY_DIFFERENCES_MAX: usize = 10;
/// The longest text of a difference, in bytes. The text comes from the next version.
const DIFFERENCE_TEXT_BYTES_MAX: usize = 1_000;

/// The compared calls of one next version and one current version.
#[derive(Debug, Default)]
pub(crate) struct ShadowLedger {
    compared: Mutex<Comparisons>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Comparisons {
    agreeing: u64,
    differing: u64,
    /// The number of calls that were not compared, and why the last of them was not.
    passed_over: u64,
    because: Option<&'static str>,
    /// The number of agreeing calls that ended well since the last differing call, and when the first and the last of
    /// them ended.
    in_a_row: u64,
    row: Option<[Instant; 2]>,
    /// The number of keys whose last call differed.
    differing_keys: usize,
    /// How the last call differed, by controller and key. Empty if it agreed.
    keys: BTreeMap<(Arc<str>, ObjectKey), Vec<IntentDifference>>,
    /// The number of calls and the time after which the version is promoted automatically. `None` if it is promoted by
    /// hand.
    promoted_after: Option<(u32, Duration)>,
    /// Why the version was not promoted although it was due.
    problem: Option<String>,
}

impl ShadowLedger {
    /// Records that a call about `key` was compared, with the differences `found`. `ended_well` is false if the next
    /// version's call failed. Returns whether there is news: this call differs, and the previous call about the key did
    /// not.
    pub(crate) fn compared(
        &self,
        controller: &Arc<str>,
        key: &ObjectKey,
        mut found: Vec<IntentDifference>,
        ended_well: bool,
    ) -> bool {
        let mut compared = self.lock();
        let differs = !found.is_empty();
        if differs {
            compared.differing += 1;
            compared.begin_anew();
        } else {
            compared.agreeing += 1;
            if ended_well {
                compared.in_a_row += 1;
                let now = Instant::now();
                compared.row.get_or_insert([now, now])[1] = now;
            }
        }
        found.truncate(if compared.differing_keys < DIFFERING_KEYS_MAX { KEY_DIFFERENCES_MAX } else { 1 });
        for text in found.iter_mut().flat_map(|it| [&mut it.about, &mut it.text]) {
            text.truncate(text.floor_char_boundary(DIFFERENCE_TEXT_BYTES_MAX));
        }
        let of = (controller.clone(), key.clone());
        let has_room = compared.keys.len() < REMEMBERED_KEYS_MAX || compared.keys.contains_key(&of);
        let differed = has_room && compared.keys.insert(of, found).is_some_and(|before| !before.is_empty());
        if has_room {
            compared.differing_keys = compared.differing_keys + usize::from(differs) - usize::from(differed);
        }
        drop(compared);
        self.changed.notify_waiters();
        has_room && differs && !differed
    }

    /// Records that a call could not be compared, and that the next version is the cause.
    pub(crate) fn evaded(&self, because: &'static str) {
        self.passed_over(because);
        self.lock().begin_anew();
    }

    /// Records that a call was not compared.
    pub(crate) fn passed_over(&self, because: &'static str) {
        let mut compared = self.lock();
        compared.passed_over += 1;
        compared.because = Some(because);
    }

    /// Sets the number of calls and the time after which the version is promoted automatically. `None` if it is
    /// promoted by hand.
    pub(crate) fn is_promoted_after(&self, after: Option<(u32, Duration)>) {
        self.lock().promoted_after = after;
    }

    /// Records why the version could not be promoted when it was due. Returns whether the problem is new.
    pub(crate) fn is_not_promoted(&self, problem: &str) -> bool {
        let before = self.lock().problem.replace(problem.to_owned());
        before.as_deref() != Some(problem)
    }

    /// Completes when at least `calls` calls in a row have agreed, their first and last are at least `time` apart, and
    /// no key differs. Time without calls shows nothing: a plugin that is paused, or whose lease another replica has,
    /// is not called. Cancel-safe.
    pub(crate) async fn agrees(&self, calls: u32, time: Duration) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // Enabled before the check, so that no change is missed.
            changed.as_mut().enable();
            if self.lock().is_due(calls, time) {
                return;
            }
            changed.await;
        }
    }

    /// For `/plugins`.
    pub(crate) fn to_json(&self) -> Value {
        let compared = self.lock();
        let agreeing_for = compared.row.map_or(0, |[first, last]| (last - first).as_secs());
        let differing: Vec<_> = compared.keys.iter().filter(|(_, found)| !found.is_empty()).collect();
        let shown = differing.iter().take(DIFFERING_KEYS_MAX).map(|((controller, key), found)| {
            let differences = found.iter().map(|it| json!({"about": it.about, "difference": it.text}));
            json!({
                "controller": &**controller, "key": key.to_string(), "differences": differences.collect::<Vec<_>>(),
            })
        });
        json!({
            "calls": {
                "agreeing": compared.agreeing, "differing": compared.differing, "notCompared": compared.passed_over,
                "notComparedBecause": compared.because, "agreeingInARow": compared.in_a_row,
                "agreeingForSeconds": agreeing_for,
            },
            "keys": {"agreeing": compared.keys.len() - differing.len(), "differing": differing.len()},
            "differing": shown.collect::<Vec<_>>(),
            "promoteAfter": compared.promoted_after.map(|(calls, time)| json!({"calls": calls, "seconds": time.as_secs()})),
            "promotionProblem": compared.problem,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Comparisons> {
        self.compared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Comparisons {
    fn begin_anew(&mut self) {
        (self.in_a_row, self.row) = (0, None);
    }

    fn is_due(&self, calls: u32, time: Duration) -> bool {
        let lasted = self.row.is_some_and(|[first, last]| last - first >= time);
        lasted && self.in_a_row >= calls.into() && self.differing_keys == 0
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn enter(ledger: &ShadowLedger, name: &str, text: Option<&str>) {
        let found = text.map(|text| IntentDifference { about: "ConfigMap prod/a".to_owned(), text: text.to_owned() });
        ledger.compared(&"shops".into(), &ObjectKey::namespaced("prod", name), found.into_iter().collect(), true);
    }

    #[tokio::test(start_paused = true)]
    async fn a_version_is_due_after_enough_calls_and_time_without_a_difference() {
        let (ledger, time) = (ShadowLedger::default(), Duration::from_mins(10));
        let is_due = || ledger.agrees(3, time).now_or_never().is_some();
        for name in ["a", "b"] {
            enter(&ledger, name, None);
        }
        tokio::time::advance(time).await;
        assert!(!is_due(), "two calls, and none of late");
        enter(&ledger, "c", None);
        assert!(is_due());
        enter(&ledger, "c", Some("data.a: 1 → 2"));
        (0..3).for_each(|_| enter(&ledger, "c", None));
        assert!(!is_due(), "its time begins anew");
        tokio::time::advance(time).await;
        assert!(!is_due(), "its decisions meanwhile are unknown");
        enter(&ledger, "a", None);
        assert!(is_due());
    }

    #[tokio::test(start_paused = true)]
    async fn failed_differing_and_uncompared_calls_prevent_a_promotion() {
        let ledger = ShadowLedger::default();
        let is_due = || ledger.agrees(1, Duration::ZERO).now_or_never().is_some();
        ledger.compared(&"shops".into(), &ObjectKey::namespaced("prod", "a"), vec![], false);
        assert!(!is_due(), "both have failed");
        enter(&ledger, "b", Some("data.a: 1 → 2"));
        enter(&ledger, "a", None);
        assert!(!is_due(), "another key differs");
        enter(&ledger, "b", None);
        assert!(is_due());
        ledger.evaded("it waited too long");
        assert!(!is_due());
    }

    #[test]
    fn however_much_the_next_version_says_little_is_kept() {
        let ledger = ShadowLedger::default();
        let long = "ä".repeat(DIFFERENCE_TEXT_BYTES_MAX);
        (0..=DIFFERING_KEYS_MAX).for_each(|key| {
            let found = vec![IntentDifference { about: long.clone(), text: long.clone() }; 50];
            ledger.compared(&"shops".into(), &ObjectKey::namespaced("prod", &*key.to_string()), found, true);
        });
        let compared = ledger.lock();
        let kept: usize = compared.keys.values().flatten().map(|it| it.about.len() + it.text.len()).sum();
        assert!(kept <= 2 * DIFFERENCE_TEXT_BYTES_MAX * (DIFFERING_KEYS_MAX * KEY_DIFFERENCES_MAX + 1), "{kept}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_promotion_hears_of_the_last_missing_call() {
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
    fn only_the_last_call_of_each_key_is_reported() {
        let ledger = ShadowLedger::default();
        enter(&ledger, "a", Some("data.a: 1 → 2"));
        enter(&ledger, "b", Some("data.a: 1 → 2"));
        enter(&ledger, "a", None);
        ledger.passed_over("it was busy");
        let shown = ledger.to_json();
        assert_eq!(shown["keys"], json!({"agreeing": 1, "differing": 1}));
        assert_eq!(shown["calls"]["differing"], 2);
        assert_eq!((&shown["calls"]["notCompared"], &shown["calls"]["agreeingInARow"]), (&json!(1), &json!(1)));
        let differing = json!([{
            "controller": "shops", "key": "prod/b",
            "differences": [{"about": "ConfigMap prod/a", "difference": "data.a: 1 → 2"}],
        }]);
        assert_eq!(shown["differing"], differing);
    }
}
