//! The world of a run: the API server, the host's own engine with the plugin in it, a user, and the faults; in one thread, on
//! told time, without a socket.

mod clock;
mod engine;
mod failover;
mod process;
mod run;
mod slow;
mod strikes;
mod succession;
mod swap;
mod user;
mod wire;

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use tokio::time::{Instant, sleep};
use windlass_apiserver::{ApiServer, Clock, Config, Snapshot};
use windlass_core::life::features::Features;
use windlass_wasm::Plugin;

pub(crate) use self::run::Run;
pub(crate) use self::user::UserError;

use self::clock::HostClock;
use self::engine::{Engine, HostFaults};
use self::slow::SlowFaults;
use self::strikes::FaultRules;
use self::user::User;
use self::wire::ServerHandle;
use crate::fault::{AtRest, Deed, Fault};
use crate::outcome::{Beginning, EndState, FOREIGN, SecondRun, USER, foreign_mark};
use crate::scenario::{Expectation, ObjectName, ObjectPatch, Scenario, Step};
use crate::trace::{Happening, Record};

/// When each world begins, since 1970: it is 2020.
const WORLD_START: Duration = Duration::from_hours(438_288);
/// Without a change for so long, the world is quiet.
const QUIET_TIME: Duration = Duration::from_mins(1);
/// How long the world may take to become quiet after a step.
const STEP_QUIET_TIMEOUT: Duration = Duration::from_mins(10);
/// How long it may take at the end: longer than the longest backoff, which is 1,000 s.
const END_QUIET_TIMEOUT: Duration = Duration::from_mins(40);
/// More changes than that after one step do not end.
const STEP_CHANGES_MAX: u64 = 200;
/// Between two looks at what is waited for.
const WAIT_LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long a step waits for what it waits for.
const STEP_WAIT_MAX: Duration = Duration::from_hours(1);

/// More changes of a spec than that are not compared with a spec that was so from the beginning.
const COMPARED_HISTORIES_MAX: usize = 8;

/// Why a scenario cannot be run at all.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// An object that is to be there from the beginning is refused.
    #[error("{object} cannot be loaded: {message}")]
    Load {
        /// Its kind and name.
        object: String,
        /// The API server's words.
        message: String,
    },
}

/// The plugin that is checked, and the host that it runs in.
#[derive(Clone)]
pub struct CheckSubject {
    /// Each process of a scenario calls it, on the thread of the check.
    pub plugin: Arc<Plugin>,
    /// The features of the host.
    pub features: Features,
}

/// The world before a scenario begins, and the plugin.
pub(crate) struct World {
    subject: CheckSubject,
    scenario: Scenario,
    config: Config,
    /// With what is loaded.
    begins: Snapshot,
    /// The same, to compare with.
    beginning: Beginning,
    record: Record,
    /// How many runs there have been.
    runs: Cell<usize>,
}

impl World {
    /// Loads what the scenario begins with.
    pub(crate) async fn new(subject: CheckSubject, scenario: Scenario, record: Record) -> Result<World, WorldError> {
        let stand_ins = scenario.parsed_stand_ins().unwrap_or_default();
        let clock = Clock::Told(SystemTime::UNIX_EPOCH + WORLD_START);
        let config = Config { clock, seed: Some(0), stand_ins, ..Config::default() };
        let server = ApiServer::in_process(&config);
        let user = User(server.service(), USER);
        for object in in_order(&scenario.load) {
            let failed = |error: UserError| WorldError::Load {
                object: ObjectName::of(object).to_string(),
                message: error.to_string(),
            };
            user.apply(object).await.map_err(failed)?;
        }
        // Service accounts and the like follow.
        sleep(WAIT_LOOK_INTERVAL).await;
        let begins = server.snapshot();
        server.shutdown().await;
        let beginning = Beginning::of(&begins);
        Ok(World { subject, scenario, config, begins, beginning, record, runs: Cell::new(0) })
    }

    /// The scenario from its beginning to its end, under `faults`. The same seed and faults give the same run.
    pub(crate) async fn run(&self, faults: &[Fault], seed: u64) -> Run {
        self.run_steps(&self.scenario.steps, faults, seed).await
    }

