//! The world of a run: the API server, the host's own engine with the plugin, a user, and the faults. It runs in one
//! thread, with simulated time and without sockets.

mod beginning;
mod clock;
mod engine;
mod failover;
mod guesses;
mod histories;
mod process;
mod purposes;
mod quiet;
mod run;
mod slow;
mod strikes;
mod succession;
mod swap;
mod user;
mod wire;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep};
use windlass_apiserver::{ApiServer, Config, Snapshot};
use windlass_core::life::features::Features;
use windlass_core::object::ObjectKind;
use windlass_runtime::{SECRET_READ_INTERVAL_MAX, configured_kinds, named_secrets};
use windlass_wasm::Plugin;

pub use self::guesses::without_refused;
pub(crate) use self::run::Run;
pub(crate) use self::user::UserError;

use self::clock::HostClock;
use self::engine::{Engine, HostFaults};
use self::purposes::Purposes;
use self::slow::SlowFaults;
use self::strikes::FaultRules;
use self::user::User;
use self::wire::ServerHandle;
use crate::fault::{AtRest, Deed, Fault};
use crate::normalizer::{Normalizer, times_of};
use crate::outcome::{Beginning, EndState, FOREIGN, OwnedObject, SecondRun, USER, foreign_mark};
use crate::rule::RunRule;
use crate::scenario::{Expectation, ObjectName, ObjectPatch, Scenario, Step};
use crate::trace::{Happening, Record};

/// The start time of a world whose scenario names none, since 1970. It lies in 2020.
const WORLD_START: Duration = Duration::from_hours(438_288);
/// The maximum time to wait after a step until the world is quiet.
const STEP_QUIET_TIMEOUT: Duration = Duration::from_mins(10);
/// The maximum time to wait at the end until the world is quiet. It exceeds the longest backoff, which is 1,000 s.
const END_QUIET_TIMEOUT: Duration = Duration::from_mins(40);
/// The interval between checks of an awaited condition.
const WAIT_LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// The longest time for which a `wait` step waits.
const STEP_WAIT_MAX: Duration = Duration::from_hours(1);

/// The reason why a scenario cannot be run at all.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// The API server refuses an object that should exist from the beginning.
    #[error("{object} cannot be loaded: {message}")]
    Load {
        /// The object's kind and name.
        object: String,
        /// The API server's message.
        message: String,
    },
}

/// The checked plugin and the host's features.
#[derive(Clone)]
pub struct CheckSubject {
    /// The plugin. Each process of a scenario calls it on the thread of the check.
    pub plugin: Arc<Plugin>,
    /// The directory of its configuration, `NAME.config.yaml`.
    pub configs: PathBuf,
    /// The features of the host.
    pub features: Features,
}

impl CheckSubject {
    /// The kinds of the plugin's primaries, including those that its configuration names. The engine logs what is wrong
    /// with a configuration that it does not take.
    #[must_use]
    pub fn primaries(&self) -> Vec<ObjectKind> {
        let manifest = self.plugin.manifest();
        let kinds = configured_kinds(&self.configs, manifest).ok().flatten().unwrap_or_default();
        let controllers = manifest.with_kinds(&kinds).controllers;
        controllers.iter().map(|controller| controller.primary.object_kind()).collect()
    }

    /// The Secrets, as namespace and name, from which the plugin's configuration takes values. The engine logs what is
    /// wrong with a configuration that it does not take.
    async fn secrets(&self) -> BTreeSet<(String, String)> {
        named_secrets(&self.configs, &self.plugin.manifest().name).await.unwrap_or_default()
    }
}

/// The world before a scenario begins, and the plugin.
pub(crate) struct World {
    subject: CheckSubject,
    scenario: Scenario,
    /// The time at which the server starts, since 1970.
    start: Duration,
    config: Config,
    /// The times that occur in the scenario.
    times: BTreeSet<String>,
    /// The Secrets, as namespace and name, that the plugin's configuration names.
    secrets: BTreeSet<(String, String)>,
    /// The state of the server with the loaded objects.
    begins: Snapshot,
    /// The loaded objects, to find changes of them.
    beginning: Beginning,
    record: Record,
    /// The number of runs so far.
    runs: Cell<usize>,
}

impl World {
    /// Loads the objects with which the scenario begins.
    pub(crate) async fn new(subject: CheckSubject, scenario: Scenario, record: Record) -> Result<World, WorldError> {
        let start = scenario.parsed_start_time().unwrap_or(WORLD_START);
        let config = beginning::config(&scenario, start);
        let server = beginning::loaded(&config, &scenario).await?;
        let begins = server.snapshot();
        server.shutdown().await;
        let beginning = Beginning::of(&begins);
        let (times, secrets) = (times_of(&scenario), subject.secrets().await);
        Ok(World { subject, scenario, start, config, times, secrets, begins, beginning, record, runs: Cell::new(0) })
    }

