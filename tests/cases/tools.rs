//! Runs several of the project's scripts at once.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, ensure};
use tokio::process::{Child, Command};
use windlass_tests::paths;
use windlass_tests::wait::until;

/// A fake npm. It installs half of the packages, waits up to 15 s for another installation to begin, and installs the
/// rest.
const NPM: &str = r#"#!/bin/sh
set -e
mkdir node_modules
touch "$BEGUN/$$"
tries=0
while [ "$(ls "$BEGUN" | wc -l)" -lt 2 ] && [ $tries -lt 300 ]; do
    sleep 0.05
    tries=$((tries + 1))
done
echo whole >node_modules/package
"#;

fn languages(at: &Path) -> anyhow::Result<Child> {
    let path = format!("{}:{}", at.join("bin").display(), std::env::var("PATH")?);
    let mut command = Command::new(paths::root().join("tools/languages"));
    command.arg("--npm").env("PATH", path).env("XDG_CACHE_HOME", at.join("cache")).env("BEGUN", at.join("begun"));
    Ok(command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?)
}

/// Whether any installation has begun.
fn begun(notes: &Path) -> anyhow::Result<()> {
    ensure!(fs::read_dir(notes)?.next().is_some(), "nobody has");
    Ok(())
}

#[tokio::test]
async fn two_concurrent_installations_of_a_tool_both_end_complete() -> anyhow::Result<()> {
    let at = tempfile::tempdir()?;
    for folder in ["bin", "begun"] {
        fs::create_dir(at.path().join(folder))?;
    }
    let npm = at.path().join("bin/npm");
    fs::write(&npm, NPM)?;
    fs::set_permissions(&npm, fs::Permissions::from_mode(0o755))?;
    let one = languages(at.path())?;
    until("the one has begun", || std::future::ready(begun(&at.path().join("begun")))).await?;
    let other = languages(at.path())?;
    let (one, other) = (one.wait_with_output().await?, other.wait_with_output().await?);
    ensure!(one.status.success() && other.status.success(), "{one:?} {other:?}");
    let later = languages(at.path())?.wait_with_output().await?;
    ensure!(one.stdout == other.stdout && one.stdout == later.stdout, "{one:?} {other:?} {later:?}");
    let packages = String::from_utf8(one.stdout)?;
    ensure!(fs::read_to_string(Path::new(packages.trim_end()).join("package"))? == "whole\n");
    let folders = fs::read_dir(at.path().join("cache/windlass/languages"))?.collect::<Result<Vec<_>, _>>()?;
    let folders = folders.iter().filter(|entry| entry.file_type().is_ok_and(|it| it.is_dir()));
    ensure!(folders.count() == 1, "what the slower one has installed has gone");

    // Remove the folder, as a cleanup would, so that the link dangles.
    let name = Path::new(packages.trim_end()).parent().context("it is in a folder")?;
    fs::remove_dir_all(fs::canonicalize(name)?)?;
    let again = languages(at.path())?.wait_with_output().await?;
    ensure!(again.status.success() && again.stdout == packages.as_bytes(), "{again:?}");
    ensure!(fs::read_to_string(Path::new(packages.trim_end()).join("package"))? == "whole\n");
    Ok(())
}
