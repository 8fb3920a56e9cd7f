//! Tests the configuration file of a host. It replaces flags, flags and the environment override it, and errors in it
//! are reported.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context as _, ensure};
use serde_json::Value;
use windlass_tests::host::Host;
use windlass_tests::paths;
use windlass_tests::server::{Kind, Server};
use windlass_tests::story::Story;

use crate::webapp::plugin_directory;

/// The exit code of a configuration that cannot be used.
const USAGE: Option<i32> = Some(2);
const HEAD: &str = "apiVersion: windlass.dev/v1alpha1\nkind: HostConfiguration\n";

/// Writes `windlass.yaml` with these keys into `directory`.
fn write(directory: &Path, keys: &str) -> anyhow::Result<PathBuf> {
    let path = directory.join("windlass.yaml");
    std::fs::write(&path, format!("{HEAD}{keys}"))?;
    Ok(path)
}

fn windlass(arguments: &[&str], environment: &[(&str, &str)]) -> anyhow::Result<Output> {
    let mut command = Command::new(paths::windlass()?);
    Ok(command.args(arguments).envs(environment.iter().copied()).output()?)
}

/// The settings that `windlass config print` shows, as `(value, source, from)`.
struct Printed(Value);

impl Printed {
    fn of(arguments: &[&str], environment: &[(&str, &str)]) -> anyhow::Result<Self> {
        let output = windlass(&[&["config", "print", "-o", "json"], arguments].concat(), environment)?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(Self(serde_json::from_slice(&output.stdout)?))
    }

