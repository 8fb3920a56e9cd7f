//! Whether the API server answers, over real connections.

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
    client::check(&connection).await.expect_err("nobody answers");
    assert!(!connection.reachability.is_reachable(), "one refused connection is enough");
    let outage = *connection.reachability.watch().borrow();
    assert!(outage.number == before + 1 && outage.since.is_some(), "{outage:?}");

    let _server = ApiServer::start(Config { address, ..Config::default() }).await.expect("the same port");
    // Nothing is sent here: the prober finds it.
    connection.reachability.reachable().await;
    assert!(connection.reachability.watch().borrow().since.is_none());
    client::check(&connection).await.expect("it answers");
}
