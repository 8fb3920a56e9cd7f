//! Finds the replicas of a host in a cluster as kubectl finds Pods, and queries each through the API server, for
//! commands without the address of a host.

use clap::Args;
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use windlass_core::deceptive;
use windlass_core::error::explained;
use windlass_kube::client::{self, ConnectOptions};

use crate::cli::watching::admin::{AdminFailure, ShownPlugins, document, names_what_is_not_there, no_such_plugin};
use crate::cli::watching::pod_proxy::{FoundPod, PodProxy, PodProxyError};
use crate::cli::watching::replica_views::{HostPlugins, ReplicaView, runs_at, together};

/// The label with which the chart marks the host's Pods.
const CHART_LABELS: &str = "app.kubernetes.io/name=windlass";
/// The name of the admin port of a host's Pod, as in the chart.
const PORT: &str = "admin";

/// Selects the host's Pods.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct PodArgs {
    /// The namespace of the host's Pods. Default: the context's.
    #[arg(long, short, value_name = "NAMESPACE", value_parser = crate::cli::namespace, conflicts_with = "admin_address")]
    namespace: Option<String>,
    /// The labels of the host's Pods, as kubectl takes them.
    #[arg(long, short = 'l', value_name = "LABELS", default_value = CHART_LABELS, conflicts_with = "admin_address")]
    selector: String,
    /// The kubeconfig file. Default: KUBECONFIG, then ~/.kube/config, then the Pod's service account.
    #[arg(long, value_name = "FILE", conflicts_with = "admin_address")]
    kubeconfig: Option<std::path::PathBuf>,
    /// The context of the kubeconfig.
    #[arg(long, value_name = "NAME", conflicts_with = "admin_address")]
    context: Option<String>,
    /// The connection, made once.
    #[arg(skip)]
    proxy: OnceCell<PodProxy>,
}

/// A replica that runs a plugin.
pub(crate) struct AskedPod<'a> {
    proxy: &'a PodProxy,
    pod: FoundPod,
}

impl PodArgs {
    /// The plugins of all replicas, each as shown by the replica that has its lease.
    pub(crate) async fn plugins(&self) -> Result<ShownPlugins, AdminFailure> {
        let views = self.views().await?;
        let replicas = views.iter().map(|view| json!({"pod": view.pod.name, "problem": view.plugins.as_ref().err()}));
        let replicas = Some(replicas.collect());
        let is_complete = views.iter().all(ReplicaView::is_as_expected);
        let is_starting = views.iter().any(ReplicaView::is_starting);
        Ok(ShownPlugins { plugins: together(views), replicas, is_complete, is_starting })
    }