    /// The same with other steps.
    pub(crate) async fn run_steps(&self, steps: &[Step], faults: &[Fault], seed: u64) -> Run {
        // Another seed is another time of day, too.
        let clock = HostClock::start(WORLD_START + WAIT_LOOK_INTERVAL + Duration::from_secs(seed % 1_000 * 3_607));
        let shown = clock.clone();
        let _told = windlass_world::tell(seed, move || shown.now());
        let server = ApiServer::from_snapshot(&self.config, &self.begins);
        server.reseed(seed);
        let rules = FaultRules::of(faults);
        // `Fault::check` has seen those of a file.
        server.reactors().set(rules.document(seed)).expect("rules of faults are right");
        self.record.begin();
        let host_faults = HostFaults::of(faults);
        let engine = Engine::start(ServerHandle::of(&server), self.subject.clone(), self.record.clone(), host_faults);
        let slow = SlowFaults::of(faults, &rules, clock);
        let mut round = Round::new(server, engine, self, slow, rules);
        let at_rest = faults.iter().enumerate().filter_map(|(place, fault)| Some((place, fault.at_rest.as_ref()?)));
        let undone = round.steps(steps, &at_rest.collect::<Vec<_>>()).await;
        round.settle(END_QUIET_TIMEOUT).await;
        round.outlast().await;
        let struck = round.struck(faults);
        let end = EndState::of(&round.server.snapshot(), &self.beginning);
        let broken = round.broken(&self.scenario).await;
        let second = round.second_run().await;
        let Round { server, engine, owned, left, rests, noisy, failing, .. } = round;
        engine.stop().await;
        server.shutdown().await;
        let number = self.runs.get() + 1;
        self.runs.set(number);
        let entries = self.record.end();
        let given = self.scenario.load.iter().map(ObjectName::of).collect();
        Run { number, entries, struck, given, owned, rests, left, undone, failing, noisy, end, broken, second }
    }

    /// The steps that change an object, up to some.
    pub(crate) fn changes(&self) -> Vec<usize> {
        let steps = self.scenario.steps.iter().enumerate();
        let changes = steps.filter(|(_, step)| matches!(step, Step::Patch(patch) if patch.subresource.is_none()));
        changes.map(|(index, _)| index).take(COMPARED_HISTORIES_MAX).collect()
    }

    /// Two runs: with all steps up to one that changes an object, and with an object that is so from the beginning. None: the object
    /// cannot be made at once, or has not been made by the scenario alone.
    pub(crate) async fn histories(&self, change: usize, seed: u64) -> Option<(Run, Run)> {
        let Step::Patch(patch) = self.scenario.steps.get(change)? else { return None };
        let of_others = |step: &&Step| matches!(step, Step::Apply(object) if ObjectName::of(object) != patch.object);
        let mut from_start: Vec<Step> = self.scenario.steps[..change].iter().filter(of_others).cloned().collect();
        let changed = self.run_steps(&self.scenario.steps[..=change], &[], seed).await;
        let object = changed.end.asked.iter().find(|object| ObjectName::of(object) == patch.object)?;
        from_start.push(Step::Apply(object.clone()));
        let from_start = self.run_steps(&from_start, &[], seed).await;
        (changed.undone.is_none() && from_start.undone.is_none()).then_some((changed, from_start))
    }

    pub(crate) fn scenario(&self) -> &Scenario {
        &self.scenario
    }
}

/// Namespaces, then definitions, then what needs both.
fn in_order(objects: &[Value]) -> Vec<&Value> {
    let mut ordered: Vec<&Value> = objects.iter().collect();
    ordered.sort_by_key(|object| match object["kind"].as_str() {
        Some("Namespace") => 0,
        Some("CustomResourceDefinition") => 1,
        _ => 2,
    });
    ordered
}

