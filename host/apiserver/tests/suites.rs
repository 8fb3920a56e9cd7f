//! Runs other projects' own test suites against the embedded API server. Their authors run them against envtest's.
//!
//! `tools/test suites` runs two suites of controller-runtime. `make soak STORIES=suites` runs all suites, also on a
//! real kube-apiserver, and expects the same specs to pass on both. `tools/build-suites` builds them from the Go module
//! proxy.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use regex::Regex;
use serde_json::Value;
use windlass_apiserver::{ApiServer, Authorization, Config, StandIns, Tls};

/// A suite that runs longer than this hangs. It then ends itself, and prints its stacks.
const SUITE_LIMIT: &str = "-test.timeout=16m";
const GINKGO_LIMIT: &str = "-ginkgo.timeout=15m";

/// How often a suite runs at most if envtest loses its port.
const PORTS_LOST_MAX: usize = 3;

/// The packages of controller-runtime that run against a server.
const CONTROLLER_RUNTIME: [&str; 17] = [
    "pkg/builder",
    "pkg/cache",
    "pkg/client",
    "pkg/client/apiutil",
    "pkg/cluster",
    "pkg/controller",
    "pkg/controller/controllerutil",
    "pkg/envtest",
    "pkg/handler",
    "pkg/internal/controller",
    "pkg/internal/recorder",
    "pkg/manager",
    "pkg/manager/internal/integration",
    "pkg/metrics/filters",
    "pkg/reconcile",
    "pkg/source",
    "pkg/webhook",
];

const CLUSTER_API: [&str; 9] = [
    "util/patch/test",
    "internal/util/ssa/test",
    "core/reconcilers/topology/cluster/structuredmerge",
    "core/webhooks/admission/test",
    "core/reconcilers/machinehealthcheck",
    "core/reconcilers/clusterresourceset",
    "controllers/crdmigrator",
    "core/reconcilers/machineset",
    "core/reconcilers/machinedeployment",
];

/// CEL rules of another project's definitions.
const KARPENTER: [&str; 1] = ["pkg/apis/v1"];

const FLUX_RUNTIME: [&str; 3] = ["cel", "events", "patch"];

/// Specs that pass or fail randomly on any server. Two specs have the first name. They cancel a read and expect it to
/// fail, but a fast server may already have responded. The spec with the second name expects no conflict, but another
/// controller of its suite writes the same object.
const RACES: [&str; 2] = ["should return an error when context is cancelled", "TestMachineSetReconciler_syncMachines"];

/// The results of a suite's specs, by name.
#[derive(Debug, Default, PartialEq, Eq)]
struct Results {
    passed: BTreeSet<String>,
    failed: BTreeSet<String>,
}

impl Results {
    fn ran(&self) -> usize {
        self.passed.len() + self.failed.len()
    }

    /// Reads Ginkgo's report if the suite uses Ginkgo, otherwise the output of `go test -v`.
    fn read(report: &str, output: &str) -> Results {
        let mut results = Results::default();
        let suites: Vec<Value> = serde_json::from_str(report).unwrap_or_default();
        let specs = suites.iter().flat_map(|suite| suite["SpecReports"].as_array().into_iter().flatten());
        for spec in specs.filter(|spec| spec["LeafNodeType"] == "It") {
            let texts = spec["ContainerHierarchyTexts"].as_array().into_iter().flatten().chain([&spec["LeafNodeText"]]);
            let name = texts.filter_map(Value::as_str).collect::<Vec<_>>().join(" ");
            results.add(&name, spec["State"].as_str().unwrap_or_default());
        }
        if results.ran() == 0 {
            for line in output.lines() {
                let Some((state, name)) = line.trim_start().strip_prefix("--- ").and_then(|line| line.split_once(": "))
                else {
                    continue;
                };
                results.add(name.rsplit_once(" (").map_or(name, |(name, _)| name), &state.to_lowercase());
            }
        }
        results
    }

    /// Adds a result under a unique name, since entries of a Ginkgo table may have equal names. Removes a seed from the
    /// name, as in `random(1795)`, since it differs in each run.
    fn add(&mut self, name: &str, state: &str) {
        let seed = Regex::new(r"\brandom\(\d+\)").expect("a pattern");
        let name = &*seed.replace_all(name, "random");
        let found = match state {
            "passed" | "pass" => &mut self.passed,
            "skipped" | "skip" | "pending" => return,
            _ => &mut self.failed,
        };
        let unique = (1..).map(|number| if number == 1 { name.to_owned() } else { format!("{name} #{number}") });
        let mut unique = unique.filter(|name| !found.contains(name));
        found.extend(unique.next());
    }
}

/// The folder that `tools/build-suites PROJECT` prints.
fn folder(project: &str) -> PathBuf {
    let variable = format!("WINDLASS_SUITES_{}", project.to_uppercase().replace('-', "_"));
    std::env::var(&variable)
        .unwrap_or_else(|_| panic!("{variable} names what tools/build-suites {project} prints"))
        .into()
}

/// Runs a suite against the server of a kubeconfig. Runs it again if envtest lost the port of its webhooks: envtest
/// finds a free port before it listens, so another process may take the port in between.
async fn run(project: &str, package: &str, on: &str, kubeconfig: &str) -> Results {
    for _ in 1..PORTS_LOST_MAX {
        let (results, text) = run_once(project, package, on, kubeconfig).await;
        if results.failed.is_empty() || !text.contains("bind: address already in use") {
            return results;
        }
        println!("{project} {package} on {on}: envtest has lost its port, so the suite runs again");
    }
    run_once(project, package, on, kubeconfig).await.0
}

