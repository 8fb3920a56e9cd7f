//! A world of one controller: a cache, a queue, and a plugin that follows a list of steps.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use windlass_core::call::ports::{
    Absent, Answer, Ask, CallContext, Event, EventType, Events, ListPage, ListQuery, LiveGet, MetricChange, Metrics,
    Ports, Reads, Written, port_fn,
};
use windlass_core::call::read_set::ReadQuestion;
use windlass_core::call::read_tracker::Spoiler;
use windlass_core::defect::Defect;
use windlass_core::error::ApiError;
use windlass_core::object::conditions::Conditions;
use windlass_core::object::pointer_tree::PointerTree;
use windlass_core::object::progress::Stamp;
use windlass_core::object::{Header, Object, ObjectKey, ObjectKind, ObjectRef};
use windlass_core::queue::breaker::{BreakerRound, BreakerState};
use windlass_core::queue::outcome::{CallResult, Failure};
use windlass_core::queue::{ItemExponential, Priority, Queue};
use windlass_core::rights::grants::{Allowance, Grants};
use windlass_core::rights::principal::Principal;
use windlass_core::secret::confidential::Confidential;
use windlass_core::write::no_op::SkipView;
use windlass_core::write::{Operation, WriteOptions};
use windlass_wasm::{CallLimits, Called, Request};

use super::super::{CallSaver, Saved, SavingGuards};
use crate::clock::SystemClock;
use crate::dispatch::call_record::CallRecord;
use crate::dispatch::circuit::Circuit;
use crate::dispatch::reconcile::{Call, Reconcile};
use crate::dispatch::saving::SavedCalls;
use crate::dispatch::shadow::Shadows;
use crate::observe::metrics::HostMetrics;
use crate::observe::status::{ControllerStatus, Status};
use crate::policies::{GrantMode, Policies, PolicySettings};

/// The most calls that follow from one change. A plugin that never has enough goes on with the next one.
const CALLS_OF_A_CHANGE_MAX: usize = 6;

/// A step of a plugin. Each answer becomes a part of what the plugin knows, on which its later steps depend.
#[derive(Clone, Debug)]
pub(super) enum Op {
    /// Looks at the primary.
    Primary,
    /// Reads a child, or only its `data`.
    Get {
        child: usize,
        part: bool,
    },
    /// Lists the children.
    List,
    /// Applies a child with one of so many values, which depends on what the plugin knows. Asks for all of the child,
    /// or only for its `data`.
    Apply {
        child: usize,
        values: u64,
        part: bool,
    },
    /// Reads the configuration.
    Config,
    /// Reads the time.
    Clock,
    /// Goes through a map, whose order follows from the seeds of the call.
    Map,
    /// Reads from the server.
    Live,
    Event,
    /// Adds to a counter.
    Count,
    /// Sets a gauge to a value that depends on what the plugin knows.
    Gauge,
    /// Fails.
    Fail,
    /// Emits an Event if something has happened that no plugin should know of.
    Hidden,
    /// Goes on with one of two lists.
    If {
        modulus: u64,
        then: Vec<Op>,
        otherwise: Vec<Op>,
    },
}

/// A plugin, which asks to be called `again` after a while, or not.
#[derive(Clone, Debug)]
pub(super) struct Plugin {
    pub(super) ops: Vec<Op>,
    pub(super) again: Option<Duration>,
}

impl Plugin {
    pub(super) fn new(ops: Vec<Op>) -> Self {
        Self { ops, again: None }
    }
}

/// The state that the host and the plugin share.
#[derive(Default)]
struct State {
    cache: BTreeMap<String, Object>,
    changed: Stamp,
    /// The changes outside of the host that the plugin has made, in order.
    effects: Vec<String>,
    gauges: BTreeMap<String, f64>,
    /// States that were written and are not in the cache yet.
    written: Vec<(String, Object)>,
    versions: u64,
    made: usize,
    time: u64,
    hidden: u64,
    /// A child that changes during the next call, and its value.
    within: Option<(usize, u64)>,
    /// Whether the plugin's policy is replaced during the next call.
    replaces_policy: bool,
    /// Whether the calls are recorded.
    records: bool,
    /// Whether the host drops the values of gauges.
    drops_gauges: bool,
}

#[derive(Default)]
struct Shared(Mutex<State>);

fn kind() -> ObjectKind {
    ObjectKind::new("v1", "ConfigMap")
}

fn key_of(name: &str) -> ObjectKey {
    ObjectKey::namespaced("prod", name)
}

fn child(at: usize) -> String {
    format!("child-{at}")
}

