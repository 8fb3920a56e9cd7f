//! A record of the writes: every state of every object, by UID. The subscribers' records are checked against it.

use std::collections::HashMap;

use anyhow::Context as _;
use serde_json::Value;

/// A state that the server has confirmed.
pub(crate) struct State {
    pub(crate) version: u64,
    /// Without `managedFields`.
    pub(crate) text: String,
    pub(crate) tier: Option<String>,
}

/// All states of one incarnation of a name, oldest first.
#[derive(Default)]
pub(crate) struct Life {
    pub(crate) states: Vec<State>,
    pub(crate) deleted: bool,
}

/// An event of an object, as a watch with a label selector shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Applied(u64),
    /// The version of the event. `None` for a deletion, because only the server knows its version.
    Left(Option<u64>),
}

#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) lives: HashMap<String, Life>,
}

impl Ledger {
    /// Records the object in a response of the server, unless it is recorded already.
    pub(crate) fn wrote(&mut self, object: &Value) -> anyhow::Result<()> {
        let metadata = &object["metadata"];
        let uid = metadata["uid"].as_str().context("an object without a UID")?;
        let version = metadata["resourceVersion"].as_str().context("an object without a version")?.parse()?;
        let tier = metadata["labels"]["tier"].as_str().map(str::to_owned);
        let states = &mut self.lives.entry(uid.to_owned()).or_default().states;
        if states.last().is_none_or(|last| last.version < version) {
            states.push(State { version, text: bare(object.clone()).to_string(), tier });
        }
        Ok(())
    }

    pub(crate) fn deleted(&mut self, uid: &str) {
        self.lives.entry(uid.to_owned()).or_default().deleted = true;
    }
}

impl Life {
    /// The events in a watch of the objects with this `tier`, or of all objects if it is `None`.
    pub(crate) fn steps(&self, tier: Option<&str>) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut is_in = false;
        for state in &self.states {
            let was_in = is_in;
            is_in = tier.is_none_or(|tier| state.tier.as_deref() == Some(tier));
            match (was_in, is_in) {
                (_, true) => steps.push(Step::Applied(state.version)),
                (true, false) => steps.push(Step::Left(Some(state.version))),
                (false, false) => {}
            }
        }
        if is_in && self.deleted {
            steps.push(Step::Left(None));
        }
        steps
    }

    pub(crate) fn text(&self, version: u64) -> Option<&str> {
        let at = self.states.binary_search_by_key(&version, |state| state.version).ok()?;
        Some(&self.states[at].text)
    }
}

/// The object without its `managedFields`.
pub(crate) fn bare(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    object
}
