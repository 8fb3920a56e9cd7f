//! Why a key is queued, for people: what `triggers.list` in WIT tells a plugin.
//!
//! A key is queued once, however much happens, and each trigger of it is listed once. The host decides by one of them alone: a
//! requested run, which the list therefore never drops ([`Triggers::has_run_request`]).

use std::sync::Arc;

use crate::object::ObjectRef;

/// How many triggers of a key are kept.
pub const TRIGGERS_MAX: usize = 8;

/// One thing that has queued a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// The thing that happened.
    pub reason: TriggerReason,
    /// The name of the watch, if the manifest gives it one.
    pub watch: Option<Arc<str>>,
    /// The object, as far as it was one.
    pub object: Option<ObjectRef>,
}

/// A thing that happened; as `triggers.trigger` in WIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerReason {
    /// An object is new or has changed.
    Changed,
    /// An object has gone.
    Deleted,
    /// The controller has begun, or the first list of a watch has come.
    Start,
    /// The time of a resync has come round.
    Resync,
    /// The call before has asked for another one.
    RequeueAfter,
    /// The call before has failed.
    Retry,
    /// This is another build of the plugin.
    Swap,
    /// The plugin's configuration or its grants have changed.
    Configuration,
    /// Somebody has requested it: by the annotation of [`run_request`](crate::object::run_request), or by resuming the plugin.
    RunRequested,
}

impl TriggerReason {
    pub const ALL: [Self; 9] = [
        Self::Changed,
        Self::Deleted,
        Self::Start,
        Self::Resync,
        Self::RequeueAfter,
        Self::Retry,
        Self::Swap,
        Self::Configuration,
        Self::RunRequested,
    ];

    /// In `CamelCase`, as plugins see it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Changed => "Changed",
            Self::Deleted => "Deleted",
            Self::Start => "Start",
            Self::Resync => "Resync",
            Self::RequeueAfter => "RequeueAfter",
            Self::Retry => "Retry",
            Self::Swap => "Swap",
            Self::Configuration => "Configuration",
            Self::RunRequested => "RunRequested",
        }
    }
}

impl From<TriggerReason> for Trigger {
    fn from(reason: TriggerReason) -> Self {
        Self { reason, watch: None, object: None }
    }
}

impl std::fmt::Display for Trigger {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.reason.as_str())?;
        match &self.object {
            Some(object) => write!(out, " {object}"),
            None => Ok(()),
        }
    }
}

/// The triggers of a key since its last call, the oldest first, each once, and at most [`TRIGGERS_MAX`]. Shared, because
/// one thing often queues thousands of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Triggers(Vec<Arc<Trigger>>);

impl Triggers {
    /// Notes one more. The first requested run takes the place of another trigger if the list is full.
    pub fn note(&mut self, trigger: &Arc<Trigger>) {
        if self.0.contains(trigger) {
            return;
        }
        if self.0.len() < TRIGGERS_MAX {
            // Most keys have one: room for four would be held for each of many thousand.
            self.0.reserve_exact(1);
            self.0.push(trigger.clone());
        } else if trigger.reason == TriggerReason::RunRequested
            && !self.has_run_request()
            && let Some(last) = self.0.last_mut()
        {
            *last = trigger.clone();
        }
    }

    /// Whether somebody has requested the run.
    #[must_use]
    pub fn has_run_request(&self) -> bool {
        self.0.iter().any(|trigger| trigger.reason == TriggerReason::RunRequested)
    }

    /// Notes all of `later`.
    pub fn extend(&mut self, later: &Self) {
        for trigger in &later.0 {
            self.note(trigger);
        }
    }

    /// Whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The triggers, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Trigger> {
        self.0.iter().map(|trigger| &**trigger)
    }
}

impl std::fmt::Display for Triggers {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, trigger) in self.iter().enumerate() {
            out.write_str(if index == 0 { "" } else { ", " })?;
            trigger.fmt(out)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{ObjectKey, ObjectKind};

    fn changed(name: &str) -> Arc<Trigger> {
        let (kind, key) = (ObjectKind::new("v1", "ConfigMap"), ObjectKey::namespaced("prod", name));
        let object = Some(ObjectRef { kind, key, uid: None });
        Arc::new(Trigger { reason: TriggerReason::Changed, watch: None, object })
    }

    #[test]
    fn what_happens_twice_is_told_once_and_in_its_order() {
        let mut triggers = Triggers::default();
        let resync = Arc::new(Trigger::from(TriggerReason::Resync));
        for trigger in [&changed("a"), &resync, &changed("a"), &changed("b")] {
            triggers.note(trigger);
        }
        assert_eq!(triggers.to_string(), "Changed ConfigMap prod/a, Resync, Changed ConfigMap prod/b");
    }

    #[test]
    fn a_key_keeps_a_bounded_number_however_much_happens() {
        let mut triggers = Triggers::default();
        for number in 0..100 {
            triggers.note(&changed(&number.to_string()));
        }
        assert_eq!(triggers.iter().count(), 8);
    }

    #[test]
    fn a_requested_run_is_kept_however_much_else_happens() {
        let requested = Arc::new(Trigger::from(TriggerReason::RunRequested));
        let mut triggers = Triggers::default();
        for number in 0..100 {
            triggers.note(&changed(&number.to_string()));
        }
        assert!(!triggers.has_run_request());
        triggers.note(&requested);
        assert_eq!((triggers.has_run_request(), triggers.iter().count()), (true, 8));
        let mut kept = Triggers::default();
        (0..100).for_each(|number| kept.note(&changed(&format!("other-{number}"))));
        kept.extend(&triggers);
        assert!(kept.has_run_request(), "the call was not made");
    }
}
