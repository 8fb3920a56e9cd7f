//! Tests `windlass grant` and `windlass inspect` as an operator and a pipeline use them.

use std::path::Path;
use std::process::Stdio;

use anyhow::Context;
use serde_json::Value;
use tokio::process::Command;
use windlass_core::deceptive::is_deceptive;
use windlass_tests::host::Host;
use windlass_tests::paths;
use windlass_tests::server::{Kind, Server};
use windlass_tests::story::Story;

use crate::webapp::plugin_directory;

/// A command's standard output, standard error and exit code.
pub(crate) struct Ran {
    pub(crate) printed: String,
    pub(crate) said: String,
    pub(crate) code: Option<i32>,
}

pub(crate) async fn windlass(arguments: &[&str], home: &Path) -> anyhow::Result<Ran> {
    let mut command = Command::new(paths::windlass()?);
    // The commands must not ask the developer's cluster.
    command.args(arguments).env("HOME", home).env_remove("KUBECONFIG").env_remove("KUBERNETES_SERVICE_HOST");
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Ran { printed: text(output.stdout), said: text(output.stderr), code: output.status.code() })
}

async fn a_written_policy_is_reviewed_and_runs(kind: Kind) -> anyhow::Result<()> {
    let server = Server::start(kind).await?;
    server.install_webapp().await?;
    let plugins = plugin_directory()?;
    let (plugin, policy) = (plugins.path().join("webapp.wasm"), plugins.path().join("webapp.policy.yaml"));
    let (plugin, kubeconfig) = (plugin.to_string_lossy(), server.kubeconfig().to_string_lossy());
    let host = Host::run_with(server.kubeconfig(), server.objects().namespace(), plugins.path(), &[])?;
    host.says("the plugin waits").await?;

    let granted = windlass(&["grant", &plugin, "--kubeconfig", &kubeconfig], plugins.path()).await?;
    assert_eq!(granted.code, Some(0), "{}", granted.said);
    assert!(granted.said.contains("read it before"), "{}", granted.said);
    let text = std::fs::read_to_string(&policy)?;
    assert!(text.contains("resources: [\"webapps\"]") && !text.contains("guessed"), "{text}");
    assert!(text.contains("# SENSITIVE: runs Pods"), "{text}");

    let inspected = windlass(&["inspect", &plugin, "--kubeconfig", &kubeconfig], plugins.path()).await?;
    assert_eq!(inspected.code, Some(0), "{}{}", inspected.printed, inspected.said);
    assert!(
        inspected.printed.contains("paused") && inspected.printed.contains("lacks nothing"),
        "{}",
        inspected.printed
    );

    // With the generated policy, the plugin is paused until someone has read the policy.
    host.says("paused by its policy").await?;
    host.says("controller started").await?;
    let read = text.lines().filter(|line| !line.starts_with("paused:")).collect::<Vec<_>>().join("\n");
    std::fs::write(&policy, read)?;
    host.says("no longer paused").await?;
    Story::new(server.objects()).create().await?;
    assert!(host.terminate().await?.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_generated_policy_runs_once_reviewed_on_the_embedded_server() -> anyhow::Result<()> {
    a_written_policy_is_reviewed_and_runs(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_generated_policy_runs_once_reviewed_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    a_written_policy_is_reviewed_and_runs(Kind::Real).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_policy_of_a_plugin_in_a_build_folder_is_in_its_authors_folder() -> anyhow::Result<()> {
    let (folder, built) = (tempfile::tempdir()?, plugin_directory()?);
    let plugin = folder.path().join("build/webapp.wasm");
    std::fs::create_dir(folder.path().join("build"))?;
    std::fs::copy(built.path().join("webapp.wasm"), &plugin)?;
    std::fs::write(folder.path().join("windlass.yaml"), "name: webapp\n")?;
    let plugin = plugin.to_string_lossy();
    let granted = windlass(&["grant", &plugin], folder.path()).await?;
    assert_eq!(granted.code, Some(0), "{}", granted.said);
    assert!(folder.path().join("webapp.policy.yaml").exists());
    let inspected = windlass(&["inspect", &plugin], folder.path()).await?;
    assert_eq!(inspected.code, Some(0), "{}{}", inspected.printed, inspected.said);
    assert!(inspected.printed.contains("lacks nothing"), "{}", inspected.printed);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_is_not_overwritten_without_force_and_its_gaps_are_shown() -> anyhow::Result<()> {
    let plugins = plugin_directory()?;
    let (plugin, policy) = (plugins.path().join("webapp.wasm"), plugins.path().join("webapp.policy.yaml"));
    let plugin = plugin.to_string_lossy();
    let run = async |arguments: &[&str]| windlass(arguments, plugins.path()).await;
    let shown = run(&["grant", &plugin, "--output", "-", "--in-force"]).await?;
    assert!(shown.code == Some(0) && !policy.exists(), "{}", shown.said);
    assert!(shown.printed.contains("# guessed") && !shown.printed.contains("\npaused:"), "{}", shown.printed);

    let narrow = shown.printed.replace(", \"delete\"]", "]");
    std::fs::write(&policy, &narrow)?;
    let again = run(&["grant", &plugin]).await?;
    assert_eq!(again.code, Some(1), "{}{}", again.printed, again.said);
    assert!(again.printed.contains("[\"delete\"]") && again.printed.contains("deployments"), "{}", again.printed);
    assert!(again.said.contains("--force") && std::fs::read_to_string(&policy)? == narrow, "{}", again.said);

    let forced = run(&["grant", &plugin, "--force"]).await?;
    assert!(forced.code == Some(0) && forced.printed.contains("delete"), "{}{}", forced.printed, forced.said);
    let unchanged = run(&["grant", &plugin]).await?;
    assert!(unchanged.code == Some(0) && unchanged.said.contains("grants all"), "{}", unchanged.said);
    std::fs::write(&policy, "rules: nonsense")?;
    let broken = run(&["grant", &plugin]).await?;
    assert!(broken.code == Some(1) && broken.said.contains("cannot be read"), "{}", broken.said);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn inspect_reports_what_a_plugin_asks_for_has_and_lacks() -> anyhow::Result<()> {
    let plugins = plugin_directory()?;
    let (plugin, policy) = (plugins.path().join("webapp.wasm"), plugins.path().join("webapp.policy.yaml"));
    let plugin = plugin.to_string_lossy();
    let run = async |arguments: &[&str]| windlass(arguments, plugins.path()).await;
    let nothing = run(&["inspect", &plugin]).await?;
    assert_eq!(nothing.code, Some(1), "{}", nothing.said);
    for words in [
        "none (",
        "LACKS",
        "windlass:plugin/cache@0.3.0",
        "abi      0.3.0, reconciler",
        "sha256",
        "lacks these rights, written as in a policy",
        "language Rust",
        "memories    1 of 6",
        "of machine code",
    ] {
        assert!(nothing.printed.contains(words), "{words:?} is not in:\n{}", nothing.printed);
    }
    // The missing rules can be pasted into a policy as they are.
    let (_, lacking) = nothing.printed.split_once("as in a policy:\n").context("what lacks comes last")?;
    let head = "apiVersion: windlass.dev/v1alpha1\nkind: PluginPolicy\nplugin: webapp\n";
    std::fs::write(&policy, format!("{head}{lacking}"))?;
    let everything = run(&["inspect", &plugin, "-o", "json"]).await?;
    assert_eq!(everything.code, Some(0), "{}{}", everything.printed, everything.said);
    let json: Value = serde_json::from_str(&everything.printed)?;
    assert!(json["granted"] == true && json["sha256"].as_str().is_some_and(|digest| digest.len() == 64), "{json}");
    assert_eq!(json["asks"]["rules"][0]["lacks"], Value::Array(vec![]));
    assert!(json["language"] == "Rust" && json["compiledBytes"].as_u64().is_some_and(|bytes| bytes > 0), "{json}");

    // Narrowed rights do not count as missing unless the user asks for that.
    let narrow = lacking.replace("verbs:", "namespaces: [prod]\n  verbs:");
    std::fs::write(&policy, format!("{head}{narrow}"))?;
    let narrowed = run(&["inspect", &plugin]).await?;
    assert_eq!(narrowed.code, Some(0), "{}{}", narrowed.printed, narrowed.said);
    assert!(
        narrowed.printed.contains("  narrowed get list watch \"webapps.") && !narrowed.printed.contains("LACKS"),
        "{}",
        narrowed.printed
    );
    let json: Value = serde_json::from_str(&run(&["inspect", &plugin, "-o", "json"]).await?.printed)?;
    assert!(json["granted"] == false && json["narrowed"] == true, "{json}");
    let strict = run(&["inspect", &plugin, "--require-all"]).await?;
    assert!(strict.code == Some(1) && strict.printed.contains("LACKS"), "{}{}", strict.printed, strict.said);
    let kept = run(&["grant", &plugin]).await?;
    assert!(kept.code == Some(0) && kept.said.contains("narrowed"), "{}{}", kept.printed, kept.said);
    std::fs::write(&policy, format!("{head}{lacking}"))?;

    let elsewhere = tempfile::tempdir()?;
    let directory = elsewhere.path().to_string_lossy();
    assert_eq!(run(&["inspect", &plugin, "--policy-dir", &directory]).await?.code, Some(1));
    let ceiling = elsewhere.path().join("ceiling.yaml");
    std::fs::write(&ceiling, "apiVersion: windlass.dev/v1alpha1\nkind: PluginCeiling\n")?;
    assert_eq!(run(&["inspect", &plugin, "--ceiling", &ceiling.to_string_lossy()]).await?.code, Some(1));
    let missing = run(&["inspect", &plugin, "--policy", "/nowhere/policy.yaml"]).await?;
    assert!(missing.code == Some(2) && missing.said.contains("/nowhere/policy.yaml"), "{}", missing.said);
    assert_eq!(run(&["inspect", "/nowhere/webapp.wasm"]).await?.code, Some(2));
    let no_server = run(&["inspect", &plugin, "--kubeconfig", "/nowhere/kubeconfig"]).await?;
    assert_eq!(no_server.code, Some(2), "{}", no_server.said);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn inspect_explains_what_a_non_plugin_file_is_and_what_to_do() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let inspect = async |text: &str, json: bool| {
        let file = directory.path().join("shop.wasm");
        std::fs::write(&file, wat::parse_str(text)?)?;
        let file = file.to_string_lossy();
        let arguments = if json { &["inspect", &*file, "-o", "json"][..] } else { &["inspect", &*file][..] };
        windlass(arguments, directory.path()).await
    };
    let core = r#"(module (@producers (language "Go" "go1.26.8")) (memory (export "memory") 1))"#;
    let core = inspect(core, false).await?;
    assert_eq!(core.code, Some(2));
    assert!(core.said.contains("core WebAssembly module") && core.said.contains("`windlass build`"), "{}", core.said);
    assert!(core.printed.contains("kind     core module") && core.printed.contains("language Go"), "{}", core.printed);
    // Text in a file of unknown origin cannot control the operator's terminal, nor the output for programs.
    let deceptive = r#"(module (@producers (language "Go\e2\80\ae\c2\9b\e2\80\a8" "1")))"#;
    for json in [false, true] {
        let shown = inspect(deceptive, json).await?;
        assert!(
            shown.printed.contains("Go") && !shown.printed.replace('\n', "").contains(is_deceptive),
            "{}",
            shown.printed
        );
        assert!(!shown.said.replace('\n', "").contains(is_deceptive), "{}", shown.said);
    }
    let newer = r#"(component
        (component $empty)
        (instance $reconciler (instantiate $empty))
        (export "windlass:plugin/reconciler@0.4.0" (instance $reconciler)))"#;
    let newer = inspect(newer, true).await?;
    assert_eq!(newer.code, Some(2));
    let json: Value = serde_json::from_str(&newer.printed)?;
    assert_eq!(json["abi"], serde_json::json!(["0.4.0"]));
    for said in [&newer.said, json["problem"].as_str().unwrap_or_default()] {
        assert!(said.contains("reconciler@0.4.0") && said.contains("newer windlass"), "{said}");
    }
    Ok(())
}
