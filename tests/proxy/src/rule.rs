//! Rules, and the one place that decides the effect of an occasion: [`Rules::for_request`] and [`Rules::for_event`].
//! Pure, apart from the counters that handles read: `forward` and `watch` carry out the decisions.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::fault::{Cut, Fault, Garbage, Loss, Refusal};
use crate::matching::Match;
use crate::request::{RequestInfo, Verb};

/// A fault, its requests, and how often it happens: by default on every occasion.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a rule does nothing until `Proxy::add`"]
pub struct Rule {
    fault: Fault,
    requests: Match,
    skip: u64,
    times: u64,
    probability: f64,
}

impl Rule {
    pub(crate) fn new(fault: Fault, requests: Match) -> Self {
        Self { fault, requests, skip: 0, times: u64::MAX, probability: 1.0 }
    }

    /// Skips the first `occasions`.
    pub fn skip(mut self, occasions: u64) -> Self {
        self.skip = occasions;
        self
    }

    /// Limits how often it happens.
    pub fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }

    /// Makes the fault happen at random, from the proxy's seed. Each rule draws from its own sequence, once for each
    /// occasion, so that other rules and other traffic do not affect the draws. The sequence depends on the number of
    /// rules that were added before. For events, each watch has its own sequence, which depends on the number of
    /// watches that the rule met before. So the draws do not depend on how fast or how far a client reads another
    /// watch.
    ///
    /// # Panics
    ///
    /// If it is not between 0 and 1.
    pub fn with_probability(mut self, probability: f64) -> Self {
        assert!((0.0..=1.0).contains(&probability), "{probability} is no probability");
        self.probability = probability;
        self
    }
}

/// The effects of a rule so far; its handle reads them.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    fired: AtomicU64,
    held: AtomicU64,
    lost: AtomicU64,
    /// Ends the hold of a rule.
    removed: CancellationToken,
    changed: Arc<Notify>,
}

impl Tally {
    pub(crate) fn fired(&self) -> u64 {
        self.fired.load(Ordering::Relaxed)
    }

    pub(crate) fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// The rule that has lost a response.
#[derive(Clone, Debug)]
pub(crate) struct Loser(Arc<Tally>);

impl Loser {
    /// Upstream has responded, and the response is discarded.
    pub(crate) fn has_lost(&self) {
        self.0.lost.fetch_add(1, Ordering::Relaxed);
        self.0.changed.notify_waiters();
    }
}

impl PartialEq for Loser {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// An event that a rule holds, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Held(Arc<Tally>);

impl Held {
    fn new(tally: &Arc<Tally>) -> Self {
        tally.held.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(tally))
    }

    pub(crate) async fn released(&self) {
        self.0.removed.cancelled().await;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.held.fetch_sub(1, Ordering::Relaxed);
        self.0.changed.notify_waiters();
    }
}

/// How a request ends instead of by upstream's response.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ending {
    Refuse(Refusal),
    Reset,
    Lose(Loss, Loser),
}

/// The decision about a request and its response.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct RequestPlan {
    pub(crate) delay: Duration,
    pub(crate) ending: Option<Ending>,
    pub(crate) response_delay: Duration,
    pub(crate) garbage: Option<Garbage>,
    /// The size of each piece, and the pause before it.
    pub(crate) slow: Vec<(usize, Duration)>,
}

/// The decision about an event of a watch.
#[derive(Debug, Default)]
pub(crate) struct EventPlan {
    pub(crate) delay: Duration,
    pub(crate) held: Vec<Held>,
    pub(crate) garbage: Option<Garbage>,
    pub(crate) cut: Option<Cut>,
}

/// The rules in force, in the order in which they were added.
#[derive(Debug)]
pub(crate) struct Rules {
    seed: u64,
    added: u64,
    installed: Vec<Installed>,
    changed: Arc<Notify>,
}

#[derive(Debug)]
struct Installed {
    rule: Rule,
    occasions: u64,
    chance: Chance,
    tally: Arc<Tally>,
}

/// The random sequences of a rule.
#[derive(Debug)]
struct Chance {
    for_requests: SmallRng,
    /// For events, by the number of their watch.
    for_watches: BTreeMap<u64, SmallRng>,
    /// Seeds the sequence of each watch.
    next_watch: SmallRng,
}

impl Rules {
    /// No rules yet; `changed` is notified whenever a tally changes.
    pub(crate) fn new(seed: u64, changed: Arc<Notify>) -> Self {
        Self { seed, added: 0, installed: Vec::new(), changed }
    }

    pub(crate) fn add(&mut self, rule: Rule) -> Arc<Tally> {
        let tally = Arc::new(Tally { changed: Arc::clone(&self.changed), ..Tally::default() });
        // An odd multiplier makes the seeds of a proxy's rules differ from each other and from those of the next seed.
        let seed = self.seed ^ self.added.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.added += 1;
        self.installed.push(Installed { rule, occasions: 0, chance: Chance::new(seed), tally: Arc::clone(&tally) });
        tally
    }

