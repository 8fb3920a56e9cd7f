//! Caches the cluster's answers to questions about tokens. The time and number of cached answers and the rate of
//! questions are bounded, so that strangers who try tokens can neither fill the memory nor make the host flood the API
//! server.

use std::collections::HashMap;
use std::fmt::Display;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};

/// How long a yes is cached, and so how long a revoked right can still be used. A user who was removed from a group
/// keeps its rights for up to twice as long: the token's user is one answer, and the user's access another.
pub(super) const YES_FOR: Duration = Duration::from_mins(1);
/// How long a no is cached.
const NO_FOR: Duration = Duration::from_secs(10);
/// The most answers that are cached.
const REVIEW_ANSWERS_MAX: usize = 1024;
/// The most yes answers about one user that are cached. A user can have any number of tokens, and must not evict other
/// users.
const REVIEW_ANSWERS_PER_USER_MAX: usize = 32;
/// The most concurrent questions to the API server. Questions about unknown tokens and about known ones are limited
/// separately.
const CONCURRENT_REVIEWS_MAX: usize = 8;
/// How long a question occupies its place after its answer, unless its previous answer was a yes. So new questions are
/// limited to [`CONCURRENT_REVIEWS_MAX`] a second, whatever the answers.
const QUESTION_COSTS: Duration = Duration::from_secs(1);
/// How long a question waits for its turn.
const PERMIT_WAIT_MAX: Duration = Duration::from_secs(1);

/// A question, as a digest.
pub(super) type AnswerKey = [u8; 32];

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unanswered {
    /// Too many questions are in progress.
    Busy,
    /// The API server has not answered.
    Failed(String),
}

/// A positive answer, which concerns one user.
pub(super) trait OfUser {
    /// The user's name.
    fn user(&self) -> &str;
}

/// The answers to one kind of question.
pub(super) struct ReviewAnswers<T> {
    kept: Mutex<HashMap<AnswerKey, KeptAnswer<T>>>,
    /// Permits for questions whose last answer was positive, so that unknown clients do not delay them.
    familiar: Arc<Semaphore>,
    strange: Arc<Semaphore>,
    /// Notified of each answer, so that requests that wait for their turn look again.
    answered: Notify,
}

#[derive(Clone)]
struct KeptAnswer<T> {
    /// `None` for a no.
    yes: Option<T>,
    until: Instant,
}

impl<T> Default for ReviewAnswers<T> {
    fn default() -> Self {
        let permits = || Arc::new(Semaphore::new(CONCURRENT_REVIEWS_MAX));
        Self { kept: Mutex::default(), familiar: permits(), strange: permits(), answered: Notify::new() }
    }
}

impl<T: OfUser + Clone + Send + 'static> ReviewAnswers<T> {
    /// The answer to the question `key`. If none is cached, `ask` asks it. `None` for a no.
    ///
    /// A question that has begun is completed even if its caller has gone; otherwise it would not count towards the
    /// limit.
    pub(super) async fn answer<E: Display + Send + 'static>(
        self: &Arc<Self>,
        key: AnswerKey,
        ask: impl Future<Output = Result<Option<T>, E>> + Send + 'static,
    ) -> Result<Option<T>, Unanswered> {
        let is_familiar = self.was_yes(&key);
        let permits = if is_familiar { &self.familiar } else { &self.strange };
        let (mut permit, deadline) = (pin!(permits.clone().acquire_owned()), Instant::now() + PERMIT_WAIT_MAX);
        let permit = loop {
            // Created before the look at the cache, so that no answer is missed. Another request may have asked the
            // same.
            let answered = self.answered.notified();
            if let Some(kept) = self.kept(&key) {
                return Ok(kept.yes);
            }
            tokio::select! {
                biased;
                permit = &mut permit => break permit,
                () = answered => {}
                () = sleep_until(deadline) => return Err(Unanswered::Busy),
            }
        };
        let Ok(permit) = permit else { return Err(Unanswered::Busy) };
        let this = self.clone();
        let asking = tokio::spawn(async move {
            let answer = ask.await.map_err(|error| Unanswered::Failed(error.to_string()));
            if !is_familiar || !matches!(answer, Ok(Some(_))) {
                tokio::spawn(charge(permit));
            }
            if let Ok(answer) = &answer {
                this.keep(key, answer.clone());
                this.answered.notify_waiters();
            }
            answer
        });
        asking.await.unwrap_or_else(|error| Err(Unanswered::Failed(error.to_string())))
    }

    /// The cached answer, if still valid.
    fn kept(&self, key: &AnswerKey) -> Option<KeptAnswer<T>> {
        self.all().get(key).filter(|kept| Instant::now() < kept.until).cloned()
    }

    fn was_yes(&self, key: &AnswerKey) -> bool {
        self.all().get(key).is_some_and(|kept| kept.yes.is_some())
    }

    fn keep(&self, key: AnswerKey, yes: Option<T>) {
        let until = Instant::now() + if yes.is_some() { YES_FOR } else { NO_FOR };
        let mut all = self.all();
        if !all.contains_key(&key) {
            let of_user = |kept: &KeptAnswer<T>| kept.yes.as_ref().map(OfUser::user) == yes.as_ref().map(OfUser::user);
            let is_full =
                yes.is_some() && all.values().filter(|kept| of_user(kept)).count() >= REVIEW_ANSWERS_PER_USER_MAX;
            if is_full {
                remove_least(&mut all, of_user);
            } else if all.len() >= REVIEW_ANSWERS_MAX {
                remove_least(&mut all, |_| true);
            }
        }
        all.insert(key, KeptAnswer { yes, until });
    }

    fn all(&self) -> MutexGuard<'_, HashMap<AnswerKey, KeptAnswer<T>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Evicts the least useful answer among those selected by `among`: a no before a yes, as strangers who try tokens must