fn part() -> PointerTree {
    PointerTree::of_read(&["/data".to_owned()]).expect("a pointer")
}

fn value_of(object: &Object) -> u64 {
    let parsed: Value = serde_json::from_str(&object.text()).expect("JSON");
    parsed["data"]["value"].as_u64().expect("a number")
}

impl State {
    /// A new state of an object. Only `status` changes if `value` stays the same.
    fn object(&mut self, name: &str, value: u64, deleting: bool) -> Object {
        self.versions += 1;
        let version = self.versions.to_string();
        let header = Header {
            key: key_of(name),
            uid: name.into(),
            version: version.as_str().into(),
            generation: 1,
            labels: [].into(),
            owners: [].into(),
            own_fields: None,
            conditions: Conditions::default(),
            deleting,
        };
        let text = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "prod", "uid": name, "resourceVersion": version},
            "data": {"value": value}, "status": {"seen": self.versions},
        });
        Object::new(header, text.to_string())
    }

    fn store(&mut self, name: String, object: Object) {
        self.changed = Stamp::take();
        self.cache.insert(name, object);
    }

    fn remove(&mut self, name: &str) {
        if !Defect::RemovalIsNotCounted.is_seeded() {
            self.changed = Stamp::take();
        }
        self.cache.remove(name);
    }

    fn change(&mut self, name: &str, value: u64) {
        let object = self.object(name, value, false);
        self.store(name.to_owned(), object);
    }

    /// Carries out an apply, or skips it if it would change nothing.
    fn apply(&mut self, call: &CallContext, name: &str, value: u64, fields: Option<&[String]>) -> Arc<str> {
        let own = self.written.iter().rev().find(|(written, _)| written == name).map(|(_, object)| object.clone());
        if let (None, Some(cached)) = (&own, self.cache.get(name))
            && value_of(cached) == value
        {
            let body = json!({"data": {"value": value}}).to_string();
            call.reads.skipped(kind(), key_of(name), cached, SkipView::of_merge(&body, fields));
            return cached.text();
        }
        self.effects.push(format!("{name}={value}"));
        let object = self.object(name, value, false);
        self.written.push((name.to_owned(), object.clone()));
        call.overlay.record(kind(), key_of(name), Some(object.clone()));
        object.text()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic")
    }
}

impl Reads for Shared {
    fn get(&self, call: &CallContext, target: &ObjectRef, fields: Option<&[String]>) -> Written {
        let state = self.state();
        let own = state.written.iter().rev().find(|(written, _)| **written == *target.key.name);
        let found = own.map(|(_, object)| object).or_else(|| state.cache.get(&*target.key.name));
        call.reads.answers_from(found.map_or(state.changed, Object::stamp));
        let cut = |text: Arc<str>| match fields {
            Some(fields) => PointerTree::of_read(fields).expect("pointers").select(&text).expect("JSON").into(),
            None => text,
        };
        Ok(found.map(Object::text).map(cut))
    }

    fn list(&self, call: &CallContext, _: &ListQuery) -> Result<ListPage, ApiError> {
        let state = self.state();
        call.reads.answers_from(state.changed);
        let mut shown: BTreeMap<_, _> = state.cache.iter().filter(|(name, _)| *name != "a").collect();
        shown.extend(state.written.iter().map(|(name, object)| (name, object)));
        Ok(ListPage { items: shown.values().map(|object| object.text()).collect(), next_token: None })
    }

    fn stamp(&self, _: &CallContext, question: &ReadQuestion) -> Option<Stamp> {
        let state = self.state();
        let of = |key: &ObjectKey| state.cache.get(&*key.name).map_or(state.changed, Object::stamp);
        match question {
            ReadQuestion::Primary => None,
            ReadQuestion::Get { target, .. } => Some(of(&target.key)),
            ReadQuestion::List(_) => Some(state.changed),
            ReadQuestion::SkippedWrite { key, .. } => Some(of(key)),
        }
    }

    fn skipped(&self, _: &CallContext, _: &ObjectKind, key: &ObjectKey) -> Option<Object> {
        self.state().cache.get(&*key.name).cloned()
    }
}

impl Events for Shared {
    fn emit(&self, _: &CallContext, event: Event) {
        self.state().effects.push(event.reason);
    }
}

impl Metrics for Shared {
    fn record(&self, _: &CallContext, change: MetricChange, name: &str, value: f64, _: &[(String, String)]) {
        let mut state = self.state();
        match change {
            MetricChange::Set if state.drops_gauges => {}
            MetricChange::Set => _ = state.gauges.insert(name.to_owned(), value),
            _ => state.effects.push(name.to_owned()),
        }
    }

