//! An author's way without a toolchain: a script that is wrong is told by one message, which says what, where and what to do.

use std::path::Path;
use std::process::Stdio;

use anyhow::ensure;
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

/// Builds the script, and returns the exit code and what was said.
async fn build(script: &str) -> anyhow::Result<(Option<i32>, String)> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("windlass.yaml"), "name: shop\nlanguage: starlark\n")?;
    std::fs::write(folder.path().join("plugin.star"), script)?;
    build_in(folder.path()).await
}

async fn build_in(folder: &Path) -> anyhow::Result<(Option<i32>, String)> {
    let _turn = busy::turn().await?;
    let mut command = Command::new(paths::windlass()?);
    // Nothing on PATH: no tool is needed.
    command.env("WINDLASS_CACHE_DIR", paths::cache()?).env("PATH", "").arg("build").arg(folder);
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await?;
    let (out, errors) = texts(&output);
    Ok((output.status.code(), out + &errors))
}

/// Each script is refused with all of these words, in one message.
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

#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_cannot_be_read_is_told_with_its_place() -> anyhow::Result<()> {
    let with = |text: &str| format!("{MANIFEST}\n{text}\n");
    let deep = format!("x = {}", "[".repeat(5_000));
    are_refused(&[
        (with("def reconcile(request)\n    return None"), &["plugin.star:7:23", "expected"]),
        (with("def reconcile(request):\n    return nothing"), &["plugin.star:8:12", "nothing"]),
        (with("load(\"lib.star\", \"helper\")\ndef reconcile(request):\n    pass"), &["plugin.star:7:1", "load"]),
        (with(&format!("{deep}\n{RECONCILE}")), &["plugin.star:7:105", "nested too deeply"]),
        (with(&format!("x = 1 + \"1\"\n{RECONCILE}")), &["plugin.star:7:5", "not supported"]),
        (with(&format!("x = clock.now()\n{RECONCILE}")), &["plugin.star:7:5", "clock.now", "within a call only"]),
    ])
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_is_no_plugin_is_told_what_it_lacks() -> anyhow::Result<()> {
    are_refused(&[
        (MANIFEST.to_owned(), &["plugin.star defines no `reconcile`", "`def reconcile(request):`"]),
        (
            format!("{MANIFEST}\ndef compose(request):\n    return composition()\n"),
            &["plugin.star defines `compose`", "`plugin: composer`"],
        ),
        (format!("{MANIFEST}\nreconcile = 1\n"), &["`reconcile` of plugin.star is of type int"]),
        (RECONCILE.to_owned(), &["plugin.star has no `manifest`"]),
        (
            format!("manifest = []\n{RECONCILE}"),
            &["the `manifest` of plugin.star is of type list, and a dict is wanted"],
        ),
        (format!("manifest = {{\"name\": len}}\n{RECONCILE}"), &["the `manifest` of plugin.star: /name is no JSON"]),
        (
            format!("{}\n{RECONCILE}", MANIFEST.replace("primary", "primry")),
            &["plugin.star:4:38: ", "`primry`", "did you mean `primary`?"],
        ),
        (
            format!("{}\n{RECONCILE}", MANIFEST.replace("\"shop\",\n    \"ver", "\"mall\",\n    \"ver")),
            &["plugin.star:2:5: ", "mall"],
        ),
        (
            format!("def manifest():\n    return {{}}[\"version\"]\n\n{RECONCILE}"),
            &["plugin.star:2:12 in manifest", "version"],
        ),
    ])
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_has_no_end_is_stopped() -> anyhow::Result<()> {
    let endless = "    for _ in range(2000000000):\n        for _ in range(2000000000):\n            pass\n";
    are_refused(&[
        (
            format!("{MANIFEST}\ndef turn():\n{endless}\nturn()\n{RECONCILE}"),
            &["plugin.star", "the plugin was stopped: "],
        ),
        (
            format!("{MANIFEST}\ndef turn(n):\n    return turn(n + 1)\n\nturn(0)\n{RECONCILE}"),
            &["plugin.star:8:12 in turn", "without end"],
        ),
        (
            format!("{MANIFEST}\nx = [str(n) * 100000 for n in range(2000000000)]\n{RECONCILE}"),
            &["plugin.star", "memory"],
        ),
    ])
    .await
}