    /// Runs the whole scenario with `faults`. The same seed and faults always give the same run.
    pub(crate) async fn run(&self, faults: &[Fault], seed: u64) -> Run {
        self.run_steps(&self.scenario.steps, faults, seed).await
    }

    /// As [`Self::run`], with other steps.
    pub(crate) async fn run_steps(&self, steps: &[Step], faults: &[Fault], seed: u64) -> Run {
        self.run_from(None, steps, faults, seed).await
    }

    /// Runs `steps` as [`Self::run_steps`] does, but the user first applies the object `given`, before the host starts.
    async fn run_from(&self, given: Option<&Value>, steps: &[Step], faults: &[Fault], seed: u64) -> Run {
        // The seed also determines the time of day, unless the scenario names one.
        let shift = Duration::from_secs(if self.scenario.start_time.is_some() { 0 } else { seed % 1_000 * 3_607 });
        let clock = HostClock::start(self.start + WAIT_LOOK_INTERVAL + shift);
        let shown = clock.clone();
        let _simulated = windlass_world::simulate(seed, move || shown.now());
        let server = ApiServer::from_snapshot(&self.config, &self.begins);
        server.reseed(seed);
        server.advance_clock(shift);
        let rules = FaultRules::of(faults);
        // `Fault::check` has checked the rules that come from a file.
        server.reactors().set(rules.document(seed)).expect("rules of faults are right");
        self.record.begin();
        let refused = match given {
            Some(object) => User::of(&self.scenario, server.service(), USER).apply(object).await.err(),
            None => None,
        };
        let host_faults = HostFaults::of(faults);
        let engine = Engine::start(ServerHandle::of(&server), self.subject.clone(), self.record.clone(), host_faults);
        let slow = SlowFaults::of(faults, &rules, clock);
        let normalizer = Normalizer::new(self.start + shift, self.times.clone());
        let mut round = Round::new(server, engine, self, slow, rules, normalizer);
        let at_rest = faults.iter().enumerate().filter_map(|(place, fault)| Some((place, fault.at_rest.as_ref()?)));
        let undone = round.steps(steps, &at_rest.collect::<Vec<_>>()).await;
        round.settle(END_QUIET_TIMEOUT).await;
        round.outlast().await;
        let struck = round.struck(faults);
        let end = round.state();
        let broken = round.broken(&self.scenario).await;
        let second = round.second_run().await;
        let Round { server, engine, owned, left, rests, noisy, failing, .. } = round;
        engine.stop().await;
        server.shutdown().await;
        let number = self.runs.get() + 1;
        self.runs.set(number);
        let entries = self.record.end();
        let undone = refused.map(|error| (0, error)).or(undone);
        let given = self.scenario.load.iter().map(ObjectName::of).collect();
        Run { number, entries, struck, given, owned, rests, left, undone, failing, noisy, end, broken, second }
    }

    pub(crate) fn scenario(&self) -> &Scenario {
        &self.scenario
    }
}

/// One run in progress.
struct Round<'a> {
    server: ApiServer,
    user: User,
    engine: Engine,
    record: &'a Record,
    beginning: &'a Beginning,
    secrets: &'a BTreeSet<(String, String)>,
    slow: SlowFaults,
    rules: FaultRules,
    normalizer: Normalizer,
    owned: Vec<(usize, OwnedObject)>,
    purposes: Purposes,
    left: Vec<String>,
    rests: Vec<EndState>,
    /// How the plugin keeps writing. `None` if it stops.
    noisy: Option<String>,
    /// Whether the scenario allows a plugin to keep writing.
    may_write_on: bool,
    failing: Option<(usize, Vec<String>)>,
}

