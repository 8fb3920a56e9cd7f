//! The host behind a proxy that cuts its watches, on both servers.

use windlass_proxy::{Cut, Fault, Match, Verb};
use windlass_tests::host::Host;
use windlass_tests::proxied::Proxied;
use windlass_tests::server::{Kind, Server};
use windlass_tests::story::Story;
use windlass_tests::wait::until;

use crate::webapp::plugin_directory;

/// The resources that the plugin watches.
const WATCHED: [&str; 3] = ["webapps", "deployments", "services"];

async fn a_webapp_with_its_watches_cut(kind: Kind) -> anyhow::Result<()> {
    let server = Server::start(kind).await?;
    server.install_webapp().await?;
    let proxy = Proxied::start(&server, 4).await?;
    let plugins = plugin_directory()?;
    let host = Host::run(proxy.kubeconfig(), server.objects().namespace(), plugins.path())?;
    host.says("controller started").await?;
    for resource in WATCHED {
        until("each informer watches", || async {
            let watching = proxy.watching(&Match::watches(resource));
            if watching == 1 { Ok(()) } else { Err((resource, watching)) }
        })
        .await?;
    }

    // Cut the watch of each kind in the middle of an event, and the watch of Deployments once more, by a reset.
    let rules = WATCHED.map(|resource| {
        let watches = Match::watches(resource).agent("windlass/");
        proxy.add(Fault::Cut(Cut::MidLine).on(watches).times(1))
    });
    let reset = proxy.add(Fault::Cut(Cut::Reset).on(Match::watches("deployments")).skip(1).times(1));
    let story = Story::new(server.objects());
    story.create().await?;
    story.run().await?;
    for (resource, rule) in WATCHED.iter().chain(&["deployments"]).zip(rules.iter().chain([&reset])) {
        until("the watch is cut", || async { if rule.fired() == 1 { Ok(()) } else { Err(resource) } }).await?;
    }
    // Only a resumed watch can show the new replicas.
    story.scale().await?;

    for resource in WATCHED {
        let lists = proxy.count(&Match::verb(Verb::List).resource(resource));
        assert_eq!(lists, 1, "{resource} must be listed once for one informer: {:?}", proxy.requests());
    }
    let watches = proxy.count(&Match::watches("deployments"));
    assert!(watches >= 3, "a watch that was cut twice was begun {watches} times");
    println!("{kind:?}: {:?}, {:?}", proxy.connections(), proxy.requests());
    let status = host.terminate().await?;
    assert!(status.success(), "SIGTERM must stop the host cleanly: {status}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webapp_runs_though_its_watches_are_cut_on_the_embedded_server() -> anyhow::Result<()> {
    a_webapp_with_its_watches_cut(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webapp_runs_though_its_watches_are_cut_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    a_webapp_with_its_watches_cut(Kind::Real).await
}