    fn gauge(&self, _: &CallContext, name: &str, _: &[(String, String)]) -> Option<f64> {
        self.state().gauges.get(name).copied()
    }
}

/// The sandbox with the plugin.
struct Sandboxed {
    plugin: Plugin,
    shared: Arc<Shared>,
}

/// The plugin's knowledge: a digest of all answers.
struct Knowledge(u64);

impl Knowledge {
    fn add(&mut self, answer: impl std::fmt::Debug) {
        for byte in format!("{answer:?}").bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// One of `values` values.
    fn one_of(&self, values: u64) -> u64 {
        (self.0 >> 20) % values
    }
}

impl Sandboxed {
    fn run(&self, ops: &[Op], call: &Call<'_>, known: &mut Knowledge) -> Result<(), CallResult> {
        for op in ops {
            self.step(op, call, known)?;
            let within = self.shared.state().within.take();
            if let Some((at, value)) = within {
                self.shared.state().change(&child(at), value);
            }
            if std::mem::take(&mut self.shared.state().replaces_policy) {
                call.context.principal.grants.replace(Grants::asked(Allowance::default()));
            }
        }
        Ok(())
    }

    fn step(&self, op: &Op, call: &Call<'_>, known: &mut Knowledge) -> Result<(), CallResult> {
        let (ports, context) = (call.ports, &call.context);
        match op {
            Op::Primary => known.add(call.request.object.as_ref().map(|text| part().select(text).expect("JSON"))),
            Op::Get { child: at, part } => {
                let target = ObjectRef { kind: kind(), key: key_of(&child(*at)), uid: None };
                let fields = part.then(|| vec!["/data".to_owned()]);
                known.add(ports.reads.get(context, &target, fields.as_deref()));
            }
            Op::List => known.add(ports.reads.list(context, &list())),
            Op::Apply { child: at, values, part: asks_part } => {
                let object = json!({"name": child(*at), "value": known.one_of(*values)}).to_string();
                let fields = asks_part.then(|| vec!["/data".to_owned()]);
                let apply = Operation::Apply { object, options: WriteOptions { fields, ..WriteOptions::default() } };
                let Ok(Some(whole)) = ports.ask(context.clone(), apply).now_or_never().expect("at once") else {
                    unreachable!("an apply is answered with an object");
                };
                // As the sandbox does it: ports answer with whole objects.
                known.add(if *asks_part { part().select(&whole).expect("JSON").into() } else { whole });
            }
            Op::Config => known.add(&*context.config),
            Op::Clock => {
                if !Defect::ClockIsNotNoted.is_seeded() {
                    context.reads.spoil(Spoiler::Clock);
                }
                known.add(self.shared.state().time);
            }
            Op::Map if self.shared.state().records => {
                context.reads.spoil(Spoiler::Recorded);
                known.add(self.shared.state().made);
            }
            Op::Map => known.add(context.reads.seed().expect("a call that may be kept has a seed")),
            Op::Live => {
                let target = ObjectRef { kind: kind(), key: key_of("outside"), uid: None };
                known.add(ports.ask(context.clone(), LiveGet::whole(target)).now_or_never().expect("at once"));
            }
            Op::Event => ports.events.emit(context, event("Reported")),
            Op::Count => ports.metrics.record(context, MetricChange::Add, "counted", 1.0, &[]),
            Op::Gauge => {
                let value = f64::from(u8::try_from(known.one_of(3)).expect("it is small"));
                ports.metrics.record(context, MetricChange::Set, "measured", value, &[]);
            }
            Op::Fail => return Err(CallResult::Failed(vec![Failure::Terminal("it fails".to_owned())])),
            Op::Hidden if self.shared.state().hidden == 0 => {}
            Op::Hidden => ports.events.emit(context, event("Hidden")),
            Op::If { modulus, then, otherwise } => {
                let ops = if known.one_of(*modulus) == 0 { then } else { otherwise };
                return self.run(ops, call, known);
            }
        }
        Ok(())
    }
}

impl Reconcile for Sandboxed {
    fn reconcile<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Called> {
        self.shared.state().made += 1;
        let result = match self.run(&self.plugin.ops, &call, &mut Knowledge(0xcbf2_9ce4_8422_2325)) {
            Ok(()) => self.plugin.again.map_or(CallResult::Done, CallResult::RequeueAfter),
            Err(failed) => failed,
        };
        ready(Called::made(result, Duration::ZERO)).boxed()
    }
}

fn event(reason: &str) -> Event {
    Event::of_primary(EventType::Normal, reason, "Reconcile", String::new())
}

fn list() -> ListQuery {
    ListQuery {
        kind: kind(),
        namespace: None,
        label_selector: None,
        index: None,
        owned: false,
        fields: None,
        limit: 100,
        max_bytes: None,
        page_token: None,
    }
}

/// The whole world.
pub(super) struct World {
    shared: Arc<Shared>,
    queue: Queue<ObjectKey>,
    callee: Box<dyn Reconcile>,
    ports: Ports,
    principal: Arc<Principal>,
    config: Confidential,
    record: Arc<CallRecord>,
    circuit: Circuit,
    status: Arc<ControllerStatus>,
    /// The attempt of the next calls.
    pub(super) attempt: u32,
    /// Whether the plugin's own writes run the key.
    pub(super) follows_writes: bool,
}

impl World {
    /// An empty world. Calls are saved unless `audits` says otherwise, or are all made if that is `None`.
    pub(super) fn new(plugin: Plugin, audits: Option<fn() -> bool>) -> Self {
        let (shared, record, circuit) = (Arc::<Shared>::default(), CallRecord::new(), Circuit::default());
        let metrics = HostMetrics::new().controller("a", "a");
        let status = Status::new(CancellationToken::new()).plugin("a").controller("a", 1, metrics);
        let plugin: Box<dyn Reconcile> = Box::new(Sandboxed { plugin, shared: shared.clone() });
        let callee = match audits {
            None => plugin,
            Some(audits) => {
                let saver = CallSaver {
                    calls: SavedCalls::audited_by(audits),
                    caches: shared.clone(),
                    call_part: Some(part()),
                    record: record.clone(),
                };
                let settings = PolicySettings {
                    mode: GrantMode::Policy,
                    directory: PathBuf::new(),
                    ceiling: None,
                    host_namespace: None,
                };
                let guards = SavingGuards {
                    instances: Policies::without_files(settings).instances("a"),
                    next: Shadows::default().of(&"a".into()),
                    circuit: circuit.clone(),
                    status: status.clone(),
                };
                Box::new(Saved::new(plugin, saver, guards))
            }
        };
        Self {
            ports: ports(&shared),
            shared,
            queue: Queue::new(Arc::new(SystemClock::new()), ItemExponential::default()),
            callee,
            principal: Arc::new(Principal::of_plugin("a", "0", "test")),
            config: "{}".into(),
            record,
            circuit,
            status,
            attempt: 0,
            follows_writes: false,
        }
    }

