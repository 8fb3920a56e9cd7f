//! Runs the image that `tools/image` builds as a node would run it: only with its own files, read-only, and as its own
//! user.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, ensure};
use serde_json::Value;
use tokio::process::Command;
use windlass_tests::paths;
use windlass_tests::server::{Kind, Server};
use windlass_tests::story::Story;

async fn image(folder: &Path) -> anyhow::Result<Value> {
    let mut command = Command::new(paths::root().join("tools/image"));
    let made = command.arg("--binary").arg(paths::windlass()?).arg("--uncompressed").arg(folder).output().await?;
    ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let index = std::fs::read(folder.join("index.json"))?;
    Ok(serde_json::from_slice(&index)?)
}

/// The blob that `descriptor` names; its size must match.
fn blob(folder: &Path, descriptor: &Value) -> anyhow::Result<std::path::PathBuf> {
    let digest = descriptor["digest"].as_str().and_then(|it| it.strip_prefix("sha256:")).context("a digest")?;
    let file = folder.join("blobs/sha256").join(digest);
    let length = std::fs::metadata(&file)?.len();
    ensure!(descriptor["size"] == length, "{descriptor} is of {length} bytes");
    let said = std::process::Command::new("sha256sum").arg(&file).output()?;
    ensure!(said.stdout.starts_with(digest.as_bytes()), "the blob {digest} has other bytes");
    Ok(file)
}

fn document(folder: &Path, descriptor: &Value) -> anyhow::Result<Value> {
    Ok(serde_json::from_slice(&std::fs::read(blob(folder, descriptor)?)?)?)
}

/// Runs `windlass` as the node's runtime does: `root` read-only, with a process file system and a directory for the
/// cache.
fn contained(root: &Path, arguments: &[&str]) -> Command {
    let script = r#"
        mount --bind "$0" "$0"
        mount -o remount,bind,ro "$0"
        mount -t tmpfs -o mode=0777 cache "$0/var/cache/windlass"
        mount -t proc proc "$0/proc"
        exec chroot --userspec=65532:65532 "$0" "$@""#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-euc", script]).arg(root);
    command.arg("/usr/bin/windlass").args(arguments).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn the_image_runs_from_its_own_files_alone_as_its_own_user() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let (first, again) = (folder.path().join("first"), folder.path().join("again"));
    let index = image(&first).await?;
    ensure!(image(&again).await? == index, "the same binary gives the same image");
    std::fs::remove_dir_all(&again)?;

    let manifest = document(&first, &index["manifests"][0])?;
    let config = document(&first, &manifest["config"])?;
    let dockerfile = std::fs::read_to_string(paths::root().join("deploy/Dockerfile"))?;
    let says = |name: &str| dockerfile.lines().rev().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    ensure!(config["config"]["User"] == says("USER "), "{config}");
    for (field, name) in [("Entrypoint", "ENTRYPOINT "), ("Cmd", "CMD ")] {
        ensure!(config["config"][field] == serde_json::from_str::<Value>(says(name))?, "{field}: {config}");
    }

    let root = folder.path().join("root");
    std::fs::create_dir_all(&root)?;
    let mut unpack = Command::new("tar");
    let unpacked = unpack.arg("-xf").arg(blob(&first, &manifest["layers"][0])?).arg("-C").arg(&root);
    ensure!(unpacked.status().await?.success(), "the layer is a tar");
    ensure!(!root.join("bin").exists() && !root.join("usr/bin/sh").exists(), "there is no shell");
    let roots = std::fs::read_to_string(root.join("etc/ssl/certs/ca-certificates.crt"))?;
    ensure!(roots.contains("BEGIN CERTIFICATE"), "authorities are there");

    if std::fs::metadata("/proc/self")?.uid() != 0 {
        println!("not run from its root: only root may change the root of a process");
        return Ok(());
    }
    runs(&root).await
}

async fn runs(root: &Path) -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    server.install_webapp().await?;
    // The directories that a node mounts into the container.
    for mounted in ["etc/windlass/plugins", "var/cache/windlass", "proc"] {
        std::fs::create_dir_all(root.join(mounted))?;
    }
    std::fs::copy(paths::plugins()?.join("webapp.wasm"), root.join("etc/windlass/plugins/webapp.wasm"))?;
    let kubeconfig = root.join("etc/windlass/kubeconfig");
    std::fs::copy(server.kubeconfig(), &kubeconfig)?;
    std::fs::set_permissions(&kubeconfig, std::fs::Permissions::from_mode(0o400))?;
    chown(&kubeconfig, Some(65532), Some(65532))?;
    let arguments = [
        "run",
        "--plugins=/etc/windlass/plugins",
        "--kubeconfig=/etc/windlass/kubeconfig",
        "--cache-dir=/var/cache/windlass/compiled",
        "--grants=manifest",
        "--leases=none",
    ];
    let host = contained(root, &arguments).spawn().context("start it in its root: is unshare there?")?;
    let story = Story::new(server.objects());
    let told = async {
        story.create().await?;
        story.run().await
    };
    let told = told.await;
    let id = host.id().context("it runs")?;
    // The first process of the new namespace is the child of `unshare`, which does not forward signals.
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"))?;
    for child in children.split_whitespace() {
        std::process::Command::new("kill").args(["-TERM", child]).status()?;
    }
    let output = host.wait_with_output().await?;
    let log = String::from_utf8_lossy(&output.stderr);
    told.with_context(|| log.clone().into_owned())?;
    ensure!(output.status.success() && log.contains("clean=true"), "it stops in order: {log}");
    ensure!(!log.contains("compiled plugins are not kept"), "the cache is its own: {log}");
    Ok(())
}
