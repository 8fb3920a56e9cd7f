//! Tracks which faults of a run occurred. If a fault did not occur, it was not tried: its rule matched no request, the
//! watch had ended before its event, or the object did not exist.

use std::collections::BTreeSet;

use windlass_apiserver::{ReactorDocument, ReactorRule};

use super::Round;
use crate::fault::Fault;
use crate::trace::Happening;

/// The rules of a run's faults. Each fault has its own copy of each rule, under a unique name, because two faults may
/// use the same rule.
pub(super) struct FaultRules {
    /// Each rule with the index of its fault.
    rules: Vec<(usize, ReactorRule)>,
    /// The indexes of faults that are known to have occurred: faults without rules, and faults whose rules were
    /// removed.
    struck: BTreeSet<usize>,
}

impl FaultRules {
    pub(super) fn of(faults: &[Fault]) -> FaultRules {
        let all = faults.iter().enumerate().flat_map(|(fault, it)| it.rules.iter().map(move |rule| (fault, rule)));
        let named = |(index, (fault, rule)): (usize, (usize, &ReactorRule))| {
            (fault, ReactorRule { name: format!("{index}-{}", rule.name), ..rule.clone() })
        };
        FaultRules { rules: all.enumerate().map(named).collect(), struck: BTreeSet::new() }
    }

    /// The rules in the API server's format.
    pub(super) fn document(&self, seed: u64) -> ReactorDocument {
        ReactorDocument::new(seed, self.rules.iter().map(|(_, rule)| rule.clone()).collect())
    }

    /// The names of all rules, each with the index of its fault.
    pub(super) fn names(&self) -> impl Iterator<Item = (usize, &str)> {
        self.rules.iter().map(|(fault, rule)| (*fault, &*rule.name))
    }

    /// Marks the fault with this index as occurred.
    pub(super) fn has_struck(&mut self, fault: usize) {
        self.struck.insert(fault);
    }
}

impl Round<'_> {
    /// For each fault, whether it occurred.
    pub(super) fn struck(&self, faults: &[Fault]) -> Vec<bool> {
        let counts = self.server.reactors().counts();
        let acted = |name: &str| counts.iter().any(|count| count.name == name && count.struck > 0);
        let happened = |what: &Happening| self.record.count(|it| it == what) > 0;
        let struck = |(place, fault): (usize, &Fault)| {
            self.rules.struck.contains(&place)
                || self.rules.names().any(|(of, name)| of == place && acted(name))
                || fault.crash.is_some() && happened(&Happening::Crash)
                || fault.failover.is_some() && happened(&Happening::Silence)
                || fault.swap.is_some() && happened(&Happening::Swapped)
        };
        faults.iter().enumerate().map(struck).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_has_a_unique_name_and_the_index_of_its_fault() {
        let rule = || ReactorRule { name: "lost".to_owned(), ..ReactorRule::default() };
        let with = |rules| Fault { rules, ..Fault::default() };
        let rules = FaultRules::of(&[with(vec![rule(), rule()]), with(vec![]), with(vec![rule()])]);
        assert_eq!(rules.names().collect::<Vec<_>>(), [(0, "0-lost"), (0, "1-lost"), (2, "2-lost")]);
        assert_eq!(rules.document(1).rules.len(), 3);
    }
}