    pub(crate) fn remove(&mut self, tally: &Arc<Tally>) {
        self.installed.retain(|it| !Arc::ptr_eq(&it.tally, tally));
        tally.removed.cancel();
    }

    /// Decides about `request`. If a rule ends the request, later rules are skipped, and the request is not an
    /// occasion for them.
    pub(crate) fn for_request(&mut self, request: &RequestInfo) -> RequestPlan {
        let mut plan = RequestPlan::default();
        for installed in &mut self.installed {
            let fault = &installed.rule.fault;
            let is_of_events =
                fault.is_of_events() || (request.verb == Verb::Watch && matches!(fault, Fault::Garble(_)));
            if is_of_events || !installed.fires(request, None) {
                continue;
            }
            match &installed.rule.fault {
                Fault::DelayRequest(range) => plan.delay += draw(installed.chance.of(None), range),
                Fault::DelayResponse(range) => plan.response_delay += draw(installed.chance.of(None), range),
                Fault::Slow { bytes, every } => plan.slow.push(((*bytes).max(1), *every)),
                Fault::Garble(garbage) => plan.garbage = plan.garbage.or(Some(*garbage)),
                Fault::Refuse(refusal) => plan.ending = Some(Ending::Refuse(refusal.clone())),
                Fault::Reset => plan.ending = Some(Ending::Reset),
                Fault::Lose(loss) => plan.ending = Some(Ending::Lose(*loss, Loser(Arc::clone(&installed.tally)))),
                Fault::Cut(_) | Fault::Hold | Fault::DelayEvents(_) => {}
            }
            if plan.ending.is_some() {
                break;
            }
        }
        plan
    }

    /// Decides about the next event of the watch with the number `watch`, which `request` began. Rules after a cut are
    /// skipped.
    pub(crate) fn for_event(&mut self, request: &RequestInfo, watch: u64) -> EventPlan {
        let mut plan = EventPlan::default();
        for installed in &mut self.installed {
            let fault = &installed.rule.fault;
            if !(fault.is_of_events() || matches!(fault, Fault::Garble(_))) || !installed.fires(request, Some(watch)) {
                continue;
            }
            match &installed.rule.fault {
                Fault::DelayEvents(range) => plan.delay += draw(installed.chance.of(Some(watch)), range),
                Fault::Hold => plan.held.push(Held::new(&installed.tally)),
                Fault::Garble(garbage) => plan.garbage = plan.garbage.or(Some(*garbage)),
                Fault::Cut(cut) => {
                    plan.cut = Some(*cut);
                    break;
                }
                _ => {}
            }
        }
        plan
    }
}

impl Installed {
    /// Whether the fault happens on this occasion: an event of `watch`, or the request itself.
    fn fires(&mut self, request: &RequestInfo, watch: Option<u64>) -> bool {
        if !self.rule.requests.matches(request) {
            return false;
        }
        self.occasions += 1;
        let (skip, times, probability) = (self.rule.skip, self.rule.times, self.rule.probability);
        let fired = self.tally.fired();
        if self.occasions <= skip || fired >= times || !self.chance.of(watch).random_bool(probability) {
            return false;
        }
        tracing::debug!(fault = ?self.rule.fault, %request, occasion = self.occasions, "a rule fires");
        self.tally.fired.store(fired + 1, Ordering::Relaxed);
        self.tally.changed.notify_waiters();
        true
    }
}

impl Chance {
    fn new(seed: u64) -> Self {
        Self {
            for_requests: SmallRng::seed_from_u64(seed),
            for_watches: BTreeMap::new(),
            next_watch: SmallRng::seed_from_u64(!seed),
        }
    }

    /// The sequence for events of `watch`, or for requests.
    fn of(&mut self, watch: Option<u64>) -> &mut SmallRng {
        let Some(watch) = watch else { return &mut self.for_requests };
        self.for_watches.entry(watch).or_insert_with(|| SmallRng::from_rng(&mut self.next_watch))
    }
}

