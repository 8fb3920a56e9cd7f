//! Bad weather: minutes of random faults in the server and in the network. It is a set of [`Rule`]s, each of which
//! happens at random.
//!
//! Writes, reads and events have their own rules. So the fate of the n-th write depends only on the proxy's seed and n,
//! whatever is read meanwhile, and likewise the fate of the n-th read and of the n-th event of a watch.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use http::StatusCode;

use crate::RuleHandle;
use crate::fault::{Cut, Fault, Loss, Refusal};
use crate::matching::Match;
use crate::request::Verb;
use crate::rule::Rule;

/// The severity: every fault of a response, each at its rate.
///
/// | what | of | upstream |
/// |---|---|---|
/// | `500 before` | writes, reads | never hears of the request |
/// | `500 after`, `cut after` | writes | has carried it out |
/// | `cut` | reads | has answered, but the answer is cut |
/// | `409` | writes | never hears of it |
/// | `429` | writes, reads | never hears of it; with `Retry-After` |
/// | `slow` | writes, reads | has answered at once, the client hears of it later |
/// | `watch cut` | events | sent the event, of which half a line arrives |
///
/// [`crate::Proxy::begin`] starts it.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "nothing happens until `Proxy::begin`"]
pub struct Weather {
    rate: f64,
    slow: RangeInclusive<Duration>,
    retry_after: Duration,
    agent: String,
}

impl Weather {
    /// Weather for all clients, with each fault at `rate`. The rate applies to the occasions that no other fault has
    /// ended.
    ///
    /// # Panics
    ///
    /// At [`crate::Proxy::begin`], if `rate` is not between 0 and 1.
    pub fn new(rate: f64) -> Self {
        let second = Duration::from_secs(1);
        Self { rate, slow: second..=3 * second, retry_after: second, agent: String::new() }
    }

    /// The delay of slow responses; by default one to three seconds.
    pub fn slow(mut self, by: RangeInclusive<Duration>) -> Self {
        self.slow = by;
        self
    }

    /// Only for clients whose User-Agent contains `part`.
    pub fn agent(mut self, part: &str) -> Self {
        part.clone_into(&mut self.agent);
        self
    }

    /// The faults, by name. Slowness comes first, so that a slow response can fail too.
    pub(crate) fn rules(&self) -> Vec<(&'static str, Rule)> {
        let writes = Match::writes().agent(&self.agent);
        let reads = Match::verbs([Verb::Get, Verb::List, Verb::Watch]).agent(&self.agent);
        let events = Match::verb(Verb::Watch).agent(&self.agent);
        let conflict = "Operation cannot be fulfilled: the object has been modified; please apply your changes to the \
                        latest version and try again";
        let of_both = [
            ("slow", Fault::DelayResponse(self.slow.clone())),
            ("500 before", Fault::Refuse(Refusal::internal_error())),
            ("429", Fault::Refuse(Refusal::too_many_requests(self.retry_after))),
        ];
        let of_writes = [
            ("409", Fault::Refuse(Refusal::new(StatusCode::CONFLICT, "Conflict", conflict))),
            ("500 after", Fault::Lose(Loss::Error)),
            ("cut after", Fault::Lose(Loss::Reset)),
        ];
        let to_writes =
            of_both.clone().into_iter().chain(of_writes).map(|(what, fault)| (what, fault.on(writes.clone())));
        let of_reads = of_both.into_iter().chain([("cut", Fault::Lose(Loss::Reset))]);
        let to_reads = of_reads.map(|(what, fault)| (what, fault.on(reads.clone())));
        let to_events = [("watch cut", Fault::Cut(Cut::MidLine).on(events))];
        let all = to_writes.chain(to_reads).chain(to_events);
        all.map(|(what, rule)| (what, rule.with_probability(self.rate))).collect()
    }
}

