//! Feeds any bytes to the parser of policies and of ceilings. Operators write these files, but the host must cope with
//! any contents.
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
