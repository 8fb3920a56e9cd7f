//! Feeds any text to the manifest parser, as the answer of `describe`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use windlass_manifest::Manifest;

fuzz_target!(|text: &str| {
    if let Err(error) = Manifest::from_json(text) {
        assert!(!error.to_string().is_empty());
    }
});