    fn setting(&self, key: &str) -> anyhow::Result<(String, &str, &str)> {
        let settings = self.0["settings"].as_array().context("a list")?;
        let setting = settings.iter().find(|setting| setting["key"] == key).with_context(|| key.to_owned())?;
        let text = |field: &str| setting[field].as_str().unwrap_or_default();
        let value = setting["value"].as_str().map_or_else(|| setting["value"].to_string(), str::to_owned);
        Ok((value, text("source"), text("from")))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_runs_by_its_file_and_a_flag_overrides_that() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    server.install_webapp().await?;
    let plugins = plugin_directory()?;
    // The plugins are beside the file.
    let keys = format!(
        "plugins: .\nkubeconfig: {}\nnamespace: elsewhere\ngrants: manifest\nleases: none\nlogFormat: json\n\
         adminAddress: 127.0.0.1:0\nreadOnly: true\nlimits: {{memory: 64Mi, writes: 900}}\n",
        server.kubeconfig().display()
    );
    let path = write(plugins.path(), &keys)?;
    let path = path.to_str().context("UTF-8")?;
    let arguments = ["--config", path, "--namespace", server.objects().namespace(), "--read-only=false"];
    let host = Host::start(&[&["run"][..], &arguments].concat(), None)?;
    let started = host.says("controller started").await?;
    let line: Value = serde_json::from_str(&started).context("the file says JSON")?;
    ensure!(line["message"].is_string(), "{started}");
    // With the settings of the file, the host would watch another namespace and change nothing.
    Story::new(server.objects()).create().await?;
    Story::new(server.objects()).run().await?;

    let printed =
        Printed::of(&[&arguments[..], &["--limit", "memory=32Mi"]].concat(), &[("WINDLASS_LEASES", "shards")])?;
    let of_file = |line: u32| format!("{path}:{line}");
    assert_eq!(printed.0["file"], path);
    let beside = plugins.path().join(".").display().to_string();
    assert_eq!(printed.setting("plugins")?, (beside, "file", &*of_file(3)));
    assert_eq!(printed.setting("grants")?, ("manifest".to_owned(), "file", &*of_file(6)));
    assert_eq!(printed.setting("namespace")?, (server.objects().namespace().to_owned(), "flag", "--namespace"));
    assert_eq!(printed.setting("readOnly")?, ("false".to_owned(), "flag", "--read-only"));
    assert_eq!(printed.setting("leases")?, ("shards".to_owned(), "environment", "WINDLASS_LEASES"));
    assert_eq!(printed.setting("limits.memory")?, ("32Mi".to_owned(), "flag", "--limit"));
    assert_eq!(printed.setting("limits.writes")?, ("900".to_owned(), "file", &*of_file(11)));
    assert_eq!(printed.setting("cacheLimit")?, ("1Gi".to_owned(), "default", ""));
    assert_eq!(printed.setting("concurrentCalls")?, ("null".to_owned(), "default", "twice the processors"));
    assert!(host.terminate().await?.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_host_follows_its_file() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    let directory = tempfile::tempdir()?;
    let keys = format!("plugins: .\nkubeconfig: {}\nleases: none\n", server.kubeconfig().display());
    let path = write(directory.path(), &keys)?;
    let config = ("WINDLASS_CONFIG", path.as_os_str());
    let host = Host::start_with(&["run", "--writes-per-second=7"], &[config], None)?;
    host.says("settings come from a configuration file too").await?;
    write(directory.path(), &(keys.clone() + "logLevel: debug\n"))?;
    host.says("has changed the level of the log filter=debug").await?;
    // A flag overrides this key, so a change of the key has no effect.
    write(directory.path(), &(keys.clone() + "logLevel: debug\ncacheLimit: 2Gi\nwritesPerSecond: 9\n"))?;
    let told = host.says("these keys take effect after a restart").await?;
    assert!(told.contains("cacheLimit") && !told.contains("writesPerSecond"), "{told}");
    write(directory.path(), &(keys.clone() + "logLevel: warnings\n"))?;
    let told = host.says("the previous settings stay in force").await?;
    assert!(told.contains(&format!("{}:6:11: `logLevel`", path.display())), "{told}");
    write(directory.path(), &keys)?;
    host.says("the configuration file is valid again").await?;
    host.says("has changed the level of the log filter=info").await?;
    host.says("again as it was when this host started").await?;
    assert!(host.terminate().await?.success());
    Ok(())
}

#[test]
fn an_invalid_configuration_file_ends_the_host_and_names_the_place() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("windlass.yaml");
    let shown = path.display().to_string();
    for (keys, says) in [
        (None, "cannot be read: No such file".to_owned()),
        (
            Some("pluginCacheLimitt: 1Gi\n"),
            format!("{shown}:3:1: unknown key `pluginCacheLimitt`; did you mean `pluginCacheLimit`?"),
        ),
        (Some("plugins: /nowhere\ngrants: polcy\n"), format!("{shown}:4:9: `grants`: ")),
        (Some("plugins: /nowhere\nleaseDuration: 1s\n"), "lease".to_owned()),
        (Some("recordSample: 0.5\nplugins: /nowhere\n"), format!("flags also come from {shown}")),
        (Some("instance: blue\n"), "--plugins <DIR>".to_owned()),
    ] {
        if let Some(keys) = keys {
            write(directory.path(), keys)?;
        }
        let config = path.to_str().context("UTF-8")?;
        let by_flag = windlass(&["run", "--config", config], &[])?;
        let by_environment = windlass(&["run"], &[("WINDLASS_CONFIG", config)])?;
        for Output { status, stderr, .. } in [by_flag, by_environment] {
            let said = String::from_utf8(stderr)?;
            let is_of_a_host = says == "lease";
            assert!(status.code() == USAGE || is_of_a_host && !status.success(), "{status}: {said}");
            assert!(said.contains(&says), "{says}: {said}");
        }
        let Output { status, stderr, .. } = windlass(&["config", "print", "--config", config], &[])?;
        let is_shown = keys.is_some_and(|keys| keys.starts_with("instance"));
        assert_eq!(status.code(), if is_shown { Some(0) } else { USAGE }, "{}", String::from_utf8_lossy(&stderr));
    }
    Ok(())
}

#[test]
fn the_schema_and_the_settings_are_printed() -> anyhow::Result<()> {
    let Output { status, stdout, .. } = windlass(&["config", "schema"], &[])?;
    let schema: Value = serde_json::from_slice(&stdout)?;
    assert!(status.success() && schema["properties"]["plugins"]["type"] == "string", "{schema}");
    let directory = tempfile::tempdir()?;
    let path = write(directory.path(), "instance: blue\nlogLevel: warn\n")?;
    let shown = path.to_str().context("UTF-8")?;
    for (format, says) in [
        ("table", format!("instance               blue                    {shown}:3")),
        ("wide", "--lease-renew-deadline".to_owned()),
        ("yaml", format!("from: \"{shown}:4\"")),
    ] {
        let Output { status, stdout, .. } = windlass(&["config", "print", "--config", shown, "-o", format], &[])?;
        let said = String::from_utf8(stdout)?;
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(status.success() && squeezed(&said).contains(&squeezed(&says)), "{format}: {said}");
    }
    Ok(())
}
