//! Keeps the rules that are in effect and their counts, and decides about each request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use glob::Pattern;
use serde::Serialize;

use super::check::{ReactorError, patterns};
use super::document::{CallSelector, Reaction, ReactorDocument, ReactorRule};
use crate::clock::Chance;

/// The reactors of a server. Clones share the rules.
#[derive(Clone, Default)]
pub struct Reactors(Arc<Mutex<RuleSet>>);

/// How often a rule matched and acted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReactorCount {
    /// The rule's name.
    pub name: String,
    /// The number of requests that the rule's filter matches, including those that `calls` or `probability` leave out.
    pub matched: u64,
    /// The number of requests on which the rule acted.
    pub acted: u64,
    /// How often the rule had an effect: on a request, on an event, or on the end of a watch.
    pub struck: u64,
}

#[derive(Default)]
struct RuleSet {
    seed: u64,
    rules: Vec<ActiveRule>,
}

struct ActiveRule {
    rule: ReactorRule,
    resources: Vec<Pattern>,
    namespaces: Vec<Pattern>,
    names: Vec<Pattern>,
    user_agents: Vec<Pattern>,
    chance: Chance,
    matched: u64,
    acted: u64,
    /// The number of events and ends of watches that the rule has changed.
    disturbed: u64,
}

/// The properties of a request that rules can match.
#[derive(Debug)]
pub(crate) struct RequestFacts {
    pub(crate) verb: String,
    /// The resource with its group and subresource.
    pub(crate) resource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) user_agent: String,
}

/// The reactions to a request.
#[derive(Debug)]
pub(crate) struct ReactorDecision {
    /// The reactions, each with the name of its rule.
    pub(crate) reactions: Vec<(String, Reaction)>,
    /// The random sequence for reordering events.
    pub(crate) chance: Chance,
}

impl Reactors {
    /// Replaces all rules and resets the counts.
    ///
    /// # Errors
    /// If a rule makes no sense. The error names it, and the rules are unchanged.
    pub fn set(&self, document: ReactorDocument) -> Result<(), ReactorError> {
        document.check()?;
        let seed = document.seed;
        let rules = document.rules.into_iter().enumerate().map(|(index, rule)| ActiveRule::new(rule, seed, index));
        *self.lock() = RuleSet { seed, rules: rules.collect() };
        Ok(())
    }

    /// Adds a rule after the existing rules, or replaces the rule with the same name.
    ///
    /// # Errors
    /// If the rule makes no sense.
    pub fn add(&self, rule: ReactorRule) -> Result<(), ReactorError> {
        ReactorDocument::new(0, vec![rule.clone()]).check()?;
        let mut set = self.lock();
        let place = set.rules.iter().position(|active| active.rule.name == rule.name);
        let active = ActiveRule::new(rule, set.seed, place.unwrap_or(set.rules.len()));
        match place {
            Some(place) => set.rules[place] = active,
            None => set.rules.push(active),
        }
        Ok(())
    }

    /// Removes a rule. False if there is no rule with this name.
    #[must_use = "false says that there was no such rule"]
    pub fn remove(&self, name: &str) -> bool {
        let mut set = self.lock();
        let before = set.rules.len();
        set.rules.retain(|active| active.rule.name != name);
        set.rules.len() < before
    }

    /// Removes all rules.
    pub fn clear(&self) {
        self.lock().rules.clear();
    }

    /// The rules, in a form that can be set again.
    #[must_use]
    pub fn document(&self) -> ReactorDocument {
        let set = self.lock();
        ReactorDocument::new(set.seed, set.rules.iter().map(|active| active.rule.clone()).collect())
    }

    /// The counts of all rules, in their order.
    #[must_use]
    pub fn counts(&self) -> Vec<ReactorCount> {
        let count = |active: &ActiveRule| ReactorCount {
            name: active.rule.name.clone(),
            matched: active.matched,
            acted: active.acted,
            struck: active.struck(),
        };
        self.lock().rules.iter().map(count).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().rules.is_empty()
    }

    /// Counts a request and decides about it. `None` if it is served normally.
    pub(crate) fn decide(&self, facts: &RequestFacts) -> Option<ReactorDecision> {
        let mut reactions = Vec::new();
        let mut chance = None;
        for active in &mut self.lock().rules {
            if active.acts_on(facts) {
                let named = active.rule.then.iter().map(|reaction| (active.rule.name.clone(), reaction.clone()));
                reactions.extend(named);
                chance.get_or_insert_with(|| Chance::new(Some(active.chance.number())));
            }
        }
        chance.map(|chance| ReactorDecision { reactions, chance })
    }

    /// Counts that the rule with this name has changed an event or the end of a watch.
    pub(crate) fn disturbed(&self, name: &str) {
        if let Some(active) = self.lock().rules.iter_mut().find(|active| active.rule.name == name) {
            active.disturbed += 1;
        }
    }

    fn lock(&self) -> MutexGuard<'_, RuleSet> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Reactors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Reactors").field(&self.counts()).finish()
    }
}

impl ActiveRule {
    fn new(rule: ReactorRule, seed: u64, index: usize) -> ActiveRule {
        // Each rule has its own random sequence, so that its decisions do not depend on other rules.
        let chance = Chance::new(Some(seed.wrapping_mul(1 << 16).wrapping_add(index as u64)));
        ActiveRule {
            resources: patterns(&rule.when.resources),
            namespaces: patterns(&rule.when.namespaces),
            names: patterns(&rule.when.names),
            user_agents: patterns(&rule.when.user_agents),
            chance,
            matched: 0,
            acted: 0,
            disturbed: 0,
            rule,
        }
    }

    /// How often the rule had an effect. A rule that is only about watches has an effect when it disturbs a watch, not
    /// when it matches a request.
    fn struck(&self) -> u64 {
        let at_once = if self.rule.then.iter().all(Reaction::is_of_watches) { 0 } else { self.acted };
        at_once + self.disturbed
    }

    fn acts_on(&mut self, facts: &RequestFacts) -> bool {
        let fits = |patterns: &[Pattern], text: &str| patterns.is_empty() || patterns.iter().any(|it| it.matches(text));
        let when = &self.rule.when;
        let is_about = (when.verbs.is_empty() || when.verbs.contains(&facts.verb))
            && fits(&self.resources, &facts.resource)
            && fits(&self.namespaces, &facts.namespace)
            && fits(&self.names, &facts.name)
            && fits(&self.user_agents, &facts.user_agent);
        if !is_about {
            return false;
        }
        self.matched += 1;
        let is_called = match when.calls {
            None => true,
            Some(CallSelector::Nth(number)) => self.matched == number,
            Some(CallSelector::Every(step)) => self.matched.is_multiple_of(step),
            Some(CallSelector::First(last)) => self.matched <= last,
            Some(CallSelector::After(last)) => self.matched > last,
        };
        let acts = is_called && when.probability.is_none_or(|probability| self.chance.fraction() < probability);
        self.acted += u64::from(acts);
        acts
    }
}
