//! Counts, and faults of the whole server or network.

use bytes::Bytes;
use futures::FutureExt as _;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use windlass_proxy::{Connections, Cut, Fault, Match, RequestCount, Verb};

use crate::support::{CONFIG_MAPS, Setup, client, create, soon};

#[tokio::test]
async fn requests_are_counted_by_verb_and_resource() {
    let it = Setup::start(1).await;
    for name in ["a", "b"] {
        it.create(name).await.expect("an answer");
    }
    it.get(&format!("{CONFIG_MAPS}/a")).await.expect("an answer");
    it.get("/apis/apps/v1/namespaces/default/deployments/x/scale").await.expect("an answer");
    let count = |verb, resource: &str, count| RequestCount { verb, resource: resource.to_owned(), count };
    let expected = [
        count(Verb::Get, "configmaps", 1),
        count(Verb::Get, "deployments.apps/scale", 1),
        count(Verb::Create, "configmaps", 2),
    ];
    assert_eq!(it.proxy.requests(), expected);
    assert_eq!(it.proxy.count(&Match::writes().resource("configmaps").agent("faults")), 2);
    assert_eq!(it.proxy.count(&Match::any().name("x").resource("deployments.apps/*")), 1);
    it.proxy.reset_counts();
    assert_eq!(it.proxy.requests(), []);
    assert_eq!(it.proxy.connections().accepted, 0);
}

#[tokio::test]
async fn connections_are_counted() {
    let it = Setup::start(1).await;
    let first = it.watch().await;
    let second = it.watch().await;
    assert_eq!(it.proxy.connections(), Connections { accepted: 2, open: 2 });
    drop((first, second));
    soon(it.proxy.until(|| it.proxy.connections().open == 0)).await;
    assert_eq!(it.proxy.connections(), Connections { accepted: 2, open: 0 });
}

#[tokio::test]
async fn in_the_dark_nothing_gets_through_and_the_port_stays() {
    let it = Setup::start(1).await;
    it.create("a").await.expect("an answer");
    let mut lines = it.watch().await;
    assert_eq!(lines.names(1).await, ["a"]);
    let url = it.proxy.url();
    it.proxy.go_dark();
    lines.next().await.expect("not the proper end").expect_err("the connection is reset");
    it.create("b").await.expect_err("dark");
    create(&client(&url), "b").await.expect_err("dark for newcomers too");
    assert_eq!((it.served("create"), it.proxy.connections().open), (1, 0));
    it.proxy.come_back();
    assert_eq!((it.proxy.url(), it.create("b").await.expect("an answer").code), (url, StatusCode::CREATED));
}

#[tokio::test]
async fn in_silence_nothing_is_heard_and_nothing_ends() {
    let it = Setup::start(1).await;
    it.create("a").await.expect("an answer");
    let mut lines = it.watch().await;
    assert_eq!(lines.names(1).await, ["a"]);
    it.proxy.go_silent();
    it.create_directly(&["b"]).await;
    let mut waiting = Box::pin(it.create("c"));
    let newcomer = TcpStream::connect(it.proxy.address());
    tokio::select! {
        line = lines.next() => panic!("{line:?}"),
        answer = &mut waiting => panic!("{answer:?}"),
        // A direct request to the server takes long enough for the others to be answered, if the
        // proxy let them through.
        connected = async { it.create_directly(&["d"]).await; newcomer.await } => assert!(connected.is_ok()),
    }
    assert!((&mut waiting).now_or_never().is_none());
    assert_eq!(it.served("create"), 3);
    it.proxy.come_back();
    assert_eq!(waiting.await.expect("an answer").code, StatusCode::CREATED);
    assert_eq!(lines.names(3).await, ["b", "d", "c"]);
}

#[tokio::test]
async fn a_rule_ends_with_its_handle_unless_it_is_kept() {
    let it = Setup::start(1).await;
    drop(it.proxy.add(Fault::Reset.on(Match::any())));
    it.create("a").await.expect("no rule is in force");
    it.proxy.add(Fault::Reset.on(Match::any())).keep();
    it.create("b").await.expect_err("the rule was kept");
}

#[tokio::test]
async fn a_proxy_that_is_dropped_ends_its_connections() {
    let it = Setup::start(1).await;
    let mut lines = it.watch().await;
    drop(it.proxy);
    lines.next().await.expect("not the proper end").expect_err("the connection ends");
}

#[tokio::test]
async fn the_kubeconfig_leads_to_the_proxy() {
    let it = Setup::start(1).await;
    let read = kube::config::Kubeconfig::from_yaml(&it.proxy.kubeconfig()).expect("a kubeconfig");
    let config = kube::Config::from_custom_kubeconfig(read, &kube::config::KubeConfigOptions::default()).await;
    assert_eq!(config.expect("complete").cluster_url.to_string(), format!("{}/", it.proxy.url()));
}

async fn http2(it: &Setup) -> http2::SendRequest<Empty<Bytes>> {
    let stream = TcpStream::connect(it.proxy.address()).await.expect("the proxy listens");
    let (sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("it speaks HTTP/2");
    tokio::spawn(connection);
    sender
}

fn get(it: &Setup, path: &str) -> Request<Empty<Bytes>> {
    Request::get(format!("{}{path}", it.proxy.url())).body(Empty::new()).expect("a request")
}

#[tokio::test]
async fn many_http2_requests_share_a_connection_and_its_reset() {
    let it = Setup::start(1).await;
    it.create_directly(&["a"]).await;
    let mut sender = http2(&it).await;
    let mut watches = Vec::new();
    for _ in 0..3 {
        let response = soon(sender.send_request(get(&it, &format!("{CONFIG_MAPS}?watch=1")))).await.expect("it begins");
        let mut body = response.into_body();
        let frame = soon(body.frame()).await.expect("an event").expect("nothing breaks");
        assert!(frame.into_data().expect("data").starts_with(b"{\"type\":\"ADDED\""));
        watches.push(body);
    }
    assert_eq!(it.proxy.connections(), Connections { accepted: 1, open: 1 });
    let _rule = it.proxy.add(Fault::Cut(Cut::Reset).on(Match::watches("configmaps")).times(1));
    it.create_directly(&["b"]).await;
    for mut body in watches {
        // One or two watches may have got the event before the third broke the connection.
        while let Some(Ok(_)) = soon(body.frame()).await {}
    }
    soon(it.proxy.until(|| it.proxy.connections().open == 0 && it.proxy.watching(&Match::any()) == 0)).await;
}

#[tokio::test]
async fn over_http2_a_clean_cut_ends_one_stream_alone() {
    let it = Setup::start(1).await;
    let mut sender = http2(&it).await;
    let response = soon(sender.send_request(get(&it, &format!("{CONFIG_MAPS}?watch=1")))).await.expect("it begins");
    soon(it.proxy.until(|| it.proxy.watching(&Match::any()) == 1)).await;
    it.proxy.cut(&Match::any(), Cut::Clean);
    let rest = soon(response.into_body().collect()).await.expect("the proper end");
    assert!(rest.to_bytes().is_empty());
    let version = soon(sender.send_request(get(&it, "/version"))).await.expect("the connection lives");
    assert_eq!(version.status(), StatusCode::OK);
}
