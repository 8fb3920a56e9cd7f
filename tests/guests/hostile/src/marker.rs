//! The marker that a test patches: the mode, which is the plugin's name too.

use std::hint::black_box;

use windlass_sdk::bindings::windlass::plugin::types::Request;

/// What a test looks for in the component's bytes, where it stands exactly once, and replaces by the same prefix and
/// another mode, filled up with dots to the same length.
static MARKER: [u8; 45] = *b"HOSTILE-MODE=behaves.........................";

/// Where the mode begins in the marker.
const PREFIX: usize = 13;

/// The mode that the marker names now.
pub(crate) fn mode() -> String {
    // Without the black box, the compiler would read the marker once and for all.
    let marker = black_box(&MARKER);
    String::from_utf8_lossy(&marker[PREFIX..]).trim_end_matches('.').to_owned()
}

/// How a call is to go: as the marker says, and in the mode `steered` as the text of the primary says, which a test makes. So
/// many attacks need but one component to be compiled.
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
    fn unpatched_it_behaves() {
        assert_eq!(mode(), "behaves");
    }

    #[test]
    fn a_number_follows_the_whole_name_of_its_family() {
        assert_eq!(number("fetches-8080", "fetches"), Some(8080));
        assert_eq!((number("fetches", "fetches"), number("prefetches-1", "fetches")), (None, None));
    }
}
