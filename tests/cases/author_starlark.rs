//! The author's workflow without a toolchain: a wrong script gives one message that says what is wrong, where, and how
//! to fix it.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, ensure};
use tokio::process::Command;
use windlass_tests::{busy, paths};

use crate::author::texts;

const MANIFEST: &str = r#"manifest = {
    "name": "shop",
    "version": "0.1.0",
    "controllers": [{"name": "shop", "primary": {"apiVersion": "v1", "kind": "ConfigMap"}}],
}
"#;
const RECONCILE: &str = "def reconcile(request):\n    return None\n";

/// Builds the script, and returns the exit code and the output.
async fn build(script: &str) -> anyhow::Result<(Option<i32>, String)> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("windlass.yaml"), "name: shop\nlanguage: starlark\n")?;
    std::fs::write(folder.path().join("plugin.star"), script)?;
    build_in(folder.path()).await
}

async fn build_in(folder: &Path) -> anyhow::Result<(Option<i32>, String)> {
    let _turn = busy::turn().await?;
    let mut command = Command::new(paths::windlass()?);
    // The build needs no tool, so PATH is empty.
    command.env("WINDLASS_CACHE_DIR", paths::cache()?).env("PATH", "").arg("build").arg(folder);
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await?;
    let (out, errors) = texts(&output);
    Ok((output.status.code(), out + &errors))
}

/// Each script is refused by one message that contains all of these words.
async fn are_refused(scripts: &[(String, &[&str])]) -> anyhow::Result<()> {
    for (script, says) in scripts {
        let (code, said) = build(script).await?;
        let shown: String = script.chars().take(200).collect();
        ensure!(code == Some(1), "{code:?} of {shown:?}: {said}");
        ensure!(says.iter().all(|words| said.contains(words)), "expected {says:?} of {shown:?}, got: {said}");
        ensure!(said.trim().lines().count() <= 2, "one message of {shown:?}: {said}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_needs_no_tool() -> anyhow::Result<()> {
    let (code, said) = build(&format!("{MANIFEST}\n{RECONCILE}")).await?;
    ensure!(code == Some(0), "{said}");
    Ok(())
}

/// The interpreter's own tests cover more errors.
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_script_is_reported_with_its_place() -> anyhow::Result<()> {
    are_refused(&[
        (
            format!("{MANIFEST}\ndef reconcile(request)\n    return None\n"),
            &["plugin.star:7:23: ", "unexpected new line"],
        ),
        (
            format!("{}\n{RECONCILE}", MANIFEST.replace("primary", "primry")),
            &["plugin.star:4:38: ", "`primry`", "did you mean `primary`?"],
        ),
        (
            format!("{}\n{RECONCILE}", MANIFEST.replace("\"shop\",\n", "\"mall\",\n")),
            // The message must not guess which of the two names is meant.
            &["plugin.star:1:1: ", "\"mall\"", "windlass.yaml says \"shop\""],
        ),
    ])
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_selector_that_no_server_reads_fails_build_and_inspect_with_its_place() -> anyhow::Result<()> {
    const SAID: &[&str] = &["controllers[0].primary.labelSelector: in the label selector \"app in a()\": expected '('"];
    let selecting = |selector: &str| {
        let primary = format!("\"ConfigMap\", \"labelSelector\": \"{selector}\"");
        format!("{}\n{RECONCILE}", MANIFEST.replace("\"ConfigMap\"", &primary))
    };
    are_refused(&[(selecting("app in a()"), SAID), (selecting("app in a()"), &["plugin.star:4:91: "])]).await?;

    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("windlass.yaml"), "name: shop\nlanguage: starlark\n")?;
    std::fs::write(folder.path().join("plugin.star"), selecting("app in (a)"))?;
    let (code, said) = build_in(folder.path()).await?;
    ensure!(code == Some(0), "{said}");
    // A build refuses such a plugin, so the test patches a built one: the file contains the script verbatim.
    let file = folder.path().join("build/shop.wasm");
    let mut plugin = std::fs::read(&file)?;
    let (good, bad) = (b"app in (a)", b"app in a()");
    let at = plugin.windows(good.len()).position(|bytes| bytes == good).context("the plugin has the selector")?;
    plugin[at..at + good.len()].copy_from_slice(bad);
    std::fs::write(&file, plugin)?;
    let mut command = Command::new(paths::windlass()?);
    command.env("WINDLASS_CACHE_DIR", paths::cache()?).env("HOME", folder.path());
    command.env_remove("KUBECONFIG").env_remove("KUBERNETES_SERVICE_HOST").arg("inspect").arg(&file);
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(2), "{:?}: {said}", output.status);
    ensure!(SAID.iter().all(|words| said.contains(words)), "expected {SAID:?}, got: {said}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endless_script_is_stopped() -> anyhow::Result<()> {
    const STOPPED: &[&str] =
        &["plugin.star: while the script was read or asked for its manifest, the plugin ", " (", "--limit"];
    let endless = "    for _ in range(2000000000):\n        for _ in range(2000000000):\n            pass\n";
    let nested = "not ".repeat(20_000);
    are_refused(&[
        (format!("{MANIFEST}\ndef turn():\n{endless}\nturn()\n{RECONCILE}"), STOPPED),
        (format!("{MANIFEST}\nx = [str(n) * 100000 for n in range(2000000000)]\n{RECONCILE}"), STOPPED),
        (format!("{MANIFEST}\nx = {nested}True\n{RECONCILE}"), STOPPED),
    ])
    .await
}
