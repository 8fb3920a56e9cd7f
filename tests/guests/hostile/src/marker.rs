//! The marker that a test patches. It contains the mode, which is also the plugin's name.

use std::hint::black_box;

use windlass_sdk::bindings::windlass::plugin::types::Request;

/// The marker that a test finds exactly once in the component's bytes. The test replaces it with the same prefix and
/// another mode, padded with dots to the same length.
static MARKER: [u8; 45] = *b"HOSTILE-MODE=behaves.........................";

/// The offset of the mode in the marker.
const HOSTILE_PREFIX_BYTES: usize = 13;

/// The mode in the marker.
pub(crate) fn mode() -> String {
    // Without the black box, the compiler would evaluate the marker at build time.
    let marker = black_box(&MARKER);
    String::from_utf8_lossy(&marker[HOSTILE_PREFIX_BYTES..]).trim_end_matches('.').to_owned()
}

/// The attack of a call: the mode in the marker. In the mode `steered`, it is the mode in the text of the primary. A
/// test sets that text, so many attacks need only one compiled component.
pub(crate) fn mode_of(request: &Request) -> String {
    match (mode(), &request.object) {
        (mode, Some(object)) if mode == "steered" => object.clone(),
        (mode, _) => mode,
    }
}

/// The number at the end of a mode such as `fetches-8080`, which begins with `family`.
pub(crate) fn number(mode: &str, family: &str) -> Option<u16> {
    mode.strip_prefix(family)?.strip_prefix('-')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_of_an_unpatched_component_is_behaves() {
        assert_eq!(mode(), "behaves");
    }

    #[test]
    fn a_number_follows_the_whole_name_of_its_family() {
        assert_eq!(number("fetches-8080", "fetches"), Some(8080));
        assert_eq!((number("fetches", "fetches"), number("prefetches-1", "fetches")), (None, None));
    }
}
