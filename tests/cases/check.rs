//! Tests `windlass check` as authors and operators use it, and the engine of the check itself.

mod again;
mod asked;
mod defects;
mod saving;
mod seeds;
mod simulated;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tokio::process::Command;
use windlass_tests::{busy, paths};

/// Runs `windlass check` with these arguments. Returns the exit code, standard output and standard error.
pub(crate) async fn check<S: AsRef<std::ffi::OsStr>>(arguments: &[S]) -> anyhow::Result<(i32, String, String)> {
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

    /// Checks the plugin `name` of the folder, and returns the exit code and the report.
    async fn report(&self, name: &str, runs: &str) -> anyhow::Result<(i32, Value)> {
        let plugin = self.file(name).display().to_string();
        let arguments = [&plugin, "--runs", runs, "--budget", "10m", "--limit", BUGGY_LIMIT, "--output", "json"];
        let (code, out, errors) = check(&arguments.map(str::to_owned)).await?;
        ensure!(code != 2, "{errors}");
        Ok((code, serde_json::from_str(&out).with_context(|| errors)?))
    }
}

/// A limit that is enough for the buggy plugin. With the default, its endless calls would take most of the time.
const BUGGY_LIMIT: &str = "cpu=50ms";

/// The rules that are broken according to a report.
fn broken(report: &Value) -> Vec<&str> {
    let findings = report[0]["findings"].as_array().into_iter().flatten();
    findings.filter_map(|finding| finding["rule"].as_str()).collect()
}

