//! An author's workflow: a new folder, a build, and changes to the plugin while it runs.
//!
//! Rust plugins are built in their own target directory beside the host's, which the next run reuses: compiling the SDK
//! takes most of the time.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::process::Command;
use windlass_tests::host::Host;
use windlass_tests::objects::Objects;
use windlass_tests::wait::until_within;
use windlass_tests::{busy, paths, server};

/// The time limit for building a plugin beside other tests. It is long because Rust builds wait for each other.
pub(crate) const BUILD_TIMEOUT: Duration = Duration::from_mins(8);

/// Cargo's settings for an author's build. All crates are fetched already, for the workspace, and the plugin need not
/// be small.
pub(crate) fn for_cargo() -> anyhow::Result<Vec<(&'static str, PathBuf)>> {
    let target = paths::windlass()?.with_file_name("author");
    Ok(vec![
        ("CARGO_TARGET_DIR", target),
        ("CARGO_NET_OFFLINE", "true".into()),
        ("CARGO_PROFILE_RELEASE_LTO", "off".into()),
        ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1".into()),
    ])
}

async fn windlass<S: AsRef<OsStr>>(arguments: &[S]) -> anyhow::Result<Output> {
    let mut command = Command::new(paths::windlass()?);
    command.env("WINDLASS_CACHE_DIR", paths::cache()?).envs(for_cargo()?).args(arguments);
    Ok(command.stdin(Stdio::null()).kill_on_drop(true).output().await?)
}

pub(crate) fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

async fn build(folder: &Path) -> anyhow::Result<(Option<i32>, String, String)> {
    let output = windlass(&["build".as_ref(), folder.as_os_str()]).await?;
    let (out, errors) = texts(&output);
    Ok((output.status.code(), out, errors))
}

pub(crate) fn edit(path: &Path, from: &str, to: &str) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(path)?;
    ensure!(text.contains(from), "{} has no {from:?}:\n{text}", path.display());
    Ok(std::fs::write(path, text.replacen(from, to, 1))?)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_rust_plugin_runs_and_its_authors_changes_take_over() -> anyhow::Result<()> {
    let _turn = busy::turn().await?;
    let at = tempfile::tempdir()?;
    let folder = at.path().join("my-shop");
    let new = ["new".as_ref(), "rust".as_ref(), "my-shop".as_ref(), "--dir".as_ref(), folder.as_os_str()];
    let made = windlass(&new).await?;
    let (out, errors) = texts(&made);
    ensure!(made.status.success() && out.contains("windlass dev"), "{out}{errors}");
    let again = windlass(&new).await?;
    ensure!(again.status.code() == Some(2) && texts(&again).1.contains("not empty"), "{:?}", texts(&again));

    // Use the crate versions that the workspace has fetched, and the toolchain with a standard library for plugins.
    for file in ["Cargo.lock", "rust-toolchain.toml"] {
        std::fs::copy(paths::root().join(file), folder.join(file))?;
    }
    let (code, out, errors) = build(&folder).await?;
    ensure!(
        code == Some(0) && out.ends_with("my-shop.policy.yaml grants all that the plugin asks for\n"),
        "{out}{errors}"
    );

    let environment = for_cargo()?;
    let environment: Vec<_> = environment.iter().map(|(name, value)| (*name, value.as_os_str())).collect();
    let host = Host::start_with(&["dev".as_ref(), folder.as_os_str()], &environment, None)?;
    host.says_within(BUILD_TIMEOUT, &["applied the ConfigMap"]).await?;
    let kubeconfig = folder.join(".windlass/kubeconfig");
    let objects = Objects::new(server::client(&kubeconfig).await?, "default");
    message(&objects, "Hello, world").await?;

    let source = folder.join("src/lib.rs");
    edit(&source, r#""message": object.spec.message"#, r#""message": object.spec.message.to_uppercase()"#)?;
    message(&objects, "HELLO, WORLD").await.with_context(|| host.log())?;

    // A panic is reported with the names of the author's functions, and then only counted.
    edit(&source, "/// The desired ConfigMap of an object.\nfn", "#[inline(never)]\nfn")?;
    edit(&source, "    json!({\n", "    assert_ne!(object.spec.message, \"panic\");\n    json!({\n")?;
    edit(&folder.join("sample.yaml"), "Hello, world", "panic")?;
    host.says_within(BUILD_TIMEOUT, &["in my_shop::config_map"]).await?;
    host.says_within(BUILD_TIMEOUT, &["the same failure, "]).await?;
    edit(&folder.join("sample.yaml"), "panic", "Hello, world")?;

    // A build that fails leaves the running plugin in place.
    edit(&source, "fn config_map(", "fn config map(")?;
    host.says_within(BUILD_TIMEOUT, &["the build failed: fix it and save; the previous build continues"]).await?;
    edit(&folder.join("sample.yaml"), "Hello, world", "Still here")?;
    message(&objects, "STILL HERE").await.with_context(|| host.log())?;
    let (code, _, errors) = build(&folder).await?;
    ensure!(code == Some(1) && errors.contains("cargo rustc"), "{code:?} {errors}");
    let status = host.terminate().await?;
    ensure!(status.success(), "{status}");
    Ok(())
}

/// Waits until the plugin's `ConfigMap` has this message. The plugin may need a build first.
pub(crate) async fn message(objects: &Objects, text: &str) -> anyhow::Result<()> {
    until_within(BUILD_TIMEOUT, &format!("the ConfigMap says {text:?}"), || async {
        let found = objects.get("ConfigMap", "hello").await?.context("it is not there")?;
        ensure!(found["data"]["message"] == text, "{found}");
        Ok::<_, anyhow::Error>(())
    })
    .await
}

/// A folder whose build command only copies this component.
fn folder_of(name: &str, component: &[u8]) -> anyhow::Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("source"), component)?;
    let file = format!("name: {name}\nbuild: {{command: cp source built, output: built}}\n");
    std::fs::write(folder.path().join("windlass.yaml"), file)?;
    Ok(folder)
}

