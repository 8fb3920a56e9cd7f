//! `windlass import` on whole projects: the folder that it writes, what it refuses, and that it changes nothing else.
//!
//! The projects are made here. Their Go is parsed, and never built.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, ensure};
use tokio::process::Command;
use windlass_tests::paths;

use crate::author::{edit, texts};

/// A project with one controller, as kubebuilder lays it out.
const GREETER: &[(&str, &str)] = &[
    (
        "go.mod",
        "module example.com/greeter\n\ngo 1.24.0\n\nrequire (\n\tk8s.io/apimachinery v0.36.3\n\tsigs.k8s.io/controller-runtime v0.24.1\n)\n",
    ),
    ("go.sum", "k8s.io/apimachinery v0.36.3 h1:x=\n"),
    (
        "PROJECT",
        "domain: example.com\nprojectName: greeter\nresources:\n- {group: hello, kind: Greeting, version: v1}\n",
    ),
    (
        "api/v1/groupversion_info.go",
        "// +groupName=hello.example.com\npackage v1\n\nimport \"k8s.io/apimachinery/pkg/runtime/schema\"\n\nvar GroupVersion = \
         schema.GroupVersion{Group: \"hello.example.com\", Version: \"v1\"}\n",
    ),
    ("cmd/main.go", GREETER_MAIN),
    ("internal/controller/greeting.go", GREETER_CONTROLLER),
    ("test/e2e/run.go", "package e2e\n\nimport \"os/exec\"\n\nvar _ = exec.Command(\"kubectl\")\n"),
    ("config/crd/bases/greetings.yaml", GREETER_CRD),
    (
        "config/manager/manager.yaml",
        "kind: Deployment\nspec: {template: {spec: {containers: [{name: manager, env: [{name: GREETING_IMAGE, value: \"hello:1\"}]}]}}}\n",
    ),
    ("config/samples/kustomization.yaml", "resources: [greeting.yaml]\n"),
    (
        "config/samples/greeting.yaml",
        "apiVersion: hello.example.com/v1\nkind: Greeting\nmetadata:\n  name: world # the first one\nspec:\n  times: 1\n",
    ),
];

const GREETER_MAIN: &str = r#"package main

import (
	"flag"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	ctrl "sigs.k8s.io/controller-runtime"

	hellov1 "example.com/greeter/api/v1"
	"example.com/greeter/internal/controller"
)

var scheme = runtime.NewScheme()

func main() {
	elect := flag.Bool("leader-elect", false, "")
	flag.Parse()
	utilruntime.Must(hellov1.AddToScheme(scheme))
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{Scheme: scheme, LeaderElection: *elect})
	if err != nil {
		panic(err)
	}
	if err := (&controller.GreetingReconciler{
		Client: mgr.GetClient(),
		Scheme: mgr.GetScheme(),
	}).SetupWithManager(mgr); err != nil {
		panic(err)
	}
	mgr.Add(nil)
}
"#;

const GREETER_CONTROLLER: &str = r#"package controller

import (
	"context"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	hellov1 "example.com/greeter/api/v1"
)

const finalizer = "hello.example.com/tidy"

type GreetingReconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

// +kubebuilder:rbac:groups=hello.example.com,resources=greetings;greetings/status,verbs=get;list;watch;update
// +kubebuilder:rbac:groups=core,resources=configmaps,verbs=get;list;watch;create;update
// +kubebuilder:rbac:groups=core,resources=events,verbs=create;patch

func (r *GreetingReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	greeting := &hellov1.Greeting{}
	controllerutil.AddFinalizer(greeting, finalizer)
	_ = os.Getenv("GREETING_IMAGE")
	return ctrl.Result{}, nil
}

func (r *GreetingReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&hellov1.Greeting{}).Owns(&corev1.ConfigMap{}).Complete(r)
}
"#;

const GREETER_CRD: &str = "\
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
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {times: {type: integer}}}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
    subresources: {status: {}}
";

