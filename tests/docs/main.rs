//! Checks that the program behaves as the pages in docs/operating show, and has the commands of docs/authoring.md.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context, ensure};
use k8s_openapi::api::rbac::v1::ClusterRole;
use windlass_tests::host::Host;
use windlass_tests::markdown::snippets;
use windlass_tests::paths;

const AUTHORING: &str = include_str!("../../docs/authoring.md");

/// The pages for operators, by their names in docs/operating.
const PAGES: [(&str, &str); 8] = [
    ("run.md", include_str!("../../docs/operating/run.md")),
    ("policies.md", include_str!("../../docs/operating/policies.md")),
    ("replicas.md", include_str!("../../docs/operating/replicas.md")),
    ("hooks.md", include_str!("../../docs/operating/hooks.md")),
    ("watching.md", include_str!("../../docs/operating/watching.md")),
    ("trouble.md", include_str!("../../docs/operating/trouble.md")),
    ("threat-model.md", include_str!("../../docs/operating/threat-model.md")),
    ("publishing.md", include_str!("../../docs/publishing.md")),
];

/// A fenced block of a page for operators.
struct Shown {
    info: String,
    text: String,
    /// The page and the line of the opening fence.
    place: String,
}

fn shown() -> Vec<Shown> {
    let mut found = Vec::new();
    for (name, page) in PAGES {
        for block in snippets(page) {
            found.push(Shown { info: block.info, text: block.text, place: format!("{name}:{}", block.line) });
        }
    }
    found
}

fn of(info: &str) -> Vec<Shown> {
    let found: Vec<_> = shown().into_iter().filter(|block| block.info == info).collect();
    assert!(!found.is_empty(), "there is no ```{info}");
    found
}

/// The text of all pages for operators.
fn operating() -> String {
    PAGES.map(|(_, page)| page).concat()
}

/// Runs `windlass` with `arguments`, which must succeed, and returns its output.
fn said(arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(paths::windlass()?).args(arguments).output()?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "windlass {}: {complaint}", arguments.join(" "));
    Ok(String::from_utf8(output.stdout)?)
}

