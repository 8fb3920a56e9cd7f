//! Counts the connections that the host's client makes to a real API server.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context as _;
use futures::future::try_join_all;
use futures::{AsyncBufRead, AsyncBufReadExt as _};
use http::Request;
use kube::Client;
use kube::config::Kubeconfig;
use serde_json::{Value, json};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use windlass_kube::{ConnectOptions, Connection, client};
use windlass_tests::cluster::{self, Cluster};
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::CONDITION_TIMEOUT;

/// A connection to the API server of a kubeconfig, through a proxy that counts connections.
struct Counted {
    connection: Connection,
    connections: Arc<AtomicUsize>,
    _directory: tempfile::TempDir,
}

impl Counted {
    async fn connect(kubeconfig: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(kubeconfig)?;
        let server = Kubeconfig::from_yaml(&text)?.clusters.into_iter().find_map(|named| named.cluster?.server);
        let server = server.context("a server")?;
        let to = server.strip_prefix("https://").context("https")?.trim_end_matches('/').parse()?;
        let connections = Arc::<AtomicUsize>::default();
        let port = forward(to, Arc::clone(&connections)).await?;
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("kubeconfig");
        std::fs::write(&path, text.replace(&server, &format!("https://{port}")))?;
        let options = ConnectOptions { kubeconfig: Some(path), ..ConnectOptions::default() };
        let connection = client::connect(&options).await?;
        Ok(Self { connection, connections, _directory: directory })
    }

    fn client(&self) -> &Client {
        &self.connection.client
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

async fn forward(to: SocketAddr, connections: Arc<AtomicUsize>) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((mut from, _)) = listener.accept().await {
            connections.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(async move {
                let mut to = TcpStream::connect(to).await?;
                copy_bidirectional(&mut from, &mut to).await
            });
        }
    });
    Ok(address)
}

/// Opens watches with distinct selectors at once.
async fn watches(
    client: &Client,
    namespace: &str,
    numbers: std::ops::Range<usize>,
) -> anyhow::Result<Vec<impl AsyncBufRead + Unpin + use<>>> {
    let begun = try_join_all(numbers.map(|number| async move {
        let uri = format!("/api/v1/namespaces/{namespace}/configmaps?watch=true&labelSelector=number%3D{number}");
        anyhow::Ok(Box::pin(client.request_stream(Request::get(uri).body(Vec::new())?).await?))
    }));
    timeout(CONDITION_TIMEOUT, begun).await.context("watches wait for something")?
}

async fn version(client: &Client) -> anyhow::Result<String> {
    let answer = client.request_text(Request::get("/version").body(Vec::new())?);
    Ok(timeout(CONDITION_TIMEOUT, answer).await.context("a request waits for something")??)
}

#[tokio::test]
async fn hundreds_of_watches_share_a_handful_of_connections() -> anyhow::Result<()> {
    let server = Server::start(Kind::Real).await?;
    let namespace = server.objects().namespace();
    let counted = Counted::connect(server.kubeconfig()).await?;
    let mut open = watches(counted.client(), namespace, 0..200).await?;
    version(counted.client()).await?;
    let connections = counted.connections();
    assert!((2..=8).contains(&connections), "{connections} connections for 200 watches");

    // Several times the number of streams that the server allows on a connection.
    open.extend(watches(counted.client(), namespace, 200..600).await?);
    version(counted.client()).await?;
    let connections = counted.connections();
    assert!(connections <= 12, "{connections} connections for 600 watches");

    let last = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "last", "labels": {"number": "599"}},
    });
    server.objects().apply(&last).await?;
    let mut line = String::new();
    timeout(CONDITION_TIMEOUT, open.last_mut().context("a watch")?.read_line(&mut line)).await??;
    let event: Value = serde_json::from_str(&line)?;
    assert_eq!(event["object"]["metadata"]["name"], "last");
    Ok(())
}

#[tokio::test]
async fn a_server_without_http2_is_served_in_http1() -> anyhow::Result<()> {
    let start = || cluster::start(&["--apiserver-args", "--disable-http2-serving"]);
    let cluster: Cluster = tokio::task::spawn_blocking(start).await??;
    let counted = Counted::connect(cluster.kubeconfig()).await?;
    assert!(version(counted.client()).await?.contains("gitVersion"));
    let open = watches(counted.client(), "default", 0..3).await?;
    assert!(version(counted.client()).await?.contains("gitVersion"));
    let connections = counted.connections();
    assert!(connections >= open.len(), "{connections} connections");
    assert!(counted.connection.reachability.is_reachable(), "the change of protocol is no outage");
    Ok(())
}