/// not evict real users, and then the answer that expires first.
fn remove_least<T>(all: &mut HashMap<AnswerKey, KeptAnswer<T>>, among: impl Fn(&KeptAnswer<T>) -> bool) {
    let candidates = all.iter().filter(|(_, kept)| among(kept));
    if let Some(least) = candidates.min_by_key(|(_, kept)| (kept.yes.is_some(), kept.until)).map(|(key, _)| *key) {
        all.remove(&least);
    }
}

/// Holds `permit` for as long as its question counts towards the limit.
async fn charge(permit: OwnedSemaphorePermit) {
    tokio::time::sleep(QUESTION_COSTS).await;
    drop(permit);
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Counts the questions.
    #[derive(Clone, Default)]
    struct Oracle(Arc<AtomicUsize>);

    impl Oracle {
        fn answering(&self, answer: Option<u8>) -> impl Future<Output = Result<Option<u8>, Infallible>> + Send + use<> {
            let asked = self.0.clone();
            async move {
                asked.fetch_add(1, Ordering::Relaxed);
                Ok(answer)
            }
        }

        fn asked(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    fn key(number: usize) -> AnswerKey {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&number.to_le_bytes());
        key
    }

    impl OfUser for u8 {
        fn user(&self) -> &str {
            ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight"][usize::from(*self)]
        }
    }

    fn answers() -> (Arc<ReviewAnswers<u8>>, Oracle) {
        (Arc::default(), Oracle::default())
    }

    #[tokio::test(start_paused = true)]
    async fn a_yes_holds_for_a_minute_and_a_no_for_ten_seconds() {
        let (answers, oracle) = answers();
        assert_eq!(answers.answer(key(1), oracle.answering(Some(7))).await, Ok(Some(7)));
        assert_eq!(answers.answer(key(2), oracle.answering(None)).await, Ok(None));
        tokio::time::advance(Duration::from_millis(9_999)).await;
        assert_eq!(answers.answer(key(1), oracle.answering(None)).await, Ok(Some(7)));
        assert_eq!(answers.answer(key(2), oracle.answering(Some(8))).await, Ok(None));
        assert_eq!(oracle.asked(), 2);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(answers.answer(key(2), oracle.answering(Some(8))).await, Ok(Some(8)));
        tokio::time::advance(Duration::from_secs(50)).await;
        assert_eq!(answers.answer(key(1), oracle.answering(None)).await, Ok(None));
        assert_eq!(oracle.asked(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_review_is_asked_again() {
        let (answers, oracle) = answers();
        let failed = answers.answer(key(1), async { Err::<Option<u8>, _>("no connection") }).await;
        assert_eq!(failed, Err(Unanswered::Failed("no connection".to_owned())));
        assert_eq!(answers.answer(key(1), oracle.answering(Some(7))).await, Ok(Some(7)));
    }

    #[tokio::test(start_paused = true)]
    async fn unknown_tokens_get_eight_reviews_a_second_and_do_not_delay_known_ones() {
        let (answers, oracle) = answers();
        assert_eq!(answers.answer(key(0), oracle.answering(Some(7))).await, Ok(Some(7)));
        tokio::time::advance(Duration::from_mins(1)).await;
        let tried = (1..=100).map(|number| answers.answer(key(number), oracle.answering(None)));
        let tried = futures::future::join_all(tried);
        let known = async {
            // Ask while the questions are in progress.
            tokio::task::yield_now().await;
            answers.answer(key(0), oracle.answering(Some(7))).await
        };
        let began = Instant::now();
        let (tried, known) = tokio::join!(tried, known);
        assert_eq!(known, Ok(Some(7)));
        assert!(began.elapsed() <= Duration::from_secs(1) + Duration::from_secs(1), "{:?}", began.elapsed());
        let busy = tried.iter().filter(|it| **it == Err(Unanswered::Busy)).count();
        assert!((100 - 2 * 8..=100 - 8).contains(&busy), "{busy} had to wait");
        assert!(oracle.asked() <= 2 + 2 * 8, "{} questions", oracle.asked());
    }

    #[tokio::test(start_paused = true)]
    async fn a_review_whose_caller_has_gone_is_charged_all_the_same() {
        let (answers, oracle) = answers();
        for number in 0..100 {
            let oracle = oracle.clone();
            let slow = async move {
                let answer = oracle.answering(None).await;
                tokio::task::yield_now().await;
                answer
            };
            // The client closes the connection at once.
            let _ = tokio::time::timeout(Duration::from_millis(1), answers.answer(key(number), slow)).await;
        }
        assert!(oracle.asked() <= 2 * 8, "{} questions", oracle.asked());
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_question_is_asked_once() {
        let (answers, oracle) = answers();
        let same = (0..5 * 8).map(|_| {
            let oracle = oracle.clone();
            answers.answer(key(1), async move {
                tokio::time::sleep(Duration::from_millis(10)).await;
                oracle.answering(Some(7)).await
            })
        });
        let answers_of_all = futures::future::join_all(same).await;
        assert!(answers_of_all.iter().all(|it| *it == Ok(Some(7))), "{answers_of_all:?}");
        assert!(oracle.asked() <= 8, "{} questions", oracle.asked());
    }

    #[tokio::test(start_paused = true)]
    async fn review_answers_are_bounded_and_positive_ones_are_kept_longest() {
        let (answers, oracle) = answers();
        for number in 0..10 {
            answers.keep(key(number), Some(7));
        }
        for number in 10..3 * 1_024 {
            answers.keep(key(number), None);
        }
        assert_eq!(answers.all().len(), 1_024);
        for number in 0..10 {
            assert_eq!(answers.answer(key(number), oracle.answering(None)).await, Ok(Some(7)));
        }
        assert_eq!(oracle.asked(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn new_questions_that_end_in_yes_are_bounded_as_well() {
        let (answers, oracle) = answers();
        let tried = (1..=100).map(|number| answers.answer(key(number), oracle.answering(Some(7))));
        let tried = futures::future::join_all(tried).await;
        assert!(oracle.asked() <= 2 * 8, "{} questions", oracle.asked());
        assert!(tried.contains(&Err(Unanswered::Busy)));
    }

    #[tokio::test(start_paused = true)]
    async fn many_tokens_of_one_user_do_not_evict_other_users() {
        let (answers, oracle) = answers();
        answers.keep(key(0), Some(1));
        for number in 1..3 * 1_024 {
            tokio::time::advance(Duration::from_millis(1)).await;
            answers.keep(key(number), Some(7));
        }
        assert_eq!(answers.all().len(), 1 + 32);
        assert_eq!(answers.answer(key(0), oracle.answering(None)).await, Ok(Some(1)));
        assert_eq!(answers.answer(key(3 * 1_024 - 1), oracle.answering(None)).await, Ok(Some(7)), "the latest stay");
        assert_eq!(oracle.asked(), 0);
    }
}