/// Weather in force. Dropping it ends it.
#[derive(Debug)]
#[must_use = "dropping it ends the weather"]
pub struct Spell(Vec<(&'static str, RuleHandle)>);

impl Spell {
    pub(crate) fn new(rules: Vec<(&'static str, RuleHandle)>) -> Self {
        Self(rules)
    }

    /// The number of times that `what`, a name in [`Weather`]'s table, has happened.
    #[must_use]
    pub fn fired(&self, what: &str) -> u64 {
        self.0.iter().filter(|(name, _)| *name == what).map(|(_, rule)| rule.fired()).sum()
    }
}

/// The number of times that each fault has happened.
impl fmt::Display for Spell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<_> = self.0.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        names.dedup();
        let counts: Vec<_> = names.into_iter().map(|name| format!("{} {name}", self.fired(name))).collect();
        f.write_str(&counts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::request::RequestInfo;
    use crate::rule::{Ending, RequestPlan, Rules};

    const AGENT: &str = "windlass/1 (webapp)";

    fn request(verb: Verb, agent: &str) -> RequestInfo {
        RequestInfo {
            verb,
            group: "apps".to_owned(),
            resource: "deployments".to_owned(),
            subresource: String::new(),
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            limit: 0,
            continues: false,
            user_agent: agent.to_owned(),
        }
    }

    fn rules(seed: u64, rate: f64) -> Rules {
        let mut rules = Rules::new(seed, Arc::default());
        for (_, rule) in Weather::new(rate).agent("windlass/").rules() {
            rules.add(rule);
        }
        rules
    }

    /// The fate of a request, without the details of one proxy.
    fn fate(plan: &RequestPlan) -> (Duration, String) {
        let ending = match &plan.ending {
            None => "answered".to_owned(),
            Some(Ending::Refuse(refusal)) => refusal.code().as_str().to_owned(),
            Some(Ending::Reset) => "reset".to_owned(),
            Some(Ending::Lose(loss, _)) => format!("{loss:?} after"),
        };
        (plan.response_delay, ending)
    }

    /// The fates of this many writes, with reads and events in between.
    fn fates(seed: u64, writes: usize, between: usize) -> Vec<(Duration, String)> {
        let mut rules = rules(seed, 0.03);
        let mut fates = Vec::new();
        for number in 0..writes {
            fates.push(fate(&rules.for_request(&request(Verb::Patch, AGENT))));
            for _ in 0..between {
                rules.for_request(&request(Verb::List, AGENT));
                rules.for_event(&request(Verb::Watch, AGENT), number as u64);
            }
        }
        fates
    }

    #[test]
    fn the_fate_of_a_write_follows_from_the_seed_and_its_number() {
        let expected = fates(7, 500, 0);
        assert_eq!(fates(7, 500, 3), expected, "whatever is read meanwhile");
        assert_eq!(fates(7, 200, 0), expected[..200], "however long it lasts");
        assert_ne!(fates(8, 500, 0), expected);
    }

    #[test]
    fn every_fault_comes_at_the_rate() {
        let mut counts = BTreeMap::<_, u32>::new();
        for (delay, ending) in fates(7, 10_000, 0) {
            *counts.entry(ending).or_default() += 1;
            *counts.entry(if delay.is_zero() { "at once" } else { "slow" }.to_owned()).or_default() += 1;
        }
        for fault in ["slow", "500", "429", "409", "Error after", "Reset after"] {
            assert!((240..360).contains(&counts[fault]), "{fault}: {counts:?}");
        }
        assert!(counts["answered"] > 8_400, "{counts:?}");
    }

    #[test]
    fn a_read_is_not_refused_as_a_conflict() {
        let mut rules = rules(7, 0.5);
        let endings: Vec<_> = (0..100).map(|_| fate(&rules.for_request(&request(Verb::Get, AGENT))).1).collect();
        assert!(endings.iter().any(|ending| ending == "Reset after") && !endings.contains(&"409".to_owned()));
    }

    #[test]
    fn one_event_in_so_many_cuts_its_watch_in_mid_line() {
        let mut rules = rules(7, 0.03);
        let cuts: Vec<_> = (0..10_000).filter_map(|_| rules.for_event(&request(Verb::Watch, AGENT), 1).cut).collect();
        assert!((240..360).contains(&cuts.len()), "{}", cuts.len());
        assert!(cuts.iter().all(|cut| *cut == Cut::MidLine));
    }

    #[test]
    fn clients_outside_the_weather_see_no_faults() {
        let mut rules = rules(7, 1.0);
        let request = request(Verb::Patch, "kubectl/v1.36");
        assert_eq!(rules.for_request(&request), RequestPlan::default());
        assert!(rules.for_event(&request, 1).cut.is_none());
    }
}
