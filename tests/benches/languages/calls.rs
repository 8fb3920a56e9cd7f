//! Calls of a plugin in the sandbox, with all limits and accounting.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::call::ports::Ports;
use windlass_core::life::instances::Instances;
use windlass_core::object::ObjectKey;
use windlass_core::queue::outcome::CallResult;
use windlass_wasm::{CallLimits, Plugin};

use crate::support::ports::{FakePorts, quiet};
use crate::support::{call_of, call_with};

/// A WebApp without children.
pub(crate) const WEBAPP: &str = r#"{
    "apiVersion": "apps.kubedojo.io/v1beta1", "kind": "WebApp",
    "metadata": {"name": "shop", "namespace": "prod", "uid": "u-1", "generation": 1, "resourceVersion": "1"},
    "spec": {"image": "nginx", "replicas": 2, "port": 8080}
}"#;

/// The guest's processor time for a call about a deleted object, in which the probe does nothing.
pub(crate) async fn nothing(plugin: &Arc<Plugin>, instances: Instances, count: u32) -> anyhow::Result<Duration> {
    each(plugin, &CallInput::default(), &quiet(), instances, count).await
}

/// The guest's processor time for a call about a new WebApp: two children, two events and a status.
pub(crate) async fn webapp(plugin: &Arc<Plugin>, instances: Instances, count: u32) -> anyhow::Result<Duration> {
    each(plugin, &CallInput::about(WEBAPP), &quiet(), instances, count).await
}

/// The guest's processor time for the work of the prototype: it reads a WebApp, and applies a Deployment.
pub(crate) async fn as_the_prototype(
    plugin: &Arc<Plugin>,
    instances: Instances,
    count: u32,
) -> anyhow::Result<Duration> {
    let found = FakePorts { object: Some(WEBAPP.into()), ..FakePorts::default() };
    let ports = Arc::new(found);
    let took = each(plugin, &CallInput::about(WEBAPP), &ports.ports(), instances, count).await?;
    let written = ports.written.lock().map_err(|_| anyhow::anyhow!("a call has panicked"))?;
    let calls = usize::try_from(count)? + 1;
    anyhow::ensure!(written.len() == calls, "the guest does its work: {} writes in {calls} calls", written.len());
    Ok(took)
}

/// The input of a call.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallInput {
    /// The text of the primary. `None` if it does not exist.
    object: Option<String>,
    /// The plugin's configuration; empty if there is none.
    config: String,
}

impl CallInput {
    pub(crate) fn about(object: &str) -> Self {
        Self { object: Some(object.to_owned()), config: String::new() }
    }

    pub(crate) fn with_config(self, config: String) -> Self {
        Self { config, ..self }
    }
}

/// The guest's mean processor time of `count` calls.
pub(crate) async fn each(
    plugin: &Arc<Plugin>,
    input: &CallInput,
    ports: &Ports,
    instances: Instances,
    count: u32,
) -> anyhow::Result<Duration> {
    let (called, ports, input) = (plugin.clone(), ports.clone(), input.clone());
    let calls = async move {
        let limits = CallLimits { instances, ..CallLimits::default() };
        let mut cpu = Duration::ZERO;
        // The first call of a reused instance creates the instance, so it does not count.
        for number in 0..=count {
            let mut call = call_of(&called, &ObjectKey::namespaced("prod", "shop"));
            if !input.config.is_empty() {
                Arc::get_mut(&mut call).expect("nobody else has it yet").config = input.config.as_str().into();
            }
            let ended = call_with(&called, &ports, call, input.object.as_deref(), limits.clone()).await;
            let is_good = matches!(ended.result, CallResult::Done | CallResult::RequeueAfter(_));
            anyhow::ensure!(is_good, "{:?}", ended.result);
            if number > 0 {
                cpu += ended.cpu;
            }
        }
        Ok(cpu / count)
    };
    tokio::spawn(calls).await?
}
