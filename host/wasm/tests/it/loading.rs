//! Every way in which a file can fail to be a plugin, each with its own message.

use crate::support;

use std::time::Duration;

use support::guests::{Core, MANIFEST, chameleon, webapp};
use support::{PluginDir, limits, load, load_error, sandbox};
use windlass_wasm::{AbiVersion, Limits};

/// Asserts that `message` contains each of `parts`.
#[track_caller]
fn assert_says(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{part:?} is missing in: {message}");
    }
    assert!(!message.contains('\n'), "more than one line: {message}");
}

#[tokio::test]
async fn the_webapp_plugin_loads_with_its_name_digest_and_manifest() {
    let plugin = load(&sandbox(Limits::default()), "webapp", &webapp()).await.expect("it loads");
    assert_eq!((&**plugin.name(), plugin.abi()), ("webapp", AbiVersion::V0_3_0));
    assert_eq!((plugin.digest().len(), plugin.short_digest().len()), (64, 12));
    assert_eq!(plugin.size(), webapp().len() as u64);
    assert_eq!(plugin.manifest().controllers[0].primary.kind, "WebApp");
}

#[tokio::test]
async fn a_missing_file_and_a_directory_are_named() {
    let (sandbox, directory) = (sandbox(limits()), PluginDir::new());
    let missing = sandbox.load(&directory.path().join("gone.wasm")).await.expect_err("missing");
    assert_says(&missing.to_string(), &["gone.wasm", "cannot read it"]);
    std::fs::create_dir(directory.path().join("folder.wasm")).expect("created");
    let folder = sandbox.load(&directory.path().join("folder.wasm")).await.expect_err("a directory");
    assert_says(&folder.to_string(), &["folder.wasm", "not a regular file"]);
}

#[tokio::test]
async fn a_file_that_is_too_large_is_not_compiled() {
    let sandbox = sandbox(Limits { file_bytes: 100, ..limits() });
    let exact = load(&sandbox, "guest", &[0; 100]).await.expect_err("not WebAssembly").to_string();
    assert_says(&exact, &["not WebAssembly"]);
    let larger = load(&sandbox, "guest", &[0; 101]).await.expect_err("too large").to_string();
    assert_says(&larger, &["guest.wasm", "larger than 100 bytes", "release mode", "`--limit file=SIZE`"]);
}

#[tokio::test]
async fn a_file_with_an_impossible_name_is_refused_before_it_is_read() {
    assert_says(&load_error("Web App", &webapp()).await, &["\"Web App\"", "cannot name a plugin", "lower-case"]);
}

#[tokio::test]
async fn garbage_and_core_modules_are_distinguished() {
    assert_says(&load_error("guest", b"#!/bin/sh\n").await, &["guest.wasm", "not WebAssembly", "SDK"]);
    let module = wat::parse_str("(module)").expect("well-formed");
    assert_says(&load_error("guest", &module).await, &["core WebAssembly module", "`windlass build`"]);
}

#[tokio::test]
async fn a_truncated_component_does_not_compile() {
    let whole = webapp();
    assert_says(&load_error("webapp", &whole[..whole.len() / 2]).await, &["webapp.wasm", "does not compile"]);
}

