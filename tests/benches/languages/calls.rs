//! Calls of a plugin by the sandbox, with all limits and accounting on.

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

/// The guest's processor time of a call about an object that is gone: the probe has nothing to do.
pub(crate) async fn nothing(plugin: &Arc<Plugin>, instances: Instances, count: u32) -> anyhow::Result<Duration> {
    each(plugin, &Asked::default(), &quiet(), instances, count).await
}

/// The same of a call about a new WebApp: two children, two events and a status.
pub(crate) async fn webapp(plugin: &Arc<Plugin>, instances: Instances, count: u32) -> anyhow::Result<Duration> {
    each(plugin, &Asked::about(WEBAPP), &quiet(), instances, count).await
}

/// The same of what the prototype does: a WebApp is read, and a Deployment is applied.
pub(crate) async fn as_the_prototype(
    plugin: &Arc<Plugin>,
    instances: Instances,
    count: u32,
) -> anyhow::Result<Duration> {
    let found = FakePorts { object: Some(WEBAPP.into()), ..FakePorts::default() };
    let ports = Arc::new(found);
    let took = each(plugin, &Asked::about(WEBAPP), &ports.ports(), instances, count).await?;
    let written = ports.written.lock().map_err(|_| anyhow::anyhow!("a call has panicked"))?;
    let calls = usize::try_from(count)? + 1;
    anyhow::ensure!(written.len() == calls, "the guest does its work: {} writes in {calls} calls", written.len());
    Ok(took)
}

/// The input of a call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    /// The primary's text. None: it is gone.
    object: Option<String>,
    /// The plugin's configuration. Empty: it has none.
    config: String,
}

impl Asked {
    pub(crate) fn about(object: &str) -> Self {
        Self { object: Some(object.to_owned()), config: String::new() }
    }

    pub(crate) fn with_config(self, config: String) -> Self {
        Self { config, ..self }
    }
}

/// The mean of the guest's processor time of `count` calls.
pub(crate) async fn each(
    plugin: &Arc<Plugin>,
    asked: &Asked,
    ports: &Ports,
    instances: Instances,
    count: u32,
) -> anyhow::Result<Duration> {
    let (called, ports, asked) = (plugin.clone(), ports.clone(), asked.clone());
    let calls = async move {
        let limits = CallLimits { instances, ..CallLimits::default() };
        let mut cpu = Duration::ZERO;
        // The first of a reused instance makes it.
        for number in 0..=count {
            let mut call = call_of(&called, &ObjectKey::namespaced("prod", "shop"));
            if !asked.config.is_empty() {
                Arc::get_mut(&mut call).expect("nobody else has it yet").config = asked.config.as_str().into();
            }
            let ended = call_with(&called, &ports, call, asked.object.as_deref(), limits.clone()).await;
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
