//! The admin address with token authentication: `windlass status` against either API server.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, ensure};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use windlass_tests::paths;
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::until;

use crate::admin::watched;
use crate::webapp::plugin_directory;

/// A client, and the arguments that it passes.
struct Asker<'a> {
    address: SocketAddr,
    token: &'a Path,
    trust: &'a [&'a str],
}

impl Asker<'_> {
    /// The exit code and the output of `windlass status`.
    async fn status(&self, scheme: &str) -> anyhow::Result<(Option<i32>, String)> {
        self.windlass(&["status"], scheme).await
    }

    /// The exit code and the output of `windlass WORDS`.
    async fn windlass(&self, words: &[&str], scheme: &str) -> anyhow::Result<(Option<i32>, String)> {
        let mut windlass = tokio::process::Command::new(paths::windlass()?);
        windlass.args(words).arg("--admin-address").arg(format!("{scheme}{}", self.address));
        windlass.arg("--token-file").arg(self.token).args(self.trust);
        let output = windlass.output().await?;
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        Ok((output.status.code(), said))
    }
}

/// Creates a service account, and writes a token for it to `file`.
pub(crate) async fn account(server: &Server, name: &str, file: &Path) -> anyhow::Result<()> {
    let objects = server.objects();
    objects.apply(&json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})).await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(objects.client().clone(), objects.namespace());
    let asked = accounts.create_token_request(name, &PostParams::default(), &TokenRequest::default()).await?;
    Ok(std::fs::write(file, asked.status.and_then(|it| it.token).context("there is a token")?)?)
}

/// Creates a cluster role that only lets `account` get the plugins, or resume them with the verb `post`.
fn may(server: &Server, verb: &str, account: &str) -> [Value; 2] {
    let namespace = server.objects().namespace();
    let name = format!("{namespace}-{account}-{verb}");
    let api = "rbac.authorization.k8s.io";
    [
        json!({
            "apiVersion": format!("{api}/v1"), "kind": "ClusterRole", "metadata": {"name": name},
            "rules": [{"nonResourceURLs": ["/plugins", "/plugins/*"], "verbs": [verb]}],
        }),
        json!({
            "apiVersion": format!("{api}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        }),
    ]
}

async fn a_token_shows_what_its_account_may_see(server: Server) -> anyhow::Result<()> {
    server.install_webapp().await?;
    let (plugins, files) = (plugin_directory()?, tempfile::tempdir()?);
    let file = |name: &str| files.path().join(name);
    for name in ["viewer", "stranger"] {
        account(&server, name, &file(name)).await?;
    }
    let (host, address) = watched(&server, plugins.path(), &["--admin-auth=token"]).await?;
    host.says("controller started").await?;
    let (viewer, stranger, wrong) = (file("viewer"), file("stranger"), file("wrong"));
    std::fs::write(&wrong, "no.such.token\n")?;
    let asks = |token| Asker { address, token, trust: &["--insecure-skip-tls-verify"] };

    let (code, said) = asks(&viewer).status("https://").await?;
    ensure!(
        code == Some(2) && said.contains("403") && said.contains(":viewer may not get /plugins"),
        "{code:?}: {said}"
    );
    for object in may(&server, "get", "viewer") {
        server.objects().apply(&object).await?;
    }
    // The host caches the denial for ten seconds.
    until("the viewer sees the plugins", || async {
        let (code, said) = asks(&viewer).status("https://").await?;
        ensure!(code == Some(0) && said.contains("webapp "), "{code:?}: {said}");
        Ok(())
    })
    .await?;
    let (code, said) = asks(&stranger).status("https://").await?;
    ensure!(code == Some(2) && said.contains(":stranger may not get /plugins"), "{code:?}: {said}");
    // A user who may get plugins may not resume them until a role allows it.
    let (code, said) = asks(&viewer).windlass(&["resume", "webapp"], "https://").await?;
    ensure!(code == Some(2) && said.contains(":viewer may not post /plugins/webapp/resume"), "{code:?}: {said}");
    for object in may(&server, "post", "viewer") {
        server.objects().apply(&object).await?;
    }
    until("the viewer may resume", || async {
        let (code, said) = asks(&viewer).windlass(&["resume", "webapp"], "https://").await?;
        ensure!(code == Some(1) && said.contains("nothing of webapp was resumed: it runs"), "{code:?}: {said}");
        Ok(())
    })
    .await?;
    let (code, said) = asks(&wrong).status("https://").await?;
    ensure!(code == Some(2) && said.contains("401") && said.contains("--token-file"), "{code:?}: {said}");
    // Both the client and the host report it if one of them expects TLS and the other does not.
    let (code, said) = asks(&viewer).status("http://").await?;
    ensure!(code == Some(2) && said.contains("400") && said.contains("https://"), "{code:?}: {said}");
    let trusting = Asker { address, token: &viewer, trust: &[] };
    let (code, said) = trusting.status("https://").await?;
    ensure!(code == Some(2) && said.contains("--insecure-skip-tls-verify"), "{code:?}: {said}");
    assert!(host.terminate().await?.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_shows_what_its_account_may_see_on_the_embedded_server() -> anyhow::Result<()> {
    a_token_shows_what_its_account_may_see(Server::with_roles().await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_shows_what_its_account_may_see_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    a_token_shows_what_its_account_may_see(Server::start(Kind::Real).await?).await
}
