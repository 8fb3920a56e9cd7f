//! Tests how the host notices, over real connections, whether the API server answers.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::time::timeout;
use windlass_apiserver::{ApiServer, Config};
use windlass_kube::client;

use crate::writer::kubeconfig;

/// The port is not one that the system assigns, so that no other program gets it while the server is stopped.
async fn server_at_an_unassigned_port() -> ApiServer {
    for at in 0..1_000 {
        let port = u16::try_from(20_000 + (std::process::id() * 10 + at) % 10_000).expect("below 30,000");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if let Ok(server) = ApiServer::start(Config { address, ..Config::default() }).await {
            return server;
        }
    }
    panic!("a thousand ports are taken");
}

#[tokio::test]
async fn a_server_that_stops_and_returns_is_noticed_both_times() {
    let server = server_at_an_unassigned_port().await;
    let address = server.address();
    let (_directory, options) = kubeconfig(&server.url());
    let connection = client::connect(&options).await.expect("a client");
    client::check(&connection).await.expect("it answers");
    assert!(connection.reachability.is_reachable());
    let before = connection.reachability.watch().borrow().number;

    server.shutdown().await;
    // One refused connection is enough, but the first request may still use the old connection.
    let mut asked = 0;
    while connection.reachability.is_reachable() {
        client::check(&connection).await.expect_err("nobody answers");
        asked += 1;
    }
    assert!(asked <= 2, "{asked}");
    let outage = *connection.reachability.watch().borrow();
    assert!(outage.number == before + 1 && outage.since.is_some(), "{outage:?}");

    let _server = ApiServer::start(Config { address, ..Config::default() }).await.expect("the same port");
    // No request is sent here; the prober notices the server.
    timeout(Duration::from_secs(30), connection.reachability.reachable()).await.expect("it is found");
    assert!(connection.reachability.watch().borrow().since.is_none());
    client::check(&connection).await.expect("it answers");
}
