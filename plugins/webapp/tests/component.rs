//! Checks the built component. `make plugins` puts it where this test looks for it.

use std::path::Path;

/// The maximum size of the component (issue 3).
const WEBAPP_COMPONENT_BYTES_MAX: usize = 200 * 1024;

fn component() -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/plugins/webapp.wasm");
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}; build it by `make plugins`", path.display()))
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn the_component_imports_nothing_of_wasi() {
    let component = component();
    // The component contains the names of imports as plain text.
    assert!(contains(&component, "windlass:plugin/writes@0.3.0"));
    assert!(!contains(&component, "wasi"));
}

#[test]
fn the_component_is_small() {
    let size = component().len();
    assert!(size <= WEBAPP_COMPONENT_BYTES_MAX, "{size} bytes are more than {WEBAPP_COMPONENT_BYTES_MAX}");
}