    /// Queues the key, for a change or because it `must_call`, and works until nothing is left to do.
    pub(super) fn run(&mut self, must_call: bool) {
        if must_call {
            self.queue.add(key_of("a"));
        } else {
            self.queue.add_for_change(key_of("a"), Priority::CHANGE);
        }
        self.run_due();
    }

    /// Works on the key if its time has come.
    pub(super) fn run_due(&mut self) {
        for _ in 0..CALLS_OF_A_CHANGE_MAX {
            let Some(Some(key)) = self.queue.get().now_or_never() else { return };
            if self.call(&key) && self.follows_writes {
                self.queue.add_for_change(key.clone(), Priority::CHANGE);
            }
            self.queue.done(&key);
        }
    }

    /// Makes one call. Returns whether it has written something, which the cache shows then.
    fn call(&self, key: &ObjectKey) -> bool {
        let primary = self.shared.state().cache.get("a").cloned();
        let request = Request {
            controller: "a".into(),
            key: key.clone(),
            uid: Some("a".into()),
            object: primary.as_ref().map(Object::text),
            deleting: primary.as_ref().is_some_and(|primary| primary.header.deleting),
            attempt: self.attempt,
            trace_id: "0".into(),
        };
        let context = CallContext {
            primary,
            config: self.config.clone(),
            ..CallContext::detached(self.principal.clone(), "a", kind(), key.clone())
        };
        let call = Call {
            request,
            ports: &self.ports,
            context: Arc::new(context),
            limits: CallLimits::default(),
            round: BreakerRound::default(),
            must_be_made: self.queue.must_call(key),
        };
        let called = self.callee.reconcile(call).now_or_never().expect("nothing waits");
        match called.result {
            CallResult::RequeueAfter(delay) => self.queue.add_after(key.clone(), delay),
            CallResult::Done | CallResult::Failed(_) => {}
            other => panic!("{other:?}"),
        }
        let mut state = self.shared.state();
        let written = std::mem::take(&mut state.written);
        let wrote = !written.is_empty();
        for (name, object) in written {
            state.store(name, object);
        }
        wrote
    }