#[test]
fn the_documented_commands_for_authors_exist() -> anyhow::Result<()> {
    let shown = snippets(AUTHORING).into_iter().filter(|snippet| snippet.info == "console");
    let commands: Vec<_> = shown.flat_map(|it| it.text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    let commands = commands.iter().filter_map(|line| line.strip_prefix("$ windlass "));
    let mut seen = 0;
    for command in commands {
        let words = command.split_whitespace().take_while(|word| *word != "#").chain(["--help"]);
        said(&words.collect::<Vec<_>>()).with_context(|| command.to_owned())?;
        seen += 1;
    }
    ensure!(seen >= 3, "the guide shows new, build and dev");
    Ok(())
}

/// The lines of a help text that begin with a flag. Other lines may mention another program's flags.
fn listed(help: &str) -> String {
    help.lines().filter(|line| line.trim_start().starts_with('-')).collect::<Vec<_>>().join("\n")
}

/// The names after two dashes.
fn flags(text: &str) -> BTreeSet<&str> {
    let is_name = |character: char| character.is_ascii_lowercase() || character == '-';
    let after_dashes = text.split("--").skip(1);
    after_dashes
        .map(|rest| rest.split(|character| !is_name(character)).next().unwrap_or_default())
        .filter(|name| name.starts_with(|first: char| first.is_ascii_lowercase()))
        .collect()
}

#[test]
fn every_snippet_is_covered_by_a_test() {
    for Shown { info, place, .. } in shown() {
        assert!(
            ["sh", "json log", "yaml rbac", "yaml policy", "yaml config", "yaml host"].contains(&info.as_str()),
            "{place}: nothing checks ```{info}"
        );
    }
}

#[test]
fn the_log_lines_are_json_with_the_fields_that_every_line_has() -> anyhow::Result<()> {
    let mut seen = 0;
    for Shown { text, place, .. } in of("json log") {
        for logged in text.lines() {
            let logged: serde_json::Value = serde_json::from_str(logged).with_context(|| place.clone())?;
            for field in ["timestamp", "level", "target", "message"] {
                ensure!(logged[field].is_string(), "{place}: no {field}");
            }
            seen += 1;
        }
    }
    ensure!(seen >= 1, "the chapter about logs shows a line");
    Ok(())
}

#[test]
fn the_documented_commands_exist() -> anyhow::Result<()> {
    for Shown { text, place, .. } in of("sh") {
        for command in text.lines() {
            let mut words = command.split_whitespace();
            ensure!(words.next() == Some("windlass"), "{place}: only the program's own commands are checked");
            // The program parses all arguments before it handles `--help`, and refuses unknown ones.
            let words: Vec<_> = words.chain(["--help"]).collect();
            said(&words).with_context(|| place.clone())?;
        }
    }
    Ok(())
}

#[test]
fn every_flag_is_described_and_no_other() -> anyhow::Result<()> {
    let mut help = String::new();
    let commands: [&[&str]; 26] = [
        &["run"],
        &["dev"],
        &["apiserver"],
        &["config", "print"],
        &["config", "schema"],
        &["features"],
        &["grant"],
        &["rollout", "abort"],
        &["rollout", "diff"],
        &["rollout", "promote"],
        &["rollout", "status"],
        &["inspect"],
        &["push"],
        &["pull"],
        &["rbac"],
        &["version"],
        &["completion"],
        &["man"],
        &["status"],
        &["keys"],
        &["top"],
        &["resume"],
        &["finalizers", "list"],
        &["finalizers", "release"],
        &["children", "list"],
        &["children", "prune"],
    ];
    for command in commands {
        help += &listed(&said(&[command, &["--help"]].concat())?);
        help += "\n";
    }
    // What every program has.
    let common = BTreeSet::from(["help", "version"]);
    // The flags of kubectl that the pages show.
    let kubectls = BTreeSet::from(["from-literal", "overwrite"]);
    let pages = operating();
    let described: BTreeSet<_> = flags(&pages).difference(&kubectls).copied().collect();
    let known: BTreeSet<_> = flags(&help).difference(&common).copied().collect();
    assert_eq!(known.difference(&described).collect::<Vec<_>>(), [&""; 0], "these are not described");
    assert_eq!(described.difference(&flags(&help)).collect::<Vec<_>>(), [&""; 0], "these do not exist");
    Ok(())
}

#[test]
fn the_documented_roles_parse_and_equal_the_printed_ones() -> anyhow::Result<()> {
    let nothing = tempfile::tempdir()?;
    let plugins = nothing.path().to_str().context("a path of UTF-8")?;
    let printed = said(&["rbac", "--plugins", plugins])?;
    for Shown { text, place, .. } in of("yaml rbac") {
        let role: ClusterRole = serde_saphyr::from_str(&text).with_context(|| place.clone())?;
        ensure!(role.rules.is_some_and(|rules| !rules.is_empty()), "{place}: it has no rules");
        ensure!(printed.contains(&text), "{place}: it is not in: {printed}");
    }
    Ok(())
}

/// A directory with the WebApp plugin in it.
fn webapp() -> anyhow::Result<tempfile::TempDir> {
    let directory = tempfile::tempdir()?;
    std::fs::copy(paths::plugins()?.join("webapp.wasm"), directory.path().join("webapp.wasm"))?;
    Ok(directory)
}

#[test]
fn the_documented_policies_parse() -> anyhow::Result<()> {
    /// The exit code of `inspect` if something cannot be read.
    const UNREADABLE_EXIT_CODE: i32 = 2;
    let directory = webapp()?;
    for Shown { text, place, .. } in of("yaml policy") {
        let flag = if text.contains("kind: PluginCeiling") { "--ceiling" } else { "--policy" };
        let file = directory.path().join("document.yaml");
        std::fs::write(&file, &text)?;
        let mut inspect = Command::new(paths::windlass()?);
        inspect.arg("inspect").arg(directory.path().join("webapp.wasm")).arg(flag).arg(&file);
        // Without a cluster, the kinds are guessed.
        let output = inspect.env("KUBECONFIG", directory.path().join("none")).output()?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code().is_some_and(|code| code != UNREADABLE_EXIT_CODE), "{place}: {complaint}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_configurations_parse() -> anyhow::Result<()> {
    for Shown { text, .. } in of("yaml config") {
        let directory = webapp()?;
        std::fs::write(directory.path().join("webapp.config.yaml"), &text)?;
        let kubeconfig = directory.path().join("kubeconfig");
        let arguments = ["dev".as_ref(), "--plugins".as_ref(), directory.path().as_os_str()];
        let arguments = arguments.into_iter().chain(["--kubeconfig-out".as_ref(), kubeconfig.as_os_str()]);
        let host = Host::start(&arguments.collect::<Vec<_>>(), None)?;
        // The host has read the whole file when it looks for the Secret that the file names, which does not exist.
        host.says("the value for /smtp/password").await?;
        host.terminate().await?;
    }
    Ok(())
}

#[test]
fn the_documented_host_configurations_parse() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("windlass.yaml");
    let path = file.to_str().context("a path of UTF-8")?;
    for Shown { text, place, .. } in of("yaml host") {
        std::fs::write(&file, &text)?;
        let printed =
            said(&["config", "print", "--config", path, "--output", "json"]).with_context(|| place.clone())?;
        let printed: serde_json::Value = serde_json::from_str(&printed)?;
        let settings = printed["settings"].as_array().context("a list")?;
        let of_file = settings.iter().filter(|setting| setting["source"] == "file").count();
        ensure!(of_file >= 10, "{place}: only {of_file} settings come from it: {printed}");
    }
    Ok(())
}

/// The names of metrics in `text`, without the suffixes of a histogram's parts.
fn metrics(text: &str) -> BTreeSet<&str> {
    let words = text.split(|character: char| !(character.is_ascii_alphanumeric() || character == '_'));
    let ours = [
        "windlass_",
        "workqueue_",
        "controller_runtime_",
        "leader_election_",
        "kubernetes_feature_",
        "process_",
        "rest_client_",
    ];
    words
        .filter(|word| ours.iter().any(|prefix| word.starts_with(prefix)))
        .map(|word| ["_bucket", "_sum", "_count"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word))
        .collect()
}

#[test]
fn alerts_and_the_metrics_of_alerts_and_dashboard_are_documented() -> anyhow::Result<()> {
    let files = paths::root().join("deploy/chart/files");
    let pages = operating();
    let described = metrics(&pages);
    for (file, least) in [("alerts.yaml", 15), ("dashboard.json", 15)] {
        let text = std::fs::read_to_string(files.join(file))?;
        let used = metrics(&text);
        ensure!(used.len() >= least, "{file} uses {used:?}");
        let unknown: Vec<_> = used.difference(&described).collect();
        ensure!(unknown.is_empty(), "{file} uses {unknown:?}, which docs/operating does not describe");
    }
    let rules: serde_json::Value = serde_saphyr::from_str(&std::fs::read_to_string(files.join("alerts.yaml"))?)?;
    let rules = rules["groups"][0]["rules"].as_array().context("rules")?;
    let names: BTreeSet<_> = rules.iter().filter_map(|rule| rule["alert"].as_str()).collect();
    ensure!(names.len() == rules.len() && names.len() >= 15, "each has a name of its own: {names:?}");
    let (_, runbook) = pages.split_once("\n## Alerts\n").context("a chapter about alerts")?;
    let lines = runbook.lines().take_while(|line| !line.starts_with("## "));
    let told: BTreeSet<_> = lines.filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    ensure!(told == names, "told, or there, only: {:?}", told.symmetric_difference(&names).collect::<Vec<_>>());
    Ok(())
}
