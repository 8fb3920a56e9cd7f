//! `windlass check`, as authors and operators use it.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, ensure};
use serde_json::Value;
use tokio::process::Command;
use windlass_tests::{busy, paths};

/// Runs `windlass check` with these arguments. Answers the exit code, what it prints, and what it says on standard error.
async fn check<S: AsRef<std::ffi::OsStr>>(arguments: &[S]) -> anyhow::Result<(i32, String, String)> {
    let _turn = busy::turn().await?;
    let mut command = Command::new(paths::windlass()?);
    command.arg("check").args(arguments).env("WINDLASS_CACHE_DIR", paths::cache()?);
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((output.status.code().context("it was killed")?, text(&output.stdout), text(&output.stderr)))
}

/// A folder with a plugin's file, its definition and its sample.
struct Folder(tempfile::TempDir);

impl Folder {
    fn of(plugin: &Path, definition: &Path, sample: &str) -> anyhow::Result<Self> {
        let folder = Self(tempfile::tempdir()?);
        let name = plugin.file_name().context("a file")?;
        std::fs::copy(plugin, folder.0.path().join(name))?;
        std::fs::copy(definition, folder.0.path().join("crd.yaml"))?;
        std::fs::write(folder.0.path().join("sample.yaml"), sample)?;
        Ok(folder)
    }

    fn webapp() -> anyhow::Result<Self> {
        let examples = paths::root().join("examples/webapp");
        let sample = std::fs::read_to_string(examples.join("webapp.yaml"))?;
        Self::of(&paths::plugins()?.join("webapp.wasm"), &examples.join("crd.yaml"), &sample)
    }

