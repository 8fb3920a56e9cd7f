//! A kubebuilder project becomes a plugin that reconciles: `windlass import`, `windlass build` and `windlass dev`.
//!
//! The project is made here. Its modules are those of the stand-in for controller-runtime, which are fetched already.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use anyhow::{Context, ensure};
use tokio::process::Command;
use windlass_tests::host::Host;
use windlass_tests::objects::Objects;
use windlass_tests::{busy, paths, server};

use crate::author::{BUILD_TIMEOUT, edit, message, texts};

const CRD: &str = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: greetings.hello.example.com}
spec:
  group: hello.example.com
  names: {kind: Greeting, listKind: GreetingList, plural: greetings, singular: greeting}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec: {type: object, required: [message], properties: {message: {type: string}}}
          status: {type: object, properties: {greeted: {type: boolean}}}
";

const SAMPLE: &str = "\
apiVersion: hello.example.com/v1
kind: Greeting
metadata: {name: hello, namespace: default}
spec: {message: Hello}
";

/// A project on disk.
struct Project {
    at: tempfile::TempDir,
    environment: Vec<(&'static str, PathBuf)>,
}

impl Project {
    fn new() -> anyhow::Result<Self> {
        let at = tempfile::tempdir()?;
        let stand_in = paths::root().join("sdk/ctrlruntime");
        for (path, text) in [
            ("go.mod", go_mod(&std::fs::read_to_string(stand_in.join("go.mod"))?)),
            ("go.sum", std::fs::read_to_string(stand_in.join("go.sum"))?),
            ("PROJECT", "domain: example.com\nprojectName: greeter\n".into()),
            ("api/v1/types.go", include_str!("import_builds/types.go").into()),
            ("internal/controller/greeting.go", include_str!("import_builds/controller.go").into()),
            ("cmd/main.go", include_str!("import_builds/main.go").into()),
            ("config/crd/bases/greetings.yaml", CRD.into()),
            ("config/samples/greeting.yaml", SAMPLE.into()),
        ] {
            let path = at.path().join(path);
            std::fs::create_dir_all(path.parent().context("a folder")?)?;
            std::fs::write(path, text)?;
        }
        let environment = vec![
            ("PATH", paths::languages()?.into()),
            ("GOPROXY", "off".into()),
            ("WINDLASS_CACHE_DIR", at.path().join(".cache")),
        ];
        Ok(Self { at, environment })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.at.path().join(name)
    }

    async fn windlass(&self, command: &str, folder: &Path) -> anyhow::Result<Output> {
        let mut windlass = Command::new(paths::windlass()?);
        windlass.arg(command).arg(folder).envs(self.environment.iter().cloned());
        if command == "build" {
            windlass.args(["--limit", "compile-cpu=180s"]);
        }
        Ok(windlass.stdin(Stdio::null()).kill_on_drop(true).output().await?)
    }
}

/// The project's go.mod: it requires what the stand-in requires, and controller-runtime itself.
fn go_mod(stand_in: &str) -> String {
    let lines = stand_in.lines().filter(|line| !line.contains("windlass.dev/sdk"));
    let lines: Vec<_> =
        lines.map(|line| if line.starts_with("module ") { "module example.com/greeter" } else { line }).collect();
    format!("{}\nrequire sigs.k8s.io/controller-runtime v0.24.1\n", lines.join("\n"))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_imported_project_is_built_and_reconciles() -> anyhow::Result<()> {
    let _turn = busy::turn().await?;
    let project = Project::new()?;
    let imported = project.windlass("import", project.at.path()).await?;
    ensure!(imported.status.success(), "{:?}", texts(&imported));
    let folder = project.file("windlass");
    let built = project.windlass("build", &folder).await?;
    let (out, errors) = texts(&built);
    ensure!(
        built.status.success() && out.contains("greeter.policy.yaml grants all that the plugin asks for"),
        "{out}{errors}"
    );

    let environment: Vec<_> = project.environment.iter().map(|(name, value)| (*name, value.as_os_str())).collect();
    let dev = ["dev".as_ref(), folder.as_os_str(), "--limit".as_ref(), "compile-cpu=180s".as_ref()];
    let host = Host::start_with(&dev, &environment, None)?;
    host.says_within(BUILD_TIMEOUT, &["controller started"]).await?;
    let objects = Objects::new(server::client(&folder.join(".windlass/kubeconfig")).await?, "default");
    message(&objects, "Hello").await.with_context(|| host.log())?;

    // The sources of the project are those of the plugin.
    edit(&project.file("internal/controller/greeting.go"), "greeting.Spec.Message}", "greeting.Spec.Message + \"!\"}")?;
    message(&objects, "Hello!").await.with_context(|| host.log())?;
    let status = host.terminate().await?;
    ensure!(status.success(), "{status}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_main_sets_up_is_refused_with_its_line() -> anyhow::Result<()> {
    let _turn = busy::turn().await?;
    let project = Project::new()?;
    let imported = project.windlass("import", project.at.path()).await?;
    ensure!(imported.status.success(), "{:?}", texts(&imported));
    let folder = project.file("windlass");
    let setup = "(&hellov1.Greeting{}).SetupWebhookWithManager(mgr)";
    let start = "mgr.Start(ctrl.SetupSignalHandler())";
    edit(&folder.join("main.go"), start, &format!("errors.Join({setup}, {start})"))?;
    edit(&folder.join("main.go"), "import (\n", "import (\n\t\"errors\"\n")?;
    let built = project.windlass("build", &folder).await?;
    let errors = texts(&built).1;
    let expected = ["types.go:62: a webhook of *v1.Greeting does not work", "ValidatingAdmissionPolicy"];
    ensure!(built.status.code() == Some(1) && expected.iter().all(|text| errors.contains(text)), "{errors}");
    Ok(())
}