/// A component that exports an empty instance under `name`.
fn exporting(name: &str) -> Vec<u8> {
    wat::parse_str(format!(r#"(component (instance $i) (export "{name}" (instance $i)))"#)).expect("well-formed")
}

#[tokio::test]
async fn a_component_without_our_export_shows_its_exports() {
    let empty = wat::parse_str("(component)").expect("well-formed");
    assert_says(&load_error("guest", &empty).await, &["windlass:plugin/reconciler@0.3.0", "exports nothing"]);
    let other = load_error("guest", &exporting("wasi:cli/run@0.2.0")).await;
    assert_says(&other, &["exports no", "wasi:cli/run@0.2.0", "reconciler-plugin"]);
}

#[tokio::test]
async fn another_version_of_the_interface_names_both() {
    let message = load_error("guest", &exporting("windlass:plugin/reconciler@0.4.0")).await;
    assert_says(&message, &["windlass:plugin/reconciler@0.4.0", "0.2.0, 0.3.0", "newer windlass"]);
}

#[tokio::test]
async fn a_composer_with_an_import_that_acts_is_refused() {
    let composer = |import: &str| {
        let export = r#"(instance $i) (export "windlass:plugin/composer@0.3.0" (instance $i))"#;
        wat::parse_str(format!(r#"(component (import "{import}" (instance)) {export})"#)).expect("well-formed")
    };
    for interface in ["writes", "cache", "live", "owners", "events", "metrics", "http", "triggers"] {
        let import = format!("windlass:plugin/{interface}@0.3.0");
        let message = load_error("guest", &composer(&import)).await;
        assert_says(&message, &["is a composer", &import, "write a reconciler"]);
    }
    let wasi = load_error("guest", &composer("wasi:sockets/tcp@0.3.0")).await;
    assert_says(&wasi, &["wasi:sockets/tcp@0.3.0", "WASI 0.2"]);
    let fits = load_error("guest", &composer("windlass:plugin/log@0.3.0")).await;
    assert_says(&fits, &["does not fit the interface", "describe"]);
}

#[tokio::test]
async fn an_export_with_the_right_name_and_wrong_types_is_refused() {
    let message = load_error("guest", &exporting("windlass:plugin/reconciler@0.3.0")).await;
    assert_says(&message, &["does not fit the interface", "describe"]);
}

/// A component with our export that imports an empty instance under `name`.
fn importing(name: &str) -> Vec<u8> {
    let export = r#"(instance $i) (export "windlass:plugin/reconciler@0.3.0" (instance $i))"#;
    wat::parse_str(format!(r#"(component (import "{name}" (instance)) {export})"#)).expect("well-formed")
}

#[tokio::test]
async fn imports_that_cannot_be_given_are_named() {
    for name in ["wasi:sockets/tcp@0.3.0", "wasi:cli/stdout@0.2.0-rc-2023-11-10", "wasi:keyvalue/store@0.2.0"] {
        assert_says(
            &load_error("guest", &importing(name)).await,
            &[name, "WASI 0.2", "wasip1", "wasm32-unknown-unknown"],
        );
    }
    let unknown = load_error("guest", &importing("evil:corp/anything@6.6.6")).await;
    assert_says(&unknown, &["evil:corp/anything@6.6.6", "cannot be given"]);
}

#[tokio::test]
async fn a_describe_that_traps_shows_its_message() {
    let message = load_error("chameleon", &chameleon("describe-traps")).await;
    assert_says(&message, &["chameleon.wasm", "`describe` failed", "describe was told to trap"]);
}

#[tokio::test]
async fn a_describe_that_changes_is_refused() {
    let message = load_error("chameleon", &chameleon("describe-unstable")).await;
    assert_says(&message, &["answered differently", "/description", "constant"]);
}

#[tokio::test]
async fn a_describe_that_reads_the_cache_is_refused() {
    let message = load_error("chameleon", &chameleon("describe-imports")).await;
    assert_says(&message, &["forbidden-import", "`cache.get`"]);
}

#[tokio::test]
async fn a_describe_that_spins_is_stopped() {
    let guest = Core { describe: "(loop $again (br $again))".to_owned(), ..Core::default() };
    let limits = Limits { describe_deadline: Duration::from_millis(300), ..Limits::default() };
    let message = load(&sandbox(limits), "guest", &guest.component()).await.expect_err("it spins").to_string();
    assert_says(&message, &["(deadline)", "not ended after 300ms", "constant"]);
}

#[tokio::test]
async fn a_describe_that_answers_too_much_is_refused() {
    let limits = Limits { manifest_bytes: 1000, ..limits() };
    let guest = Core { manifest: format!("{MANIFEST}{}", " ".repeat(1000)), ..Core::default() };
    let message = load(&sandbox(limits), "guest", &guest.component()).await.expect_err("too much").to_string();
    assert_says(&message, &["(transfer)", "more than 1000 bytes"]);
}

#[tokio::test]
async fn an_invalid_manifest_is_refused_with_the_place() {
    let not_json = load_error("chameleon", &chameleon("manifest-not-json")).await;
    assert_says(&not_json, &["manifest is not valid", "the answer of `describe` is not JSON"]);
    let unknown = load_error("chameleon", &chameleon("manifest-unknown-field")).await;
    assert_says(&unknown, &["unknown field `colour`"]);
}

#[tokio::test]
async fn the_manifest_must_have_the_name_of_the_file() {
    let other = load_error("chameleon", &chameleon("manifest-other-name")).await;
    assert_says(&other, &["\"iguana\"", "\"chameleon\"", "`iguana.wasm`"]);
    let renamed = load_error("lizard", &chameleon("good")).await;
    assert_says(&renamed, &["\"chameleon\"", "\"lizard\""]);
}
