//! Whether the API server answers, over real connections.

use std::time::Duration;

use tokio::time::timeout;
use windlass_apiserver::{ApiServer, Config};
use windlass_kube::client;

use crate::writer::kubeconfig;

#[tokio::test]
async fn a_server_that_stops_and_returns_is_noticed_both_times() {
    let server = ApiServer::start(Config::default()).await.expect("a server");
    let address = server.address();
    let (_directory, options) = kubeconfig(&server.url());
    let connection = client::connect(&options).await.expect("a client");
    client::check(&connection).await.expect("it answers");
    assert!(connection.reachability.is_reachable());
    let before = connection.reachability.watch().borrow().number;

    server.shutdown().await;
    // One refused connection is enough, but the first request may still go to the old one.
    let mut asked = 0;
    while connection.reachability.is_reachable() {
        client::check(&connection).await.expect_err("nobody answers");
        asked += 1;
    }
    assert!(asked <= 2, "{asked}");
    let outage = *connection.reachability.watch().borrow();
    assert!(outage.number == before + 1 && outage.since.is_some(), "{outage:?}");

    let _server = ApiServer::start(Config { address, ..Config::default() }).await.expect("the same port");
    // Nothing is sent here: the prober finds it.
    timeout(Duration::from_secs(30), connection.reachability.reachable()).await.expect("it is found");
    assert!(connection.reachability.watch().borrow().since.is_none());
    client::check(&connection).await.expect("it answers");
}
