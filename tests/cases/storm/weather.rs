//! Faults between client and server, drawn from a seed.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use http::StatusCode;
use rand::RngExt as _;
use rand::rngs::SmallRng;
use tokio::time::sleep;
use windlass_proxy::{Cut, Fault, Garbage, Match, Refusal, Rule, RuleHandle, Verb};
use windlass_tests::proxied::Proxied;

/// The severity of the faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forecast {
    /// Watches are cut, and their events are delayed. After these faults, clients need no new list.
    Cuts,
    /// All faults of the proxy, and outages.
    Everything,
}

const CUTS: [Cut; 3] = [Cut::Clean, Cut::MidLine, Cut::Reset];
const FAULT_DELAY: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_millis(30);

/// The faults in force.
pub(crate) struct Weather<'a> {
    proxy: &'a Proxied,
    watches: Match,
    cuts: Vec<RuleHandle>,
    /// Faults after which the client lists again.
    relists: Vec<RuleHandle>,
    /// Faults that disturb the response to a list.
    spoilt_lists: Vec<RuleHandle>,
    others: Vec<RuleHandle>,
    figures: Figures,
}

/// The number of times that each fault occurred.
#[derive(Clone, Default)]
pub(crate) struct Figures {
    pub(crate) cuts: u64,
    pub(crate) outages: u64,
    pub(crate) relists: u64,
    pub(crate) spoilt_lists: u64,
    /// Faults after which the client needs no list.
    pub(crate) harmless: u64,
}

impl<'a> Weather<'a> {
    /// `pages` is the number of pages of a list: a fault in any page disturbs the list.
    pub(crate) fn begin(proxy: &'a Proxied, forecast: Forecast, pages: u64) -> Self {
        #[allow(clippy::cast_precision_loss, reason = "a dozen")]
        let of_page = |chance: f64| chance / pages as f64;
        let watches = Match::watches("configmaps");
        let lists = Match::verb(Verb::List).resource("configmaps");
        let add = |rules: Vec<(Fault, &Match, f64)>| {
            let rules = rules.into_iter().map(|(fault, on, chance)| fault.on(on.clone()).with_probability(chance));
            rules.map(|rule: Rule| proxy.add(rule)).collect::<Vec<_>>()
        };
        let mut weather = Self {
            proxy,
            cuts: add(CUTS.map(|cut| (Fault::Cut(cut), &watches, 0.001)).into()),
            relists: Vec::new(),
            spoilt_lists: Vec::new(),
            others: add(vec![(Fault::DelayEvents(FAULT_DELAY), &watches, 0.02)]),
            watches: watches.clone(),
            figures: Figures::default(),
        };
        if forecast == Forecast::Everything {
            let gone = Refusal::new(StatusCode::GONE, "Expired", "too old resource version");
            weather.relists = add(vec![
                (Fault::Garble(Garbage::Truncated), &watches, 0.000_5),
                (Fault::Garble(Garbage::NotJson), &watches, 0.000_5),
                (Fault::Refuse(gone), &watches, 0.1),
            ]);
            weather.spoilt_lists = add(vec![
                (Fault::Refuse(Refusal::internal_error()), &lists, of_page(0.2)),
                (Fault::Refuse(Refusal::too_many_requests(Duration::from_secs(1))), &lists, of_page(0.1)),
                (Fault::Reset, &lists, of_page(0.2)),
                (Fault::Garble(Garbage::Truncated), &lists, of_page(0.1)),
                (Fault::Garble(Garbage::Twice), &lists, of_page(0.1)),
            ]);
            // Even if there are few lists, some are disturbed.
            weather.spoilt_lists.extend([
                proxy.add(Fault::Garble(Garbage::Truncated).on(lists.clone()).times(1)),
                proxy.add(Fault::Reset.on(lists.clone()).skip(2).times(1)),
            ]);
            weather.others.extend(add(vec![
                (Fault::Garble(Garbage::Twice), &watches, 0.01),
                (Fault::Refuse(Refusal::internal_error()), &watches, 0.05),
                (Fault::Refuse(Refusal::unavailable()), &watches, 0.05),
                (Fault::Refuse(Refusal::too_many_requests(Duration::from_secs(1))), &watches, 0.03),
                (Fault::Reset, &watches, 0.05),
                (Fault::DelayResponse(FAULT_DELAY), &watches, 0.3),
                (Fault::DelayResponse(FAULT_DELAY), &lists, 0.3),
                (Fault::Slow { bytes: 8_192, every: Duration::from_millis(1) }, &lists, 0.2),
            ]));
        }
        weather
    }

    /// Cuts the running watches.
    pub(crate) fn cut(&mut self, random: &mut SmallRng) {
        let cut = CUTS[random.random_range(0..CUTS.len())];
        self.figures.cuts += self.proxy.cut(&self.watches, cut) as u64;
    }

    /// Makes the server unavailable for a while.
    pub(crate) async fn outage(&mut self, random: &mut SmallRng) {
        self.figures.outages += 1;
        self.proxy.go_dark();
        sleep(Duration::from_millis(random.random_range(20..400))).await;
        self.proxy.come_back();
    }

    /// Ends all faults. Returns their counts.
    pub(crate) fn end(self) -> Figures {
        let fired = |rules: &[RuleHandle]| rules.iter().map(RuleHandle::fired).sum::<u64>();
        Figures {
            cuts: self.figures.cuts + fired(&self.cuts),
            relists: fired(&self.relists),
            spoilt_lists: fired(&self.spoilt_lists),
            harmless: fired(&self.others),
            ..self.figures
        }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cuts, outages, relists, spoilt_lists, harmless } = self;
        write!(
            f,
            "{cuts} cuts, {outages} outages, {relists} expired or garbled watches, {spoilt_lists} spoilt lists, "
        )?;
        write!(f, "{harmless} delays and refusals")
    }
}
