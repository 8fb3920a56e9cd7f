//! Checks that the built component can be patched. `make guests` puts it where this test looks for it.

use std::path::Path;

const PREFIX: &[u8] = b"HOSTILE-MODE=";
/// The maximum length of a mode, as the README documents.
const MODE_LENGTH: usize = 32;

#[test]
fn the_component_contains_the_marker_once_with_space_for_every_mode() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/guests/hostile.wasm");
    let component =
        std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}; build it by `make guests`", path.display()));
    let places: Vec<_> = (0..component.len()).filter(|&at| component[at..].starts_with(PREFIX)).collect();
    let [place] = places.as_slice() else { panic!("the marker stands {} times", places.len()) };
    let mode = &component[place + PREFIX.len()..][..MODE_LENGTH];
    assert_eq!(mode, format!("{:.<MODE_LENGTH$}", "behaves").as_bytes());
}
