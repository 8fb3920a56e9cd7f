//! What the generations of one controller say that it does. One of them is heard, and what it says is shown: the one at work, and else
//! the one that is to be. What the others say is shown when they are heard, if that is ever.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::observe::status::{ControllerState, ControllerStatus};

/// One generation's, in one tenure: what it has said last.
pub(super) struct Voice(Mutex<(ControllerState, Option<String>)>);

/// Which voice is heard, and where what it says is shown.
pub(super) struct Heard {
    status: Arc<ControllerStatus>,
    /// Locked while anything is said or shown: nobody speaks over the one that is heard by then.
    voice: Mutex<Option<Arc<Voice>>>,
}

impl Default for Voice {
    fn default() -> Self {
        Self(Mutex::new((ControllerState::Starting, None)))
    }
}

impl Voice {
    /// What it has said last, and why.
    pub(super) fn last(&self) -> (ControllerState, Option<String>) {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, (ControllerState, Option<String>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Heard {
    /// Nobody is heard yet.
    pub(super) fn new(status: Arc<ControllerStatus>) -> Self {
        Self { status, voice: Mutex::default() }
    }

    pub(super) fn status(&self) -> &Arc<ControllerStatus> {
        &self.status
    }

    /// Only `voice` is heard from now on, and what it has said last is shown.
    pub(super) fn hears(&self, voice: &Arc<Voice>) {
        let mut heard = self.lock();
        let (state, reason) = voice.last();
        self.status.set(state, reason);
        *heard = Some(voice.clone());
    }

    /// The same, but what is shown stays until it says something: it goes on where the one before it was.
    pub(super) fn hears_from_now(&self, voice: &Arc<Voice>) {
        *self.lock() = Some(voice.clone());
    }

    /// `voice` says what its controller does, and why.
    pub(super) fn says(&self, voice: &Arc<Voice>, state: ControllerState, reason: Option<String>) {
        let heard = self.lock();
        if is_heard(heard.as_ref(), voice) {
            self.status.set(state, reason.clone());
        }
        *voice.lock() = (state, reason);
    }

    /// Has `show` done if `voice` is heard: what it shows is of the one that it belongs to.
    pub(super) fn shows(&self, voice: &Arc<Voice>, show: impl FnOnce(&ControllerStatus)) {
        let heard = self.lock();
        if is_heard(heard.as_ref(), voice) {
            show(&self.status);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Voice>>> {
        self.voice.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_heard(heard: Option<&Arc<Voice>>, voice: &Arc<Voice>) -> bool {
    heard.is_some_and(|heard| Arc::ptr_eq(heard, voice))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::metrics::HostMetrics;

    fn heard() -> Heard {
        let metrics = HostMetrics::new().controller("a", "a");
        Heard::new(ControllerStatus::unlisted(&"a".into(), "a", 1, metrics))
    }

    fn waits(reason: &str) -> (ControllerState, Option<String>) {
        (ControllerState::Waiting, Some(reason.to_owned()))
    }

    fn says(heard: &Heard, voice: &Arc<Voice>, reason: &str) {
        let (state, reason) = waits(reason);
        heard.says(voice, state, reason);
    }

    #[test]
    fn only_the_one_that_is_heard_is_shown_and_what_the_next_has_said_is_shown_when_it_is_heard() {
        let (heard, one, next) = (heard(), Arc::default(), Arc::default());
        heard.hears(&one);
        says(&heard, &one, "of one");
        says(&heard, &next, "of the next");
        assert_eq!((heard.status().state(), next.last()), (waits("of one"), waits("of the next")));
        heard.hears(&next);
        assert_eq!(heard.status().state(), waits("of the next"));
        says(&heard, &one, "too late");
        heard.shows(&one, |_| panic!("what it shows is of one that nobody hears"));
        assert_eq!(heard.status().state(), waits("of the next"));
    }

    #[test]
    fn whoever_goes_on_where_another_was_shows_nothing_before_it_says_something() {
        let (heard, one, next) = (heard(), Arc::default(), Arc::default());
        heard.hears(&one);
        heard.says(&one, ControllerState::Running, None);
        heard.hears_from_now(&next);
        assert_eq!(heard.status().state(), (ControllerState::Running, None));
        says(&heard, &next, "of the next");
        assert_eq!(heard.status().state(), waits("of the next"));
    }
}