/// One run while it lasts.
struct Round<'a> {
    server: ApiServer,
    engine: Engine,
    record: &'a Record,
    beginning: &'a Beginning,
    slow: SlowFaults,
    rules: FaultRules,
    owned: Vec<(usize, ObjectName)>,
    left: Vec<String>,
    rests: Vec<EndState>,
    /// Where the writes do not end.
    noisy: Option<String>,
    failing: Option<(usize, Vec<String>)>,
}

impl<'a> Round<'a> {
    fn new(server: ApiServer, engine: Engine, world: &'a World, slow: SlowFaults, rules: FaultRules) -> Round<'a> {
        let World { record, beginning, .. } = world;
        Round {
            server,
            engine,
            record,
            beginning,
            slow,
            rules,
            owned: vec![],
            left: vec![],
            rests: vec![],
            noisy: None,
            failing: None,
        }
    }

    /// Does all steps. Answers the one that could not be done.
    async fn steps(&mut self, steps: &[Step], at_rest: &[(usize, &AtRest)]) -> Option<(usize, UserError)> {
        let user = User(self.server.service(), USER);
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

    /// Somebody else does something to an object. If it is not there, the fault does not strike.
    async fn strike(&mut self, fault: usize, AtRest { object, deed, .. }: &AtRest) {
        let (step, does) = match deed {
            Deed::Delete => (Step::Delete(object.clone()), "deletes"),
            Deed::Annotate => {
                let patch = ObjectPatch { object: object.clone(), merge: foreign_mark(), subresource: None };
                (Step::Patch(patch), "annotates")
            }
        };
        if User(self.server.service(), FOREIGN).act(&step).await.is_ok() {
            self.record.note(Happening::Stranger(format!("somebody else {does} {object}")));
            self.rules.has_struck(fault);
            self.settle(STEP_QUIET_TIMEOUT).await;
            // What the plugin then does may be the first that meets an outage.
            self.outlast().await;
        }
    }

    /// Sees what is there after a step.
    fn look(&mut self, index: usize, step: &Step) {
        let there = EndState::of(&self.server.snapshot(), self.beginning);
        for name in &there.owned {
            if !self.owned.iter().any(|(_, known)| known == name) {
                self.owned.push((index, name.clone()));
            }
        }
        let applied = |name: &ObjectName| {
            let before = self.rests.last().into_iter().flat_map(|rest| &rest.asked);
            before.map(ObjectName::of).any(|it| it == *name)
        };
        if let Step::Delete(name) = step
            // The deletion of a child by hand is none of an owner.
            && applied(name)
        {
            let of_plugin = there.alone().filter(|place| !there.by_user.contains(*place));
            self.left.extend(of_plugin.map(|place| format!("{place} is left after {name} was deleted")));
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

    /// Waits until nothing changes any more and no call has failed last, for at most so long, and notes if it does not end.
    async fn settle(&mut self, most: Duration) {
        let (begun, first) = (Instant::now(), self.changes());
        let (mut seen, mut since) = (first, Instant::now());
        loop {
            sleep(WAIT_LOOK_INTERVAL).await;
            let now = self.changes();
            // A dead process is not heard, and the next one has everything to do yet.
            if now != seen || self.record.is_muted() {
                (seen, since) = (now, Instant::now());
            }
            let quiet = since.elapsed() >= QUIET_TIME;
            if quiet && (begun.elapsed() >= most || self.record.failing().is_empty()) {
                return;
            }
            if now - first > STEP_CHANGES_MAX || (begun.elapsed() >= most && !quiet) {
                let said = format!("{} changes in {:?}, and no end", now - first, begun.elapsed());
                self.noisy.get_or_insert(said);
                return;
            }
        }
    }

    /// How often something has changed, Kubernetes Events and the host's leases left out.
    fn changes(&self) -> u64 {
        self.server.resource_version().saturating_sub(self.record.beside())
    }

    async fn broken(&self, scenario: &Scenario) -> Vec<String> {
        let user = User(self.server.service(), USER);
        let mut broken = Vec::new();
        for expectation in &scenario.expect {
            if let Err(error) = user.holds(expectation).await {
                broken.push(format!("{expectation}: {error}"));
            }
        }
        broken
    }

    /// Stops the host in order, begins it again without faults, and answers what that has written.
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