impl<'a> Round<'a> {
    fn new(
        server: ApiServer,
        engine: Engine,
        world: &'a World,
        slow: SlowFaults,
        rules: FaultRules,
        normalizer: Normalizer,
    ) -> Round<'a> {
        let World { record, beginning, secrets, .. } = world;
        let user = User::of(&world.scenario, server.service(), USER);
        Round {
            server,
            user,
            engine,
            record,
            beginning,
            secrets,
            slow,
            rules,
            normalizer,
            owned: vec![],
            purposes: Purposes::new(world.subject.primaries().into_iter()),
            left: vec![],
            rests: vec![],
            noisy: None,
            may_write_on: world.scenario.rules.contains_key(&RunRule::Quiet),
            failing: None,
        }
    }

    /// Carries out the steps. If a step fails, returns its index and the error.
    async fn steps(&mut self, steps: &[Step], at_rest: &[(usize, &AtRest)]) -> Option<(usize, UserError)> {
        let user = self.user.clone();
        self.settle(STEP_QUIET_TIMEOUT).await;
        self.outlast().await;
        for (index, step) in steps.iter().enumerate() {
            self.record.note(Happening::Step(step.to_string()));
            let done = match step {
                Step::Advance(by) => {
                    sleep(*by).await;
                    Ok(())
                }
                Step::Wait(until) => self.wait(&user, until).await,
                step => user.act(step).await,
            };
            if let Err(error) = done {
                return Some((index, error));
            }
            if self.is_of_configuration(step) {
                // The host reads the Secret only from time to time, so the world would be quiet before that.
                sleep(SECRET_READ_INTERVAL_MAX).await;
            }
            self.settle(STEP_QUIET_TIMEOUT).await;
            self.endure(index).await;
            for (fault, rest) in at_rest.iter().filter(|(_, it)| it.after_step == index) {
                self.strike(*fault, rest).await;
            }
            self.look(index, step);
            if self.noisy.is_some() {
                break;
            }
        }
        None
    }

    /// Whether the step changes a Secret that the plugin's configuration names.
    fn is_of_configuration(&self, step: &Step) -> bool {
        let of_secret = step.object().filter(|it| it.api_version == "v1" && it.kind == "Secret");
        of_secret.is_some_and(|it| self.secrets.contains(&(it.namespace, it.name)))
    }

    /// Another client acts on an object. If the object does not exist, the fault does not count as occurred.
    async fn strike(&mut self, fault: usize, AtRest { object, deed, .. }: &AtRest) {
        let (step, does) = match deed {
            Deed::Delete => (Step::Delete(object.clone()), "deletes"),
            Deed::Annotate => {
                let patch = ObjectPatch { object: object.clone(), merge: foreign_mark(), subresource: None };
                (Step::Patch(patch), "annotates")
            }
        };
        if User::administrator(self.server.service(), FOREIGN).act(&step).await.is_ok() {
            self.record.note(Happening::Stranger(format!("another client {does} {object}")));
            self.rules.has_struck(fault);
            self.settle(STEP_QUIET_TIMEOUT).await;
            // The plugin's reaction may be the first request that an outage affects.
            self.outlast().await;
        }
    }

    /// The current objects.
    fn state(&mut self) -> EndState {
        self.normalizer.reach(self.slow.now());
        EndState::of(&self.server.snapshot(), self.beginning, &self.record.created(), &mut self.normalizer)
    }

    /// Records the state after a step.
    fn look(&mut self, index: usize, step: &Step) {
        let there = self.state();
        for object in &there.owned {
            if !self.owned.iter().any(|(_, known)| known.name == object.name) {
                self.owned.push((index, object.clone()));
            }
        }
        self.purposes.note(step, &there.of_plugin, &self.record.created());
        let applied = |name: &ObjectName| {
            let before = self.rests.last().into_iter().flat_map(|rest| &rest.asked);
            before.map(ObjectName::of).any(|it| it == *name)
        };
        if let Step::Delete(name) = step
            // The object must be the user's own: a child that the user deletes by hand owns nothing.
            && applied(name)
        {
            let left = self.purposes.of(name).map(|place| format!("{place} is left after {name} was deleted"));
            self.left.extend(left);
        }
        if self.failing.is_none() {
            let failing = self.record.failing();
            self.failing = (!failing.is_empty()).then_some((index, failing));
        }
        self.rests.push(there);
    }

    async fn wait(&mut self, user: &User, until: &Expectation) -> Result<(), UserError> {
        let mut begun = Instant::now();
        while let Err(error) = user.holds(until).await {
            if begun.elapsed() <= STEP_WAIT_MAX {
                sleep(WAIT_LOOK_INTERVAL).await;
            } else if self.outlast().await {
                begun = Instant::now();
            } else {
                return Err(error);
            }
        }
        Ok(())
    }

    async fn broken(&self, scenario: &Scenario) -> Vec<String> {
        let user = User::administrator(self.server.service(), USER);
        let mut broken = Vec::new();
        for expectation in &scenario.expect {
            if let Err(error) = user.holds(expectation).await {
                broken.push(format!("{expectation}: {error}"));
            }
        }
        broken
    }

    /// Stops the host gracefully and starts it again without faults. Returns what the host then writes.
    async fn second_run(&mut self) -> SecondRun {
        if self.noisy.is_some() {
            return SecondRun { changed: false, entries: vec![] };
        }
        self.server.reactors().clear();
        self.engine.restart().await;
        let before = self.record.count(|_| true);
        let revision = self.changes();
        self.settle(STEP_QUIET_TIMEOUT).await;
        let changed = self.changes() != revision;
        SecondRun { changed, entries: self.record.entries().split_off(before) }
    }
}
