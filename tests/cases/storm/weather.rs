//! Faults on the way to the server, drawn from a seed.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use http::StatusCode;
use rand::RngExt as _;
use rand::rngs::SmallRng;
use tokio::time::sleep;
use windlass_proxy::{Cut, Fault, Garbage, Match, Refusal, Rule, RuleHandle, Verb};
use windlass_tests::proxied::Proxied;

/// How bad it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forecast {
    /// Watches are cut and their events delayed: nothing that needs another list.
    Cuts,
    /// All that the proxy can do, and outages.
    Everything,
}

const CUTS: [Cut; 3] = [Cut::Clean, Cut::MidLine, Cut::Reset];
const FAULT_DELAY: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_millis(30);

/// The faults in force.
pub(crate) struct Weather<'a> {
    proxy: &'a Proxied,
    watches: Match,
    cuts: Vec<RuleHandle>,
    /// Faults after which the client lists anew.
    relists: Vec<RuleHandle>,
    /// Faults that spoil the answer to a list.
    spoilt_lists: Vec<RuleHandle>,
    others: Vec<RuleHandle>,
    figures: Figures,
}

/// How often what happened.
#[derive(Clone, Default)]
pub(crate) struct Figures {
    pub(crate) cuts: u64,
    pub(crate) outages: u64,
    pub(crate) relists: u64,
    pub(crate) spoilt_lists: u64,
    /// Faults that the client gets over without a list.
    pub(crate) harmless: u64,
}

impl<'a> Weather<'a> {
    /// `pages` is how many a list has: a fault in any spoils it.
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
            // Even where there are few lists, some are spoilt.
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

    /// Cuts the watches that run now.
    pub(crate) fn cut(&mut self, random: &mut SmallRng) {
        let cut = CUTS[random.random_range(0..CUTS.len())];
        self.figures.cuts += self.proxy.cut(&self.watches, cut) as u64;
    }

    /// The server is away for a while.
    pub(crate) async fn outage(&mut self, random: &mut SmallRng) {
        self.figures.outages += 1;
        self.proxy.go_dark();
        sleep(Duration::from_millis(random.random_range(20..400))).await;
        self.proxy.come_back();
    }

    /// Fine again. Says what it was.
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