    fn buggy(bug: &str) -> anyhow::Result<Self> {
        let sample = format!(
            "apiVersion: tests.windlass.dev/v1\nkind: Buggy\nmetadata: {{name: shop}}\nspec: {{bug: {bug:?}, size: 2}}\n"
        );
        let definition = paths::root().join("tests/guests/buggy/crd.yaml");
        Self::of(&paths::guest("buggy")?, &definition, &sample)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Checks the plugin `name` of the folder, and answers the exit code and the report.
    async fn report(&self, name: &str, runs: &str) -> anyhow::Result<(i32, Value)> {
        let plugin = self.file(name).display().to_string();
        let (code, out, errors) =
            check(&[&plugin, "--runs", runs, "--budget", "10m", "--output", "json"].map(str::to_owned)).await?;
        ensure!(code != 2, "{errors}");
        Ok((code, serde_json::from_str(&out).with_context(|| errors)?))
    }
}

/// The rules that a report says are broken.
fn broken(report: &Value) -> Vec<&str> {
    let findings = report[0]["findings"].as_array().into_iter().flatten();
    findings.filter_map(|finding| finding["rule"].as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_webapp_gives_no_finding_and_the_same_seed_gives_the_same_report() -> anyhow::Result<()> {
    let folder = Folder::webapp()?;
    let (code, report) = folder.report("webapp.wasm", "60").await?;
    ensure!(code == 0 && broken(&report).is_empty(), "{report:#}");
    ensure!(report[0]["runs"] == 60 && report[0]["tried"]["unreached"] == 0, "{report:#}");
    let (_, again) = folder.report("webapp.wasm", "60").await?;
    ensure!(report == again, "{report:#} {again:#}");
    Ok(())
}

/// Each bug, the rule by which it is found, and the runs that it takes.
const BUGS: [(&str, &str, &str); 16] = [
    ("notes-before-it-does", "converges", "20"),
    ("notes-after-it-did", "converges", "20"),
    ("creates-once", "fails", "20"),
    ("swallows-errors", "converges", "40"),
    ("gives-up", "converges", "40"),
    ("never-shrinks", "history", "10"),
    ("keeps-its-first-wish", "history", "10"),
    ("writes-the-time", "quiet", "2"),
    ("counts-its-calls", "quiet", "2"),
    ("draws-a-name", "chance", "2"),
    ("wants-a-note", "traps", "2"),
    ("runs-ahead", "status-ahead", "2"),
    ("disowns", "orphan", "2"),
    ("never-lets-go", "fails", "2"),
    ("does-not-look", "converges", "40"),
    ("makes-anew", "not-needed", "40"),
];

#[tokio::test(flavor = "multi_thread")]
async fn each_bug_is_found_by_its_rule() -> anyhow::Result<()> {
    let mut missed = Vec::new();
    for (bug, rule, runs) in BUGS {
        let (code, report) = Folder::buggy(bug)?.report("buggy.wasm", runs).await?;
        let found = broken(&report);
        if code != 1 || !found.contains(&rule) {
            missed.push(format!("{bug}: {found:?} and not {rule} (exit code {code})"));
        }
    }
    ensure!(missed.is_empty(), "{missed:#?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_bug_the_same_plugin_gives_no_finding() -> anyhow::Result<()> {
    let (code, report) = Folder::buggy("")?.report("buggy.wasm", "120").await?;
    ensure!(code == 0 && broken(&report).is_empty(), "{report:#}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finding_is_told_as_a_story_and_can_be_had_again() -> anyhow::Result<()> {
    let folder = Folder::buggy("creates-once")?;
    let plugin = folder.file("buggy.wasm").display().to_string();
    let arguments = [plugin.as_str(), "--runs", "20", "--budget", "10m"];
    let (code, out, errors) = check(&arguments).await?;
    ensure!(code == 1 && errors.is_empty(), "{code} {out}{errors}");
    for part in [
        "fails: it fails, and goes on failing",
        "host     crashes",
        "user     apply Buggy default/shop",
        "AlreadyExists",
    ] {
        ensure!(out.contains(part), "{part:?} is not in {out}");
    }
    let kept = std::fs::read_dir(folder.file(".windlass/findings"))?.collect::<Result<Vec<_>, _>>()?;
    let file = kept.iter().map(std::fs::DirEntry::path).find(|path| path.to_string_lossy().ends_with("fails.json"));
    let file = file.context("no file of the finding")?.display().to_string();
    let (code, told, errors) = check(&[plugin.as_str(), "--again", &file]).await?;
    ensure!(
        code == 1 && told.contains("fails: it fails") && told.contains("host     crashes"),
        "{code} {told}{errors}"
    );
    let (_, junit, _) = check(&[plugin.as_str(), "--runs", "20", "--budget", "10m", "--output", "junit"]).await?;
    ensure!(
        junit.contains("<testcase classname=\"buggy\" name=\"fails\">") && junit.ends_with("</testsuites>\n"),
        "{junit}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_checked_says_why() -> anyhow::Result<()> {
    let folder = Folder::buggy("")?;
    let plugin = folder.file("buggy.wasm").display().to_string();
    let scenario = folder.file("scenario.yaml");
    std::fs::write(&scenario, "apiVersion: windlass.dev/v1alpha1\nkind: Scenario\nname: a\nstpes: []\n")?;
    let scenario = scenario.display().to_string();
    let nothing = folder.file("nothing.wasm").display().to_string();
    let expected = [
        (vec![nothing.as_str()], "no plugin"),
        (vec![&plugin, "--scenario", &scenario], "line 4"),
        (vec![&plugin, "--again", &scenario], "is no file that a check has written"),
        (vec![&plugin, "--budget", "soon"], "--budget"),
    ];
    for (arguments, said) in expected {
        let (code, _, errors) = check(&arguments).await?;
        ensure!(code == 2 && errors.contains(said), "{arguments:?}: {code} {errors}");
    }
    std::fs::remove_file(folder.file("sample.yaml"))?;
    let (code, _, errors) = check(&[&plugin]).await?;
    ensure!(code == 2 && errors.contains("there is no sample of Buggy"), "{code} {errors}");
    Ok(())
}
