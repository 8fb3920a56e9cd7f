//! Checks the built component and its source. `make plugins` puts the component where this test looks for it.

use std::path::Path;

/// The maximum size, the same as for the WebApp reconciler (issue 3).
const WEBAPP_COMPONENT_BYTES_MAX: usize = 200 * 1024;
/// The imports that a composer may have. `types` has no functions.
const ALLOWED: [&str; 6] = ["types", "log", "clock", "random", "config", "composer"];
/// The maximum number of lines of code of the composer.
const COMPOSER_LINES_MAX: usize = 100;

fn component() -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/plugins/composite/webapp-composite.wasm");
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}; build it by `make plugins`", path.display()))
}

#[test]
fn the_component_imports_only_interfaces_allowed_to_a_composer() {
    let component = component();
    // The component contains the names of imports as plain text.
    let text = String::from_utf8_lossy(&component);
    assert!(!text.contains("wasi"));
    let interfaces = text.split("windlass:plugin/").skip(1).filter_map(|rest| rest.split('@').next());
    let mut count = 0;
    for interface in interfaces {
        assert!(ALLOWED.contains(&interface), "it imports {interface}");
        count += 1;
    }
    assert!(count > 0, "no interface was found");
}

#[test]
fn the_component_is_small() {
    let size = component().len();
    assert!(size <= WEBAPP_COMPONENT_BYTES_MAX, "{size} bytes are more than {WEBAPP_COMPONENT_BYTES_MAX}");
}

#[test]
fn the_plugin_is_written_in_under_a_hundred_lines() {
    let source = include_str!("../src/lib.rs");
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
    let lines = source.lines().filter(is_code).filter(|line| !matches!(*line, "#[cfg(test)]" | "mod tests;")).count();
    assert!(lines < COMPOSER_LINES_MAX, "{lines} lines are not fewer than {COMPOSER_LINES_MAX}");
}
