//! One call of a probe: all inputs that it can depend on, and all effects that it had.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::call::ports::CallContext;
use windlass_core::call::read_tracker::{ReadTracker, Spoiler};
use windlass_core::life::instances::Instances;
use windlass_core::object::{ObjectKey, ObjectKind};
use windlass_core::queue::outcome::CallResult;
use windlass_core::queue::trigger::Triggers;
use windlass_core::rights::principal::Principal;
use windlass_wasm::{CallLimits, Plugin, Replay, Request};

use crate::languages::RUNTIME;
use crate::ports::{Answers, Recorder};
use crate::{lines, wire};

/// The time of all calls: 2026-11-21T10:48:45.123456789Z.
pub(crate) const NOW: Duration = Duration::new(1_795_258_125, 123_456_789);

/// The inputs of a call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) namespace: Option<&'static str>,
    pub(crate) name: String,
    pub(crate) uid: Option<String>,
    pub(crate) object: Option<Arc<str>>,
    pub(crate) deleting: bool,
    pub(crate) attempt: u32,
    pub(crate) triggers: Triggers,
    pub(crate) config: String,
    pub(crate) trace_id: Arc<str>,
    pub(crate) instances: Instances,
    pub(crate) seed: u8,
    pub(crate) deadline: Duration,
}

impl Call {
    /// A call about the primary `prod/probe` with this text, in a new instance.
    pub(crate) fn about(object: impl Into<Arc<str>>) -> Self {
        static CALLS: AtomicU64 = AtomicU64::new(1);
        Self {
            namespace: Some("prod"),
            name: "probe".to_owned(),
            uid: Some("u-1".to_owned()),
            object: Some(object.into()),
            deleting: false,
            attempt: 0,
            triggers: Triggers::default(),
            config: "{}".to_owned(),
            // The trace ID finds the log lines of this call.
            trace_id: format!("{:032x}", CALLS.fetch_add(1, Ordering::Relaxed)).into(),
            instances: Instances::Fresh,
            seed: 7,
            deadline: Duration::from_secs(20),
        }
    }

    /// A call about a primary with these steps.
    pub(crate) fn with_steps(steps: &Value) -> Self {
        Self::about(primary(&steps.to_string()))
    }

    /// The same call in an instance that has served calls before, if there is one.
    pub(crate) fn again(self) -> Self {
        Self { instances: Instances::Reuse, ..self }
    }

    /// Makes the call.
    pub(crate) fn make(&self, plugin: &Arc<Plugin>, answers: Answers) -> Seen {
        lines::listen();
        let recorder = Recorder::new(answers);
        let called = RUNTIME.block_on(plugin.reconcile(
            self.request(plugin),
            &recorder.ports(),
            self.context(plugin),
            self.limits(),
        ));
        Seen {
            asked: recorder.asked(),
            report: recorder.report(),
            lines: lines::take(&self.trace_id),
            ended: wire::ended(&called.result),
        }
    }

    /// Makes the call with real time and random data. Returns why the host would make the next call about the object
    /// even if nothing changed. `None` if nothing in the sandbox is a reason.
    pub(crate) fn spoiler(&self, plugin: &Arc<Plugin>, answers: Answers) -> Option<Spoiler> {
        lines::listen();
        let (recorder, reads) = (Recorder::new(answers), ReadTracker::seeded(self.seed.into()));
        let context = CallContext { reads: reads.clone(), ..CallContext::clone(&self.context(plugin)) };
        let limits = CallLimits { replay: None, ..self.limits() };
        let ports = recorder.ports();
        let called = plugin.reconcile(self.request(plugin), &ports, Arc::new(context), limits);
        let result = RUNTIME.block_on(called).result;
        lines::take(&self.trace_id);
        assert!(matches!(result, CallResult::Done), "{result:?}");
        reads.end()?.spoiled
    }

    /// The object of the call and its triggers.
    pub(crate) fn request(&self, plugin: &Plugin) -> Request {
        Request {
            controller: plugin.manifest().controllers[0].name.as_str().into(),
            key: self.key(),
            uid: self.uid.as_deref().map(Arc::from),
            object: self.object.clone(),
            deleting: self.deleting,
            attempt: self.attempt,
            trace_id: self.trace_id.clone(),
        }
    }

    fn key(&self) -> ObjectKey {
        ObjectKey { namespace: self.namespace.map(Arc::from), name: self.name.as_str().into() }
    }

    /// The context for the call's imports.
    pub(crate) fn context(&self, plugin: &Plugin) -> Arc<CallContext> {
        let controller = &plugin.manifest().controllers[0];
        Arc::new(CallContext {
            trace_id: self.trace_id.clone(),
            triggers: self.triggers.clone(),
            config: self.config.as_str().into(),
            ..CallContext::detached(
                Principal::of_plugin(plugin.name().clone(), plugin.short_digest(), "test"),
                controller.name.as_str(),
                ObjectKind::new(&*controller.primary.api_version, &*controller.primary.kind),
                self.key(),
            )
        })
    }

    pub(crate) fn limits(&self) -> CallLimits {
        let replay = Some(Replay { now: NOW, seed: [self.seed; 32] });
        CallLimits { deadline: Some(self.deadline), instances: self.instances, replay }
    }
}

/// The text of a primary with these steps. Steps are text so that numbers keep their notation.
pub(crate) fn primary(steps: &str) -> String {
    let metadata = json!({"name": "probe", "namespace": "prod", "uid": "u-1", "generation": 1, "resourceVersion": "5"});
    format!(
        r#"{{"apiVersion":"conformance.windlass.dev/v1","kind":"Conformance","metadata":{metadata},"spec":{{"steps":{steps}}}}}"#
    )
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    /// The requests that the call made, in order, without the report.
    pub(crate) asked: Vec<Value>,
    /// The write that created the report.
    pub(crate) report: Option<Value>,
    pub(crate) lines: Vec<Value>,
    pub(crate) ended: Value,
}

impl Seen {
    /// The results that the probe has reported. Null if it reported none.
    pub(crate) fn results(&self) -> Value {
        self.report.as_ref().map_or(Value::Null, |report| report["object"]["results"].clone())
    }

    /// The value of the first result.
    pub(crate) fn first(&self) -> Value {
        self.results()[0]["ok"].clone()
    }

    /// Everything about the outcome, to compare two calls.
    pub(crate) fn all(&self) -> Value {
        json!({"ended": self.ended, "asked": self.asked, "report": self.report, "lines": self.lines})
    }
}