/// A project with two controllers in one package and much that a plugin cannot do. Its main.go is at the top.
const FLEET: &[(&str, &str)] = &[
    (
        "go.mod",
        "module example.com/fleet\n\ngo 1.26\n\nrequire k8s.io/apimachinery v0.33.0\n\nreplace example.com/lib => ./lib\n",
    ),
    (
        "apis/v1/types.go",
        "package v1\n\nimport \"k8s.io/apimachinery/pkg/runtime/schema\"\n\nconst group = \"fleet.example.com\"\n\nvar SchemeVersion = \
         schema.GroupVersion{Group: group, Version: \"v1\"}\n",
    ),
    ("main.go", FLEET_MAIN),
    ("controllers/all.go", FLEET_CONTROLLERS),
    (
        "webhooks/ship.go",
        "package webhooks\n\n// +kubebuilder:webhook:path=/x,mutating=true,resources=ships,groups=fleet.example.com\nfunc f() {}\n",
    ),
];

const FLEET_MAIN: &str = r#"package main

import (
	"os"

	ctrl "sigs.k8s.io/controller-runtime"

	"example.com/fleet/controllers"
)

func main() {
	mgr, _ := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{})
	port := os.Getenv("PORT")
	ships := &controllers.ShipReconciler{Client: mgr.GetClient(), Port: port}
	_ = ships.SetupWithManager(mgr)
	_ = controllers.SetupHarbours(mgr, port)
}
"#;

const FLEET_CONTROLLERS: &str = r#"package controllers

import (
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "example.com/fleet/apis/v1"
)

type ShipReconciler struct {
	client.Client
	Port string
}

func (r *ShipReconciler) SetupWithManager(mgr ctrl.Manager) error {
	b := ctrl.NewControllerManagedBy(mgr).Named("fleet.ship").For(&fleetv1.Ship{})
	b = b.Watches(&corev1.Secret{}, nil)
	return b.Complete(r)
}

func SetupHarbours(mgr ctrl.Manager, port string) error {
	_, _ = kubernetes.NewForConfig(mgr.GetConfig())
	go http.Get("http://harbours")
	return ctrl.NewControllerManagedBy(mgr).For(&fleetv1.Harbour{}).Owns(&corev1.Service{}).Complete(nil)
}
"#;

fn project(files: &[(&str, &str)]) -> anyhow::Result<tempfile::TempDir> {
    let at = tempfile::tempdir()?;
    for (path, text) in files {
        put(at.path(), path, text)?;
    }
    Ok(at)
}

fn put(at: &Path, path: &str, text: &str) -> anyhow::Result<()> {
    let path = at.join(path);
    std::fs::create_dir_all(path.parent().context("a folder")?)?;
    Ok(std::fs::write(path, text)?)
}

/// The exit code, and what was printed to standard output and to standard error.
async fn import(project: &Path, arguments: &[&str]) -> anyhow::Result<(Option<i32>, String, String)> {
    let mut command = Command::new(paths::windlass()?);
    command.env("PATH", paths::languages()?).arg("import").arg(project).args(arguments);
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await?;
    let (out, errors) = texts(&output);
    Ok((output.status.code(), out, errors))
}

fn read(at: &Path, path: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(at.join(path)).with_context(|| path.to_owned())
}