fn draw(random: &mut SmallRng, range: &RangeInclusive<Duration>) -> Duration {
    random.random_range(range.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE_DELAY: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_millis(500);

    fn rules(seed: u64) -> Rules {
        Rules::new(seed, Arc::default())
    }

    fn request(verb: Verb) -> RequestInfo {
        RequestInfo {
            verb,
            group: String::new(),
            resource: "pods".to_owned(),
            subresource: String::new(),
            namespace: String::new(),
            name: String::new(),
            limit: 0,
            continues: false,
            user_agent: String::new(),
        }
    }

    /// The occasions, among the first ones, on which a rule fires.
    fn luck(rules: &mut Rules, tally: &Tally, occasions: usize) -> Vec<usize> {
        let mut fired = Vec::new();
        for occasion in 0..occasions {
            let before = tally.fired();
            rules.for_request(&request(Verb::List));
            if tally.fired() > before {
                fired.push(occasion);
            }
        }
        fired
    }

    #[test]
    fn a_budget_counts_occasions_after_those_skipped() {
        let mut rules = rules(1);
        let tally = rules.add(Fault::Reset.on(Match::verb(Verb::List)).skip(2).times(3));
        rules.for_request(&request(Verb::Get));
        assert_eq!(luck(&mut rules, &tally, 8), [2, 3, 4]);
    }

    #[test]
    fn chance_is_reproduced_by_the_seed_whatever_other_rules_do() {
        let rule = || Fault::Reset.on(Match::verb(Verb::List)).with_probability(0.3);
        let mut first = rules(7);
        let tally = first.add(rule());
        let expected = luck(&mut first, &tally, 200);
        assert!((30..90).contains(&expected.len()), "{expected:?}");

        let mut second = rules(7);
        let tally = second.add(rule());
        second.add(Fault::DelayRequest(RULE_DELAY).on(Match::any()));
        assert_eq!(luck(&mut second, &tally, 200), expected);

        let mut third = rules(8);
        let tally = third.add(rule());
        assert_ne!(luck(&mut third, &tally, 200), expected);
    }

    /// Whether each event cuts its watch, if the events of watches come in this order.
    fn cuts(order: &[u64]) -> BTreeMap<u64, Vec<bool>> {
        let mut rules = rules(7);
        rules.add(Fault::Cut(Cut::Clean).on(Match::any()).with_probability(0.5));
        let mut cuts: BTreeMap<u64, Vec<bool>> = BTreeMap::new();
        for &watch in order {
            let plan = rules.for_event(&request(Verb::Watch), watch);
            cuts.entry(watch).or_default().push(plan.cut.is_some());
        }
        cuts
    }

    #[test]
    fn a_watch_has_the_same_luck_whenever_and_however_far_another_is_read() {
        let in_turns: Vec<_> = [1, 2].repeat(40);
        let expected = cuts(&in_turns);
        assert_ne!(expected[&1], expected[&2], "each has a sequence of its own");
        assert_eq!(cuts(&[vec![1; 40], vec![2; 40]].concat()), expected);
        assert_eq!(cuts(&[vec![1; 3], vec![2; 40]].concat())[&2], expected[&2]);
    }

    #[test]
    fn rules_of_one_proxy_have_different_luck() {
        let mut rules = rules(7);
        let plans: Vec<_> = (0..2)
            .map(|_| {
                let tally = rules.add(Fault::DelayRequest(RULE_DELAY).on(Match::any()));
                let plan = rules.for_request(&request(Verb::Get));
                rules.remove(&tally);
                plan
            })
            .collect();
        assert_ne!(plans[0], plans[1]);
    }

    #[test]
    fn delays_add_up_and_the_first_ending_hides_later_ones() {
        let mut rules = rules(1);
        let second = Duration::from_secs(1);
        rules.add(Fault::DelayRequest(second..=second).on(Match::any()));
        rules.add(Fault::DelayRequest(second..=second).on(Match::any()));
        let lost = rules.add(Fault::Lose(Loss::Silence).on(Match::any()));
        let behind = rules.add(Fault::Reset.on(Match::any()));
        let plan = rules.for_request(&request(Verb::Create));
        let ending = Some(Ending::Lose(Loss::Silence, Loser(lost)));
        let expected = RequestPlan { delay: 2 * second, ending, ..RequestPlan::default() };
        assert_eq!(plan, expected);
        assert_eq!(behind.fired(), 0);
    }

    #[test]
    fn an_event_is_an_occasion_for_rules_about_events_alone() {
        let mut rules = rules(1);
        let reset = rules.add(Fault::Reset.on(Match::any()));
        let hold = rules.add(Fault::Hold.on(Match::any()));
        let garble = rules.add(Fault::Garble(Garbage::Twice).on(Match::any()));
        let cut = rules.add(Fault::Cut(Cut::MidLine).on(Match::any()).skip(1));
        let plan = rules.for_event(&request(Verb::Watch), 1);
        assert_eq!((plan.held.len(), plan.garbage, plan.cut), (1, Some(Garbage::Twice), None));
        assert_eq!(rules.for_event(&request(Verb::Watch), 1).cut, Some(Cut::MidLine));
        assert_eq!([reset.fired(), hold.fired(), garble.fired(), cut.fired()], [0, 2, 2, 1]);
        assert_eq!(hold.held(), 1, "the second event's plan is gone");
    }

    #[test]
    fn a_rule_about_events_leaves_requests_alone() {
        let mut rules = rules(1);
        rules.add(Fault::Hold.on(Match::any()));
        rules.add(Fault::Garble(Garbage::Twice).on(Match::any()));
        assert_eq!(rules.for_request(&request(Verb::Watch)), RequestPlan::default());
        assert_eq!(rules.for_request(&request(Verb::Get)).garbage, Some(Garbage::Twice));
    }
}