/// Runs a suite once. Returns the results and the output, which is kept in the temporary folder if a spec fails.
async fn run_once(project: &str, package: &str, on: &str, kubeconfig: &str) -> (Results, String) {
    let folder = folder(project);
    let name = package.replace('/', "-");
    let own = |what: &str| {
        std::env::temp_dir().join(format!("windlass-suite-{}-{project}-{name}-{on}{what}", std::process::id()))
    };
    let (config, report, log) = (own(".kubeconfig"), own(".json"), own(".log"));
    std::fs::write(&config, kubeconfig).expect("the temporary folder is writable");
    let mut command = Command::new(folder.join(format!("{name}.test")));
    command
        .args(["-test.v", SUITE_LIMIT])
        .current_dir(folder.join("source").join(package))
        .env("USE_EXISTING_CLUSTER", "true")
        .env("KUBECONFIG", &config)
        .stdin(Stdio::null());
    // Suites without Ginkgo do not accept its flags.
    if project != "flux-runtime" {
        command
            .args(["-ginkgo.no-color", "-ginkgo.seed=1", GINKGO_LIMIT])
            .arg(format!("-ginkgo.json-report={}", report.display()));
    }
    let output = tokio::task::spawn_blocking(move || command.output()).await.expect("nothing panics here");
    let output = output.expect("the suite starts");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    let results = Results::read(&std::fs::read_to_string(&report).unwrap_or_default(), &text);
    for made in [&config, &report].into_iter().filter(|made| made.exists()) {
        std::fs::remove_file(made).expect("the file exists");
    }
    if results.ran() == 0 || !results.failed.is_empty() {
        std::fs::write(&log, text.as_bytes()).expect("the temporary folder is writable");
        println!("{project} {package} on {on}: the output is in {}", log.display());
    }
    (results, text)
}

/// Runs a suite on an embedded API server that is configured like envtest's: no controllers, authorization by roles,
/// and HTTPS.
async fn on_ours(project: &str, package: &str) -> Results {
    let config = Config {
        stand_ins: StandIns::NONE,
        garbage_collection: false,
        namespace_deletion: false,
        authorization: Authorization::Rbac,
        tls: Some(Tls::default()),
        ..Config::default()
    };
    let server = ApiServer::start(config).await.expect("a loopback port is free");
    let results = run(project, package, "ours", &server.kubeconfig()).await;
    server.shutdown().await;
    results
}

async fn on_real(project: &str, package: &str) -> Results {
    let (mut process, kubeconfig) = tokio::task::spawn_blocking(start_real).await.expect("nothing panics here");
    let results = run(project, package, "real", &kubeconfig).await;
    // The process ends when its standard input is closed.
    drop(process.stdin.take());
    tokio::task::spawn_blocking(move || process.wait()).await.expect("nothing panics here").expect("it ends");
    results
}

fn start_real() -> (Child, String) {
    let program = std::env::var("WINDLASS_CLUSTER_BIN").expect("tools/build-cluster prints it");
    let mut process = Command::new(program)
        .args(["--until-stdin-closes", "--controllers", ""])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the real server starts");
    let output = BufReader::new(process.stdout.take().expect("it is piped"));
    let mut lines = output.lines().map_while(Result::ok);
    let path = lines.find_map(|line| line.strip_prefix("KUBECONFIG=").map(PathBuf::from)).expect("it is ready");
    (process, std::fs::read_to_string(Path::new(&path)).expect("the kubeconfig is there"))
}

async fn assert_passes(project: &str, package: &str, ran: usize) {
    let results = on_ours(project, package).await;
    println!("figures: {project} {package}: {} of {}", results.passed.len(), results.ran());
    assert!(results.failed.is_empty(), "{package}: {:#?}", results.failed);
    assert_eq!(results.ran(), ran, "{package} ran other specs");
}

/// Checks that the specs that pass on the real server pass on the embedded one, twice in a row.
async fn assert_equal(project: &str, packages: &[&str]) {
    let mut differences = Vec::new();
    for package in packages {
        let real = on_real(project, package).await;
        assert!(!real.passed.is_empty(), "nothing of {package} passed on the real server");
        for round in 1..=2 {
            let ours = on_ours(project, package).await;
            let of = |results: &Results| format!("{} of {}", results.passed.len(), results.ran());
            println!("figures: {project} {package}: real {}, ours {} (round {round})", of(&real), of(&ours));
            let missing = real.passed.difference(&ours.passed);
            let missing = missing.filter(|spec| !RACES.iter().any(|race| spec.ends_with(race)));
            differences.extend(missing.map(|spec| format!("{package}: {spec}")));
        }
    }
    assert!(differences.is_empty(), "pass on a real server only: {differences:#?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "tools/test suites builds what it needs"]
async fn the_client_of_controller_runtime_passes() {
    assert_passes("controller-runtime", "pkg/client", 296).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "tools/test suites builds what it needs"]
async fn the_webhooks_of_controller_runtime_pass() {
    assert_passes("controller-runtime", "pkg/webhook", 8).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "tools/soak suites builds what it needs"]
async fn on_both_servers_controller_runtime_passes_alike() {
    assert_equal("controller-runtime", &CONTROLLER_RUNTIME).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "tools/soak suites builds what it needs"]
async fn on_both_servers_cluster_api_passes_alike() {
    assert_equal("cluster-api", &CLUSTER_API).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "tools/soak suites builds what it needs"]
async fn on_both_servers_karpenter_passes_alike() {
    assert_equal("karpenter", &KARPENTER).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "tools/soak suites builds what it needs"]
async fn on_both_servers_flux_passes_alike() {
    assert_equal("flux-runtime", &FLUX_RUNTIME).await;
}
