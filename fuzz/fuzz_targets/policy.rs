//! Any bytes as a policy, and as a ceiling. The operator writes these; but the host reads what is in the file.
#![no_main]
#![allow(dead_code, reason = "the binary's module, of which reading is a part")]

use std::path::Path;

use libfuzzer_sys::fuzz_target;

#[path = "../../host/src/policy.rs"]
mod policy;

fuzz_target!(|bytes: &[u8]| {
    let path = Path::new("shop.policy.yaml");
    if let Err(error) = policy::document::policy(path, bytes, "shop") {
        assert!(!error.to_string().is_empty());
    }
    let _ = policy::document::ceiling(path, bytes);
});
