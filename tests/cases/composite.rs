//! Tests composite plugins on both servers. The tests tell the guest `composer` what to return, and check what the host
//! does with it.

mod answers;
mod children;
mod leftovers;
mod related;
mod stage;

use std::path::Path;

use windlass_tests::host::Host;
use windlass_tests::paths;
use windlass_tests::server::{Kind, Server};
use windlass_tests::story::Story;

/// Runs a story on both servers.
macro_rules! on_both_servers {
    ($($(#[$attribute:meta])* $story:ident: $embedded:ident, $real:ident;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $embedded() -> anyhow::Result<()> {
                $story(windlass_tests::server::Kind::Embedded).await
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn $real() -> anyhow::Result<()> {
                $story(windlass_tests::server::Kind::Real).await
            }
        )*
    };
}
pub(crate) use on_both_servers;
pub(crate) use stage::OWNS;

/// Runs the same story as the reconciler's, without the Events, which composers record by themselves.
async fn the_whole_story(kind: Kind) -> anyhow::Result<()> {
    let server = Server::start(kind).await?;
    let plugins = tempfile::tempdir()?;
    let name = "webapp-composite.wasm";
    std::fs::copy(paths::plugins()?.join("composite").join(name), plugins.path().join(name))?;
    let host = crate::webapp::host(&server, Path::new(plugins.path())).await?;
    let story = Story::new(server.objects());
    for told in story.whole().await? {
        println!("{kind:?}: {} ({} ms)", told.line, told.took.as_millis());
    }
    let status = Host::terminate(host).await?;
    assert!(status.success(), "SIGTERM must stop the host cleanly: {status}");
    Ok(())
}

on_both_servers! {
    the_whole_story: a_composed_webapp_lives_heals_and_goes_on_the_embedded_server,
        a_composed_webapp_lives_heals_and_goes_on_a_real_kube_apiserver;
}