    /// The replica that runs `plugin`.
    pub(crate) async fn pod_of(&self, plugin: &str) -> Result<AskedPod<'_>, AdminFailure> {
        let proxy = self.proxy().await?;
        let views = self.views().await?;
        let runs = runs_at(&views, plugin).cloned();
        runs.map(|pod| AskedPod { proxy, pod }).ok_or_else(|| no_such_plugin(plugin, &together(views)))
    }

    async fn proxy(&self) -> Result<&PodProxy, AdminFailure> {
        let connect = || async {
            let options = ConnectOptions {
                kubeconfig: self.kubeconfig.clone(),
                context: self.context.clone(),
                namespace: self.namespace.clone(),
            };
            let context = "no --admin-address is given, so the host is looked for in a cluster";
            let connection = client::connect(&options).await.map_err(|error| anyhow::anyhow!(error).context(context));
            Ok(PodProxy::new(connection.map_err(AdminFailure::Unknown)?))
        };
        self.proxy.get_or_try_init(connect).await
    }

    /// The plugins of each replica, by the names of their Pods. At least one replica has answered. Replicas that have
    /// not answered are reported on standard error.
    async fn views(&self) -> Result<Vec<ReplicaView>, AdminFailure> {
        let proxy = self.proxy().await?;
        let unknown = |error| AdminFailure::Unknown(anyhow::Error::new(error).context("cannot ask the host's Pods"));
        let found = proxy.find(&self.selector, PORT).await.map_err(unknown)?;
        if found.pods.is_empty() {
            return Err(AdminFailure::Unknown(anyhow::anyhow!(self.nothing_found(proxy))));
        }
        if found.has_more {
            eprintln!("windlass: more Pods have these labels than this command queries (-l selects fewer)");
        }
        let mut answers = proxy.ask_all(&found.pods, "/plugins").await;
        let is_forbidden = |answer: &Result<_, _>| matches!(answer, Err(PodProxyError::Forbidden { .. }));
        // If it is the same error for all Pods, it is printed once.
        if answers.iter().all(Result::is_err)
            && let Some(at) = answers.iter().position(is_forbidden)
            && let Err(error) = answers.swap_remove(at)
        {
            return Err(unknown(error));
        }
        let views = found.pods.into_iter().zip(answers).map(|(pod, answer)| {
            let plugins = answer.map_err(|error| silence(&error)).and_then(|text| plugins_of(&text));
            ReplicaView { pod, plugins }
        });
        let views: Vec<_> = views.collect();
        let lines: Vec<_> = views.iter().filter_map(ReplicaView::silence).collect();
        if lines.len() == views.len() {
            let advice = "no replica of the host answers (--admin-address queries one directly, for example through kubectl port-forward)";
            return Err(AdminFailure::Unknown(anyhow::anyhow!(lines.join("; ")).context(advice)));
        }
        for line in lines {
            eprintln!("windlass: {}", deceptive::escape(&line));
        }
        Ok(views)
    }

    fn nothing_found(&self, proxy: &PodProxy) -> String {
        format!(
            "there is no Pod with the labels {} in the namespace {} ({}): name the host's namespace with -n, its labels with -l, \
             or its own address with --admin-address",
            self.selector,
            proxy.namespace(),
            proxy.source()
        )
    }
}

/// Why a replica shows nothing, in words.
fn silence(error: &PodProxyError) -> String {
    let why = explained(error);
    match error {
        PodProxyError::Answered { code: 401, .. } => format!(
            "{why}. It requires a token, which the API server does not pass on: query it with --admin-address, through \
             kubectl port-forward"
        ),
        PodProxyError::Request(_) => {
            format!("{why}. Does it run, and does its NetworkPolicy let the API server in (networkPolicy.adminFrom)?")
        }
        _ => why,
    }
}

fn plugins_of(text: &str) -> Result<HostPlugins, String> {
    let none = || "it has no list of plugins: is it a host, and of this version?".to_owned();
    HostPlugins::of(serde_json::from_str(text).unwrap_or_default()).ok_or_else(none)
}

impl AskedPod<'_> {
    /// The name of its Pod.
    pub(crate) fn name(&self) -> &str {
        &self.pod.name
    }

    /// The namespace of its Pod.
    pub(crate) fn namespace(&self) -> &str {
        self.proxy.namespace()
    }

    /// The document at `path`.
    pub(crate) async fn look(&self, path: &str) -> Result<Value, AdminFailure> {
        let failed = |why: String| {
            let what = format!("cannot ask the replica {}", self.pod.name);
            AdminFailure::Unknown(anyhow::anyhow!(why).context(what))
        };
        match self.proxy.ask(&self.pod, path).await {
            Ok(text) => document(&text).map_err(|error| failed(explained(&*error))),
            Err(PodProxyError::Answered { code: 404, body }) if names_what_is_not_there(&body) => {
                Err(AdminFailure::NotFound(body.trim().to_owned()))
            }
            Err(error) => Err(failed(silence(&error))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_malformed_list_of_plugins_is_refused() {
        let shown = |is_starting| Ok(HostPlugins { plugins: vec![json!({"name": "a"})], is_starting });
        assert_eq!(plugins_of(r#"{"plugins": [{"name": "a"}]}"#), shown(false), "of a host of an earlier version");
        assert_eq!(plugins_of(r#"{"starting": true, "plugins": [{"name": "a"}]}"#), shown(true));
        for other in ["", "ok", "[]", "7", "{}", r#"{"plugins": 7}"#, r#"{"plugins": [7]}"#] {
            assert!(plugins_of(other).is_err(), "{other}");
        }
    }
}
