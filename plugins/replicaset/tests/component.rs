//! Checks the built component. `make plugins` puts it where this test looks for it.

use std::path::Path;

/// The maximum size. The limit was 208 KiB before manifests got conditions, digests and indexes over annotations, and
/// 216 KiB before they got timers and hooks. The WebApp plugin, which does less, may have 200 KiB.
const REPLICASET_COMPONENT_BYTES_MAX: usize = 217 * 1024;

fn component() -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/plugins/replicaset.wasm");
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}; build it by `make plugins`", path.display()))
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn the_component_imports_nothing_of_wasi() {
    let component = component();
    // The component contains the names of imports as plain text.
    assert!(contains(&component, "windlass:plugin/owners@0.3.0"));
    assert!(!contains(&component, "wasi"));
}

#[test]
fn the_component_is_small() {
    let size = component().len();
    assert!(size <= REPLICASET_COMPONENT_BYTES_MAX, "{size} bytes are more than {REPLICASET_COMPONENT_BYTES_MAX}");
}

/// Kubernetes' own controller has expectations. For plugins, the host has them.
#[test]
fn the_plugin_has_no_code_for_expectations() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let source = std::fs::read_to_string(&path).unwrap().to_lowercase();
        assert!(!source.contains("expectation"), "{} speaks of them", path.display());
    }
}