    pub(super) fn change_primary(&mut self, value: u64) {
        self.shared.state().change("a", value);
    }

    /// Changes a part of the primary that the plugin does not get.
    pub(super) fn touch_primary(&mut self) {
        self.touch("a");
    }

    pub(super) fn delete_primary(&mut self, waits: bool) {
        let mut state = self.shared.state();
        if waits {
            let object = state.object("a", 1, true);
            state.store("a".to_owned(), object);
        } else {
            state.remove("a");
        }
    }

    /// Sets the value of a child, or removes it.
    pub(super) fn change_child(&mut self, at: usize, value: Option<u64>) {
        match value {
            Some(value) => self.shared.state().change(&child(at), value),
            None => self.shared.state().remove(&child(at)),
        }
    }

    /// Changes the status of a child, if it exists.
    pub(super) fn touch_child(&mut self, at: usize) {
        self.touch(&child(at));
    }

    fn touch(&mut self, name: &str) {
        let mut state = self.shared.state();
        if let Some(value) = state.cache.get(name).map(value_of) {
            state.change(name, value);
        }
    }

    pub(super) fn change_child_within_call(&mut self, at: usize, value: u64) {
        self.shared.state().within = Some((at, value));
    }

    /// The plugin's call about another key sets the gauge.
    pub(super) fn measure_for_another(&mut self, value: u8) {
        self.shared.state().gauges.insert("measured".to_owned(), value.into());
    }

    pub(super) fn measured(&self) -> Option<f64> {
        self.shared.state().gauges.get("measured").copied()
    }

    /// Drops the values of gauges from now on, as if there were too many series.
    pub(super) fn drop_gauges(&mut self) {
        self.shared.state().drops_gauges = true;
    }

    /// Records the next calls, or does not.
    pub(super) fn record_calls(&mut self, records: bool) {
        self.shared.state().records = records;
    }

    pub(super) fn replace_policy_within_call(&mut self) {
        self.shared.state().replaces_policy = true;
    }

    /// Calls about this many other objects trap, one after the other.
    pub(super) fn others_trap(&self, count: usize) {
        for at in 0..count {
            self.circuit.ended(BreakerRound::default(), &key_of(&format!("poison-{at}")), Some("unreachable"));
        }
    }

    pub(super) fn circuit(&self) -> BreakerState {
        self.circuit.state()
    }

    pub(super) fn configure(&mut self, value: u64) {
        self.config = json!({"value": value}).to_string().as_str().into();
    }

    pub(super) fn tick(&mut self) {
        self.shared.state().time += 1;
    }

    pub(super) fn hidden(&mut self, value: u64) {
        self.shared.state().hidden = value;
    }

    pub(super) fn due(&self) -> Option<Duration> {
        self.queue.look(&key_of("a"))?.due_in
    }

    pub(super) fn made(&self) -> usize {
        self.shared.state().made
    }

    pub(super) fn saved(&self) -> u64 {
        self.status.metrics.saved.get()
    }

    pub(super) fn mispredicted(&self) -> u64 {
        self.status.metrics.mispredicted.get()
    }

    pub(super) fn record(&self) -> &CallRecord {
        &self.record
    }

    /// Everything that users could see.
    pub(super) fn seen(&self) -> String {
        let due = self.due();
        let state = self.shared.state();
        let values: BTreeMap<_, _> = state.cache.iter().map(|(name, object)| (name, value_of(object))).collect();
        format!("{:?}, {values:?}, {:?}, due in {due:?}", state.effects, state.gauges)
    }
}

fn ports(shared: &Arc<Shared>) -> Ports {
    let writes = shared.clone();
    let outside = port_fn(move |call, ask| {
        let answer = match ask {
            Ask::Write(operation) => {
                let Operation::Apply { object, options } = *operation else { unreachable!("plugins only apply") };
                let object: Value = serde_json::from_str(&object).expect("JSON");
                let (name, value) = (object["name"].as_str().expect("a name"), object["value"].as_u64());
                let fields = options.fields.as_deref();
                Answer::Write(Ok(Some(writes.state().apply(&call, name, value.expect("a number"), fields))))
            }
            Ask::Get(_) => Answer::Get(Ok(Some(writes.state().time.to_string().into()))),
            other => unreachable!("{other:?}"),
        };
        ready(answer).boxed()
    });
    Ports { reads: shared.clone(), outside, events: shared.clone(), metrics: shared.clone(), ..Absent::ports() }
}
