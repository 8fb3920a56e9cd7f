//! Tests `windlass run --record` and `windlass replay`. Recording needs a server, replaying does not.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tokio::process::Command;
use windlass_tests::host::Host;
use windlass_tests::server::{Kind, Server};
use windlass_tests::{admin, busy, objects, paths, story};

async fn replay<S: AsRef<OsStr>>(arguments: &[S]) -> anyhow::Result<(i32, String, String)> {
    windlass("replay", arguments).await
}

/// Runs a command without access to a cluster. Returns the exit code, standard output and standard error.
async fn windlass<S: AsRef<OsStr>>(command: &str, arguments: &[S]) -> anyhow::Result<(i32, String, String)> {
    let _turn = busy::turn().await?;
    let name = command;
    let mut command = Command::new(paths::windlass()?);
    command.arg(name).args(arguments).env("WINDLASS_CACHE_DIR", paths::cache()?).env("KUBECONFIG", "/nowhere");
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((output.status.code().context("it was killed")?, text(&output.stdout), text(&output.stderr)))
}

/// Records the plugin at `plugin` while it reconciles the example.
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
async fn a_recording_replays_offline_and_shows_what_another_plugin_would_write() -> anyhow::Result<()> {
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

    // The file at the recorded path has changed.
    std::fs::copy(&other, &plugin)?;
    let (code, _, errors) = replay(&[&recordings]).await?;
    ensure!(code == 2 && errors.contains("--plugin"), "{code} {errors}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_starts_from_a_recording() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let [plugin, recordings, other] =
        ["webapp.wasm", "recordings", "chameleon.wasm"].map(|name| folder.path().join(name));
    std::fs::copy(paths::plugins()?.join("webapp.wasm"), &plugin)?;
    recorded(&plugin, &recordings).await?;

    std::fs::copy(paths::guest("chameleon")?, &other)?;
    let definition = paths::example("crd.yaml");
    let with = |plugin: &Path| {
        let flags = ["--load", "--from-recording", "--runs", "--output"].map(OsStr::new);
        let values = [definition.as_os_str(), recordings.as_os_str(), OsStr::new("4"), OsStr::new("json")];
        let given = flags.into_iter().zip(values).flat_map(|(flag, value)| [flag, value]);
        [plugin.as_os_str()].into_iter().chain(given).map(OsStr::to_owned).collect::<Vec<_>>()
    };
    let (code, out, errors) = windlass("check", &with(&plugin)).await?;
    ensure!(code == 0 && errors.contains("1 of 1 recorded objects become scenarios"), "{code} {out}{errors}");
    let report: Value = serde_json::from_str(&out)?;
    let scenario = report[0]["scenario"].as_str().context("it has a name")?;
    ensure!(scenario.starts_with("webapp-") && scenario.ends_with(story::NAME), "{report:#}");
    ensure!(report[0]["calls"].as_u64() > Some(3) && report[0]["findings"] == json!([]), "{report:#}");

    let (code, _, errors) = windlass("check", &with(&other)).await?;
    ensure!(code == 2 && errors.contains("the recording has no calls of the plugin chameleon"), "{code} {errors}");
    Ok(())
}

/// A recording of one call of the guest `buggy`, with an object of this size.
fn recording(size: &Value) -> String {
    let metadata = json!({"name": "shop", "namespace": "prod"});
    let object = json!({
        "apiVersion": "tests.windlass.dev/v1", "kind": "Buggy", "metadata": metadata, "spec": {"bug": "", "size": size},
    });
    let header =
        json!({"format": "windlass.dev/recording/v1", "plugin": "buggy", "host": "0", "redacted": ["/spec/size"]});
    let call = json!({
        "component": {"plugin": "buggy", "digest": "0", "interface": "0.2.0", "file": "buggy.wasm"},
        "export": "reconcile", "began": "2026-11-26T02:00:00Z",
        "request": {
            "controller": "buggy", "apiVersion": "tests.windlass.dev/v1", "kind": "Buggy", "namespace": "prod",
            "name": "shop", "object": object.to_string(), "deleting": false, "attempt": 0, "traceId": "0", "triggers": [],
            "config": "{}",
        },
        "surroundings": {}, "imports": [], "result": {"done": true}, "used": {"cpuUs": 1, "wallUs": 2},
    });
    format!("{header}\n{call}\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn check_names_redacted_values_that_make_the_server_refuse_an_object() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let [plugin, file] = ["buggy.wasm", "recording.jsonl"].map(|name| folder.path().join(name));
    std::fs::copy(paths::guest("buggy")?, &plugin)?;
    std::fs::copy(paths::root().join("tests/guests/buggy/crd.yaml"), folder.path().join("crd.yaml"))?;
    let with = [plugin.as_os_str(), OsStr::new("--from-recording"), file.as_os_str(), OsStr::new("--runs=2")];
    std::fs::write(&file, recording(&json!(2)))?;
    let (code, out, errors) = windlass("check", &with).await?;
    ensure!(code == 0 && out.contains("scenario buggy-prod-shop"), "{code} {out}{errors}");
    std::fs::write(&file, recording(&json!("<redacted:0123456789ab>")))?;
    let (code, out, errors) = windlass("check", &with).await?;
    ensure!(code == 2, "{code} {out}{errors}");
    for part in ["spec.size: expected numeric", "Buggy prod/shop /spec/size", "write a scenario with other values"] {
        ensure!(errors.contains(part), "{part} is not in {errors}");
    }
    std::fs::remove_file(folder.path().join("crd.yaml"))?;
    let (code, out, errors) = windlass("check", &with).await?;
    ensure!(code == 2 && errors.contains("load its definition"), "{code} {out}{errors}");
    std::fs::write(&file, "")?;
    let (code, _, errors) = windlass("check", &with).await?;
    ensure!(code == 2 && errors.contains("has no recorded call"), "{code} {errors}");
    Ok(())
}

/// Writes the plugin of the file `from` to `to`, with a changed label on its children.
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

#[tokio::test(flavor = "multi_thread")]
async fn a_pipe_without_a_writer_is_refused_at_once() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let pipe = folder.path().join("pipe");
    ensure!(Command::new("mkfifo").arg(&pipe).status().await?.success(), "mkfifo");
    let (plugin, pipe) = (paths::plugins()?.join("webapp.wasm"), pipe.as_os_str());
    let definition = paths::example("crd.yaml");
    for (command, arguments) in [
        ("replay", vec![pipe]),
        ("check", vec![plugin.as_os_str(), OsStr::new("--scenario"), pipe]),
        ("check", vec![plugin.as_os_str(), OsStr::new("--load"), pipe]),
        ("check", vec![plugin.as_os_str(), OsStr::new("--again"), pipe]),
        (
            "check",
            vec![
                plugin.as_os_str(),
                OsStr::new("--from-recording"),
                pipe,
                OsStr::new("--load"),
                definition.as_os_str(),
            ],
        ),
    ] {
        let ended = tokio::time::timeout(std::time::Duration::from_mins(1), windlass(command, &arguments)).await;
        let (code, _, errors) = ended.with_context(|| format!("{command} waits for the pipe"))??;
        ensure!(
            code == 2 && errors.contains("a named pipe") && errors.contains("pipe:"),
            "{arguments:?}: {code} {errors}"
        );
    }
    Ok(())
}
