//! `windlass run --record` and `windlass replay`: a recording is made beside a server, and needs none later.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, ensure};
use serde_json::Value;
use tokio::process::Command;
use windlass_tests::host::Host;
use windlass_tests::server::{Kind, Server};
use windlass_tests::{admin, busy, objects, paths, story};

/// Runs `windlass replay`, which finds no cluster. Answers the exit code, what it prints, and what it says on standard error.
async fn replay<S: AsRef<OsStr>>(arguments: &[S]) -> anyhow::Result<(i32, String, String)> {
    let _turn = busy::turn().await?;
    let mut command = Command::new(paths::windlass()?);
    command.arg("replay").args(arguments).env("WINDLASS_CACHE_DIR", paths::cache()?).env("KUBECONFIG", "/nowhere");
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((output.status.code().context("it was killed")?, text(&output.stdout), text(&output.stderr)))
}

/// Records what the plugin at `plugin` does about the example.
async fn recorded(plugin: &Path, recordings: &Path) -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    server.install_webapp().await?;
    let directory = plugin.parent().context("it is in a directory")?;
    let recordings = recordings.display().to_string();
    let more = ["--grants=manifest", "--admin-address", "127.0.0.1:0", "--record", &recordings];
    let host = Host::run_with(server.kubeconfig(), server.objects().namespace(), directory, &more)?;
    host.says("controller started").await?;
    for document in objects::documents(&paths::example("webapp.yaml"))? {
        server.objects().apply(&document).await?;
    }
    let address = admin::address(&host).await?;
    admin::at_rest(address).await?;
    let metrics = admin::get(address, "/metrics").await?.1;
    ensure!(metrics.contains("windlass_calls_recorded_total{plugin=\"webapp\",result=\"dropped\"} 0"), "{metrics}");
    let log = host.log();
    ensure!(host.terminate().await?.success(), "{log}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_replays_without_a_server_and_tells_what_another_plugin_would_write() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let (plugin, recordings) = (folder.path().join("webapp.wasm"), folder.path().join("recordings"));
    std::fs::copy(paths::plugins()?.join("webapp.wasm"), &plugin)?;
    recorded(&plugin, &recordings).await?;

    let (code, out, errors) = replay(&[&recordings]).await?;
    ensure!(code == 0 && out.contains("the same."), "{out}{errors}");
    let (code, out, errors) = replay(&[recordings.as_os_str(), OsStr::new("--trace")]).await?;
    let deployment = format!("/{}", story::NAME);
    ensure!(code == 0 && out.contains("writes.") && out.contains(&deployment), "{out}{errors}");

    let other = folder.path().join("webapp-next.wasm");
    relabelled(&plugin, &other)?;
    let with = [recordings.as_os_str(), OsStr::new("--plugin"), other.as_os_str()];
    let (code, out, errors) = replay(&with).await?;
    let line = "~ apply apps/v1 Deployment ";
    ensure!(code == 1 && out.contains(line) && out.contains("managed-bx"), "{out}{errors}");
    let (code, out, errors) = replay(&[&with[..], &[OsStr::new("--output=json")]].concat()).await?;
    let report: Value = serde_json::from_str(&out).with_context(|| errors)?;
    ensure!(code == 1 && report["notSame"].as_u64() > Some(0), "{report:#}");

    // The recorded file is no more what it was.
    std::fs::copy(&other, &plugin)?;
    let (code, _, errors) = replay(&[&recordings]).await?;
    ensure!(code == 2 && errors.contains("--plugin"), "{code} {errors}");
    Ok(())
}

/// Writes to `to` the plugin of `from` with another label on what it makes.
fn relabelled(from: &Path, to: &Path) -> anyhow::Result<()> {
    const LABEL: &[u8] = b"app.kubernetes.io/managed-by";
    let mut bytes = std::fs::read(from)?;
    let places: Vec<_> = (0..bytes.len()).filter(|&place| bytes[place..].starts_with(LABEL)).collect();
    ensure!(!places.is_empty(), "the plugin has no such label");
    for place in places {
        bytes[place + LABEL.len() - 1] = b'x';
    }
    Ok(std::fs::write(to, bytes)?)
}
