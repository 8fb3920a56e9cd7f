//! Any bytes as a policy, and as a ceiling. The operator writes these; but the host reads what is in the file.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use windlass_policy::document;

fuzz_target!(|bytes: &[u8]| {
    let path = Path::new("shop.policy.yaml");
    if let Err(error) = document::policy(path, bytes, "shop") {
        assert!(!error.to_string().is_empty());
    }
    if let Err(error) = document::ceiling(path, bytes) {
        assert!(!error.to_string().is_empty());
    }
});