fn webapp() -> anyhow::Result<Vec<u8>> {
    Ok(std::fs::read(paths::plugins()?.join("webapp.wasm"))?)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_plugin_again_leaves_the_file_alone() -> anyhow::Result<()> {
    let folder = folder_of("webapp", &webapp()?)?;
    let built = folder.path().join("build/webapp.wasm");
    let (code, out, errors) = build(folder.path()).await?;
    ensure!(code == Some(0) && out.starts_with("built ") && out.contains("apps/v1 Deployment"), "{out}{errors}");
    let first = std::fs::metadata(&built)?.modified()?;
    let (code, out, _) = build(folder.path()).await?;
    ensure!(code == Some(0) && out.contains("the same as before"), "{out}");
    assert_eq!(std::fs::metadata(&built)?.modified()?, first);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_fails_until_crd_yaml_follows_the_types() -> anyhow::Result<()> {
    let folder = folder_of("webapp", &webapp()?)?;
    let (at, generated) = (folder.path().as_os_str(), folder.path().join("generated"));
    std::fs::copy(paths::root().join("examples/webapp/crd.yaml"), &generated)?;
    std::fs::copy(&generated, folder.path().join("crd.yaml"))?;
    let file = std::fs::read_to_string(folder.path().join("windlass.yaml"))?;
    std::fs::write(folder.path().join("windlass.yaml"), file + "definitions: {command: cat generated}\n")?;
    let (code, _, errors) = build(folder.path()).await?;
    ensure!(code == Some(0), "{errors}");

    edit(&generated, "default: 8080", "default: 80")?;
    let (code, _, errors) = build(folder.path()).await?;
    let path = "spec.versions[v1beta1].schema.openAPIV3Schema.properties[spec].properties[port].default";
    let expected = format!("{path}: crd.yaml has 8080, and the types give 80\n");
    ensure!(
        code == Some(1) && errors.contains(&expected) && errors.contains("`windlass crd` updates crd.yaml"),
        "{errors}"
    );
    let checked = windlass(&["crd".as_ref(), at, "--check".as_ref()]).await?;
    ensure!(checked.status.code() == Some(1) && texts(&checked).1.contains(&expected), "{:?}", texts(&checked));
    for said in ["wrote crd.yaml\n", "crd.yaml is up to date\n"] {
        let written = windlass(&["crd".as_ref(), at]).await?;
        ensure!(written.status.success() && texts(&written).0 == said, "{:?}", texts(&written));
    }
    let (code, _, errors) = build(folder.path()).await?;
    ensure!(code == Some(0), "{errors}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_names_missing_and_needless_rules_of_the_policy() -> anyhow::Result<()> {
    let folder = folder_of("webapp", &webapp()?)?;
    let granted = windlass(&["grant", &paths::plugins()?.join("webapp.wasm").to_string_lossy(), "-o", "-"]).await?;
    let (granted, errors) = texts(&granted);
    ensure!(granted.contains("rules:\n") && granted.contains("\"webapps\""), "{granted}{errors}");
    let left_over = "rules:\n- {apiGroups: [batch], resources: [jobs], verbs: [get]}\n";
    let policy = granted.replacen("rules:\n", left_over, 1).replacen(", \"delete\"]", "]", 1);
    std::fs::write(folder.path().join("webapp.policy.yaml"), policy)?;
    let (code, out, errors) = build(folder.path()).await?;
    let expected =
        "webapp.policy.yaml lacks these rights that the plugin asks for:\n    rules:\n    - apiGroups: [\"apps\"]";
    ensure!(code == Some(0) && out.contains(expected), "{out}{errors}");
    let expected = "warning     webapp.policy.yaml grants rights that the plugin does not ask for; remove them:\n    \
        - apiGroups: [\"batch\"]\n      resources: [\"jobs\"]\n      verbs: [\"get\"]\n";
    ensure!(out.ends_with(expected), "{out}{errors}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_that_is_no_plugin_is_explained_and_replaces_nothing() -> anyhow::Result<()> {
    let newer = replaced(&webapp()?, b"windlass:plugin/reconciler@0.3.0", b"windlass:plugin/reconciler@9.1.0");
    for (name, component, says) in [
        ("shop", webapp()?, "its manifest says that its name is \"webapp\", and windlass.yaml says \"shop\""),
        ("webapp", newer, "it is built for `windlass:plugin/reconciler@9.1.0`"),
        ("webapp", b"text".to_vec(), "it is not a WebAssembly module"),
        ("webapp", b"\0asm\x01\0\0\0".to_vec(), "Is the plugin registered with the SDK"),
    ] {
        let folder = folder_of(name, &component)?;
        let built = folder.path().join("build").join(format!("{name}.wasm"));
        std::fs::create_dir_all(folder.path().join("build"))?;
        std::fs::write(&built, "what was built before")?;
        let (code, _, errors) = build(folder.path()).await?;
        ensure!(code == Some(1) && errors.contains(says), "{code:?} {errors}");
        assert_eq!(std::fs::read(&built)?, b"what was built before");
    }
    Ok(())
}

fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for at in 0..bytes.len() - from.len() {
        if bytes[at..].starts_with(from) {
            bytes[at..at + to.len()].copy_from_slice(to);
        }
    }
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_that_cannot_be_tried_and_one_that_fails_have_different_codes() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    for (file, says) in [
        (None, "there is no windlass.yaml"),
        (Some("name: shop\nlanguage: go\nplugn: composer\n"), "did you mean `plugin`?"),
        (Some("name: shop\nlanguage: go\nsdk: nowhere\n"), "nowhere: not found"),
    ] {
        if let Some(text) = file {
            std::fs::write(folder.path().join("windlass.yaml"), text)?;
        }
        let (code, _, errors) = build(folder.path()).await?;
        ensure!(code == Some(2) && errors.contains(says), "{code:?} {errors}");
    }
    Ok(())
}
