//! Why a key is queued, for people: what `triggers.list` in WIT tells a plugin.
//!
//! A key is queued once, however much happens, and so is what queued it told once. Nothing that the host decides depends on
//! this.

use std::sync::Arc;

use crate::object::ObjectRef;

/// How many triggers of a key are kept.
pub const MAX_TRIGGERS: usize = 8;

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
}

impl TriggerReason {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Changed,
        Self::Deleted,
        Self::Start,
        Self::Resync,
        Self::RequeueAfter,
        Self::Retry,
        Self::Swap,
        Self::Configuration,
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

/// The triggers of a key since its last call, the oldest first, each once, and at most [`MAX_TRIGGERS`]. Shared, because
/// one thing often queues thousands of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Triggers(Vec<Arc<Trigger>>);

impl Triggers {
    /// Notes one more.
    pub fn note(&mut self, trigger: &Arc<Trigger>) {
        if self.0.len() < MAX_TRIGGERS && !self.0.contains(trigger) {
            // Most keys have one: room for four would be held for each of many thousand.
            self.0.reserve_exact(1);
            self.0.push(trigger.clone());
        }
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
        assert_eq!(triggers.iter().count(), MAX_TRIGGERS);
    }
}
