//! The reasons why a key was queued, for people. WIT passes them to plugins as `triggers.list`.
//!
//! A key is queued once, however many events there are, and each distinct trigger is listed once. The host itself uses
//! only one trigger, a requested run, so the list never drops a requested run ([`Triggers::has_run_request`]).

use std::sync::Arc;

use crate::object::ObjectRef;

/// The number of triggers that are kept per key.
pub const TRIGGERS_MAX: usize = 8;

/// An occurrence that queued a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    pub reason: TriggerReason,
    /// The name of the watch, if the manifest gives it one, or of the hook.
    pub watch: Option<Arc<str>>,
    /// The object, if the trigger is about one.
    pub object: Option<ObjectRef>,
}

/// The kind of occurrence; as `triggers.trigger` in WIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerReason {
    /// An object was created or changed.
    Changed,
    /// An object is gone.
    Deleted,
    /// The controller started, or the first list of a watch arrived.
    Start,
    /// A periodic resync.
    Resync,
    /// The previous call asked to run again later.
    RequeueAfter,
    /// The previous call failed.
    Retry,
    /// Another build of the plugin runs now.
    Swap,
    /// The plugin's configuration or its grants changed.
    Configuration,
    /// A delivery to a hook named the object. The watch of the trigger is the name of the hook.
    Hook,
    /// A user requested a run, by the annotation of [`run_request`](crate::object::run_request) or by resuming the
    /// plugin.
    RunRequested,
}

impl TriggerReason {
    pub const ALL: [Self; 10] = [
        Self::Changed,
        Self::Deleted,
        Self::Start,
        Self::Resync,
        Self::RequeueAfter,
        Self::Retry,
        Self::Swap,
        Self::Configuration,
        Self::Hook,
        Self::RunRequested,
    ];

    /// The name in `CamelCase`, as plugins see it.
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
            Self::Hook => "Hook",
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

/// The distinct triggers of a key since its last call, oldest first, at most [`TRIGGERS_MAX`]. Triggers are shared,
/// because one occurrence often queues thousands of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Triggers(Vec<Arc<Trigger>>);

impl Triggers {
    /// Adds a trigger. If the list is full, the first requested run replaces another trigger.
    pub fn note(&mut self, trigger: &Arc<Trigger>) {
        if self.0.contains(trigger) {
            return;
        }
        if self.0.len() < TRIGGERS_MAX {
            // Most keys have a single trigger; the default capacity of four would waste memory over many thousand keys.
            self.0.reserve_exact(1);
            self.0.push(trigger.clone());
        } else if trigger.reason == TriggerReason::RunRequested
            && !self.has_run_request()
            && let Some(last) = self.0.last_mut()
        {
            *last = trigger.clone();
        }
    }

    /// Whether a user has requested the run.
    #[must_use]
    pub fn has_run_request(&self) -> bool {
        self.0.iter().any(|trigger| trigger.reason == TriggerReason::RunRequested)
    }

    /// Adds all of `later`.
    pub fn extend(&mut self, later: &Self) {
        for trigger in &later.0 {
            self.note(trigger);
        }
    }

    /// Whether there is no trigger.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The triggers, oldest first.
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
    fn triggers_are_listed_in_order_without_duplicates() {
        let mut triggers = Triggers::default();
        let resync = Arc::new(Trigger::from(TriggerReason::Resync));
        for trigger in [&changed("a"), &resync, &changed("a"), &changed("b")] {
            triggers.note(trigger);
        }
        assert_eq!(triggers.to_string(), "Changed ConfigMap prod/a, Resync, Changed ConfigMap prod/b");
    }

    #[test]
    fn the_number_of_triggers_of_a_key_is_bounded() {
        let mut triggers = Triggers::default();
        for number in 0..100 {
            triggers.note(&changed(&number.to_string()));
        }
        assert_eq!(triggers.iter().count(), 8);
    }

    #[test]
    fn a_full_list_keeps_a_requested_run() {
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