/// Checks a plugin of the project with a scenario of tests/scenarios, and returns the exit code and the report.
async fn example(plugin: &Path, example: &str, more: &[&str]) -> anyhow::Result<(i32, Value)> {
    // Findings are written beside the plugin.
    let folder = tempfile::tempdir()?;
    let copy = folder.path().join(plugin.file_name().context("a file")?);
    std::fs::copy(plugin, &copy).with_context(|| format!("no plugin {}", plugin.display()))?;
    let scenario = paths::root().join(format!("tests/scenarios/{example}.yaml")).display().to_string();
    let plugin = copy.display().to_string();
    // An unoptimised compiler takes long for the larger plugins.
    let limits = ["--limit", "compile-cpu=180s", "--limit", "compile-deadline=10m"];
    let asked = [plugin.as_str(), "--scenario", &scenario, "--budget", "10m", "--output", "json"];
    let (code, out, errors) = check(&[&asked[..], &limits, more].concat()).await?;
    ensure!(code != 2, "{errors}");
    Ok((code, serde_json::from_str(&out).with_context(|| errors)?))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_webapp_gives_no_finding_and_the_same_seed_gives_the_same_report() -> anyhow::Result<()> {
    let folder = Folder::webapp()?;
    let (code, report) = folder.report("webapp.wasm", "16").await?;
    ensure!(code == 0 && broken(&report).is_empty(), "{report:#}");
    ensure!(report[0]["runs"] == 16 && report[0]["tried"]["unreached"] == 0, "{report:#}");
    let (_, again) = folder.report("webapp.wasm", "16").await?;
    ensure!(report == again, "{report:#} {again:#}");
    Ok(())
}

/// The WebApp in every language, as a reconciler and as a composer. `make soak STORIES=check` has more runs of each.
const WEBAPPS: [&str; 11] = [
    "webapp",
    "composite/webapp-composite",
    "webapp-c/webapp-c",
    "webapp-go/webapp-go",
    "webapp-python/webapp-python",
    "webapp-starlark/webapp-starlark",
    "webapp-ts/webapp-ts",
    "webapp-composite-go/webapp-composite-go",
    "webapp-composite-python/webapp-composite-python",
    "webapp-composite-starlark/webapp-composite-starlark",
    "webapp-composite-ts/webapp-composite-ts",
];

#[tokio::test(flavor = "multi_thread")]
async fn every_plugin_of_the_project_gives_no_finding() -> anyhow::Result<()> {
    let runs = std::env::var("WINDLASS_CHECK_RUNS").unwrap_or_else(|_| "8".to_owned());
    let all = WEBAPPS.iter().map(|name| (*name, "webapp")).chain([("replicaset", "replicaset")]);
    for (name, of) in all {
        let (code, report) = example(&paths::plugins()?.join(format!("{name}.wasm")), of, &["--runs", &runs]).await?;
        ensure!(code == 0 && broken(&report).is_empty(), "{name}: {report:#}");
        println!("figures: {name}: {} runs, no finding", report[0]["runs"]);
    }
    Ok(())
}

/// Checks the engine: a correct plugin must fail without the host's expectations.
#[tokio::test(flavor = "multi_thread")]
async fn without_the_hosts_expectations_the_replicaset_makes_too_many() -> anyhow::Result<()> {
    let off = ["--runs", "40", "--faults", "hidden-events", "--feature-gates", "AutomaticExpectations=false"];
    let (code, report) = example(&paths::plugins()?.join("replicaset.wasm"), "replicaset", &off).await?;
    ensure!(code == 1 && broken(&report).contains(&"not-needed"), "{report:#}");
    Ok(())
}

/// Tries faults of these classes on the `ReplicaSet`, and returns the exit code and the report.
async fn replicaset(more: &[&str]) -> anyhow::Result<(i32, Value)> {
    example(&paths::plugins()?.join("replicaset.wasm"), "replicaset", more).await
}

/// A standby that takes over with a stale cache repeats the last write, if the host does not check that its caches are
/// fresh.
#[tokio::test(flavor = "multi_thread")]
async fn without_freshness_proofs_the_replicaset_overshoots_after_a_failover() -> anyhow::Result<()> {
    let failovers = ["--runs", "60", "--faults", "failover"];
    let (code, report) = replicaset(&failovers).await?;
    ensure!(code == 0 && broken(&report).is_empty(), "{report:#}");
    ensure!(report[0]["tried"]["unreached"] == 0, "{report:#}");
    let (code, report) = replicaset(&[&failovers[..], &["--feature-gates", "FreshnessProof=false"]].concat()).await?;
    ensure!(code == 1 && broken(&report).contains(&"not-needed"), "{report:#}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn failovers_and_swaps_do_not_change_the_final_webapp() -> anyhow::Result<()> {
    let webapp = paths::plugins()?.join("webapp.wasm");
    let faults = ["--runs", "24", "--faults", "failover,swap"];
    let (code, report) = example(&webapp, "webapp", &faults).await?;
    ensure!(code == 0 && broken(&report).is_empty(), "{report:#}");
    for class in ["failover", "swap"] {
        ensure!(report[0]["tried"]["faults"][class]["tried"].as_u64() > Some(5), "{report:#}");
    }
    ensure!(report[0]["tried"]["unreached"] == 0, "{report:#}");
    let (_, again) = example(&webapp, "webapp", &faults).await?;
    ensure!(report == again, "{report:#} {again:#}");
    Ok(())
}

/// Each bug, the rule that finds it, and the number of runs needed.
const BUGS: [(&str, &str, &str); 19] = [
    ("notes-before-it-does", "converges", "20"),
    ("notes-after-it-did", "converges", "20"),
    ("creates-once", "fails", "20"),
    ("swallows-errors", "converges", "40"),
    ("gives-up", "converges", "40"),
    ("loses-patience", "fails", "48"),
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
    ("trusts-the-clock", "traps", "60"),
    ("never-ends", "traps", "2"),
];

#[tokio::test(flavor = "multi_thread")]
async fn each_bug_is_found_by_its_rule() -> anyhow::Result<()> {
    let mut missed = Vec::new();
    for (bug, rule, runs) in BUGS {
        let began = Instant::now();
        let (code, report) = Folder::buggy(bug)?.report("buggy.wasm", runs).await?;
        let seconds = began.elapsed().as_secs_f64();
        let mut findings = report[0]["findings"].as_array().into_iter().flatten();
        let Some(found) = findings.find(|finding| code == 1 && finding["rule"] == rule) else {
            missed.push(format!("{bug}: {:?} and not {rule} (exit code {code})", broken(&report)));
            continue;
        };
        println!("figures: {bug}: {rule} in run {}; {} runs in {seconds:.1} s", found["run"], report[0]["runs"]);
    }
    ensure!(missed.is_empty(), "{missed:#?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_bug_the_same_plugin_gives_no_finding() -> anyhow::Result<()> {
    let (code, report) = Folder::buggy("")?.report("buggy.wasm", "60").await?;
    ensure!(code == 0 && broken(&report).is_empty(), "{report:#}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finding_is_shown_as_a_story_and_can_be_reproduced() -> anyhow::Result<()> {
    let folder = Folder::buggy("creates-once")?;
    let plugin = folder.file("buggy.wasm").display().to_string();
    let arguments = [plugin.as_str(), "--runs", "20", "--budget", "10m"];
    let (code, out, errors) = check(&arguments).await?;
    let announced = errors.starts_with("trying 1 scenario for 600s, 20 runs at most") && errors.lines().count() == 1;
    ensure!(code == 1 && announced, "{code} {out}{errors}");
    for part in [
        "fails: the plugin's calls fail and keep failing",
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
        code == 1 && told.contains("fails: the plugin's calls fail") && told.contains("host     crashes"),
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
async fn a_plugin_that_computes_for_ever_is_stopped_at_the_same_place_each_time() -> anyhow::Result<()> {
    let folder = Folder::buggy("never-ends")?;
    let plugin = folder.file("buggy.wasm").display().to_string();
    let arguments = [plugin.as_str(), "--runs", "1", "--budget", "10m", "--limit", BUGGY_LIMIT];
    let (code, out, errors) = check(&arguments).await?;
    ensure!(
        code == 1 && out.contains("the instructions that stand for 50ms of processor time"),
        "{code} {out}{errors}"
    );
    let file = folder.file(".windlass/findings/buggy-1-traps.json").display().to_string();
    let again = async || check(&[plugin.as_str(), "--again", &file, "--limit", BUGGY_LIMIT]).await;
    let (first, second) = (again().await?, again().await?);
    ensure!(first.0 == 1 && first.1.contains("000000 steps"), "{first:?}");
    ensure!(first == second, "{first:?} {second:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finding_is_reduced_to_the_fewest_steps() -> anyhow::Result<()> {
    let folder = Folder::buggy("writes-the-time")?;
    let plugin = folder.file("buggy.wasm").display().to_string();
    let (code, out, errors) = check(&[plugin.as_str(), "--runs", "30", "--budget", "10m"]).await?;
    ensure!(code == 1 && out.contains("needs    1 steps of the scenario:"), "{code} {out}{errors}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finding_can_be_accepted() -> anyhow::Result<()> {
    let folder = Folder::buggy("draws-a-name")?;
    let [plugin, baseline] = ["buggy.wasm", "baseline.json"].map(|name| folder.file(name).display().to_string());
    let usual = [plugin.as_str(), "--runs", "2"];
    let (code, _, errors) = check(&[&usual[..], &["--write-baseline", &baseline]].concat()).await?;
    ensure!(code == 0, "{errors}");
    let (code, out, errors) = check(&[&usual[..], &["--baseline", &baseline]].concat()).await?;
    ensure!(code == 0 && out.contains("by the baseline") && out.contains("found           nothing"), "{out}{errors}");
    let (code, _, errors) = check(&[&usual[..], &["--baseline", &plugin]].concat()).await?;
    ensure!(code == 2 && errors.contains("buggy.wasm"), "{code} {errors}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_that_compared_nothing_does_not_pass_by_its_baseline() -> anyhow::Result<()> {
    let folder = Folder::buggy("writes-the-time")?;
    let [plugin, baseline] = ["buggy.wasm", "baseline.json"].map(|name| folder.file(name).display().to_string());
    let (code, _, errors) = check(&[plugin.as_str(), "--runs", "2", "--write-baseline", &baseline]).await?;
    ensure!(code == 0, "{errors}");
    let (code, out, errors) = check(&[plugin.as_str(), "--runs", "2", "--baseline", &baseline]).await?;
    ensure!(code == 2 && out.contains("INCOMPLETE      the plugin did not stop writing"), "{code} {out}{errors}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_waits_is_checked_as_the_plugin_of_its_name() -> anyhow::Result<()> {
    let folder = Folder::buggy("")?;
    let next = folder.file("buggy.next.wasm");
    std::fs::rename(folder.file("buggy.wasm"), &next)?;
    let (code, out, errors) = check(&[&next.display().to_string(), "--runs", "2"].map(str::to_owned)).await?;
    ensure!(code == 0 && out.starts_with("buggy "), "{code} {out}{errors}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_that_cannot_run_says_why() -> anyhow::Result<()> {
    let folder = Folder::buggy("")?;
    let plugin = folder.file("buggy.wasm").display().to_string();
    let scenario = folder.file("scenario.yaml");
    std::fs::write(&scenario, "apiVersion: windlass.dev/v1alpha1\nkind: Scenario\nname: a\nstpes: []\n")?;
    let scenario = scenario.display().to_string();
    let nothing = folder.file("nothing.wasm").display().to_string();
    let rule = json!({"name": "lost", "when": {"verbs": ["fly"]}, "then": [{"drop": {}}]});
    let file = again::file("webapp", &json!([{"name": "it is lost", "class": "lost", "rules": [rule]}]))?;
    std::fs::write(folder.file("hostile.json"), file.to_string())?;
    let hostile = folder.file("hostile.json").display().to_string();
    let expected = [
        (vec![nothing.as_str()], "no plugin"),
        (vec![&plugin, "--scenario", &scenario], "line 4"),
        (vec![&plugin, "--again", &scenario], "is not a file that `windlass check` writes"),
        (vec![&plugin, "--again", &hostile], "faults[0].rules[0] (0-lost).when.verbs: \"fly\" is none of get"),
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
