//! A real kube-apiserver for one contender, and the counts from its metrics.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use kube::Client;
use serde_json::json;
use windlass_tests::cluster::OwnCluster;
use windlass_tests::objects::Objects;
use windlass_tests::process::Process;
use windlass_tests::{server, wait};

/// The namespace of all objects.
pub(crate) const NAMESPACE: &str = "bench";

/// Only the controllers that delete owned objects and namespaces, because all others would use the same processors. The
/// garbage collector finds the CRD soon, but does not look for new kinds each second.
const CLUSTER: &[&str] = &["--controllers", "garbage-collector,namespace", "--gc-sync-period", "5s"];

/// The resources whose requests are counted. Other requests are the server's own, such as those for leases and
/// namespaces.
const RESOURCES: [&str; 4] = ["webapps", "deployments", "services", "events"];

/// A fresh server with the CRD.
pub(crate) struct Server {
    cluster: OwnCluster,
    pub(crate) objects: Objects,
}

/// The counts of requests by `verb resource`, of answers with 409, and of bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) requests: BTreeMap<String, u64>,
    pub(crate) conflicts: u64,
    /// The bytes in the bodies of requests.
    pub(crate) request_bytes: u64,
    /// The bytes in the answers to reads, and in the events of watches, for all watchers.
    pub(crate) response_bytes: u64,
}

impl Server {
    /// Starts the server, installs the CRD, and waits until the garbage collector knows the CRD.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let cluster = OwnCluster::start(CLUSTER).await?;
        let client = server::client(cluster.running()?.kubeconfig()).await?;
        let objects = Objects::new(client, NAMESPACE);
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        objects.apply(&namespace).await?;
        server::install_webapp(&objects).await?;
        let server = Self { cluster, objects };
        wait::until("the garbage collector watches WebApps", || async {
            let text = server.metrics().await.map_err(|error| format!("{error:#}"))?;
            let is_it = |line: &str| line.contains(r#"resource="webapps""#) && line.contains(r#"verb="WATCH""#);
            let watched = text.lines().any(|it| it.starts_with("apiserver_longrunning_requests{") && is_it(it));
            // The garbage collector asks every five seconds; reading the metrics costs more than waiting.
            tokio::time::sleep(Duration::from_millis(250)).await;
            if watched { Ok(()) } else { Err("no watch".to_owned()) }
        })
        .await?;
        Ok(server)
    }

    pub(crate) fn kubeconfig(&self) -> anyhow::Result<&Path> {
        Ok(self.cluster.running()?.kubeconfig())
    }

    /// The process that runs the API server, etcd and the controllers.
    pub(crate) fn process(&self) -> anyhow::Result<Process> {
        Ok(Process(self.cluster.running()?.id()))
    }

    pub(crate) fn client(&self) -> &Client {
        self.objects.client()
    }

    pub(crate) async fn version(&self) -> anyhow::Result<String> {
        Ok(self.client().apiserver_version().await?.git_version)
    }

    /// Kills the server, because nothing in it is needed any more.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        tokio::task::spawn_blocking(move || self.cluster.stop()).await?
    }

    async fn metrics(&self) -> anyhow::Result<String> {
        let request = http::Request::get("/metrics").body(Vec::new())?;
        Ok(self.client().request_text(request).await?)
    }

    /// The number of open watches.
    pub(crate) async fn watches(&self) -> anyhow::Result<f64> {
        let text = self.metrics().await?;
        let of = |line: &str| line.starts_with("apiserver_longrunning_requests{") && line.contains(r#"verb="WATCH""#);
        let values = text.lines().filter(|line| of(line)).filter_map(|line| line.rsplit_once(' '));
        values.map(|(_, value)| value.parse::<f64>().context("a metric is a number")).sum()
    }

    /// All requests so far.
    pub(crate) async fn counts(&self) -> anyhow::Result<Counts> {
        let text = self.metrics().await?;
        let mut counts = Counts::default();
        for line in text.lines().filter(|line| line.starts_with("apiserver_")) {
            counts.note(line)?;
        }
        ensure!(!counts.requests.is_empty(), "the server counts no requests");
        Ok(counts)
    }
}

impl Counts {
    fn note(&mut self, line: &str) -> anyhow::Result<()> {
        let Some((name, rest)) = line.split_once('{') else { return Ok(()) };
        let (labels, value) = rest.rsplit_once("} ").context("a metric has a value")?;
        let label = |name: &str| {
            let (_, behind) = labels.split_once(&format!("{name}=\""))?;
            behind.split('"').next()
        };
        let resource = label("resource").unwrap_or_default();
        let is_counted = RESOURCES.contains(&resource);
        // Counts and bytes are whole numbers below 2^53.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "so they are exact")]
        let value = || Ok::<_, anyhow::Error>(value.parse::<f64>().context("a metric is a number")? as u64);
        match name {
            "apiserver_request_total" if is_counted => {
                let of = match label("subresource") {
                    None | Some("") => resource.to_owned(),
                    Some(subresource) => format!("{resource}/{subresource}"),
                };
                let verb = label("verb").unwrap_or_default();
                *self.requests.entry(format!("{verb} {of}")).or_default() += value()?;
                if label("code") == Some("409") {
                    self.conflicts += value()?;
                }
            }
            "apiserver_request_body_size_bytes_sum" if is_counted => self.request_bytes += value()?,
            "apiserver_response_sizes_sum" if is_counted => self.response_bytes += value()?,
            "apiserver_watch_events_sizes_sum" => self.response_bytes += value()?,
            _ => {}
        }
        Ok(())
    }

    /// The counts since `before`, without the benchmark's own requests, `ours`.
    pub(crate) fn since(&self, before: &Self, ours: &[(&str, u64)]) -> Self {
        let mut requests = BTreeMap::new();
        for (what, count) in &self.requests {
            let own = ours.iter().find(|(own, _)| own == what).map_or(0, |(_, count)| *count);
            let more = (count - before.requests.get(what).copied().unwrap_or_default()).saturating_sub(own);
            if more > 0 {
                requests.insert(what.clone(), more);
            }
        }
        Self {
            requests,
            conflicts: self.conflicts - before.conflicts,
            request_bytes: self.request_bytes - before.request_bytes,
            response_bytes: self.response_bytes - before.response_bytes,
        }
    }
}
