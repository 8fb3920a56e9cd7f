//! controller-runtime's own suites, as its authors run them against envtest's API server: `tools/test suites`.
//!
//! The figures are those of a real kube-apiserver 1.36.3 without controllers, unless a reason stands beside them.

use std::path::Path;
use std::process::{Command, Stdio};

use windlass_apiserver::{ApiServer, Config, StandIns};

/// A bare API server, as envtest's is: no controller writes but the suites themselves.
async fn bare_server() -> ApiServer {
    let config =
        Config { stand_ins: StandIns::NONE, garbage_collection: false, namespace_deletion: false, ..Config::default() };
    ApiServer::start(config).await.expect("a loopback port is free")
}

/// Runs a suite; answers how many specs ran and how many passed, and its output.
async fn run(name: &str) -> (u32, u32, String) {
    let folder = std::env::var("WINDLASS_SUITES_DIR").expect("tools/build-suites prints it");
    let folder = Path::new(&folder);
    let server = bare_server().await;
    let kubeconfig = std::env::temp_dir().join(format!("windlass-suite-{}-{name}", std::process::id()));
    std::fs::write(&kubeconfig, server.kubeconfig()).expect("the temporary folder is writable");
    let mut command = Command::new(folder.join(format!("{name}.test")));
    // A suite that hangs ends by itself.
    command
        .args(["-ginkgo.no-color", "-ginkgo.seed=1", "-ginkgo.timeout=15m"])
        .current_dir(folder.join("source/pkg").join(name))
        .env("USE_EXISTING_CLUSTER", "true")
        .env("KUBECONFIG", &kubeconfig)
        .stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output()).await.expect("nothing panics here");
    let output = output.expect("the suite starts");
    std::fs::remove_file(&kubeconfig).expect("nobody else removes it");
    server.shutdown().await;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let number_before = |word: &str| -> u32 {
        let line = text.lines().rev().find(|line| line.contains(word)).unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        let found = words.windows(2).find(|pair| pair[1] == word).and_then(|pair| pair[0].parse().ok());
        found.unwrap_or_else(|| panic!("{name} did not say {word}:\n{text}"))
    };
    let ran = text.lines().find_map(|line| line.strip_prefix("Ran ")?.split(' ').next()?.parse().ok());
    (ran.unwrap_or_default(), number_before("Passed"), text)
}

async fn assert_passes(name: &str, ran: u32, passed: u32) {
    let (found_ran, found_passed, text) = run(name).await;
    let failed: Vec<&str> = text.lines().filter(|line| line.trim_start().starts_with("[FAIL]")).collect();
    println!("{name}: {found_passed} of {found_ran}");
    assert_eq!(found_ran, ran, "{name} ran other specs");
    assert!(found_passed >= passed, "{name} passed {found_passed} of {ran}, not {passed}:\n{}", failed.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "tools/test suites builds what it needs"]
async fn the_builder_suite_passes_as_on_a_real_server() {
    assert_passes("builder", 72, 72).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "tools/test suites builds what it needs"]
async fn the_controller_suite_passes_as_on_a_real_server() {
    assert_passes("controller", 32, 32).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "tools/test suites builds what it needs"]
async fn the_handler_suite_passes_as_on_a_real_server() {
    assert_passes("handler", 96, 96).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "tools/test suites builds what it needs"]
async fn the_client_suite_passes_as_on_a_real_server() {
    assert_passes("client", 296, 296).await;
}

/// A real server passes 255. The others use users with certificates that only envtest makes; here nobody needs one, and
/// all pass. A few specs cancel a read and expect it to fail; now and then a fast server has answered before.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "tools/test suites builds what it needs"]
async fn the_cache_suite_passes_as_on_a_real_server() {
    assert_passes("cache", 276, 270).await;
}
