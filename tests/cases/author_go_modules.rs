//! A plugin in Go with Kubernetes types, built with smaller copies of the Kubernetes modules.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use anyhow::{Context, ensure};
use tokio::process::Command;
use windlass_tests::host::Host;
use windlass_tests::objects::Objects;
use windlass_tests::{busy, paths, server};

use crate::author::{BUILD_TIMEOUT, edit, message, texts};

/// The maximum size of a plugin that uses the types of two groups and the scheme. With the whole modules it has 25 MB.
const PLUGIN_BYTES_MAX: u64 = 10 << 20;
const SAMPLE: &str = "apiVersion: v1\nkind: Secret\nmetadata: {name: first, namespace: default}\n";

/// A folder with a plugin, and an empty cache.
struct Folder {
    at: tempfile::TempDir,
    environment: Vec<(&'static str, PathBuf)>,
}

impl Folder {
    fn new() -> anyhow::Result<Self> {
        let at = tempfile::tempdir()?;
        let (folder, root) = (at.path().join("shop"), paths::root());
        std::fs::create_dir(&folder)?;
        for (name, text) in [
            ("main.go", include_str!("author_go_modules/main.go")),
            ("go.mod", include_str!("author_go_modules/go.mod.txt")),
            ("windlass.yaml", "name: shop\nlanguage: go\n"),
            ("sample.yaml", SAMPLE),
        ] {
            std::fs::write(folder.join(name), text)?;
        }
        // It has the modules that the plugin needs, and they are fetched already.
        std::fs::copy(root.join("tests/cluster/go.sum"), folder.join("go.sum"))?;
        let environment = vec![
            ("PATH", paths::languages()?.into()),
            ("GOPROXY", "off".into()),
            ("WINDLASS_CACHE_DIR", at.path().join("cache")),
        ];
        Ok(Self { at, environment })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.at.path().join("shop").join(name)
    }

    fn copies(&self) -> anyhow::Result<Vec<String>> {
        let entries = std::fs::read_dir(self.at.path().join("cache/go-modules"))?;
        let mut names: Vec<_> = entries
            .map(|entry| Ok(entry?.file_name().into_string().unwrap_or_default()))
            .collect::<std::io::Result<_>>()?;
        names.sort();
        Ok(names)
    }

    async fn build(&self) -> anyhow::Result<Output> {
        let mut command = Command::new(paths::windlass()?);
        command
            .args(["build", "--limit", "compile-cpu=180s"])
            .arg(self.file(""))
            .envs(self.environment.iter().cloned());
        Ok(command.stdin(Stdio::null()).kill_on_drop(true).output().await?)
    }

    /// Expects a build to fail because of the sources.
    async fn is_refused(&self, says: &[&str]) -> anyhow::Result<()> {
        let output = self.build().await?;
        let (_, errors) = texts(&output);
        ensure!(output.status.code() == Some(1) && says.iter().all(|text| errors.contains(text)), "{says:?}: {errors}");
        Ok(())
    }
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| path.display().to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_go_plugin_with_kubernetes_types_is_small_and_runs() -> anyhow::Result<()> {
    let _turn = busy::turn().await?;
    let folder = Folder::new()?;
    let files = [read(&folder.file("go.mod"))?, read(&folder.file("go.sum"))?];
    let output = folder.build().await?;
    ensure!(output.status.success(), "{:?}", texts(&output));
    let size = std::fs::metadata(folder.file("build/shop.wasm"))?.len();
    ensure!(size < PLUGIN_BYTES_MAX, "it has {size} bytes");
    ensure!(files == [read(&folder.file("go.mod"))?, read(&folder.file("go.sum"))?], "the author's files have changed");
    let copies = folder.copies()?;
    for module in ["k8s.io+api@v0.36.3-", "k8s.io+apimachinery@v0.36.3-", "k8s.io+client-go@v0.36.3-"] {
        ensure!(copies.iter().any(|copy| copy.starts_with(module)), "{module} is missing: {copies:?}");
    }

    let environment: Vec<_> = folder.environment.iter().map(|(name, value)| (*name, value.as_os_str())).collect();
    let path = folder.file("");
    let dev = ["dev".as_ref(), path.as_os_str(), "--limit".as_ref(), "compile-cpu=180s".as_ref()];
    let host = Host::start_with(&dev, &environment, None)?;
    host.says_within(BUILD_TIMEOUT, &["controller started"]).await?;
    let objects = Objects::new(server::client(&folder.file(".windlass/kubeconfig")).await?, "default");
    let expected = "apps/v1, Kind=Deployment, batch: false, 5 tries, 409, {\"kind\":\"Secret\",\"name\":\"first\"}";
    message(&objects, expected).await.with_context(|| host.log())?;
    ensure!(folder.copies()? == copies, "a later build uses the same copies");
    let status = host.terminate().await?;
    ensure!(status.success(), "{status}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_that_needs_a_connection_is_refused_with_its_line() -> anyhow::Result<()> {
    let _turn = busy::turn().await?;
    let folder = Folder::new()?;
    let retry = "\t\"k8s.io/client-go/util/retry\"\n";
    let imports = format!("\t_ \"k8s.io/client-go/informers\"\n\t_ \"k8s.io/client-go/tools/leaderelection\"\n{retry}");
    edit(&folder.file("main.go"), retry, &imports)?;
    let first = "main.go:12:2: a plugin cannot import k8s.io/client-go/informers: the host has the informers";
    let second = "main.go:13:2: a plugin cannot import k8s.io/client-go/tools/leaderelection: the host elects a leader";
    folder.is_refused(&[first, second, "mgr.GetClient()"]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_that_differs_from_go_sum_is_not_copied() -> anyhow::Result<()> {
    let _turn = busy::turn().await?;
    let folder = Folder::new()?;
    edit(&folder.file("go.sum"), "k8s.io/api v0.36.3 h1:N", "k8s.io/api v0.36.3 h1:M")?;
    folder.is_refused(&["k8s.io/api@v0.36.3", "checksum mismatch"]).await?;
    ensure!(folder.copies().unwrap_or_default().iter().all(|copy| !copy.starts_with("k8s.io+api@")));
    Ok(())
}