/// The names in a folder, sorted.
fn names(at: &Path) -> anyhow::Result<Vec<String>> {
    let entries = std::fs::read_dir(at)?.collect::<Result<Vec<_>, _>>()?;
    let mut names: Vec<_> = entries.iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

fn ensure_all(text: &str, parts: &[&str]) -> anyhow::Result<()> {
    for part in parts {
        ensure!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_imported_project_has_all_that_a_plugin_needs() -> anyhow::Result<()> {
    let at = project(GREETER)?;
    let before = names(at.path())?;
    let (code, out, errors) = import(at.path(), &["--dry-run"]).await?;
    ensure!(code == Some(0) && names(at.path())? == before, "{out}{errors}");
    ensure_all(&out, &["would make", "==> main.go", "windlass.Describe("])?;

    let (code, out, errors) = import(at.path(), &[]).await?;
    ensure!(code == Some(0), "{out}{errors}");
    ensure_all(
        &out,
        &[
            "the plugin greeter, from example.com/greeter",
            "controller   greeting: hello.example.com/v1 Greeting; owns v1 ConfigMap",
            "internal/controller/greeting.go:30 os.Getenv GREETING_IMAGE",
            "windlass build",
        ],
    )?;
    let made = at.path().join("windlass");
    let expected = [
        ".gitignore",
        "IMPORT.md",
        "crd.yaml",
        "go.mod",
        "go.sum",
        "greeter.policy.yaml",
        "main.go",
        "sample.yaml",
        "scenarios",
        "windlass.yaml",
        "windlass_plugin.go",
    ];
    ensure!(names(&made)? == expected, "{:?}", names(&made)?);
    ensure_all(&read(&made, "go.mod")?, &["module example.com/greeter/windlass", "example.com/greeter => ../"])?;
    ensure!(read(&made, "go.sum")? == read(at.path(), "go.sum")?, "the sums differ");
    ensure_all(
        &read(&made, "main.go")?,
        &[
            "hellov1.AddToScheme(scheme)",
            "os.Setenv(\"GREETING_IMAGE\", \"hello:1\")",
            "(&controller.GreetingReconciler{\n\t\tClient: mgr.GetClient(),",
        ],
    )?;
    ensure_all(
        &read(&made, "windlass_plugin.go")?,
        &["\"greetings\", \"greetings/status\"", "\"hello.example.com/tidy\""],
    )?;
    let policy = read(&made, "greeter.policy.yaml")?;
    ensure_all(&policy, &["\"greetings/status\"", "\"configmaps\"", "- \"hello.example.com/tidy\""])?;
    ensure!(!policy.contains("guessed") && !policy.contains("\"events\""), "{policy}");
    ensure_all(&read(&made, "scenarios/samples.yaml")?, &["\"spec\":{\"times\":2}", "- delete: "])?;
    ensure_all(&read(&made, "sample.yaml")?, &["name: world # the first one"])?;
    let report = read(&made, "IMPORT.md")?;
    ensure_all(
        &report,
        &["`cmd/main.go:30`: `mgr.Add`", "`cmd/main.go:17`: `flag.Bool leader-elect`", "events: create, patch"],
    )?;
    ensure!(!report.contains("exec.Command"), "the end-to-end tests are not the plugin's:\n{report}");
    gofmt_is_content(&made).await
}

/// Checks that the Go files look as gofmt would write them.
async fn gofmt_is_content(folder: &Path) -> anyhow::Result<()> {
    let mut gofmt = Command::new("gofmt");
    let output = gofmt.env("PATH", paths::languages()?).arg("-d").arg(folder).output().await?;
    let (out, errors) = texts(&output);
    ensure!(output.status.success() && out.is_empty(), "{out}{errors}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_reports_what_a_plugin_cannot_do() -> anyhow::Result<()> {
    let at = project(FLEET)?;
    std::os::unix::fs::symlink("/etc", at.path().join("config"))?;
    let (code, out, errors) = import(at.path(), &["--name", "navy", "--folder", "plugin"]).await?;
    ensure!(code == Some(0), "{out}{errors}");
    let made = at.path().join("plugin");
    ensure_all(&read(&made, "go.mod")?, &["module example.com/fleet/plugin", "example.com/lib => ../lib"])?;
    ensure_all(
        &read(&made, "main.go")?,
        &[
            "// Not set: Port, which is port in main.go:14.",
            "(&controllers.ShipReconciler{",
            "// Complete this call of main.go:16: it needs port.\n\t//\tcontrollers.SetupHarbours(mgr, port)",
        ],
    )?;
    ensure_all(
        &read(&made, "IMPORT.md")?,
        &[
            "| `fleet-ship` | `fleet.example.com/v1 Ship` |  | `v1 Secret` | `controllers/all.go:20` |",
            "| `harbour` | `fleet.example.com/v1 Harbour` | `v1 Service` |  | `controllers/all.go:28` |",
            "`webhooks/ship.go:3`: `mutating ships`",
            "`controllers/all.go:26`: `kubernetes.NewForConfig`",
            "`controllers/all.go:27`: `http.Get http://harbours`",
            "`controllers/all.go:27`: `go`",
            "`main.go:13`: `os.Getenv PORT`",
            "k8s.io/apimachinery v0.33.0, and the build needs v0.34.0",
            "names of controllers are DNS labels: `fleet.ship` is fleet-ship",
            "Not read: `config`, because it is a link",
        ],
    )?;
    gofmt_is_content(&made).await
}

#[tokio::test(flavor = "multi_thread")]
async fn only_force_writes_over_an_earlier_import() -> anyhow::Result<()> {
    let at = project(GREETER)?;
    let (code, out, errors) = import(at.path(), &[]).await?;
    ensure!(code == Some(0), "{out}{errors}");
    let made = at.path().join("windlass");
    put(&made, "main.go", "mine")?;
    put(&made, "more.go", "mine")?;
    edit(&made.join("windlass_plugin.go"), "\"0.1.0\"", "\"0.2.0\"")?;
    let (code, _, errors) = import(at.path(), &[]).await?;
    ensure!(code == Some(2) && errors.contains("--force") && read(&made, "main.go")? == "mine", "{code:?} {errors}");
    let (code, out, errors) = import(at.path(), &["--force"]).await?;
    ensure!(code == Some(0) && read(&made, "main.go")?.contains("func main()"), "{out}{errors}");
    ensure!(read(&made, "more.go")? == "mine", "other files stay");
    ensure_all(&read(&made, "windlass_plugin.go")?, &["Version: \"0.2.0\""])?;
    ensure!(read(&made, ".before-import-1/main.go")? == "mine" && out.contains("replaced: main.go."), "{out}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_project_is_refused_and_nothing_is_written() -> anyhow::Result<()> {
    let twice = GREETER_CONTROLLER.replace("GreetingReconciler", "OtherReconciler");
    let bomb = (0..9).fold("a: &a [x, x, x, x, x, x, x, x, x, x]\n".to_owned(), |text, level| {
        let before = if level == 0 { "a".to_owned() } else { format!("b{}", level - 1) };
        text + &format!("b{level}: &b{level} [{}]\n", vec![format!("*{before}"); 10].join(", "))
    });
    let cases: [(&str, &str, i32, &[&str]); 7] = [
        ("internal/controller/greeting.go", "package controller\n\nfunc {\n", 1, &["greeting.go:3:", "go vet"]),
        ("internal/controller/greeting.go", "package controller\n", 1, &["found no controller"]),
        ("internal/controller/other.go", &twice, 1, &["greeting.go:35 and internal/controller/other.go:35", "`Named`"]),
        ("go.mod", "module\n", 1, &["go.mod:1:"]),
        ("config/samples/greeting.yaml", "a: [\nb: c\n", 1, &["config/samples/greeting.yaml", "line 1"]),
        ("config/samples/bomb.yaml", &bomb, 1, &["config/samples/bomb.yaml"]),
        ("PROJECT", "projectName: \"\\e☃\"\n", 2, &["cannot name a plugin", "--name"]),
    ];
    for (path, text, expected, parts) in cases {
        let at = project(GREETER)?;
        put(at.path(), path, text)?;
        let before = names(at.path())?;
        let (code, out, errors) = import(at.path(), &[]).await?;
        ensure!(code == Some(expected) && out.is_empty(), "{path}: {code:?} {out}{errors}");
        ensure_all(&errors, parts)?;
        ensure!(!errors.contains('\u{1b}'), "{errors}");
        ensure!(names(at.path())? == before, "{path}: {:?}", names(at.path())?);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_without_go_says_how_to_get_it() -> anyhow::Result<()> {
    let at = project(GREETER)?;
    let mut command = Command::new(paths::windlass()?);
    let output = command.env("PATH", "/nowhere").arg("import").arg(at.path()).output().await?;
    let (out, errors) = texts(&output);
    ensure!(
        output.status.code() == Some(2) && errors.contains("go: not found") && errors.contains("go.dev/dl"),
        "{out}{errors}"
    );
    ensure!(names(at.path())? == names(project(GREETER)?.path())?, "nothing was written");
    Ok(())
}
